"""The page over given reports, on a real listener: small real sources, a real history, a browser-like client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
from msgspec.structs import replace

from exporters.listening import Listen
from exporters.page.pages import Page
from exporters.page.protocols import RawBody, Services
from exporters.server import Server
from observer.app.page import Trial
from observer.fleet import Policy
from observer.history import Rings
from observer.measure.exposition import Limits
from router_contract.canary_view import CanaryView
from router_contract.history import CANARY_SERIES
from router_contract.kv_events import Hash
from router_contract.kv_streams import KvIndexSummary, KvLookup, KvStreamSummary, ReceiverSummary
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey, TargetKey
from router_contract.verdicts import DeploymentReport
from tests.exporters.canaries import NOW as THEN
from tests.exporters.canaries import view
from tests.exporters.reports import NOW
from tests.exporters.sources import Reports


class Clock:
    """Stands at one moment until it is moved."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> Instant:
        return self.at

    def forward(self, seconds: float) -> None:
        self.at = Instant(self.at.mono + seconds, self.at.wall + seconds)


class NoStreams:
    """A `KvSource` of deployments that publish nothing."""

    def __init__(self, clock: Clock, keys: Sequence[DeploymentKey]) -> None:
        self._clock = clock
        self._keys = tuple(keys)

    def now(self) -> Instant:
        return self._clock.now()

    def kv_deployments(self) -> tuple[DeploymentKey, ...]:
        return self._keys

    def kv_streams(self, deployment: DeploymentKey | None = None) -> tuple[KvStreamSummary, ...]:
        return ()

    def kv_index(self, deployment: DeploymentKey) -> KvIndexSummary:
        return KvIndexSummary()

    def kv_size(self, deployment: DeploymentKey) -> KvIndexSummary:
        return KvIndexSummary()

    def kv_lookup(self, deployment: DeploymentKey, hashes: Sequence[Hash], model: str | None) -> KvLookup:
        return KvLookup(asked=len(hashes))

    def kv_receiver(self) -> ReceiverSummary:
        return ReceiverSummary()


class OneBody:
    """Has one body for every target, or none."""

    def __init__(self, body: RawBody | None = None) -> None:
        self.kept = body

    def body(self, key: TargetKey) -> RawBody | None:
        return self.kept


def as_of(now: Instant, told: CanaryView) -> CanaryView:
    """A view of `tests.exporters.canaries` with its moments moved to ``now``."""
    looked = told.looked and Instant(told.looked.mono + now.mono - THEN.mono, told.looked.wall + now.wall - THEN.wall)
    sampled = None if told.sampled_at is None else told.sampled_at + now.wall - THEN.wall
    return replace(told, now=now, looked=looked, sampled_at=sampled)


class CanaryWorld:
    """A `CanarySource` over views that a test sets; each is shown as of the clock's moment."""

    def __init__(self, clock: Clock, *views: CanaryView) -> None:
        self._clock = clock
        self.views = views

    def now(self) -> Instant:
        return self._clock.now()

    def canaries(self) -> tuple[CanaryView, ...]:
        return tuple(replace(view, now=self.now()) for view in self.views)

    def canary(self, key: DeploymentKey) -> CanaryView | None:
        return next((view for view in self.canaries() if view.key == key), None)


class PageWorld:
    """The page's parts that a test changes, and what was asked of them."""

    def __init__(self, *reports: DeploymentReport) -> None:
        self.clock = Clock()
        self.reports = Reports(*reports)
        self.kv = NoStreams(self.clock, self.reports.keys())
        self.bodies = OneBody()
        self.fetched: list[TargetKey] = []
        self.history: Rings[DeploymentKey] = Rings()
        self.canaries = CanaryWorld(self.clock, as_of(self.clock.now(), view()))
        self.page = Page(
            Services(
                reports=self.reports,
                kv=self.kv,
                bodies=self.bodies,
                fetch=self._fetch,
                mapper=Trial(self.clock, Policy(), Limits()),
                canaries=self.canaries,
                history=self.history,
                evidence=Rings(step=1.0, names=CANARY_SERIES),
                version="test",
            )
        )

    async def _fetch(self, key: TargetKey) -> None:
        self.fetched.append(key)


@asynccontextmanager
async def serving(world: PageWorld, *, turns: int = 1) -> AsyncIterator[aiohttp.ClientSession]:
    """The page on a loopback port, its board made ``turns`` times; it is live only as far as a test makes it so."""
    server = Server(world.page.routes(), Listen(port=0, stop_seconds=0.5))
    await server.start()
    try:
        for _ in range(turns):
            await world.page.board.turn(10.0)
        async with aiohttp.ClientSession(server.url) as session:
            yield session
    finally:
        world.page.close()
        await server.stop()
