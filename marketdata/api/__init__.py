"""The data API: one table of routes (:mod:`marketdata.api.app`) over the store, and the listener that serves it."""
