"""The backfill reads old, final blocks in several threads, and stores their ticks through the API."""
