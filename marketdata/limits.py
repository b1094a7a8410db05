"""Limits of a request or a response of the API. The JSON schemas, the SQL and the page repeat some of them. A test
checks that the repeated numbers are equal."""

DEFAULT_ROWS = 500
"""Maximum candles or ticks of a response if the request gives no limit."""
MAX_ROWS = 10_000
"""Maximum candles or ticks of a response. A stream of ticks has no limit."""
DEFAULT_SUMMARIES = 50
"""Symbols of a sorted summary if the request gives no limit."""
MAX_SUMMARIES = 200
"""Maximum symbols of a summary or of a subscription to summaries."""
MAX_ITEMS = 10_000
"""Maximum items of a batch to store."""
MAX_BODY_BYTES = 8 << 20
"""Maximum size of a request's body, also after it is unpacked."""
MAX_CSV_BYTES = 256 << 20
"""Maximum size of a body of CSV, also after it is unpacked."""
MAX_REJECTED_LINES = 1000
"""Maximum number of rejected lines that the response to CSV has, and that an import of a file names."""
