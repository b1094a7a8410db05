"""Inside gdb: how long its own ``restart`` of a checkpoint takes, in seconds, one to a line.

gdb -batch -ex 'set $rounds = 100' -x tests/bench/gdb_restart.py --args PROGRAM
"""

from __future__ import annotations

import time

import gdb

for setting in ("confirm off", "pagination off"):
    gdb.execute(f"set {setting}")
gdb.execute("tbreak main", to_string=True)
gdb.execute("run >/dev/null", to_string=True)
for number in range(1, int(gdb.convenience_variable("rounds")) + 1):
    gdb.execute("checkpoint", to_string=True)
    began = time.perf_counter()
    gdb.execute(f"restart {number}", to_string=True)
    print("restart", time.perf_counter() - began)
gdb.execute("kill", to_string=True)
