"""The seccomp profile of the container: podman's own, and the one call that gdb needs beside it."""

from __future__ import annotations

import json
from pathlib import Path

from cardapp.session_host.directory import write_json

DEFAULTS = (Path("/etc/containers/seccomp.json"), Path("/usr/share/containers/seccomp.json"))
ADDR_NO_RANDOMIZE = 0x0040000
"""personality(2): gdb starts programs with it, so that their addresses are the same in each run."""
RULE = {
    "names": ["personality"],
    "action": "SCMP_ACT_ALLOW",
    "args": [{"index": 0, "value": ADDR_NO_RANDOMIZE, "op": "SCMP_CMP_EQ"}],
}


def write_profile(path: Path, defaults: tuple[Path, ...] = DEFAULTS) -> Path | None:
    """Write the profile to ``path`` and return it; None where podman's own is not installed as a file.

    Without it podman uses the profile that is built into it, and programs have other addresses in each run.
    """
    for default in defaults:
        try:
            profile = json.loads(default.read_bytes())
        except FileNotFoundError:
            continue
        write_json(path, profile | {"syscalls": [*profile["syscalls"], RULE]})
        return path
    return None
