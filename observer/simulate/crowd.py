"""Many engine targets that share a few bodies: real listeners on many ports, work booked without requests.

For runs with a thousand targets: each answers `/metrics` and `/health` over HTTP, but only ``shared`` engines exist, and
a body is rendered once for every change however many targets show it.
"""

from __future__ import annotations

import random
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from observer.clock import Clock, SystemClock
from observer.simulate.background import Background
from observer.simulate.core import Work
from observer.simulate.deployment import ENGINES
from observer.simulate.document import API_VERSION, HOST
from observer.simulate.engine import SimulatedEngine
from observer.simulate.node import Listener
from observer.simulate.prefix_cache import VOCABULARY_SIZE
from observer.simulate.spec import EngineSpec


class Crowd:
    """``count`` targets on loopback ports. Target ``i`` shows the body of shared engine ``i % shared``."""

    def __init__(
        self, spec: EngineSpec, count: int, *, shared: int = 8, clock: Clock | None = None, seed: int = 0
    ) -> None:
        if count < 1 or shared < 1:
            raise ValueError(f"crowd: found {count} targets sharing {shared} bodies, want at least 1 of each")
        self.spec = spec
        self._random = random.Random(seed)
        self._background = Background()
        ticking = clock if clock is not None else SystemClock()
        self.engines: list[SimulatedEngine] = [
            ENGINES[spec.software](f"crowd-{index}", spec, ticking, self._background, seed=seed + index)
            for index in range(min(shared, count))
        ]
        self._bodies: list[bytes] = [b""] * len(self.engines)
        self.targets = [Listener(self._app_of(index)) for index in range(count)]
        self.reads = 0

    def _app_of(self, index: int) -> Any:
        async def metrics(_: web.Request) -> web.Response:
            self.reads += 1
            body = self._bodies[index % len(self._bodies)]
            return web.Response(body=body, headers={"Content-Type": self.engines[0].content_type})

        async def health(_: web.Request) -> web.Response:
            return web.Response()

        def make() -> web.Application:
            app = web.Application()
            app.add_routes((web.get("/metrics", metrics), web.get("/health", health)))
            return app

        return make

    async def start(self) -> None:
        """Listen on every port."""
        await self._background.start()
        for engine in self.engines:
            engine.warm_up()
        self.render()
        for target in self.targets:
            await target.start()

    async def stop(self) -> None:
        """Give every port back."""
        for target in self.targets:
            await target.close()
        for engine in self.engines:
            await engine.close()
        await self._background.stop()

    def work(self, requests: int) -> None:
        """Book that many finished requests on the shared engines and render their bodies anew."""
        draw = self._random
        for number in range(requests):
            prompt = [draw.randrange(VOCABULARY_SIZE) for _ in range(draw.randint(16, 256))]
            work = Work(prompt=prompt, max_tokens=draw.randint(4, 64), streaming=number % 2 == 0)
            self.engines[number % len(self.engines)].core.account(work)
        self.render()

    def render(self) -> None:
        """Render the shared bodies."""
        self._bodies = [engine.exposition() for engine in self.engines]

    def document(self, *, name: str = "crowd", replicas_each: int = 50) -> dict[str, Any]:
        """A ``Fleet`` document with these targets in deployments of ``replicas_each`` replicas."""
        addresses = [f"{HOST}:{target.port}" for target in self.targets]
        return {
            "apiVersion": API_VERSION,
            "kind": "Fleet",
            "deployments": [
                {
                    "namespace": name,
                    "name": f"{name}-{start // replicas_each}",
                    "model": self.spec.model,
                    "engine": {"name": self.spec.software, "version": self.spec.shown_version},
                    "roles": [{"name": "server", "addresses": addresses[start : start + replicas_each]}],
                }
                for start in range(0, len(addresses), replicas_each)
            ],
        }

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
