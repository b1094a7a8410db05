"""``python -m cardapp.session_host`` runs ``card-session``."""

from __future__ import annotations

import sys

from cardapp.session_host.commands import main

sys.exit(main(sys.argv[1:]))
