"""Runs inside gdb, in gdb's own Python, so only the standard library and the ``gdb`` module can be imported."""
