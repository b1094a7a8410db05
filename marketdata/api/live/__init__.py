"""``/v1/live``: candles and ticks pushed over WebSockets as transactions change them.

A change notified by the database marks the feeds of its symbol. One thread reads what changed once for all subscribers
of a feed (:mod:`~marketdata.api.live.reader`), another one serves all sockets (:mod:`~marketdata.api.live.server`).
"""
