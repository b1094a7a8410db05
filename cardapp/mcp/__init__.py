"""The Model Context Protocol over newline-delimited JSON: a server for tools and a client for one peer."""
