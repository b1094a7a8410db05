"""The handlers, one module per resource. Each takes a validated request, which carries the services."""
