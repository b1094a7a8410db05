"""schemathesis against a running API, by the API's own description: nothing in it may turn out untrue.

No 500, no status, header or media type that is not described, every body of its schema, nothing let in that should not
be. Its other settings are in a file of settings and one of hooks beside the test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

Loops = Callable[..., int]


def effort(loops: Loops, *, quick: int, full: int) -> list[str]:
    """The quick run asks what each rule of the schemas suggests and ``quick`` more of each operation, and follows no
    links; the full one asks ``full``."""
    phases = ["--phases", "coverage,fuzzing"]
    return ["--max-examples", str(loops(quick=quick, full=full)), *phases * loops(quick=1, full=0)]


def hold_true(description: str, settings: str, *options: str, **environment: str) -> None:
    """Let schemathesis ask whatever serves the URL ``description``; its report is the failure. ``environment`` is what
    ``settings``, a file beside this one, and its hooks read."""
    with tempfile.TemporaryDirectory(prefix="schemathesis-", dir="/tmp") as folder:
        done = subprocess.run(
            [
                sys.executable, "-P", "-m", "schemathesis.cli", "--config-file", Path(__file__).with_name(settings),
                "run", description, "--no-color", "--continue-on-failure", *options,
            ],
            cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
