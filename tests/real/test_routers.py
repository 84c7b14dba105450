"""The real routers route to simulated engines, list them, and expose the series that their recordings show."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.real.routers import change_worker, listed, real_router
from tests.simulate.harness import bench, samples, total, until

pytestmark = pytest.mark.real
ENGINES = {"sglang_gateway": "sglang", "vllm_router": "vllm"}
SUCCESSES = {
    "sglang_gateway": ("smg_router_requests_total", {"endpoint": "chat"}),
    "vllm_router": ("vllm_router_requests_total", {"route": "/v1/chat/completions"}),
}
OUTCOMES = {"sglang_gateway": "smg_worker_cb_outcomes_total", "vllm_router": "vllm_router_cb_outcomes_total"}


@pytest.mark.parametrize("kind", ENGINES)
async def test_it_routes_to_simulated_engines_and_shows_it(kind: str, tmp_path: Path) -> None:
    async with bench() as made:
        engines = await made.started(3, ENGINES[kind])
        urls = {engine.url for engine in engines}
        async with real_router(kind, sorted(urls), tmp_path) as router:
            listed: set[str] = set()
            async with asyncio.timeout(10):
                while listed != urls:
                    listed = {row["url"] for row in (await made.json(f"{router.api}/workers"))["workers"]}
            statuses = [await made.post(router.api, stream=n % 2 == 0) for n in range(9)]
            assert statuses == [200] * 9
            assert [engine.answers[200] for engine in engines] == [3, 3, 3]
            text = (await made.get(f"{router.metrics}/metrics"))[1]
            name, labels = SUCCESSES[kind]
            assert total(text, name, **labels) == 9
            assert total(text, OUTCOMES[kind], outcome="success") == 9


@pytest.mark.parametrize("kind", ENGINES)
async def test_it_pairs_prefill_with_decode(kind: str, tmp_path: Path) -> None:
    async with bench() as made:
        prefill = await made.started(1, ENGINES[kind], kind="Prefill")
        decode = await made.started(1, ENGINES[kind], kind="Decode")
        pair = {"prefill": [prefill[0].url], "decode": [decode[0].url]}
        async with real_router(kind, [], tmp_path, **pair) as router:
            assert [await made.post(router.api) for _ in range(4)] == [200] * 4
            assert prefill[0].answers[200] >= 4
            assert decode[0].answers[200] == 4
            text = (await made.get(f"{router.metrics}/metrics"))[1]
            name = "smg_router_requests_total" if kind == "sglang_gateway" else "vllm_router_pd_requests_total"
            assert total(text, name) == 4


@pytest.mark.parametrize("kind", ENGINES)
async def test_a_dead_engine_becomes_unhealthy_and_a_circuit_shows_in_the_metrics_only(
    kind: str, tmp_path: Path
) -> None:
    state = "smg_worker_cb_state" if kind == "sglang_gateway" else "vllm_router_cb_state"
    async with bench() as made:
        engines = await made.started(3, ENGINES[kind])
        async with real_router(kind, [engine.url for engine in engines], tmp_path) as router:
            await until_listed(made, router.api, 3)
            engines[0].behaviour.error_rate = 1.0
            for _ in range(9):
                assert await made.post(router.api) == 200
            text = (await made.get(f"{router.metrics}/metrics"))[1]
            assert samples(text, state, worker=engines[0].url) == [1.0]
            rows = (await made.json(f"{router.api}/workers"))["workers"]
            assert {row["url"]: row["is_healthy"] for row in rows}[engines[0].url] is True
            await engines[1].die()
            healthy = True
            async with asyncio.timeout(15):
                while healthy:
                    await asyncio.sleep(0.1)
                    rows = (await made.json(f"{router.api}/workers"))["workers"]
                    healthy = {row["url"]: row["is_healthy"] for row in rows}[engines[1].url]


@pytest.mark.parametrize("kind", ENGINES)
async def test_workers_are_added_and_removed_and_their_series_stay(kind: str, tmp_path: Path) -> None:
    health = "smg_worker_health" if kind == "sglang_gateway" else "vllm_router_worker_health"
    async with bench() as made:
        engines = await made.started(3, ENGINES[kind])
        async with real_router(kind, [engine.url for engine in engines[:2]], tmp_path) as router:
            await until_listed(made, router.api, 2)
            await change_worker(router, made.session, engines[2].url, add=True)
            for _ in range(6):
                assert await made.post(router.api) == 200
            assert engines[2].answers[200] > 0
            await change_worker(router, made.session, engines[0].url, add=False)
            text = (await made.get(f"{router.metrics}/metrics"))[1]
            assert samples(text, health, worker=engines[0].url) == [-1.0 if kind == "sglang_gateway" else 1.0]
            assert set(await listed(router, made.session)) == {engine.url for engine in engines[1:]}


async def until_listed(made, api: str, count: int) -> None:
    async with asyncio.timeout(10):
        while len((await made.json(f"{api}/workers"))["workers"]) != count:
            await asyncio.sleep(0.05)


def test_nothing_is_waited_for_forever() -> None:
    async def never() -> None:
        await until(lambda: False, "what never comes", seconds=0.01)

    with pytest.raises(AssertionError, match="what never comes"):
        asyncio.run(never())
