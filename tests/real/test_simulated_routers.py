"""The simulated routers against the real ones: the same calls to equal engines move the same counters equally far."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from observer.simulate.workers import DECODE, PREFILL, WorkerAddress
from tests.real.routers import real_router
from tests.simulate.harness import Bench, bench
from tests.simulate.shapes import differences

pytestmark = pytest.mark.real
ENGINES = {"sglang_gateway": "sglang", "vllm_router": "vllm"}
PROBES = ("/v1/models", "/server_info", "/get_server_info", "/get_model_info", "/readiness", "/liveness", "/health")
# Health rounds and readiness asked too early belong to the start-up, whose length depends on the machine.
START_UP = ("worker_health_checks", "smg_http_responses_total status_code=503")
LEFT_OUT = ("worker_health_checks", "_created", "http_request_duration", "backoff")


def moved(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Counters and the counts of distributions, summed over workers."""
    found: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            counted = family.type == "counter" or sample.name.endswith("_count")
            if counted and family.type != "gauge" and not any(part in sample.name for part in LEFT_OUT):
                labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "worker"))
                found[sample.name, labels] += sample.value
    return {key: value for key, value in found.items() if value}


async def drive(
    made: Bench, api: str, engines: list[Any], failing: list[Any], software: str, more: tuple[int, ...]
) -> list[int]:
    """The same calls for both; ``more`` are errors that workers answer beside 500. Returns the statuses seen."""
    statuses = [await made.post(api, stream=number % 2 == 0) for number in range(6)]
    statuses += [await made.post(api, "/v1/completions") for _ in range(2)]
    if software == "sglang":
        statuses.append(await made.post(api, "/generate", text="one two", model=None))
    statuses.append(await made.post(api, max_tokens=100_000))
    statuses.append(await made.post(api, messages=None))
    for path in PROBES:
        statuses.append((await made.get(api + path))[0])
    for engine in failing:
        engine.behaviour.error_rate = 1.0
    statuses += [await made.post(api) for _ in range(2)]
    statuses.append(await made.post(api, "/v1/completions"))
    for status in more:
        for engine in failing:
            engine.behaviour.error_status = status
        statuses += [await made.post(api) for _ in range(2)]
    for engine in failing:
        engine.behaviour.steady()
    statuses += [await made.post(api) for _ in range(2)]
    for engine in engines:
        await engine.die()
    statuses += [await made.post(api) for _ in range(2)]
    await asyncio.sleep(0.3)
    return statuses


@pytest.mark.parametrize("pair", [False, True], ids=["regular", "pairs"])
@pytest.mark.parametrize("kind", ENGINES)
async def test_the_same_calls_move_the_same_counters(kind: str, pair: bool, tmp_path: Path) -> None:
    software = ENGINES[kind]
    more = () if pair else (408, 429, 501, 503, 504, 403)
    seen: list[tuple[list[int], dict[Any, float]]] = []
    texts: list[str] = []
    for real in (True, False):
        async with bench() as made:
            prefill = await made.started(2, software, kind="Prefill") if pair else []
            others = await made.started(2 if pair else 3, software, kind="Decode" if pair else "Server")
            engines = [*prefill, *others]
            if real:
                urls = [engine.url for engine in others]
                split = {"prefill": [engine.url for engine in prefill], "decode": urls} if pair else {}
                flags = {"cb_failure_threshold": "1000", "health_check_interval_secs": "60"}
                async with real_router(kind, [] if pair else urls, tmp_path, **split, **flags) as router:
                    async with asyncio.timeout(10):
                        while len((await made.json(f"{router.api}/workers"))["workers"]) < len(engines):
                            await asyncio.sleep(0.05)
                    before = moved((await made.get(f"{router.metrics}/metrics"))[1])
                    statuses = await drive(made, router.api, engines, others, software, more)
                    text = (await made.get(f"{router.metrics}/metrics"))[1]
            else:
                workers = [WorkerAddress(engine.url, PREFILL, 8998) for engine in prefill]
                workers += [WorkerAddress(engine.url, DECODE if pair else "regular") for engine in others]
                simulated = await made.router(kind, workers, health_interval=600.0, breaker_failures=1000)
                before = moved(await made.metrics(simulated))
                statuses = await drive(made, simulated.api.url, engines, others, software, more)
                text = await made.metrics(simulated)
            texts.append(text)
            after = moved(text)
            change = {key: value - before.get(key, 0.0) for key, value in after.items()}
            seen.append((statuses, {key: value for key, value in change.items() if value}))
    (real_statuses, real_moved), (simulated_statuses, simulated_moved) = seen
    assert simulated_statuses == real_statuses
    for moves in (real_moved, simulated_moved):
        for key in [key for key in moves if "/readiness" in dict(key[1]).values()]:
            del moves[key]  # how often the start-up asks depends on the machine
        for key in [key for key in moves if key[0] == "smg_http_responses_total" and ("status_code", "200") in key[1]]:
            del moves[key]
    assert simulated_moved == real_moved
    facts = differences(recorded=texts[0], simulated=texts[1])
    assert {fact for fact in facts if not any(part in fact for part in START_UP)} == set()
