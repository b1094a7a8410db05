"""The demo source: an invented chain with two pools, the same on every machine for the same seed and genesis time.

``market`` makes prices and volumes, ``blocks`` makes blocks with logs of them, ``node`` shows those up to the present.
"""
