"""The part that runs inside gdb, in gdb's own Python: it has the standard library and the ``gdb`` module only."""
