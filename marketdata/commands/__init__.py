"""The command lines of the one-shot tasks, like ``bin/marketdata-init`` and ``bin/marketdata-version``."""
