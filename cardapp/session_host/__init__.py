"""The session, which runs beside the service (Neovim, gdb, the MCP server), and the command that controls it."""
