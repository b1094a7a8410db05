"""The manifest: a file in a session's copy of the sources with the state of the copy after the last fetch."""

from __future__ import annotations

import json

from cardapp.session_host.copied_tree import CopiedTree, Stamp

MANIFEST = ".fetched.json"
Manifest = dict[str, tuple[Stamp | None, Stamp | None]]
"""The stamps of each original and of its copy, by path. The copy's stamp is None if the build removed the copy. Both
are None for an edited file whose original was never copied."""


def read_manifest(copy: CopiedTree) -> Manifest:
    """The manifest. If it cannot be read, an empty manifest: then every file that differs counts as edited."""
    try:
        found = json.loads(b"".join(copy.read(MANIFEST)))
        return {name: (original, copied) for name, (original, copied) in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_manifest(copy: CopiedTree, manifest: Manifest) -> None:
    copy.write(MANIFEST, json.dumps(manifest).encode())
