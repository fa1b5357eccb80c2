"""Who is evicted for whom, and which queues get more, by rules of the house.

Pods of the namespaces in ``protected`` are never evicted. Inside a queue that several teams use, a gang takes
the room of pods of its own namespace alone (``within-namespace``). Queues whose names match a pattern in
``shares`` get so many times what their objects say; the first pattern that matches counts.

In the scheduler's configuration::

    - name: house-rules
      arguments:
        protected: [payments, search]
        within-namespace: true
        shares:
          "research-*": 1.5
          "sandbox": 0.5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from shared.plugins import Bools, Floats, GangView, Plugin, PodsView, QueueView

KNOWN = ("protected", "within-namespace", "shares")


class HouseRules(Plugin):
    """See the module."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        """Read the arguments. A ValueError is shown to whoever wrote the configuration."""
        unknown = sorted(set(arguments) - set(KNOWN))
        if unknown:
            raise ValueError(f"unknown argument {', '.join(unknown)}; known: {', '.join(KNOWN)}")
        protected, shares = arguments.get("protected", []), arguments.get("shares", {})
        if not isinstance(protected, list):
            raise ValueError("protected: must be a list of namespaces")  # noqa: TRY004 - shown as others
        if not isinstance(shares, dict):
            raise ValueError("shares: must be a mapping of patterns to numbers")  # noqa: TRY004 - likewise
        self.protected = [str(name) for name in protected]
        self.within = arguments.get("within-namespace", False) is True
        self.shares_of = {str(pattern): float(times) for pattern, times in shares.items()}

    def preemptable(self, gang: GangView, pods: PodsView) -> Bools:
        """Let nobody go who is protected, or is of another namespace than the gang."""
        may = ~np.isin(pods.namespaces, self.protected)
        return may & (pods.namespaces == gang.namespace) if self.within else may

    def reclaimable(self, gang: GangView, pods: PodsView) -> Bools:
        """Let nobody go who is protected."""
        return ~np.isin(pods.namespaces, self.protected)

    def shares(self, queues: Sequence[QueueView]) -> Floats:
        """Say how many times its share a queue gets."""
        return np.array([self._times(queue.name) for queue in queues], np.float64)

    def _times(self, name: str) -> float:
        found = (times for pattern, times in self.shares_of.items() if fnmatchcase(name, pattern))
        return next(found, 1.0)
