"""A command of the market data that is killed (SIGKILL) at a chosen point of its code."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

KILLED = """
import importlib, os, sys
module, name, count, when = sys.argv[1:5]
holder = importlib.import_module(module)
*path, name = name.split(".")
for part in path:
    holder = getattr(holder, part)
real, calls = getattr(holder, name), []
def last(*arguments, **named):
    calls.append(1)
    chosen = len(calls) == int(count)
    if chosen and when == "before":
        os.kill(os.getpid(), 9)
    result = real(*arguments, **named)
    if chosen:
        os.kill(os.getpid(), 9)
    return result
setattr(holder, name, last)
from marketdata.cli import main
sys.exit(main(sys.argv[5:]))
"""
"""A script. Its arguments: a module and the name of a function in it, which of its calls is the last (1 is the first),
whether the process is killed ``before`` or ``after`` that call, and the command line."""
