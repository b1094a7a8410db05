"""``python -m marketdata COMMAND``; the launchers ``bin/marketdata-COMMAND`` call it."""

import sys

from marketdata.cli import main

if __name__ == "__main__":
    sys.exit(main())
