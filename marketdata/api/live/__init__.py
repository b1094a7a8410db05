"""``/v1/live``: candles, ticks and summaries pushed over WebSockets as transactions change them.

A notification from the database marks the feeds of the changed symbol. One thread reads each marked feed once for all
its subscribers (:mod:`~marketdata.api.live.feed_reader`), and each marked summary once for all connections
(:mod:`~marketdata.api.live.summaries`). Another thread serves all sockets (:mod:`~marketdata.api.live.server`).
"""
