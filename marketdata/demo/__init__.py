"""``bin/marketdata-demo``: a source with an invented chain and two pools, which ``bin/start`` runs."""
