"""The frontend: the page with its login, and the proxy that adds the read token for the data API."""
