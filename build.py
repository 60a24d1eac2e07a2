#!/usr/bin/env python3
"""The door to every command of this project; `python build.py --help` lists them."""

import os
import sys

# Old syntax on purpose: an old Python must get as far as this message.
if sys.version_info < (3, 11):
    sys.exit(
        "kvproof needs Python 3.11 or newer, but %s is Python %d.%d. "
        "Run build.py with a newer one, for example: python3.12 build.py serve"
        % ((sys.executable,) + tuple(sys.version_info[:2]))
    )

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "py"))

from kvsite.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
