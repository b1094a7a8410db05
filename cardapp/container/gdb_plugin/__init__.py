"""What runs inside gdb, in gdb's own Python: the standard library and the ``gdb`` module only."""
