"""``python -m cardapp.container`` is ``card-session``."""

from __future__ import annotations

import sys

from cardapp.container.control import main

sys.exit(main(sys.argv[1:]))
