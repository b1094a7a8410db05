"""The HTTP listener: one loop for all connections, a fixed number of workers, and limits on bodies and slow clients."""

from marketdata.http.listener.loop import Listener, descriptors

__all__ = ["Listener", "descriptors"]
