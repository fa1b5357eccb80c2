"""What both servers get before anything is compared: the project's CRDs and one for the tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import yaml

from tests.differential.servers import Server

JSON = dict[str, Any]

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OURS: Final = Path(__file__).parents[2] / "deploy" / "crds"
_WIDGETS: Final = Path(__file__).parent / "widgets.yaml"


def install(server: Server) -> None:
    """Create the definitions and wait until each is served."""
    files = [*sorted(_OURS.glob("*.yaml")), _WIDGETS]
    crds: list[JSON] = [yaml.safe_load(file.read_text()) for file in files]
    for crd in crds:
        made = server.send("POST", _CRDS, crd)
        assert made.status in (201, 409), made
    for crd in crds:
        group, version = crd["spec"]["group"], crd["spec"]["versions"][0]["name"]
        path = f"/apis/{group}/{version}/{crd['spec']['names']['plural']}"
        for _ in range(200):
            if server.request("GET", path).status == 200:
                break
            time.sleep(0.05)
        else:
            raise AssertionError(f"{server.name} does not serve {path}")
