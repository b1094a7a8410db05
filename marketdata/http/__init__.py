"""The HTTP parts that the data API and the frontend share: replies, errors, the request log and the listener."""
