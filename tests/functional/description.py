"""Runs schemathesis against a running API to verify that the API keeps to its own OpenAPI description.

No response has the status 500, or a status, header or media type that is not described. Every body matches its schema,
and every invalid request is refused. The other settings are in a settings file and a hooks file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def hold_true(description: str, settings: str, *options: str, **environment: str) -> None:
    """Run schemathesis against the server of the URL ``description``; a failure shows its report. The settings file
    ``settings`` is named from the folder of this file. It and its hooks read the variables in ``environment``."""
    with tempfile.TemporaryDirectory(prefix="schemathesis-", dir="/tmp") as folder:
        done = subprocess.run(
            [
                sys.executable, "-P", "-m", "schemathesis.cli", "--config-file", Path(__file__).parent / settings,
                "run", description, "--no-color", "--continue-on-failure", *options,
            ],
            cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
