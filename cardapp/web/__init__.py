"""The HTTP API: a table of routes, a gate that checks every request, a table of failures, and the HTTP listener."""
