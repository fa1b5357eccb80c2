"""Run the gateway: ``python -m services.gateway``."""

from __future__ import annotations

import sys

from services.gateway.app import build
from services.gateway.settings import GatewaySettings
from shared.process import main

sys.exit(main("gateway", GatewaySettings, build))
