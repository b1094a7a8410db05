"""What outlives the process: one SQLite file and a directory of pictures. Callers pass the time, no clock is asked."""
