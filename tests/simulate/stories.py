"""The lives that the recordings were taken from, lived by simulated programs: recording name to simulated body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from observer.simulate.workers import DECODE, PREFILL, WorkerAddress
from tests.simulate.harness import Bench, until

Bodies = dict[str, str]
Story = Callable[[Bench], Awaitable[Bodies]]
API_PATHS = (
    "/workers", "/get_loads", "/list_workers", "/health", "/readiness", "/liveness", "/v1/models", "/get_server_info",
    "/server_info", "/get_model_info", "/model_info", "/engine_metrics", "/metrics", "/health_generate",
)  # fmt: skip


async def ask_engine(bench: Bench, url: str) -> None:
    for stream in (False, True):
        for tokens in (3, 4):
            await bench.post(url, stream=stream, max_tokens=tokens)
    await bench.post(url, "/v1/completions")
    await bench.post(url, "/v1/completions", prompt=None)
    for path in ("/v1/models", "/v1/loads", "/kv_event_sources"):
        await bench.get(url + path)


async def vllm(bench: Bench) -> Bodies:
    (engine,) = await bench.started(1)
    bodies = {"vllm-0.32.0/metrics-01-fresh.prom": await bench.metrics(engine)}
    await ask_engine(bench, engine.url)
    warm = await bench.metrics(engine)
    bodies |= {f"vllm-0.32.0/metrics-{name}.prom": warm for name in ("02-warm", "03-load", "04-load", "05-load")}
    (double,) = await bench.started(1, dp_size=2, block_size=32, num_blocks=400)
    await bench.get(f"{double.url}/kv_event_sources")
    bodies["vllm-0.32.0/metrics-10-dp2-fresh.prom"] = await bench.metrics(double)
    await ask_engine(bench, double.url)
    bodies["vllm-0.32.0/metrics-13-dp2-idle.prom"] = await bench.metrics(double)
    return bodies


async def sglang(bench: Bench) -> Bodies:
    (engine,) = await bench.started(1, "sglang")
    bodies = {"sglang-0.5.23/metrics-01-fresh.prom": await bench.metrics(engine)}
    await ask_engine(bench, engine.url)
    warm = await bench.metrics(engine)
    bodies |= {f"sglang-0.5.23/metrics-{name}.prom": warm for name in ("02-warm", "03-load", "04-load")}
    leaving = asyncio.ensure_future(bench.post(engine.url, max_tokens=2000))
    await until(lambda: engine.core.ranks[0].running > 0, "a running request")
    leaving.cancel()
    await until(lambda: engine.disconnects > 0, "the disconnect")
    async with bench.session.post(f"{engine.url}/flush_cache") as response:
        await response.read()
    bodies["sglang-0.5.23/metrics-05-after-abort-flush.prom"] = await bench.metrics(engine)
    (double,) = await bench.started(1, "sglang", dp_size=2)
    bodies["sglang-0.5.23/metrics-10-dp2-fresh.prom"] = await bench.metrics(double)
    return bodies


async def look_around(bench: Bench, router: Any) -> None:
    for path in API_PATHS:
        await bench.get(router.api.url + path)


async def chats(bench: Bench, router: Any, count: int, **body: Any) -> list[int]:
    return [await bench.post(router.api.url, **body) for _ in range(count)]


async def change_worker(bench: Bench, router: Any, url: str, *, add: bool) -> None:
    base = router.api.url
    if router.spec.software == "vllm_router":
        path = "add_worker" if add else "remove_worker"
        call = bench.session.post(f"{base}/{path}", params={"url": url})
    elif add:
        call = bench.session.post(f"{base}/workers", json={"url": url})
    else:
        (identity,) = [row["id"] for row in (await bench.json(f"{base}/workers"))["workers"] if row["url"] == url]
        call = bench.session.delete(f"{base}/workers/{identity}")
    async with call as response:
        assert response.status in (200, 202)
    await until(lambda: router.workers.known(url) is add, "the changed worker set")


async def _regular(bench: Bench, software: str, engine: str, folder: str) -> Bodies:
    bodies: Bodies = {}

    async def keep(number: str) -> None:
        bodies[f"{folder}/metrics-{number}.prom"] = await bench.metrics(router)

    engines = await bench.started(3, engine)
    router = await bench.router(
        software, [WorkerAddress(each.url) for each in engines], health_interval=600.0, failure_threshold=1
    )
    await bench.get(f"{router.api.url}/readiness")
    await keep("01-fresh")
    await look_around(bench, router)
    await asyncio.gather(*(router._check(worker) for worker in router.workers))
    await chats(bench, router, 6)
    await chats(bench, router, 2, stream=True)
    await bench.post(router.api.url, "/v1/completions")
    await bench.post(router.api.url, "/generate", model=None, text="one two")
    await keep("02-traffic")
    await keep("03-inflight")
    router.started_at -= 20.0
    engines[1].behaviour.error_rate = 1.0
    await chats(bench, router, 12)
    await keep("04-errors500")
    for each in engines:
        each.behaviour.error_rate = 1.0
    assert await chats(bench, router, 3) == [500, 500, 500]
    await look_around(bench, router)
    for each in engines:
        each.behaviour.error_rate = 0.0
    await asyncio.sleep(router.spec.breaker_open_seconds)
    await chats(bench, router, 3)
    await keep("06-recovered")
    await chats(bench, router, 9)
    await bench.post(router.api.url, messages=None)
    await engines[2].die()
    await chats(bench, router, 3)
    await keep("07-dead-just")
    return bodies


async def _cache_aware(bench: Bench, software: str, engine: str, folder: str) -> Bodies:
    bodies: Bodies = {}

    async def keep(number: str) -> None:
        bodies[f"{folder}/metrics-{number}.prom"] = await bench.metrics(router)

    engines = await bench.started(3, engine)
    first = [WorkerAddress(each.url) for each in engines[:2]]
    router = await bench.router(software, first, policy="cache_aware", health_interval=600.0, failure_threshold=1)
    await bench.get(f"{router.api.url}/readiness")
    for each in engines:
        each.behaviour.stall()
    busy = [asyncio.ensure_future(bench.post(router.api.url, stream=n == 0)) for n in range(3)]
    await until(lambda: sum(worker.active for worker in router.workers) == 3, "three active requests")
    await keep("11-cacheaware-inflight")
    for each in engines:
        each.behaviour.steady()
    await asyncio.gather(*busy)
    await asyncio.gather(*(router._check(worker) for worker in router.workers))
    await look_around(bench, router)
    await chats(bench, router, 4)
    await keep("12-cacheaware-idle")
    await change_worker(bench, router, engines[2].url, add=True)
    await chats(bench, router, 4)
    await keep("13-worker-added")
    router.started_at -= 20.0
    if software == "sglang_gateway":
        await change_worker(bench, router, engines[1].url, add=False)
    for each in engines:
        await each.die()
    await asyncio.gather(*(router._check(worker) for worker in router.workers))
    assert await bench.post(router.api.url) == 503
    await keep("15-all-dead")
    return bodies


async def _pairs(bench: Bench, software: str, engine: str, folder: str) -> Bodies:
    bodies: Bodies = {}

    async def keep(number: str) -> None:
        bodies[f"{folder}/metrics-{number}.prom"] = await bench.metrics(router)

    prefill = await bench.started(2, engine, kind="Prefill")
    decode = await bench.started(2, engine, kind="Decode")
    workers = [WorkerAddress(each.url, PREFILL, 8998) for each in prefill]
    workers += [WorkerAddress(each.url, DECODE) for each in decode]
    router = await bench.router(
        software,
        workers,
        policy="cache_aware",
        decode_policy="power_of_two",
        health_interval=600.0,
        breaker_failures=100,
    )
    await bench.get(f"{router.api.url}/readiness")
    await keep("21-pd-fresh")
    await look_around(bench, router)
    await asyncio.gather(*(router._check(worker) for worker in router.workers))
    await chats(bench, router, 4)
    await chats(bench, router, 1, stream=True)
    await keep("22-pd-traffic")
    await chats(bench, router, 4)
    await keep("23-pd-inflight")
    for each in decode:
        each.behaviour.error_rate = 1.0
    await chats(bench, router, 3)
    await keep("24-pd-decode500")
    return bodies


async def gateway(bench: Bench) -> Bodies:
    folder = "sglang-router-0.3.2"
    bodies = await _regular(bench, "sglang_gateway", "sglang", folder)
    bodies |= await _cache_aware(bench, "sglang_gateway", "sglang", folder)
    pairs = await _pairs(bench, "sglang_gateway", "sglang", folder)
    bodies |= {name: body for name, body in pairs.items() if "23-" not in name}
    mixed = [*(await bench.started(1, "sglang")), *(await bench.started(1, "sglang", model="other"))]
    router = await bench.router(
        "sglang_gateway", [WorkerAddress(each.url) for each in mixed], policy="cache_aware", health_interval=600.0
    )
    await bench.get(f"{router.api.url}/readiness")
    await asyncio.gather(*(router._check(worker) for worker in router.workers))
    await chats(bench, router, 2)
    await chats(bench, router, 2, model="other")
    bodies[f"{folder}/metrics-30-two-models.prom"] = await bench.metrics(router)
    down = bench.engine("sglang")
    router = await bench.router("sglang_gateway", [WorkerAddress(down.url)], max_attempts=5)
    assert await bench.post(router.api.url) == 503
    bodies[f"{folder}/metrics-32-no-worker-up.prom"] = await bench.metrics(router)
    for number, software in (("41-realvllm-workers", "vllm"), ("51-realsglang-worker", "sglang")):
        engines = [bench.engine(software) for _ in range(2)]
        workers = [WorkerAddress(each.url) for each in engines]
        router = await bench.router("sglang_gateway", workers, policy="cache_aware", health_interval=600.0)
        if software == "sglang":
            assert (await bench.get(f"{router.api.url}/readiness"))[0] == 503
        for each in engines:
            await each.start()
        await router.register()
        await bench.get(f"{router.api.url}/readiness")
        await asyncio.gather(*(router._check(worker) for worker in router.workers))
        await chats(bench, router, 4)
        await bench.post(router.api.url, "/v1/completions")
        bodies[f"{folder}/metrics-{number}.prom"] = await bench.metrics(router)
    return bodies


async def vllm_router(bench: Bench) -> Bodies:
    folder = "vllm-router-0.1.17"
    bodies = await _regular(bench, "vllm_router", "sglang", folder)
    bodies |= await _cache_aware(bench, "vllm_router", "sglang", folder)
    pairs = await _pairs(bench, "vllm_router", "vllm", folder)
    bodies |= {name: body for name, body in pairs.items() if "24-" not in name}
    workers = [WorkerAddress(each.url) for each in await bench.started(2)]
    router = await bench.router("vllm_router", workers, policy="kv_aware", health_interval=600.0)
    bodies[f"{folder}/metrics-41-kvaware-realvllm-fresh.prom"] = await bench.metrics(router)
    await look_around(bench, router)
    for _ in range(3):
        await bench.post(router.api.url, "/v1/completions")
    bodies[f"{folder}/metrics-42-kvaware-realvllm-traffic.prom"] = await bench.metrics(router)
    workers = [WorkerAddress(each.url) for each in await bench.started(1, dp_size=2)]
    router = await bench.router(
        "vllm_router", workers, policy="cache_aware", dp_aware=True, dp_ranks=2, health_interval=600.0
    )
    for _ in range(3):
        await bench.post(router.api.url, "/v1/completions")
    bodies[f"{folder}/metrics-51-dp2.prom"] = await bench.metrics(router)
    return bodies


async def llm_d(bench: Bench) -> Bodies:
    bodies: Bodies = {}
    engines = await bench.started(2)
    workers = [WorkerAddress(each.url, pod=f"engine-{n}") for n, each in enumerate(engines)]
    old = await bench.router("llm_d", workers, version="0.8.0")
    await chats(bench, old, 2)
    bodies["synthetic/epp-v0.8-old-names.prom"] = await bench.metrics(old)
    router = await bench.router("llm_d", workers, health_interval=600.0)
    await chats(bench, router, 3, stream=True)
    loads, router._loads = router._loads, {}
    assert await bench.post(router.api.url) == 503
    router._loads = loads
    bodies["synthetic/epp-v0.10-both-names.prom"] = await bench.metrics(router)
    fresh = await bench.router("llm_d", [])
    bodies["synthetic/epp-v0.10-fresh-no-endpoints.prom"] = await bench.metrics(fresh)
    scaled = await bench.router("llm_d", workers, health_interval=600.0)
    for worker in list(scaled.workers):
        scaled.remove_worker(worker.address.url)
    bodies["synthetic/epp-v0.10-stale-averages-after-scale-to-zero.prom"] = await bench.metrics(scaled)
    return bodies


STORIES: dict[str, Story] = {
    "vllm": vllm,
    "sglang": sglang,
    "gateway": gateway,
    "vllm-router": vllm_router,
    "llm-d": llm_d,
}
