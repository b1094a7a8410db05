"""The Model Context Protocol over newline-delimited JSON: a server that offers tools, and a client for one server."""
