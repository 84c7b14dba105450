"""The real routers' counters against what clients saw: failures are the 5xx answers, requests all that was dispatched.

Traffic of every kind runs after a baseline read: good calls, whole and streamed; calls that fail on every worker;
calls that a worker refuses; bodies the router refuses; clients that leave; probes that must not count.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.real.routers import RealRouter, real_router
from tests.simulate.harness import Bench, bench, samples

pytestmark = pytest.mark.real
ENGINES = {"sglang_gateway": "sglang", "vllm_router": "vllm"}
INFERENCE = ("/v1/chat/completions", "/v1/completions", "/generate")
PROBES = ("/v1/models", "/server_info", "/get_model_info", "/health", "/metrics", "/workers")
LONG = 1500


@dataclass
class Seen:
    """What clients saw on inference calls."""

    answers: Counter[int] = field(default_factory=Counter)
    left: int = 0

    def count(self, hundred: int) -> int:
        return sum(number for status, number in self.answers.items() if status // 100 == hundred)


def _sum(text: str, name: str, **labels: str) -> float:
    """A counter since the router's start: absent at the baseline is 0 because the start is known."""
    return sum(samples(text, name, **labels))


def failures(text: str, kind: str, *, pd: bool) -> float:
    if kind == "sglang_gateway":
        name = "smg_worker_retries_exhausted_total"
        if pd:
            return max(_sum(text, name, worker_type=role) for role in ("prefill", "decode"))
        return _sum(text, name, worker_type="regular")
    if pd:
        names = ("pd_errors_total", "pd_prefill_errors_total", "pd_decode_errors_total")
        return sum(_sum(text, f"vllm_router_{name}") for name in names)
    return sum(_sum(text, "vllm_router_retries_exhausted_total", route=route) for route in INFERENCE)


def requests(text: str, kind: str, *, pd: bool) -> float:
    if kind == "sglang_gateway":
        return _sum(text, "smg_router_requests_total")
    if pd:
        return _sum(text, "vllm_router_pd_requests_total") + _sum(text, "vllm_router_pd_errors_total")
    good = sum(_sum(text, "vllm_router_requests_total", route=route) for route in INFERENCE)
    return good + failures(text, kind, pd=pd)


class Traffic:
    """Drives one router and books what its clients see."""

    def __init__(self, made: Bench, router: RealRouter, engines: list[Any], failing: list[Any]) -> None:
        self._made = made
        self._router = router
        self._engines = engines
        self._failing = failing
        self.seen = Seen()

    async def calls(self, count: int, path: str = "/v1/chat/completions", **body: Any) -> None:
        for number in range(count):
            status = await self._made.post(self._router.api, path, **({"stream": number % 2 == 1} | body))
            self.seen.answers[status] += 1

    async def leave(self) -> None:
        """A client that goes away while a worker computes its answer."""
        call = asyncio.ensure_future(self._made.post(self._router.api, max_tokens=LONG))
        async with asyncio.timeout(10):
            while not any(rank.running for engine in self._engines for rank in engine.core.ranks):
                await asyncio.sleep(0.002)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        self.seen.left += 1

    async def failing(self, count: int) -> None:
        for engine in self._failing:
            engine.behaviour.error_rate = 1.0
        await self.calls(count)
        await self.calls(1, "/v1/completions")
        for engine in self._failing:
            engine.behaviour.error_rate = 0.0

    async def probes(self) -> None:
        for path in PROBES:
            await self._made.get(self._router.api + path)

    async def nobody(self) -> None:
        """Every worker is gone: first connections fail, then the router knows."""
        for engine in self._engines:
            await engine.die()
        await self.calls(2)
        async with asyncio.timeout(20), aiohttp.ClientSession() as session:
            status = 200
            while status != 503:
                await asyncio.sleep(0.1)
                async with session.get(f"{self._router.api}/readiness") as answer:
                    status = answer.status
        await self.calls(2)

    async def everything(self, *, refused: bool) -> None:
        await self.calls(5)
        await self.calls(2, "/v1/completions")
        await self.probes()
        await self.failing(3)
        if refused:
            await self.calls(2, max_tokens=100_000, stream=False)
        await self.calls(1, messages=None)
        await self.leave()
        await self.calls(3)
        await self.probes()
        await self.nobody()


async def settled(made: Bench, router: RealRouter) -> str:
    """The exposition once it stands still."""
    last = ""
    async with asyncio.timeout(5):
        while True:
            text = (await made.get(f"{router.metrics}/metrics"))[1]
            calm = "\n".join(sorted(line for line in text.splitlines() if "health" not in line))
            if calm == last:
                return text
            last = calm
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("kind", ENGINES)
async def test_failures_are_the_5xx_answers_and_requests_are_all_that_was_dispatched(
    kind: str, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    async with bench() as made:
        engines = await made.started(3, ENGINES[kind])
        urls = [engine.url for engine in engines]
        async with real_router(kind, urls, tmp_path, cb_failure_threshold="1000") as router:
            baseline = await settled(made, router)
            assert failures(baseline, kind, pd=False) == requests(baseline, kind, pd=False) == 0
            traffic = Traffic(made, router, engines, engines)
            await traffic.everything(refused=True)
            text = await settled(made, router)
        seen = traffic.seen
        forwarded = sum(engine.answers[status] for engine in engines for status in (400, 404))
        assert seen.count(5) >= 8
        assert forwarded == 2
        assert seen.count(4) == forwarded + 1
        assert failures(text, kind, pd=False) == seen.count(5)
        included = forwarded + seen.left if kind == "sglang_gateway" else 0
        assert requests(text, kind, pd=False) == seen.count(2) + seen.count(5) + included
        record_property("figures", f"{kind}: {dict(seen.answers)}, left {seen.left}, included beside them {included}")


@pytest.mark.parametrize("kind", ENGINES)
async def test_the_same_holds_with_prefill_and_decode(kind: str, tmp_path: Path) -> None:
    async with bench() as made:
        prefill = await made.started(2, ENGINES[kind], kind="Prefill")
        decode = await made.started(2, ENGINES[kind], kind="Decode")
        pair = {"prefill": [engine.url for engine in prefill], "decode": [engine.url for engine in decode]}
        async with real_router(kind, [], tmp_path, cb_failure_threshold="1000", **pair) as router:
            baseline = await settled(made, router)
            assert failures(baseline, kind, pd=True) == requests(baseline, kind, pd=True) == 0
            traffic = Traffic(made, router, [*prefill, *decode], decode)
            await traffic.everything(refused=False)
            text = await settled(made, router)
        seen = traffic.seen
        assert seen.count(5) >= 8
        assert failures(text, kind, pd=True) == seen.count(5)
        included = seen.left if kind == "sglang_gateway" else 0
        assert requests(text, kind, pd=True) == seen.count(2) + seen.count(5) + included


async def test_the_vllm_router_counts_a_refusal_of_a_decode_worker_among_its_errors(tmp_path: Path) -> None:
    """So with prefill and decode its failures are an upper bound: a 4xx cannot be told apart there."""
    async with bench() as made:
        prefill = await made.started(1, "vllm", kind="Prefill")
        decode = await made.started(1, "vllm", kind="Decode")
        pair = {"prefill": [prefill[0].url], "decode": [decode[0].url]}
        async with real_router("vllm_router", [], tmp_path, **pair) as router:
            assert await made.post(router.api, max_tokens=100_000) == 400
            text = await settled(made, router)
        assert _sum(text, "vllm_router_pd_decode_errors_total") == 1
        assert _sum(text, "vllm_router_pd_requests_total") == 1
