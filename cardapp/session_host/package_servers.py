"""How this machine reaches its servers of packages: files for a build, which mounts them and keeps none.

Each file is a secret of the build, so it is in no layer and in no history. The build finds it in ``/run/secrets``.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cardapp.session_host.debian_base import RELEASE

MOUNTED = "/run/secrets"
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
APT_SETTING = re.compile(r"Acquire::(https?::(Proxy(::\S+)?|Verify-Peer|Verify-Host)|Retries|ForceIPv[46]) ")
PLACES = ("index-url", "extra-index-url", "find-links")
PIP_SETTINGS = (*PLACES, "trusted-host", "proxy", "timeout", "default-timeout", "retries")


def write(folder: Path, mirror: str | None, environ: Mapping[str, str]) -> list[Path]:
    """Write the files into the new ``folder`` and return them. Without ``mirror`` the base's own sources are used."""
    folder.mkdir(mode=0o700)
    bundle = next((path for path in (environ.get("SSL_CERT_FILE"), *BUNDLES) if path and Path(path).is_file()), None)
    texts = {
        "apt.conf": apt_settings(_printed(environ, "apt-config", "dump"), mirror is not None, bundle is not None),
        "pip.conf": pip_settings(_printed(environ, sys.executable, "-m", "pip", "config", "list"), bundle is not None),
    }
    if mirror is not None:
        texts["sources.list"] = f"deb {mirror} {RELEASE} main\n"
    if bundle is not None:
        texts["certificates.pem"] = Path(bundle).read_text("utf-8", "replace")
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return [folder / name for name in texts]


def _printed(environ: Mapping[str, str], *command: str) -> str:
    """What the command prints; nothing where it is not installed."""
    try:
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def apt_settings(dump: str, sources: bool, bundle: bool) -> str:
    """``apt.conf(5)`` of what ``apt-config dump`` printed: only how servers are reached."""
    lines = [line for line in dump.splitlines() if APT_SETTING.match(line)]
    if sources:
        lines += [f'Dir::Etc::SourceList "{MOUNTED}/sources.list";', 'Dir::Etc::SourceParts "/dev/null";']
    if bundle:
        lines.append(f'Acquire::https::CaInfo "{MOUNTED}/certificates.pem";')
    return "\n".join([*lines, ""])


def pip_settings(listed: str, bundle: bool) -> str:
    """``pip.conf`` of what ``pip config list`` printed: only how indexes are reached.

    A command's own settings precede the global ones, and environment variables precede both, as in pip.
    """
    found: dict[str, str] = {}
    entries = [line.split("=", 1) for line in listed.splitlines() if "=" in line]
    for section in ("global", "install", ":env:"):
        for key, value in entries:
            name = key.removeprefix(f"{section}.")
            if name != key and name in PIP_SETTINGS:
                found[name] = " ".join(_reachable(name, str(ast.literal_eval(value)).split()))
    if bundle:
        found["cert"] = f"{MOUNTED}/certificates.pem"
    return "".join(["[global]\n", *(f"{name} = {value}\n" for name, value in found.items() if value)])


def _reachable(name: str, values: list[str]) -> list[str]:
    """Without folders of this machine, which the build does not see."""
    return [value for value in values if name not in PLACES or value.startswith(("http://", "https://"))]
