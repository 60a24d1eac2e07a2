"""``python -m kvproof``."""

import sys

from kvproof.cli import main

if __name__ == "__main__":
    sys.exit(main())
