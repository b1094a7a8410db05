"""The session: what runs beside the service (Neovim, gdb, the MCP server), and the tool that controls it."""
