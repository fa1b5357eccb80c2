"""A digest by which two submitted objects are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson


def digest(job: Mapping[str, Any]) -> str:
    """Return a hash of an object's content; the order of its keys does not matter."""
    text = orjson.dumps(job, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    return blake2b(text, digest_size=16).hexdigest()
