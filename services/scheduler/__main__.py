"""Run the scheduler: ``python -m services.scheduler``."""

from __future__ import annotations

import sys

from services.scheduler.app import build
from services.scheduler.settings import SchedulerSettings
from shared.process import main

sys.exit(main("scheduler", SchedulerSettings, build))
