"""Simulated routers at the HTTP level: worker lists, health, circuits, counters, pairs; what is seen and what is not."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from observer.simulate.workers import DECODE, ENCODE, PREFILL, WorkerAddress
from tests.simulate.harness import Bench, bench, samples, total, until

BOTH = ("vllm_router", "sglang_gateway")
ENGINE = {"vllm_router": "vllm", "sglang_gateway": "sglang", "llm_d": "vllm"}
PREFIX = {"vllm_router": "vllm_router", "sglang_gateway": "smg_worker"}
HEALTH = {"vllm_router": "vllm_router_worker_health", "sglang_gateway": "smg_worker_health"}


async def setting(made: Bench, software: str, count: int = 3, **spec: Any) -> tuple[Any, list[Any]]:
    engines = await made.started(count, ENGINE[software])
    workers = [WorkerAddress(engine.url, pod=engine.name) for engine in engines]
    return await made.router(software, workers, **spec), engines


async def rows(made: Bench, router: Any) -> dict[str, dict[str, Any]]:
    return {row["url"]: row for row in (await made.json(f"{router.api.url}/workers"))["workers"]}


@pytest.mark.parametrize("software", BOTH)
async def test_round_robin_spreads_evenly_and_counters_equal_the_truth(software: str) -> None:
    async with bench() as made:
        router, engines = await setting(made, software)
        assert [await made.post(router.api.url, stream=n % 2 == 0) for n in range(9)] == [200] * 9
        assert [engine.answers[200] for engine in engines] == [3, 3, 3]
        text = await made.metrics(router)
        for engine in engines:
            assert total(text, f"{PREFIX[software]}_cb_outcomes_total", worker=engine.url, outcome="success") == 3


@pytest.mark.parametrize("software", BOTH)
async def test_a_dead_worker_stays_listed_and_becomes_unhealthy(software: str) -> None:
    async with bench() as made:
        router, engines = await setting(made, software)
        await engines[0].die()
        await until(lambda: not router.workers.all[0].healthy, "an unhealthy worker")
        found = await rows(made, router)
        assert len(found) == 3
        assert found[engines[0].url]["is_healthy"] is False
        assert total(await made.metrics(router), HEALTH[software], worker=engines[0].url) == 0
        assert (await made.json(f"{router.api.url}/readiness"))["healthy_workers"] == 2
        status = (await made.get(f"{router.api.url}/health"))[0]
        assert status == (503 if software == "vllm_router" else 200)
        await engines[0].start()
        await until(lambda: router.workers.all[0].healthy, "a healthy worker again")


@pytest.mark.parametrize("software", BOTH)
async def test_a_circuit_opens_in_the_metrics_only_and_closes_again(software: str) -> None:
    async with bench() as made:
        router, engines = await setting(made, software, breaker_open_seconds=0.1)
        engines[0].behaviour.error_rate = 1.0
        statuses = [await made.post(router.api.url) for _ in range(9)]
        assert statuses == [200] * 9
        state = f"{PREFIX[software]}_cb_state"
        assert total(await made.metrics(router), state, worker=engines[0].url) == 1
        assert (await rows(made, router))[engines[0].url]["is_healthy"] is True
        assert (await made.json(f"{router.api.url}/readiness"))["healthy_workers"] == 3
        engines[0].behaviour.error_rate = 0.0
        await asyncio.sleep(0.12)
        for _ in range(9):
            await made.post(router.api.url)
        assert total(await made.metrics(router), state, worker=engines[0].url) == 0


async def test_the_vllm_router_shows_failed_calls_in_retries_only() -> None:
    async with bench() as made:
        router, engines = await setting(made, "vllm_router", breaker_failures=100)
        for engine in engines:
            engine.behaviour.error_rate = 1.0
        assert [await made.post(router.api.url) for _ in range(3)] == [500] * 3
        text = await made.metrics(router)
        assert total(text, "vllm_router_retries_exhausted_total", route="/v1/chat/completions") == 3
        assert samples(text, "vllm_router_requests_total") == []
        assert samples(text, "vllm_router_request_errors_total") == []
        assert total(text, "vllm_router_processed_requests_total") == 6


async def test_the_gateway_counts_every_request_at_arrival() -> None:
    async with bench() as made:
        router, engines = await setting(made, "sglang_gateway", breaker_failures=100)
        for engine in engines:
            engine.behaviour.error_rate = 1.0
        assert [await made.post(router.api.url) for _ in range(3)] == [500] * 3
        assert await made.post(router.api.url, messages=None) == 400
        text = await made.metrics(router)
        assert total(text, "smg_router_requests_total") == 3
        assert total(text, "smg_worker_retries_exhausted_total") == 3
        assert total(text, "smg_router_upstream_responses_total", status_code="500") == 6
        assert samples(text, "smg_router_request_errors_total") == []


async def test_a_refusal_of_a_worker_is_an_error_but_no_failure() -> None:
    async with bench() as made:
        router, _ = await setting(made, "sglang_gateway")
        assert await made.post(router.api.url, max_tokens=100_000) == 400
        text = await made.metrics(router)
        assert total(text, "smg_router_request_errors_total", error_type="validation_error") == 1
        assert samples(text, "smg_worker_retries_exhausted_total") == []
        assert total(text, "smg_worker_cb_outcomes_total", outcome="failure") == 1
        router, _ = await setting(made, "vllm_router")
        assert await made.post(router.api.url, max_tokens=100_000) == 400
        text = await made.metrics(router)
        assert total(text, "vllm_router_request_errors_total", error_type="non_retryable_error") == 1
        assert samples(text, "vllm_router_requests_total") == []


@pytest.mark.parametrize("software", BOTH)
async def test_running_shows_with_the_policies_that_look_at_it_only(software: str) -> None:
    name = "vllm_router_running_requests" if software == "vllm_router" else "smg_worker_requests_active"
    async with bench() as made:
        for policy, shown in (("round_robin", False), ("cache_aware", True)):
            router, engines = await setting(made, software, policy=policy)
            for engine in engines:
                engine.behaviour.stall()
            call = asyncio.ensure_future(made.post(router.api.url))
            await until(lambda router=router: any(worker.active for worker in router.workers), "an active request")
            found = samples(await made.metrics(router), name)
            assert found == ([1.0] if shown else [])
            for engine in engines:
                engine.behaviour.steady()
            assert await call == 200


async def test_removed_workers_leave_minus_one_at_the_gateway_and_one_at_the_vllm_router() -> None:
    async with bench() as made:
        gateway, engines = await setting(made, "sglang_gateway")
        gateway.remove_worker(engines[1].url)
        text = await made.metrics(gateway)
        assert total(text, "smg_worker_health", worker=engines[1].url) == -1
        assert total(text, "smg_worker_cb_state", worker=engines[1].url) == -1
        assert total(text, "smg_worker_pool_size") == 2
        assert engines[1].url not in await rows(made, gateway)
        router, engines = await setting(made, "vllm_router")
        async with made.session.post(f"{router.api.url}/remove_worker", params={"url": engines[1].url}) as response:
            assert response.status == 200
        text = await made.metrics(router)
        assert total(text, "vllm_router_worker_health", worker=engines[1].url) == 1
        assert total(text, "vllm_router_active_workers") == 2


async def test_a_worker_that_never_came_up_is_absent_at_one_router_and_unhealthy_at_the_other() -> None:
    async with bench() as made:
        (up,), down = await made.started(1, "sglang"), made.engine("sglang")
        workers = [WorkerAddress(up.url), WorkerAddress(down.url)]
        gateway = await made.router("sglang_gateway", workers)
        assert set(await rows(made, gateway)) == {up.url}
        router = await made.router("vllm_router", workers)
        assert (await rows(made, router))[down.url]["is_healthy"] is False
        await down.start()
        await until(lambda: len(gateway.workers) == 2, "the late worker")


async def test_with_no_worker_up_one_api_refuses_and_the_other_is_not_ready() -> None:
    async with bench() as made:
        down = made.engine("sglang")
        router = await made.router("vllm_router", [WorkerAddress(down.url)])
        assert not router.api.listening
        assert total(await made.metrics(router), "vllm_router_active_workers") == 1
        gateway = await made.router("sglang_gateway", [WorkerAddress(down.url)])
        assert (await made.get(f"{gateway.api.url}/readiness"))[0] == 503
        assert await rows(made, gateway) == {}
        assert samples(await made.metrics(gateway), "smg_worker_health") == []
        await down.start()
        await until(lambda: router.api.listening, "the API")


async def test_probes_move_the_vllm_routers_counters() -> None:
    async with bench() as made:
        router, engines = await setting(made, "vllm_router")
        status, body = await made.get(f"{router.api.url}/metrics")
        assert (status, "vllm:num_requests_running" in body) == (200, True)
        text = await made.metrics(router)
        assert total(text, "vllm_router_policy_decisions_total") == 1
        assert total(text, "vllm_router_requests_total", route="/metrics") == 1
        assert sum(engine.answers.total() for engine in engines) == 0


async def test_ranks_are_workers_of_their_own_when_the_gateway_knows_them() -> None:
    async with bench() as made:
        (engine,) = await made.started(1, "sglang", dp_size=2)
        router = await made.router("sglang_gateway", [WorkerAddress(engine.url)], dp_aware=True)
        assert set(await rows(made, router)) == {f"{engine.url}@0", f"{engine.url}@1"}
        for _ in range(4):
            await made.post(router.api.url)
        text = await made.metrics(engine)
        assert [total(text, "sglang:queue_time_seconds_count", dp_rank=rank) for rank in "01"] == [2, 2]


@pytest.mark.parametrize("software", BOTH)
async def test_pairs_of_prefill_and_decode(software: str) -> None:
    async with bench() as made:
        prefill = await made.started(2, ENGINE[software], kind="Prefill")
        decode = await made.started(2, ENGINE[software], kind="Decode")
        workers = [WorkerAddress(engine.url, PREFILL, 8998) for engine in prefill]
        workers += [WorkerAddress(engine.url, DECODE) for engine in decode]
        router = await made.router(software, workers, breaker_failures=100)
        assert [await made.post(router.api.url) for _ in range(4)] == [200] * 4
        assert [engine.answers[200] for engine in (*prefill, *decode)] == [2, 2, 2, 2]
        for engine in decode:
            engine.behaviour.error_rate = 1.0
        assert await made.post(router.api.url) == 500
        text = await made.metrics(router)
        if software == "vllm_router":
            assert total(text, "vllm_router_pd_requests_total") == 5
            assert total(text, "vllm_router_pd_decode_errors_total") == 1
            assert samples(text, "vllm_router_active_workers") == []
        else:
            name = "smg_worker_retries_exhausted_total"
            assert total(text, name, worker_type="prefill") == total(text, name, worker_type="decode") == 1
            assert total(text, "smg_router_requests_total", backend_type="pd") == 5


async def test_a_client_that_leaves_while_half_of_a_pair_has_begun_to_answer_leaves_no_connection() -> None:
    async with bench() as made:
        (prefill,) = await made.started(1, "sglang", kind="Prefill")
        (decode,) = await made.started(1, "sglang", kind="Decode", token_seconds=0.01)
        prefill.behaviour.stall()
        workers = [WorkerAddress(prefill.url, PREFILL, 8998), WorkerAddress(decode.url, DECODE)]
        router = await made.router("sglang_gateway", workers)
        begun = asyncio.Event()
        call = router.call

        async def called(*told: Any) -> aiohttp.ClientResponse:
            answer: aiohttp.ClientResponse = await call(*told)
            begun.set()
            return answer

        router.call = called
        client = asyncio.create_task(made.post(router.api.url, stream=True, max_tokens=1000))
        async with asyncio.timeout(10):
            await begun.wait()
        client.cancel()
        await until(
            lambda: (prefill.disconnects, decode.disconnects) == (1, 1), "both engines see the client leave", 5.0
        )


async def test_the_endpoint_picker_tells_ready_endpoints_from_known_ones() -> None:
    async with bench() as made:
        router, engines = await setting(made, "llm_d", 2, health_interval=0.05)
        assert [await made.post(router.api.url) for _ in range(4)] == [200] * 4
        text = await made.metrics(router)
        for ready, known in (
            ("inference_pool_ready_pods", "inference_pool_per_pod_queue_size"),
            ("llm_d_epp_ready_endpoints", "llm_d_epp_per_endpoint_queue_size"),
        ):
            assert total(text, ready) == 2
            assert len(samples(text, known)) == 2
        assert total(text, "inference_objective_request_total") == total(text, "llm_d_epp_request_total") == 4
        for engine in engines:
            await engine.die()
        # Only then: a health round of the living would make the loads fresh again.
        router._loads = {
            url: type(load)(load.at - 60, load.waiting, load.running, load.usage) for url, load in router._loads.items()
        }
        text = await made.metrics(router)
        assert total(text, "llm_d_epp_ready_endpoints") == 0
        assert samples(text, "llm_d_epp_average_queue_size") == [0.0]
        assert await made.post(router.api.url) == 503


async def test_the_endpoint_picker_runs_encode_prefill_and_decode() -> None:
    async with bench() as made:
        engines = [(await made.started(1, kind=kind))[0] for kind in ("Encode", "Prefill", "Decode")]
        kinds = (ENCODE, PREFILL, DECODE)
        workers = [
            WorkerAddress(engine.url, kind, pod=engine.name) for engine, kind in zip(engines, kinds, strict=True)
        ]
        router = await made.router("llm_d", workers)
        image = [{"type": "text", "text": "what is it"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
        assert await made.post(router.api.url, messages=[{"role": "user", "content": image}]) == 200
        assert await made.post(router.api.url) == 200
        assert [engine.answers[200] for engine in engines] == [1, 2, 2]
        text = await made.metrics(router)
        assert total(text, "llm_d_epp_disagg_decision_total", decision_type="encode-prefill-decode") == 1


async def test_the_endpoint_pickers_metrics_may_need_a_token() -> None:
    async with bench() as made:
        router, _ = await setting(made, "llm_d", 1, metrics_token="word")
        for path in ("/metrics", "/debug/plugins/state"):
            assert (await made.get(router.metrics.url + path))[0] == 401
            headers = {"Authorization": "Bearer word"}
            async with made.session.get(router.metrics.url + path, headers=headers) as response:
                assert response.status == 200


@pytest.mark.parametrize("software", [*BOTH, "llm_d"])
async def test_the_patched_view_of_a_router(software: str) -> None:
    async with bench() as made:
        router, engines = await setting(made, software, observer_endpoints=True, failure_threshold=1)
        base = router.metrics.url if software == "llm_d" else router.api.url
        view = await made.json(f"{base}/observer/endpoints")
        assert set(view) == {"router", "registry_revision", "workers"}
        assert view["router"]["boot_generation"] > 0
        assert [row["url"] for row in view["workers"]] == sorted(engine.url for engine in engines)
        selection = {"registered", "healthy", "circuit_open", "in_selection"}
        assert all(set(row["selection"]) == selection and row["selection"]["in_selection"] for row in view["workers"])
        same = await made.json(f"{base}/observer/endpoints")
        assert same["registry_revision"] == view["registry_revision"]
        if software != "llm_d":
            await engines[0].die()
            await until(lambda: not router.workers.all[0].healthy, "an unhealthy worker")
            view = await made.json(f"{base}/observer/endpoints")
            assert view["registry_revision"] == same["registry_revision"] + 1
            assert [row["selection"]["in_selection"] for row in view["workers"]].count(False) == 1
        router.view_lost = True
        assert (await made.get(f"{base}/observer/endpoints"))[0] == 503


async def test_the_gateway_merges_engine_metrics_under_other_names() -> None:
    async with bench() as made:
        router, engines = await setting(made, "sglang_gateway", 2)
        text = (await made.get(f"{router.api.url}/engine_metrics"))[1]
        for engine in engines:
            assert total(text, "sglang_num_running_reqs", worker_addr=engine.url) == 0
        assert "sglang:" not in text


@pytest.mark.parametrize("software", BOTH)
async def test_a_restart_of_the_router_begins_its_series_anew(software: str) -> None:
    async with bench() as made:
        router, _ = await setting(made, software)
        await made.post(router.api.url)
        api, metrics = router.api.url, router.metrics.url
        await router.restart()
        assert (router.api.url, router.metrics.url) == (api, metrics)
        assert samples(await made.metrics(router), f"{PREFIX[software]}_cb_outcomes_total") == []
        assert await made.post(router.api.url) == 200


@pytest.mark.parametrize("software", BOTH)
async def test_a_worker_that_dies_inside_a_stream_breaks_it_and_nothing_is_retried(
    software: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench() as made:
        router, engines = await setting(made, software, 2)
        call = asyncio.ensure_future(made.post(router.api.url, stream=True, max_tokens=4000 - 100))
        await until(lambda: any(rank.running for e in engines for rank in e.core.ranks), "a running request")
        serving = next(engine for engine in engines if engine.core.ranks[0].running)
        outcomes = f"{PREFIX[software]}_cb_outcomes_total"
        await until(lambda: outcomes in router.series.registry.render().decode(), "the head of the answer")
        await serving.die()
        with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientConnectionError)):
            await call
        text = await made.metrics(router)
        assert total(text, f"{PREFIX[software]}_cb_outcomes_total", outcome="success") == 1
        assert sum(engine.answers.total() for engine in engines) == 0
        assert not [record for record in caplog.records if record.name.startswith("aiohttp")]


@pytest.mark.parametrize("software", BOTH)
async def test_a_worker_that_dies_before_its_answer_is_replaced_by_another(software: str) -> None:
    async with bench() as made:
        router, engines = await setting(made, software, 2)
        for engine in engines:
            engine.behaviour.stall()
        call = asyncio.ensure_future(made.post(router.api.url))
        await until(lambda: any(engine.core.ranks[0].running for engine in engines), "a running request")
        dying = next(engine for engine in engines if engine.core.ranks[0].running)
        await dying.die()
        for engine in engines:
            engine.behaviour.steady()
        assert await call == 200
        assert total(await made.metrics(router), f"{PREFIX[software]}_cb_outcomes_total", outcome="failure") == 1


@pytest.mark.parametrize("software", [*BOTH, "llm_d"])
async def test_a_client_that_leaves_the_router_leaves_the_engine_too(
    software: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench() as made:
        router, engines = await setting(made, software, 1)
        engines[0].behaviour.stall()
        call = asyncio.ensure_future(made.post(router.api.url))
        await until(lambda: engines[0].core.ranks[0].running == 1, "a running request")
        call.cancel()
        await until(lambda: engines[0].disconnects == 1, "the disconnect")
        assert [worker.active for worker in router.workers] == [0]
        assert not [record for record in caplog.records if record.name.startswith("aiohttp")]
