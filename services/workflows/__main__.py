"""Run the workflows service as a process: ``python -m services.workflows``."""

from __future__ import annotations

import sys

from services.workflows.app import build
from services.workflows.settings import WorkflowsSettings
from shared.process import main

if __name__ == "__main__":
    sys.exit(main("workflows", WorkflowsSettings, build, needs_cluster=True, starts_log=lambda _: True))
