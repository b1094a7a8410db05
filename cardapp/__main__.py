import sys

from cardapp.cli import main

sys.exit(main())
