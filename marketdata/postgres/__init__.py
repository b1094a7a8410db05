"""The private PostgreSQL cluster: its binaries, its owner process, and the clients that use it."""
