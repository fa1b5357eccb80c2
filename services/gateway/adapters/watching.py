"""Requests that wait for a job or a queue, woken by the fold: nothing here polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager

from shared.events.topics import state_key


def queue_key(name: str) -> bytes:
    """Return the key of those who wait for a queue; a job's is its namespace and name."""
    return state_key("queue", "", name)


class Watchers:
    """Who waits for which job or queue."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, set[asyncio.Event]] = {}
        self.stopping = False

    def wake(self, keys: Iterable[Hashable]) -> None:
        """Wake everybody who watches one of these."""
        for key in keys:
            for woken in self._waiting.get(key, ()):
                woken.set()

    def stop(self) -> None:
        """Let all waits and streams end: the gateway stops."""
        self.stopping = True
        for watching in self._waiting.values():
            for woken in watching:
                woken.set()

    @contextmanager
    def watch(self, key: Hashable) -> Iterator[asyncio.Event]:
        """Give an event that is set at each change of it; the watcher clears it before it looks."""
        woken = asyncio.Event()
        self._waiting.setdefault(key, set()).add(woken)
        try:
            yield woken
        finally:
            watching = self._waiting[key]
            watching.discard(woken)
            if not watching:
                del self._waiting[key]

    async def until(self, key: Hashable, done: Callable[[], bool], seconds: float) -> bool:
        """Return whether ``done`` came true before ``seconds`` had passed; it is asked at each change."""
        with self.watch(key) as woken:
            try:
                async with asyncio.timeout(seconds):
                    while not (finished := done()) and not self.stopping:
                        await woken.wait()
                        woken.clear()
            except TimeoutError:
                return done()
            return finished
