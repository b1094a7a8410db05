"""The command ``cardapp`` in this process, which saves the start of an interpreter."""

from __future__ import annotations

import os
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from cardapp.cli import main


def cardapp(*arguments: str | Path, folder: Path | str = ".", **environment: str) -> CompletedProcess[str]:
    """Run the command in ``folder``, with ``environment`` added to that of this process."""
    out, err = StringIO(), StringIO()
    with patch.dict(os.environ, environment), chdir(folder), redirect_stdout(out), redirect_stderr(err):
        code = main([*map(str, arguments)])
    return CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
