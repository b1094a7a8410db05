"""Limits of one request or response of the API. JSON schemas, SQL and the page repeat some of them; a test compares."""

DEFAULT_ROWS = 500
"""Candles or ticks of a response when the request gives no limit."""
MAX_ROWS = 10_000
"""Candles or ticks of a response; a stream of ticks has no limit."""
MAX_ITEMS = 10_000
"""Items of a batch to store."""
MAX_BODY_BYTES = 8 << 20
"""Size of a request's body."""
