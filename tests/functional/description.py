"""Runs schemathesis against a running API to verify that the API keeps to its own OpenAPI description.

No response has the status 500, or a status, header or media type that is not described. Every body matches its schema,
and every invalid request is refused. The other settings are in a settings file and a hooks file beside the test.
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
    """The options for the number of requests. The quick run sends the cases derived from each schema rule and ``quick``
    random ones for each operation, and follows no links. The full run sends ``full`` random ones."""
    phases = ["--phases", "coverage,fuzzing"]
    return ["--max-examples", str(loops(quick=quick, full=full)), *phases * loops(quick=1, full=0)]


def hold_true(description: str, settings: str, *options: str, **environment: str) -> None:
    """Run schemathesis against the server of the URL ``description``; a failure shows its report. The settings file
    ``settings`` is beside this file. It and its hooks read the variables in ``environment``."""
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
