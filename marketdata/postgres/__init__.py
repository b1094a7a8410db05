"""The private PostgreSQL cluster: its programs, its owner process, and the clients that keep it running."""
