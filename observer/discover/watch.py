"""Following configuration files while we run: a new version is taken once it is whole and valid, else the last good one stays."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from observer.clock import Clock
from observer.yamldoc.faults import Fault
from observer.yamldoc.nodes import expand, read_bytes
from router_contract.readings import Instant

_log = logging.getLogger(__name__)
_SETTLE_SECONDS = 0.25
T = TypeVar("T")


class WatchState(msgspec.Struct, frozen=True, kw_only=True):
    """How following the files goes. ``invalid`` is why the newest version is not used, ``None`` while it is.

    ``loaded_at`` is when the version in use was taken; ``changes`` counts versions taken since the start.
    """

    loaded_at: Instant
    invalid: str | None = None
    invalid_since: Instant | None = None
    changes: int = 0


def fingerprint(paths: Sequence[Path]) -> str:
    """A hash over the names and contents of files and folders. A file that cannot be read has a mark of its own.

    Contents are read each time: a swapped symbolic link, a copied old file or a coarse clock cannot hide a change.
    """
    digest = hashlib.sha256()
    try:
        files = expand(paths)
    except OSError as error:
        return f"unreadable {error.errno}"
    for file in files:
        digest.update(f"{file}\0".encode(errors="surrogateescape"))
        found = read_bytes(file)
        digest.update(str(found).encode() if isinstance(found, Fault) else hashlib.sha256(found).digest())
    return digest.hexdigest()


class FileWatch(Generic[T]):
    """Looks at files on an interval and hands each new good version to ``apply``.

    ``load`` turns the paths into a version and raises one of ``invalid`` when it cannot; it runs in a thread. A change
    is taken when two looks in a row saw the same: half a written file is never used.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        load: Callable[[Sequence[Path]], T],
        invalid: type[Exception],
        apply: Callable[[T], Awaitable[None]],
        clock: Clock,
        period: float,
    ) -> None:
        self._paths = tuple(paths)
        self._load = load
        self._invalid = invalid
        self._apply = apply
        self._clock = clock
        self._period = period
        self._used = fingerprint(self._paths)
        self._judged = self._used
        self._seen = self._used
        self.state = WatchState(loaded_at=clock.now())

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(min(self._period, _SETTLE_SECONDS) if self._seen != self._judged else self._period)
            await self.poll()

    async def poll(self) -> bool:
        """Look once; whether a new version was applied."""
        now = await asyncio.to_thread(fingerprint, self._paths)
        settled, self._seen = now == self._seen, now
        if not settled or now == self._judged:
            return False
        if now == self._used:
            self._judged = now
            self._valid_again("the files are as before again")
            return False
        try:
            version = await asyncio.to_thread(self._load, self._paths)
        except self._invalid as error:
            self._judged = now
            self._refuse(str(error))
            return False
        await self._apply(version)
        self._judged = self._used = now
        self.state = WatchState(loaded_at=self._clock.now(), changes=self.state.changes + 1)
        _log.info("configuration files changed: a new version is in use")
        return True

    def _refuse(self, why: str) -> None:
        _log.error("configuration files changed and cannot be used; the last good version stays:\n%s", why)
        since = self.state.invalid_since or self._clock.now()
        self.state = msgspec.structs.replace(self.state, invalid=why, invalid_since=since)

    def _valid_again(self, why: str) -> None:
        _log.info("%s", why)
        self.state = msgspec.structs.replace(self.state, invalid=None, invalid_since=None)
