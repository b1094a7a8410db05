"""The ingestor reads a source into an outbox on the disk, and delivers the outbox to the API."""
