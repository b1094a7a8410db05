"""The chart page in the system's Chromium."""
