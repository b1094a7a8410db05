"""A container's canonical text beside gdb's own, in turn in one gdb.

Run with ``python -m tests.bench.values``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from cardapp.settings import ROOT
from tests.bench.figures import Figure, median_ms, table

ROUNDS = 30
PROGRAM = """
#include <map>
#include <string>

int main()
{
    std::map<std::string, int> prices;
    for (int n = 0; n < 1000; n++)
        prices["key number " + std::to_string(n)] = n;
    return prices.size(); // the end
}
"""
IN_GDB = """
import json, sys, time
sys.path.insert(0, {root!r})
from cardapp.session_host.gdb_plugin import rendering

def timed(show):
    began = time.perf_counter()
    show()
    return time.perf_counter() - began

def both():
    value = gdb.parse_and_eval("prices")
    return timed(lambda: rendering.text(value)), timed(lambda: value.format_string(raw=False, max_elements=400))

print(json.dumps([both() for _ in range({rounds})]))
"""


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "main.cpp").write_text(PROGRAM)
        (folder / "time.py").write_text(IN_GDB.format(root=str(ROOT), rounds=ROUNDS))
        subprocess.run(["g++", "-g", "-O0", "-o", folder / "prog", folder / "main.cpp"], check=True)
        commands = ["break 10", "run", f"source {folder / 'time.py'}"]
        options = [part for each in commands for part in ("-ex", each)]
        command = ["gdb", "-nx", "-batch", *options, str(folder / "prog")]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
    pairs = json.loads(ended.stdout.splitlines()[-1])
    ours, own = zip(*pairs, strict=True)
    ratio = statistics.median(a / b for a, b in pairs)
    return [
        Figure("`std::map` of 1 000 elements, 200 shown", f"p50 {median_ms(ours):.1f} ms", "≤ 50 ms"),
        Figure("the same by gdb", f"p50 {median_ms(own):.1f} ms"),
        Figure("ours / gdb, median of pairs", f"{ratio:.2f}"),
    ]


if __name__ == "__main__":
    print(table(measure()))
