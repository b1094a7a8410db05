"""The HTTP API: a table of routes, one gate in front of it, one table of failures, and the listener that serves it."""
