"""What the observer publishes of real routers against what clients saw: failures are the 5xx answers, nothing else.

Traffic of every kind runs after the observer's baseline read: good calls, whole and streamed; calls that fail on every
worker; calls that a worker refuses; bodies the router refuses; clients that leave before and inside an answer; streams
that break; probes that must not count. The numbers come from the metrics document of the observer's HTTP API.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from router_contract.catalog import lookup
from router_contract.targets import Component
from tests.real.observed import ENGINES, Observed, observed
from tests.real.routers import RealRouter, real_router
from tests.simulate.harness import PROMPT, Bench, bench

pytestmark = pytest.mark.real
THIS = "tests/real/test_router_counters.py"
PROBES = ("/v1/models", "/server_info", "/get_model_info", "/health", "/metrics", "/workers")
LONG = 1500


@dataclass
class Seen:
    """What clients saw on inference calls, and what the router passed on of it."""

    answers: Counter[int] = field(default_factory=Counter)
    left: int = 0
    own: int = 0
    unpaired: int = 0

    def count(self, hundred: int) -> int:
        return sum(number for status, number in self.answers.items() if status // 100 == hundred)

    @property
    def forwarded(self) -> int:
        """4xx answers that came from a worker."""
        return self.count(4) - self.own


class Traffic:
    """Drives one router and books what its clients see."""

    def __init__(self, made: Bench, router: RealRouter, engines: Sequence[Any], failing: Sequence[Any]) -> None:
        self._made = made
        self._router = router
        self._engines = engines
        self._failing = failing
        self.seen = Seen()

    async def calls(self, count: int, path: str = "/v1/chat/completions", **body: Any) -> None:
        for number in range(count):
            status = await self._made.post(self._router.api, path, **({"stream": number % 2 == 1} | body))
            self.seen.answers[status] += 1

    async def _running(self) -> None:
        async with asyncio.timeout(10):
            while not any(rank.running for engine in self._engines for rank in engine.core.ranks):
                await asyncio.sleep(0.002)

    async def leave(self) -> None:
        """A client that goes away while a worker computes its answer."""
        call = asyncio.ensure_future(self._made.post(self._router.api, max_tokens=LONG))
        await self._running()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        self.seen.left += 1

    async def _stream(self) -> aiohttp.ClientResponse:
        body = {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": LONG, "stream": True}
        answer = await self._made.session.post(f"{self._router.api}/v1/chat/completions", json=body)
        assert await answer.content.readany()
        self.seen.answers[answer.status] += 1
        return answer

    async def leave_stream(self) -> None:
        """A client that saw 200 and goes away inside its stream."""
        (await self._stream()).close()

    async def failing(self, count: int, status: int = 500) -> None:
        for engine in self._failing:
            engine.behaviour.error_rate, engine.behaviour.error_status = 1.0, status
        await self.calls(count)
        await self.calls(1, "/v1/completions")
        for engine in self._failing:
            engine.behaviour.steady()

    async def probes(self) -> None:
        for path in PROBES:
            await self._made.get(self._router.api + path)

    async def nobody(self) -> None:
        """Every worker dies inside a stream: first connections fail, then the router knows."""
        answer = await self._stream()
        for engine in self._engines:
            await engine.die()
        with pytest.raises(aiohttp.ClientError):
            await answer.read()
        await self.calls(2)
        async with asyncio.timeout(20):
            while (await self._made.get(f"{self._router.api}/readiness"))[0] != 503:
                await asyncio.sleep(0.1)
        before = self.seen.answers[503]
        await self.calls(2)
        self.seen.unpaired += self.seen.answers[503] - before

    async def refused(self) -> None:
        """A worker refuses two calls; the router itself refuses one."""
        await self.calls(2, max_tokens=100_000)
        await self.calls(1, messages=None)
        self.seen.own += 1

    async def everything(self) -> None:
        await self.calls(5)
        await self.calls(2, "/v1/completions")
        await self.probes()
        await self.failing(3)
        await self.refused()
        await self.leave()
        await self.leave_stream()
        await self.calls(3)
        await self.probes()
        await self.nobody()


def entry(document: Any, name: str) -> Any:
    """The router's entry of a metrics document; fails by showing what is missing instead."""
    found = [each for each in document.get("traffic", ()) if each["name"] == name and each["scope"] == "router"]
    assert len(found) == 1, f"{name}: {found} {document.get('missing')}"
    return found[0]


