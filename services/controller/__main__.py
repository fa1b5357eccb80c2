"""Run the controller as a process: ``python -m services.controller``."""

from __future__ import annotations

import sys

from services.controller.app import build
from services.controller.settings import ControllerSettings
from shared.process import main

if __name__ == "__main__":
    sys.exit(main("controller", ControllerSettings, build, needs_cluster=True))
