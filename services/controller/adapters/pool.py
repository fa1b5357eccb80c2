"""One object for values that are written alike: pods and jobs by the thousand have the same."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import orjson

from services.controller.core.model import JSON

_LIMIT: Final = 8192


class Pool:
    """Keeps the values seen last; what it hands out is never to be changed."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._known: OrderedDict[bytes, Any] = OrderedDict()

    def shared(self, value: Any) -> Any:
        """Return a value that is written like this one."""
        key = orjson.dumps(value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = value
            if len(self._known) > self._limit:
                self._known.popitem(last=False)
        return found

    def of_parts(self, mapping: JSON) -> JSON:
        """Return a mapping whose lists and mappings are shared."""
        return {
            key: self.shared(value) if isinstance(value, (dict, list)) else value
            for key, value in mapping.items()
        }
