"""The command lines of the operations, like ``bin/marketdata-init`` and ``bin/marketdata-version``."""
