"""The session (Neovim, gdb, the MCP server), which runs beside the service, and ``card-session``, which controls it."""
