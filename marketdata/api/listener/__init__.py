"""The HTTP listener: waitress with one loop, a fixed set of workers, and connections that workers stay with."""

from marketdata.api.listener.loop import Listener

__all__ = ["Listener"]
