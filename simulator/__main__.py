"""``python -m simulator``: the API server (and its nodes) alone."""

import sys

from simulator.command import main

if __name__ == "__main__":
    sys.exit(main())
