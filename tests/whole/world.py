"""The whole application on a simulated fleet: a clock that can be moved or stopped, and short ways to ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from prometheus_client.parser import text_string_to_metric_families

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import ScrapeSettings
from observer.settings import FileSettings, JudgingSettings, RouterSettings, Settings, WindowSettings, load_files
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.spec import DeploymentSpec, EngineSpec, FleetSpec, RoleSpec, RouterSpec
from router_contract.readings import Instant
from router_contract.targets import Deployment, DeploymentKey
from router_contract.verdicts import DeploymentReport

CHAT = DeploymentKey("demo", "chat")
SETTINGS = Settings(
    scrape=ScrapeSettings(period=0.5, timeout=0.4),
    judging=JudgingSettings(period=0.2),
    routers=RouterSettings(view_period=0.5, view_timeout=0.4, view_valid=5.0),
    windows=WindowSettings(span=10.0, max=300.0, expire_after=300.0),
    files=FileSettings(watch_period=0.1),
)


class MovableClock:
    """The machine's clocks, moved forward by hand, or stopped."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._shift = 0.0
        self._stopped: Instant | None = None

    def now(self) -> Instant:
        if self._stopped is not None:
            return self._stopped
        moment = self._system.now()
        return Instant(moment.mono + self._shift, moment.wall + self._shift)

    def move(self, seconds: float) -> None:
        """Everything is so many seconds older now."""
        self._shift += seconds

    def stop(self) -> Instant:
        """Time stands still from here on."""
        self._stopped = self.now()
        return self._stopped

    def go_on(self) -> None:
        """Time passes again, from where it would be by now."""
        self._stopped = None

    def stand_later(self, seconds: float) -> None:
        """Stand still so many seconds later than before."""
        moment = self.stop()
        self._stopped = Instant(moment.mono + seconds, moment.wall + seconds)


def small_fleet(*, replicas: int = 2, rate: float = 20.0, routers: int = 1) -> FleetSpec:
    """One deployment ``demo/chat`` of vLLM engines behind the vLLM router."""
    engine = EngineSpec(software="vllm", model="tiny", token_seconds=0.0005)
    router = RouterSpec(software="vllm_router", replicas=routers, health_interval=0.2, backoff_seconds=0.01)
    chat = DeploymentSpec(
        name=CHAT.name, model="tiny", roles=(RoleSpec(replicas=replicas, engine=engine),), router=router, rate=rate
    )
    return FleetSpec(deployments=(chat,))


def deployments_of(fleet: SimulatedFleet, folder: Path) -> tuple[Deployment, ...]:
    """What the observer reads from the fleet's document."""
    file = folder / "fleet.json"
    fleet.write_document(file)
    return load_files([file]).deployments


class Asking:
    """A running observer, asked in memory and over HTTP."""

    def __init__(self, watcher: Watcher, session: aiohttp.ClientSession) -> None:
        self.watcher = watcher
        self._session = session

    def report(self, key: DeploymentKey = CHAT) -> DeploymentReport:
        found = self.watcher.source.deployment(key)
        assert found is not None, f"{key} is not observed"
        return found

    async def get(self, path: str) -> Any:
        async with self._session.get(self.watcher.url + path) as response:
            text = await response.read()
            assert response.status == 200, (path, response.status, text)
            return orjson.loads(text)

    async def document(self, key: DeploymentKey = CHAT) -> Any:
        return await self.get(f"/api/v1/namespaces/{key.namespace}/modeldeployments/{key.name}/metrics")

    async def targets(self) -> dict[str, Any]:
        """Every target by its Pod's name."""
        return {item["pod"]: item for item in (await self.get("/api/v1/targets?limit=1000"))["items"]}

    async def metrics(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Every sample of ``/metrics``, by name."""
        async with self._session.get(f"{self.watcher.url}/metrics") as response:
            text = await response.text()
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{what}: not within {seconds} s") from None

    async def ready(self, reads: int = 3) -> None:
        """Every target was read some times, and everything was judged."""
        statuses = self.watcher.source.targets
        await self.until(lambda: all(status.reads >= reads for status in statuses()), f"{reads} reads of every target")
        await self.until(lambda: self.watcher.source.ready()[0], "ready")


@asynccontextmanager
async def asking(watcher: Watcher) -> AsyncIterator[Asking]:
    """Run a watcher."""
    async with watcher, asking_of(watcher) as asked:
        yield asked


@asynccontextmanager
async def asking_of(watcher: Watcher) -> AsyncIterator[Asking]:
    """Ask a watcher that runs."""
    async with aiohttp.ClientSession() as session:
        yield Asking(watcher, session)
