"""Figures, each as a ratio or a percentile within one run. ``python -m tests.bench`` prints them as a table."""
