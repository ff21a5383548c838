"""`python -m metier`: the command line."""

import sys

from .faces.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
