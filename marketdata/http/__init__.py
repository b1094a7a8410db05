"""HTTP as the data API and the frontend share it: replies, errors, the request log and the listener."""
