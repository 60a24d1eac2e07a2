"""Run the command line: `python -m kvsite` with `py` on the module path."""

import sys

from kvsite.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
