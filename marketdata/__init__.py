"""The market-data service: exact ticks and candles on plain PostgreSQL, behind a token-protected HTTP API."""

__version__ = "0.1.0"
