"""The stored state: one SQLite file and a directory of images. Callers pass the time; this package reads no clock."""
