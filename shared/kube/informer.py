"""Keeps the objects of one kind at hand: list, then watch, for ever."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from shared.clock import Clock
from shared.errors import Gone, NotFound, Unavailable
from shared.kube.pace import Backoff
from shared.kube.port import JSON, Cluster, Resource, WatchEvent
from shared.kube.store import Change, Index, Key, Store, version_of

_log = logging.getLogger(__name__)

_SHORT_WATCH_SECONDS: Final = 1.0
"""A watch that ends sooner without an event is a server in trouble: wait before the next one."""


class Informer:
    """A local copy of a kind (in one namespace, or by selectors), and a call for each change of it.

    ``on_change(old, new)`` is called synchronously, in order, from :meth:`run` and from :meth:`upsert`
    and :meth:`forget`: ``(None, new)`` for what is new, ``(old, None)`` for what is gone, also when the end
    was missed during an outage. An object that was replaced by another of its name is reported as gone
    first. An error raised by it ends :meth:`run`.

    ``transform`` sees each object before it is stored and may drop what is not needed, to save memory; it
    must leave ``metadata``'s name, namespace, uid and resourceVersion. ``indexes`` makes :meth:`by` quick.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        *,
        clock: Clock,
        on_change: Callable[[JSON | None, JSON | None], None] | None = None,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        transform: Callable[[JSON], JSON] | None = None,
        indexes: Mapping[str, Index] | None = None,
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.resource = resource
        self._cluster = cluster
        self._clock = clock
        self._on_change = on_change
        self._transform = transform
        self._scope: dict[str, Any] = {"namespace": namespace, "labels": labels, "fields": fields}
        self._store = Store(indexes)
        self._backoff = backoff or Backoff(first=0.2, longest=10.0)
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._synced = asyncio.Event()
        self._must_list = True
        self._doubtful = False
        self._failures = 0
        self._trouble = ""
        """What we wait for; empty: nothing."""

    @property
    def store(self) -> Mapping[Key, JSON]:
        """The objects by (namespace, name); live, not to be changed."""
        return self._store.objects

    @property
    def healthy(self) -> bool:
        """Whether the store is complete and the API server answers."""
        return self._synced.is_set() and not self._trouble

    async def synced(self) -> None:
        """Return once the first list is in the store and its changes were reported."""
        await self._synced.wait()

    def by(self, index: str, value: str) -> list[JSON]:
        """Return the objects under a value of an index."""
        return self._store.by(index, value)

    def upsert(self, obj: JSON) -> None:
        """Take over a write's own answer, so that the next read of the store sees it.

        What is not newer than the store is ignored. An object that the selectors would not show must not
        be given.
        """
        self._report(self._store.upsert(self._trim(obj)))

    def forget(self, obj: JSON) -> None:
        """Take out an object which was deleted for good (not one that ends gracefully)."""
        self._report(self._store.forget(obj))

    async def run(self) -> None:
        """Follow the API server until cancelled; everything else than the following is raised.

        Outages are waited for, and a kind that is not served: whoever took away its definition may put it
        back. Until then the store is as it was, or empty.
        """
        while True:
            try:
                if self._doubtful and not self._must_list:
                    await self._doubt()
                if self._must_list:
                    await self._list()
                await self._watch()
            except Gone:
                self._must_list = True
                await self._pause()
            except NotFound as error:
                self._must_list = True
                self._note_unknown(error)
                await self._pause()
            except Unavailable as error:
                self._doubtful = True
                self._note_away(error)
                await self._pause()

    async def _doubt(self) -> None:
        """After a cut, ask for one object that we know: is this still the history that we follow?

        One that began anew (a cluster lost, or restored from a backup) would keep a watch from our position
        silent until it gets there, or is past it already with other objects. When the object is gone we
        cannot tell, and list.
        """
        known = next(iter(self._store.objects.values()), None)
        self._must_list = known is None or not await self._is_there(known)
        self._doubtful = False

    async def _is_there(self, known: JSON) -> bool:
        meta = known["metadata"]
        scope: dict[str, Any] = {**self._scope, "fields": f"metadata.name={meta['name']}"}
        found = await self._cluster.list(self.resource, **scope)
        goes_on = int(found.resource_version or 0) >= self._store.position
        return goes_on and any(one["metadata"].get("uid") == meta.get("uid") for one in found.items)

    async def _list(self) -> None:
        self._store.begin_list()
        listing = await self._cluster.list(self.resource, **self._scope)
        if self._transform is not None:
            listing = listing._replace(items=[self._transform(item) for item in listing.items])
        self._report(self._store.replace(listing))
        self._must_list = self._doubtful = False
        self._note_back()
        self._synced.set()

    async def _watch(self) -> None:
        """Watch until the stream ends; one that breaks after it was open is no worse."""
        started = self._clock.monotonic()
        opened = useful = False
        start = self._store.position
        events = self._cluster.watch(self.resource, resource_version=str(start), **self._scope)
        try:
            async for event in events:
                if not opened:
                    opened = True
                    self._note_back()
                if version_of(event.object) < start:
                    raise Gone("the server's history began anew")
                useful = useful or event.type != "BOOKMARK"
                self._take(event)
        except Unavailable as error:
            if not opened:
                raise
            self._doubtful = True
            _log.debug("%s: watch was cut: %s", self.resource.plural, error)
        if useful or self._clock.monotonic() - started >= _SHORT_WATCH_SECONDS:
            self._failures = 0
        else:
            await self._pause()

    def _take(self, event: WatchEvent) -> None:
        if self._transform is not None and event.type != "BOOKMARK":
            event = WatchEvent(event.type, self._transform(event.object))
        self._report(self._store.apply(event))

    def _trim(self, obj: JSON) -> JSON:
        return obj if self._transform is None else self._transform(obj)

    def _report(self, changes: list[Change]) -> None:
        if self._on_change is not None:
            for old, new in changes:
                self._on_change(old, new)

    async def _pause(self) -> None:
        await self._clock.sleep(self._backoff.seconds(self._failures, self._rng))
        self._failures += 1

    def _note_away(self, error: Unavailable) -> None:
        # Whoever owns the connection says it once for all kinds.
        self._note(logging.INFO, "API server is away, waiting for it", error)

    def _note_unknown(self, error: NotFound) -> None:
        self._note(logging.WARNING, "API server does not know this kind, waiting for it", error)

    def _note(self, level: int, trouble: str, error: Exception) -> None:
        """Say what we wait for, once."""
        if trouble != self._trouble:
            self._trouble = trouble
            _log.log(level, "%s: %s: %s", self.resource.plural, trouble, error)

    def _note_back(self) -> None:
        if self._trouble:
            self._trouble = ""
            _log.info("%s: API server is back", self.resource.plural)
