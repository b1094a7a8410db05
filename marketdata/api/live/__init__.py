"""``/v1/live``: candles and ticks pushed over WebSockets as transactions change them.

The database notifies a change, which marks the feeds of its symbol. One thread reads each changed feed, once for all
its subscribers (:mod:`~marketdata.api.live.feed_reader`). Another thread serves all sockets
(:mod:`~marketdata.api.live.server`).
"""
