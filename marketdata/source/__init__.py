"""Sources of ticks: pools of an EVM chain, read over JSON-RPC."""
