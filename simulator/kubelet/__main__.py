"""``python -m simulator.kubelet``: simulated nodes for any cluster."""

from __future__ import annotations

import sys

from simulator.kubelet.command import main

if __name__ == "__main__":
    sys.exit(main())
