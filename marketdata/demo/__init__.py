"""``bin/marketdata-demo``: the demo source in a state directory."""
