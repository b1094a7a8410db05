"""``/v1/live``: candles and ticks pushed over WebSockets as transactions change them.

A notification from the database marks the feeds of the changed symbol. One thread reads each marked feed once for all
its subscribers (:mod:`~marketdata.api.live.feed_reader`). Another thread serves all sockets
(:mod:`~marketdata.api.live.server`).
"""