async def counted(seen: Observed) -> Any:
    """The metrics document once the router's counters stand still."""
    await seen.reads(2)
    last: Any = None
    async with asyncio.timeout(10):
        while True:
            document = await seen.get("metrics")
            now = {each["name"]: each["samples"] for each in document["traffic"] if each["scope"] == "router"}
            if now == last:
                return document
            last = now
            await seen.reads(1)


async def baseline(seen: Observed) -> None:
    """Two reads, and nothing counted in them that would stand in the way of a known number."""
    await seen.reads(2)
    names = {each["name"]: each["samples"] for each in (await seen.get("metrics")).get("traffic", ())}
    assert not any(names.get(name) for name in ("requests", "failed-requests"))


def proves_its_rows(kind: str, seen: Observed, *names: str) -> None:
    """The rows of the table that name this file were read from the running program by their own names and labels."""
    rows = [term for term in lookup(Component.ROUTER, kind).terms if term.proven_by == THIS and term.name in names]
    assert {term.name for term in rows} == set(names)
    text = seen.watcher.bodies[-1]
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    for term in rows:
        found = [sample for sample in samples if sample.name == term.name]
        assert found, f"{term.name} was not exported"
        assert all(wire in sample.labels for sample in found for _, wire in term.keep), found


def say(kind: str, mode: str, seen: Seen, document: Any) -> None:
    failed, requests = entry(document, "failed-requests"), entry(document, "requests")
    beside = seen.forwarded + seen.left if kind == "sglang_gateway" else 0
    least = f", at least {failed['atLeast'] * failed['windowSeconds']:g}" if "atLeast" in failed else ""
    print(
        f"figure: {kind} {mode}: clients saw {dict(sorted(seen.answers.items()))} and {seen.left} left; "
        f"failed-requests {failed['samples']:g}{least}, requests {requests['samples']:g}, "
        f"of them {beside} 4xx or left"
    )


Roles = Mapping[str, Sequence[Any]]


async def regular(made: Bench, kind: str) -> tuple[Roles, dict[str, Any]]:
    engines = await made.started(3, ENGINES[kind])
    return {"Server": engines}, {"engines": [engine.url for engine in engines]}


async def pair(made: Bench, kind: str) -> tuple[Roles, dict[str, Any]]:
    prefill = await made.started(2, ENGINES[kind], kind="Prefill")
    decode = await made.started(2, ENGINES[kind], kind="Decode")
    urls = {"prefill": [engine.url for engine in prefill], "decode": [engine.url for engine in decode]}
    return {"Prefill": prefill, "Decode": decode}, {"engines": [], **urls}


SHAPES = {"regular": regular, "pair": pair}


