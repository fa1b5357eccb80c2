"""Run admission as a process: ``python -m services.admission``."""

from __future__ import annotations

import sys

from services.admission.app import build
from services.admission.settings import AdmissionSettings, serves_webhooks
from shared.process import main

if __name__ == "__main__":
    sys.exit(
        main("admission", AdmissionSettings, build, needs_cluster=serves_webhooks, starts_log=serves_webhooks)
    )
