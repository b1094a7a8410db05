"""The backfill: reads final blocks, in ranges and by several threads, and stores their ticks through the API."""
