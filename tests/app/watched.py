"""A source over a store that a test fills, with a clock set by hand; nobody reads, and some targets may be shed."""

from __future__ import annotations

from collections.abc import Iterable

from observer.app.judging import Judging
from observer.app.source import Source
from observer.collect.scrape import TargetSchedule
from observer.settings import Settings
from router_contract.readings import FailureKind, ScrapeFailed
from router_contract.targets import Deployment, TargetKey
from tests.fleets import HandClock, at, store, target


class Pool:
    """Nobody reads."""

    def __init__(self) -> None:
        self.shed: tuple[TargetKey, ...] = ()

    def schedule(self, key: TargetKey) -> TargetSchedule | None:
        return TargetSchedule(key=key, shed=True) if key in self.shed else None

    async def refresh(self, _: Iterable[TargetKey]) -> None:
        return None


class Watched:
    """Deployments, and what is known of them."""

    def __init__(self, *deployments: Deployment) -> None:
        self.clock, self.pool = HandClock(), Pool()
        self.store = store(self.clock)
        self.judging = Judging(self.store, Settings())
        self.source = Source(self.store, self.pool, self.judging, self.clock, Settings())
        self.deployments = deployments
        self.store.set_deployments(deployments, at(0))

    @property
    def of(self) -> Deployment:
        """The only one."""
        (found,) = self.deployments
        return found

    def change(self, *deployments: Deployment) -> None:
        self.deployments = deployments
        self.store.set_deployments(deployments, self.clock.now())

    def fail(self, name: str, detail: str) -> None:
        told, now = target(self.of, name), self.clock.now()
        self.store.on_failure(told, ScrapeFailed(target=told.key, at=now, kind=FailureKind.REFUSED, detail=detail))
