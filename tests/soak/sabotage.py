"""Switches of a test build: each breaks one rule of the running observer, so that the ledger must report it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import msgspec

from observer.app.watcher import Watcher
from observer.measure.blocks import StreamBlocks
from observer.persist import StateError

EVER = 1e6


def _stale(watcher: Watcher) -> None:
    """Whatever was read once is fresh for ever."""
    watcher.store.policy = msgspec.structs.replace(watcher.store.policy, fresh=EVER, expire=EVER)


def _eligible(watcher: Watcher) -> None:
    """A read that failed is not noted, and an old answer counts for ever."""
    watcher.on_failure = lambda *_: None  # type: ignore[method-assign]  # a sabotage
    watcher.judging._policy = msgspec.structs.replace(watcher.judging._policy, scrape_period=EVER)


def _life(_: Watcher) -> None:
    """Another life of a publisher forgets nothing of the former."""
    StreamBlocks.forget = lambda self: None  # type: ignore[method-assign]  # a sabotage


def _canary(watcher: Watcher) -> None:
    """Every sample is taken twice and counted once."""
    take = watcher.canaries._taken

    async def twice(canary: Any) -> Any:
        await take(canary)
        return await take(canary)

    watcher.canaries._taken = twice  # type: ignore[method-assign]  # a sabotage


def _state(watcher: Watcher) -> None:
    """After a save was refused nothing is ever saved."""
    state = watcher._state
    assert state is not None
    save = state.save
    refused: list[object] = []

    def once(stored: Any) -> int:
        try:
            return 0 if refused else save(stored)
        except StateError:
            refused.append(stored)
            raise

    state.save = once  # type: ignore[method-assign]  # a sabotage


def _leaking(what: Callable[[list[object]], None]) -> Callable[[Watcher], None]:
    def sabotage(watcher: Watcher) -> None:
        kept: list[object] = []
        ready = watcher.canaries.run

        async def leaks() -> None:
            async def leak() -> None:
                while True:
                    what(kept)
                    await asyncio.sleep(0.05)

            async with asyncio.TaskGroup() as group:
                group.create_task(leak())
                group.create_task(ready())

        watcher.canaries.run = leaks  # type: ignore[method-assign]  # a sabotage

    return sabotage


SABOTAGES: dict[str, Callable[[Watcher], None]] = {
    "stale": _stale,
    "eligible": _eligible,
    "life": _life,
    "canary": _canary,
    "state": _state,
    "memory": _leaking(lambda kept: kept.append(os.urandom(1 << 20))),
    "descriptors": _leaking(lambda kept: kept.append(os.open("/dev/null", os.O_RDONLY))),
}
"""By name: what to break in a watcher before it starts."""

RULES = {
    "stale": ("stale shown as fresh", "invented or very old value"),
    "eligible": ("dead and eligible",),
    "life": ("block of a dead life",),
    "canary": ("canary sample lost or doubled",),
    "state": ("state not saved again",),
    "memory": ("memory (MiB) not flat",),
    "descriptors": ("descriptors not flat",),
}
"""What the ledger must then report, one of these."""
