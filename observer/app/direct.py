"""Reads a deployment that another replica owns, once and directly, when that replica does not answer.

A standby reads nothing by itself: twice the reads would be twice the load on every engine, for windows that a new owner has
after one round anyway. So what is told here has values and no windows.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from observer.app.told import limits_of, policy_of
from observer.clock import Clock
from observer.collect.failures import Failure
from observer.collect.fetch import Fetcher
from observer.settings import Settings
from observer.store import Store
from router_contract.readings import ScrapeFailed
from router_contract.targets import Deployment, DeploymentKey, Target, TargetKey
from router_contract.verdicts import DeploymentReport

MOST_TARGETS = 64
MOST_AT_ONCE = 32
SECONDS = 1.5
"""How many targets of a deployment are read, how many at once, and for how long each."""
KEPT = 128
"""How many deployments' direct reads are kept, each for one scrape period: many readers cost an engine no more than one."""
AWAITING = "its owner does not answer; these values were read directly, so they have no windows and no verdicts"


class _Untold:
    """Direct reads are not counted among the scheduled ones."""

    def scraped(
        self, source: str, result: str, duration_seconds: float, body_bytes: int, parse_seconds: float | None
    ) -> None:
        """Counts nothing."""

    def discarded(self, reason: str, samples: int) -> None:
        """Counts nothing."""


class Direct:
    """``found`` gives a deployment that discovery knows and this replica does not follow, ``keys`` all of them.

    It satisfies `exporters.aggregated.forwarding.Elsewhere`.
    """

    def __init__(
        self,
        clock: Clock,
        settings: Settings,
        fetcher: Fetcher,
        found: Callable[[DeploymentKey], Deployment | None],
        keys: Callable[[], tuple[DeploymentKey, ...]],
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._settings = settings
        self._fetcher = fetcher
        self._found = found
        self._kept: OrderedDict[DeploymentKey, tuple[float, Store]] = OrderedDict()
        self._reading: dict[DeploymentKey, asyncio.Lock] = {}

    def keys(self) -> tuple[DeploymentKey, ...]:
        """Every deployment that is not followed here, sorted."""
        return self._keys()

    def known(self, key: DeploymentKey) -> DeploymentReport | None:
        """The deployment without anything read of it; ``None`` for one that is ours or unknown."""
        deployment = self._found(key)
        if deployment is None:
            return None
        return DeploymentReport(deployment=deployment, at=self._clock.now(), awaiting=AWAITING)

    async def read(self, key: DeploymentKey) -> DeploymentReport | None:
        """A report of values alone, at most one scrape period old; ``None`` for a deployment that is ours or unknown."""
        if self._found(key) is None:
            return None
        lock = self._reading.setdefault(key, asyncio.Lock())
        async with lock:
            deployment = self._found(key)
            if deployment is None:
                return None
            kept = self._kept.get(key)
            if kept is None or self._clock.now().mono - kept[0] > self._settings.scrape.period:
                kept = (self._clock.now().mono, await self._scrape(deployment))
                self._kept[key] = kept
                while len(self._kept) > KEPT:
                    gone, _ = self._kept.popitem(last=False)
                    self._reading.pop(gone, None)
            report = kept[1].report(key, self._clock.now(), _not_scheduled)
        return None if report is None else msgspec.structs.replace(report, awaiting=AWAITING)

    async def _scrape(self, deployment: Deployment) -> Store:
        told = self._settings
        store = Store(self._clock, policy_of(told), limits_of(told), _Untold())
        store.set_deployments((deployment,), self._clock.now())
        turns = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(target: Target) -> None:
            async with turns:
                at = self._clock.now()
                outcome = await self._fetcher.fetch(target.address, min(SECONDS, told.scrape.timeout))
                duration = self._clock.now().mono - at.mono
            if not isinstance(outcome, Failure):
                store.on_body(target, outcome.data, outcome.content_type, at, duration)
                return
            failed = ScrapeFailed(
                target=target.key, at=at, kind=outcome.kind, detail=outcome.detail, duration_seconds=duration
            )
            store.on_failure(target, failed)

        await asyncio.gather(*(one(target) for target in list(deployment.targets())[:MOST_TARGETS]))
        return store


def _not_scheduled(_: TargetKey) -> tuple[float | None, bool]:
    """Nothing here is read again by itself."""
    return None, False
