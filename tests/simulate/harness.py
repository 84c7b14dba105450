"""Small helpers of the simulator's tests: engines and routers on loopback, and waiting for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
from prometheus_client.parser import text_string_to_metric_families

from observer.clock import SystemClock
from observer.simulate.background import Background
from observer.simulate.deployment import ENGINES, ROUTERS
from observer.simulate.engine import SimulatedEngine
from observer.simulate.router import SimulatedRouter
from observer.simulate.spec import EngineSpec, RouterSpec
from observer.simulate.workers import WorkerAddress

PROMPT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
FAST: dict[str, Any] = {
    "health_interval": 0.05,
    "health_timeout": 1.0,
    "backoff_seconds": 0.001,
    "breaker_open_seconds": 0.2,
}
QUICK: dict[str, Any] = {"token_seconds": 0.0005}


class Bench:
    """One background, one client session, and whatever engines and routers a test makes."""

    def __init__(self, background: Background, session: aiohttp.ClientSession) -> None:
        self.background = background
        self.session = session
        self.engines: list[SimulatedEngine] = []
        self.routers: list[SimulatedRouter[Any]] = []

    def engine(self, software: str = "vllm", *, kind: str = "Server", hook: Any = None, **spec: Any) -> SimulatedEngine:
        """An engine that is not started yet."""
        made = ENGINES[software](
            f"e{len(self.engines)}",
            EngineSpec(software=software, **{**QUICK, **spec}),
            SystemClock(),
            self.background,
            kind=kind,
            hook=hook,
            seed=len(self.engines),
        )
        self.engines.append(made)
        return made

    async def started(self, count: int, software: str = "vllm", **spec: Any) -> list[SimulatedEngine]:
        """Some engines that serve."""
        made = [self.engine(software, **spec) for _ in range(count)]
        for engine in made:
            await engine.start()
        return made

    async def router(self, software: str, workers: list[WorkerAddress], **spec: Any) -> SimulatedRouter[Any]:
        """A router that runs."""
        made = ROUTERS[software](
            f"r{len(self.routers)}",
            RouterSpec(software=software, **{**FAST, **spec}),
            workers,
            SystemClock(),
            self.background,
        )
        self.routers.append(made)
        await made.start()
        return made

    async def post(self, url: str, path: str = "/v1/chat/completions", **body: Any) -> int:
        """One inference call; its status."""
        if path == "/v1/chat/completions":
            body = {"messages": [{"role": "user", "content": PROMPT}]} | body
        elif path == "/v1/completions":
            body = {"prompt": PROMPT} | body
        data = {"model": "tiny", "max_tokens": 5} | body
        async with self.session.post(url + path, json=data) as response:
            await response.read()
            return response.status

    async def get(self, url: str) -> tuple[int, str]:
        """Status and text of a GET."""
        async with self.session.get(url) as response:
            return response.status, await response.text()

    async def json(self, url: str) -> Any:
        """The JSON of a GET, whatever its content type."""
        return orjson.loads((await self.get(url))[1])

    async def metrics(self, owner: SimulatedEngine | SimulatedRouter[Any]) -> str:
        """The exposition of an engine or a router."""
        base = owner.url if isinstance(owner, SimulatedEngine) else owner.metrics.url
        return (await self.get(f"{base}/metrics"))[1]


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """A bench whose processes are all gone afterwards."""
    async with Background() as background, aiohttp.ClientSession() as session:
        made = Bench(background, session)
        try:
            yield made
        finally:
            for router in made.routers:
                await router.close()
            for engine in made.engines:
                await engine.close()


async def until(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Wait until a condition holds; fails by naming what never came."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {seconds} s") from None


def samples(text: str, name: str, **labels: str) -> list[float]:
    """The values of a sample whose labels include those given."""
    return [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def total(text: str, name: str, **labels: str) -> float:
    """The sum of a sample's values; fails when there is none, because absent is not 0."""
    found = samples(text, name, **labels)
    assert found, f"no sample {name} with {labels}"
    return sum(found)
