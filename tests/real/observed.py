"""The whole observer on a real router and simulated engines, with fast periods; documents come from its HTTP API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from observer.app.watcher import Watcher
from observer.clock import Clock, SystemClock
from observer.collect.fetch import Fetched
from observer.collect.options import ScrapeSettings
from observer.settings import HttpSettings, JudgingSettings, RouterSettings, Settings, WindowSettings, load_files
from router_contract.readings import Instant
from router_contract.router_views import RouterView, ViewFailed
from router_contract.targets import Component, DeploymentKey, Target
from tests.real.routers import RealRouter

KEY = DeploymentKey("real", "chat")
ENGINES = {"sglang_gateway": "sglang", "vllm_router": "vllm"}
PERIOD = 0.5
SETTINGS = Settings(
    scrape=ScrapeSettings(period=PERIOD, timeout=0.4),
    routers=RouterSettings(view_period=PERIOD, view_timeout=0.4, view_valid=5.0),
    judging=JudgingSettings(period=0.1),
    windows=WindowSettings(span=120.0, max=300.0),
    http=HttpSettings(listen="127.0.0.1:0"),
)


class Listening(Watcher):
    """The observer itself; it also notes when it had read the router's metrics and began to read its view (mono)."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.router_reads: list[float] = []
        self.views: list[float] = []
        self.bodies: list[str] = []
        super().__init__(settings, clock)

    def on_body(self, target: Target, body: Fetched, at: Instant, duration_seconds: float) -> None:
        super().on_body(target, body, at, duration_seconds)
        if target.component is Component.ROUTER:
            self.router_reads.append(self._clock.now().mono)
            self.bodies.append(body.data.decode())

    def on_view(self, key: DeploymentKey, view: RouterView | ViewFailed) -> None:
        super().on_view(key, view)
        if isinstance(view, RouterView):
            self.views.append(view.read_at.mono)


class Observed:
    """What the observer says about one deployment behind a real router."""

    def __init__(self, watcher: Listening, session: aiohttp.ClientSession, router: RealRouter, file: Path) -> None:
        self.watcher = watcher
        self.router = router
        self._session = session
        self._file = file

    async def watch(self, roles: Mapping[str, Sequence[Any]]) -> None:
        """Observe exactly these engines, by the kind of their role; a name is the engine's own."""
        document = {
            "apiVersion": "observer.modeldeployment.io/v1alpha1",
            "kind": "Fleet",
            "deployments": [
                {
                    "name": KEY.name,
                    "namespace": KEY.namespace,
                    "engine": ENGINES[self.router.kind],
                    "roles": [
                        {
                            "name": kind.lower(),
                            "kind": kind,
                            "replicas": [
                                {
                                    "ordinal": int(engine.name.removeprefix("e")),
                                    "members": [{"name": engine.name, "address": urlsplit(engine.url).netloc}],
                                }
                                for engine in engines
                            ],
                        }
                        for kind, engines in roles.items()
                    ],
                    "router": {
                        "name": self.router.kind.replace("_", "-").replace("sglang-gateway", "smg"),
                        "addresses": [
                            {
                                "address": urlsplit(self.router.api).netloc,
                                "metricsPort": urlsplit(self.router.metrics).port,
                            }
                        ],
                    },
                }
            ],
        }
        self._file.write_text(json.dumps(document))
        await self.watcher.watch(load_files([self._file]).deployments)

    async def get(self, part: str) -> Any:
        """One of the deployment's documents: ``metrics`` or ``status``."""
        url = f"{self.watcher.url}/api/v1/namespaces/{KEY.namespace}/modeldeployments/{KEY.name}/{part}"
        async with self._session.get(url) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def reads(self, count: int) -> None:
        """Wait for that many further reads of the router's metrics."""
        wanted = len(self.watcher.router_reads) + count
        async with asyncio.timeout(20):
            while len(self.watcher.router_reads) < wanted:
                await asyncio.sleep(0.02)

    async def until(self, condition: Callable[[Any], bool], what: str, seconds: float = 20.0) -> Any:
        """The first status document for which a condition holds; fails by showing the last one."""
        status: Any = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    status = await self.get("status")
                    if condition(status):
                        return status
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{what}: not within {seconds} s: {json.dumps(status)[:4000]}") from None


@asynccontextmanager
async def observed(router: RealRouter, roles: Mapping[str, Sequence[Any]], folder: Path) -> AsyncIterator[Observed]:
    """An observer that watches a router and the engines of each kind of role."""
    async with Listening(SETTINGS, SystemClock()) as watcher, aiohttp.ClientSession() as session:
        seen = Observed(watcher, session, router, folder / "fleet.yaml")
        await seen.watch(roles)
        yield seen
