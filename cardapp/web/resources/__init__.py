"""One module of short handlers per resource; each handler takes the services and a checked request."""