@pytest.mark.parametrize("mode", SHAPES)
@pytest.mark.parametrize("kind", ENGINES)
async def test_failures_are_the_5xx_answers_and_requests_are_all_that_was_dispatched(
    kind: str, mode: str, tmp_path: Path
) -> None:
    async with bench() as made:
        roles, where = await SHAPES[mode](made, kind)
        async with (
            real_router(kind, folder=tmp_path, cb_failure_threshold="1000", **where) as router,
            observed(router, roles, tmp_path) as seen,
        ):
            await baseline(seen)
            engines = [engine for several in roles.values() for engine in several]
            traffic = Traffic(made, router, engines, roles.get("Decode", engines))
            await traffic.everything()
            document = await counted(seen)
            clients = traffic.seen
            say(kind, mode, clients, document)
            if mode == "pair" and kind == "vllm_router":
                proves_its_rows(kind, seen, "vllm_router_pd_errors_total", "vllm_router_pd_decode_errors_total")
            if kind == "sglang_gateway":
                proves_its_rows(kind, seen, "smg_router_request_errors_total")
    failed, requests = entry(document, "failed-requests"), entry(document, "requests")
    assert clients.count(5) >= 8
    assert clients.forwarded == 2
    assert clients.left == 1
    if mode == "pair" and kind == "vllm_router":
        # A worker's 4xx moves the same counters as its 5xx: what is certain is what found no pair, and it is said.
        assert failed["samples"] == clients.count(5) + clients.forwarded
        assert failed["atLeast"] * failed["windowSeconds"] == pytest.approx(clients.unpaired)
        assert requests["samples"] == clients.count(2) + clients.count(5) + clients.forwarded
        return
    assert "atLeast" not in failed
    assert failed["samples"] == clients.count(5)
    included = clients.forwarded + clients.left if kind == "sglang_gateway" else 0
    assert requests["samples"] == clients.count(2) + clients.count(5) + included
    assert entry(document, "error-ratio")["value"] == pytest.approx(failed["samples"] / requests["samples"])


async def test_failures_of_a_vllm_router_pair_are_the_5xx_where_no_worker_refuses(tmp_path: Path) -> None:
    async with bench() as made:
        roles, where = await pair(made, "vllm_router")
        async with (
            real_router("vllm_router", folder=tmp_path, **where) as router,
            observed(router, roles, tmp_path) as seen,
        ):
            await baseline(seen)
            halves = [Traffic(made, router, roles[half], roles[half]) for half in ("Prefill", "Decode")]
            for traffic in halves:
                await traffic.calls(2)
                await traffic.failing(2)
            await halves[1].leave()
            document = await counted(seen)
            proves_its_rows("vllm_router", seen, "vllm_router_pd_prefill_errors_total")
    failed, requests = entry(document, "failed-requests"), entry(document, "requests")
    broken = sum(traffic.seen.count(5) for traffic in halves)
    say("vllm_router", "pair, no refusal", Seen(sum((each.seen.answers for each in halves), Counter()), 1), document)
    assert failed["samples"] == broken == 6
    assert requests["samples"] == broken + sum(traffic.seen.count(2) for traffic in halves)
    assert failed["atLeast"] == 0, "nobody can tell that none of them was a refusal, so it is said"


@pytest.mark.parametrize("kind", ENGINES)
async def test_what_is_retried_and_what_is_not_is_counted_or_said(kind: str, tmp_path: Path) -> None:
    """408 and 429 are retried like failures, other 5xx than 500, 502, 503, 504 are not."""
    async with bench() as made:
        roles, where = await regular(made, kind)
        async with (
            real_router(kind, folder=tmp_path, cb_failure_threshold="1000", **where) as router,
            observed(router, roles, tmp_path) as seen,
        ):
            await baseline(seen)
            traffic = Traffic(made, router, roles["Server"], roles["Server"])
            await traffic.calls(4)
            await traffic.failing(2, 503)
            await traffic.failing(1, 501)
            document = await counted(seen)
            failed = entry(document, "failed-requests")
            # The vLLM router counts a 501 with the 4xx that it passes on: those it never calls failures.
            assert failed["samples"] == (5 if kind == "sglang_gateway" else 3)
            assert "atLeast" not in failed
            await traffic.failing(1, 429)
            document = await counted(seen)
    failed = entry(document, "failed-requests")
    say(kind, "408 and 429", traffic.seen, document)
    assert (traffic.seen.count(5), traffic.seen.answers[429]) == (5, 2)
    assert failed["samples"] == (7 if kind == "sglang_gateway" else 5)
    least = failed["atLeast"] * failed["windowSeconds"]
    assert least <= failed["samples"] - 2 + 1e-6 or kind == "vllm_router"
    assert least < failed["samples"]
