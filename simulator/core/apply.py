"""Server-side apply."""
from __future__ import annotations
from typing import Any
from simulator.core.kinds import Kind
from simulator.core.store import Entry
from simulator.core.world import Call
from simulator.core import merge
JSON = dict[str, Any]
def created(kind: Kind, obj: JSON, call: Call) -> JSON:
    return obj
def applied(kind: Kind, current: Entry, obj: JSON, call: Call, subresource: str, *, force: bool) -> JSON:
    return merge.merge(current.obj, obj)
