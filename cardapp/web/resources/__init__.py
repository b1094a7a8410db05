"""The handlers, one module per resource. Each takes a validated request, which contains the services."""
