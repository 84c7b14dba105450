"""Simulated engines at the HTTP level: what they answer, what their metrics say of it, and how they misbehave."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
import pytest

from observer.simulate.engine import Phase
from observer.simulate.kv_hook import NoKvEvents
from tests.simulate.harness import PROMPT, bench, samples, total, until

SOFTWARE = ("vllm", "sglang")
RUNNING = {"vllm": "vllm:num_requests_running", "sglang": "sglang:num_running_reqs"}
WAITING = {"vllm": "vllm:num_requests_waiting", "sglang": "sglang:num_queue_reqs"}
GENERATED = {"vllm": "vllm:generation_tokens_total", "sglang": "sglang:generation_tokens_total"}
FINISHED = {"vllm": "vllm:request_success_total", "sglang": "sglang:num_requests_total"}
WARMED = {"vllm": 0, "sglang": 1}

ENDPOINTS = [
    ("vllm", "/health", 200),
    ("vllm", "/version", 200),
    ("vllm", "/load", 200),
    ("vllm", "/v1/models", 200),
    ("vllm", "/kv_event_sources", 200),
    ("vllm", "/metrics", 200),
    ("vllm", "/get_load", 404),
    ("vllm", "/server_info", 404),
    ("vllm", "/get_server_info", 404),
    ("sglang", "/health", 200),
    ("sglang", "/v1/models", 200),
    ("sglang", "/server_info", 200),
    ("sglang", "/get_server_info", 200),
    ("sglang", "/model_info", 200),
    ("sglang", "/get_model_info", 200),
    ("sglang", "/v1/loads", 200),
    ("sglang", "/metrics", 200),
    ("sglang", "/get_load", 404),
    ("sglang", "/version", 404),
    ("sglang", "/kv_event_sources", 404),
]


@pytest.mark.parametrize(("software", "path", "status"), ENDPOINTS, ids=[f"{s}{p}" for s, p, _ in ENDPOINTS])
async def test_endpoints_answer_like_the_real_ones(software: str, path: str, status: int) -> None:
    async with bench() as made:
        (engine,) = await made.started(1, software)
        assert (await made.get(engine.url + path))[0] == status


BAD = [
    ("vllm", {"model": "nope"}, 404),
    ("sglang", {"model": "nope"}, 200),
    ("vllm", {"messages": []}, 400),
    ("vllm", {"max_tokens": -1}, 400),
    ("sglang", {"max_tokens": 100_000}, 400),
]


@pytest.mark.parametrize(("software", "body", "status"), BAD, ids=[f"{s}-{b}" for s, b, _ in BAD])
async def test_refusals(software: str, body: dict[str, Any], status: int) -> None:
    async with bench() as made:
        (engine,) = await made.started(1, software)
        assert await made.post(engine.url, **body) == status
        assert engine.answers == {status: 1}
        assert total(await made.metrics(engine), FINISHED[software]) == WARMED[software] + (status == 200)


@pytest.mark.parametrize("software", SOFTWARE)
async def test_counters_and_histograms_agree_with_the_answers(software: str) -> None:
    async with bench() as made:
        (engine,) = await made.started(1, software, block_size=4)
        tokens = cached = 0
        for number in range(6):
            body = {"model": "tiny", "prompt": f"{PROMPT} {number % 2}", "max_tokens": 6}
            async with made.session.post(f"{engine.url}/v1/completions", json=body) as response:
                usage = (await response.json())["usage"]
            tokens += usage["completion_tokens"]
            cached += usage["prompt_tokens_details"]["cached_tokens"]
        text = await made.metrics(engine)
        warm = 8 if software == "sglang" else 0
        assert cached > 0
        assert total(text, GENERATED[software]) == tokens + warm
        assert total(text, FINISHED[software]) == 6 + WARMED[software]
        prefix = software
        assert total(text, f"{prefix}:time_to_first_token_seconds_count") == 6 + WARMED[software]
        assert total(text, f"{prefix}:e2e_request_latency_seconds_count") == 6 + WARMED[software]
        hits = "vllm:prefix_cache_hits_total" if software == "vllm" else "sglang:cached_tokens_total"
        assert total(text, hits) == cached
        assert total(text, RUNNING[software]) == total(text, WAITING[software]) == 0


async def test_a_stream_carries_every_token_and_ends() -> None:
    async with bench() as made:
        (engine,) = await made.started(1)
        body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 9, "stream": True}
        async with made.session.post(f"{engine.url}/v1/completions", json=body) as response:
            assert response.content_type == "text/event-stream"
            lines = [line[6:] for line in (await response.text()).split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        sent = sum(orjson.loads(line)["choices"][0]["text"].count("token") for line in lines[:-1])
        assert total(await made.metrics(engine), "vllm:generation_tokens_total") == sent


@pytest.mark.parametrize("software", SOFTWARE)
async def test_more_requests_than_slots_wait(software: str) -> None:
    async with bench() as made:
        (engine,) = await made.started(1, software, max_running=2)
        engine.behaviour.stall()
        calls = [asyncio.ensure_future(made.post(engine.url)) for _ in range(5)]
        await until(lambda: engine.core.ranks[0].load == 5, "five requests")
        text = await made.metrics(engine)
        assert (total(text, RUNNING[software]), total(text, WAITING[software])) == (2, 3)
        engine.behaviour.steady()
        assert await asyncio.gather(*calls) == [200] * 5
        text = await made.metrics(engine)
        assert (total(text, RUNNING[software]), total(text, WAITING[software])) == (0, 0)


@pytest.mark.parametrize("software", SOFTWARE)
async def test_a_client_that_leaves_is_an_abort_for_sglang_only(software: str) -> None:
    async with bench() as made:
        (engine,) = await made.started(1, software)
        engine.behaviour.stall()
        leaving = asyncio.ensure_future(made.post(engine.url))
        await until(lambda: engine.core.ranks[0].running == 1, "a running request")
        leaving.cancel()
        await until(lambda: engine.core.ranks[0].running == 0, "its end")
        text = await made.metrics(engine)
        assert engine.disconnects == 1
        if software == "sglang":
            assert total(text, "sglang:num_aborted_requests_total") == 1
        else:
            assert total(text, "vllm:request_success_total", finished_reason="abort") == 0


@pytest.mark.parametrize("software", SOFTWARE)
async def test_a_restart_begins_counting_anew_on_the_same_port(software: str) -> None:
    async with bench() as made:
        (engine,) = await made.started(1, software)
        before = engine.url
        await made.post(engine.url)
        first = await made.metrics(engine)
        await engine.die()
        with pytest.raises(aiohttp.ClientConnectionError):
            await made.metrics(engine)
        await engine.start()
        second = await made.metrics(engine)
        assert engine.url == before
        assert total(second, FINISHED[software]) == WARMED[software]
        assert total(first, FINISHED[software]) == WARMED[software] + 1
        if software == "vllm":
            started = "process_start_time_seconds"
            assert total(second, started) > total(first, started)
        assert engine.answers[200] == 1


async def test_dying_breaks_requests_in_flight() -> None:
    async with bench() as made:
        (engine,) = await made.started(1)
        engine.behaviour.stall()
        call = asyncio.ensure_future(made.post(engine.url))
        await until(lambda: engine.core.ranks[0].running == 1, "a running request")
        await engine.die()
        with pytest.raises(aiohttp.ClientConnectionError):
            await call


@pytest.mark.parametrize("software", SOFTWARE)
async def test_a_hanging_engine_is_healthy_and_frozen_with_work_running(software: str) -> None:
    async with bench() as made:
        (engine,) = await made.started(1, software)
        await made.post(engine.url)
        engine.behaviour.hang()
        calls = [asyncio.ensure_future(made.post(engine.url))]
        await until(lambda: engine.core.ranks[0].running == 1, "a running request")
        first = await made.metrics(engine)
        calls.append(asyncio.ensure_future(made.post(engine.url)))
        await until(lambda: engine.core.ranks[0].running == 2, "another running request")
        assert (await made.get(f"{engine.url}/health"))[0] == 200
        assert await made.metrics(engine) == first
        assert total(first, RUNNING[software]) >= 1
        engine.behaviour.steady()
        assert await asyncio.gather(*calls) == [200, 200]
        assert total(await made.metrics(engine), RUNNING[software]) == 0


async def test_an_error_rate_answers_500_and_moves_no_success() -> None:
    async with bench() as made:
        (engine,) = await made.started(1)
        engine.behaviour.error_rate = 0.5
        statuses = [await made.post(engine.url) for _ in range(40)]
        assert 5 < statuses.count(500) < 35
        assert total(await made.metrics(engine), "vllm:request_success_total") == statuses.count(200)


async def test_a_cold_vllm_refuses_until_it_serves() -> None:
    async with bench() as made:
        engine = made.engine("vllm", load_seconds=0.05)
        await engine.start()
        assert engine.phase is Phase.LOADING
        with pytest.raises(aiohttp.ClientConnectionError):
            await made.get(f"{engine.url}/health")
        await until(lambda: engine.phase is Phase.SERVING, "serving")
        assert (await made.get(f"{engine.url}/health"))[0] == 200


async def test_a_cold_sglang_answers_503_until_warm_and_counts_its_warm_up() -> None:
    async with bench() as made:
        engine = made.engine("sglang", load_seconds=0.01, warm_seconds=0.2)
        await engine.start()
        await until(lambda: engine.phase is Phase.WARMING, "warming")
        assert (await made.get(f"{engine.url}/health"))[0] == 503
        await until(lambda: engine.phase is Phase.SERVING, "serving")
        assert (await made.get(f"{engine.url}/health"))[0] == 200
        assert total(await made.metrics(engine), "sglang:prompt_tokens_total") == 27


async def test_dying_while_loading_stays_dead() -> None:
    async with bench() as made:
        engine = made.engine("vllm", load_seconds=0.01)
        await engine.start()
        await engine.die()
        await asyncio.sleep(0.05)
        assert engine.phase is Phase.STOPPED
        assert not engine.listener.listening


@pytest.mark.parametrize("software", SOFTWARE)
async def test_each_rank_has_its_own_series_and_can_be_asked_for(software: str) -> None:
    label = "engine" if software == "vllm" else "dp_rank"
    async with bench() as made:
        (engine,) = await made.started(1, software, dp_size=2)
        assert samples(await made.metrics(engine), RUNNING[software]) == ([] if software == "vllm" else [0.0, 0.0])
        engine.behaviour.stall()
        call = asyncio.ensure_future(made.post(engine.url, data_parallel_rank=1))
        await until(lambda: engine.core.ranks[1].running == 1, "work on rank 1")
        text = await made.metrics(engine)
        assert total(text, RUNNING[software], **{label: "1"}) == 1
        assert total(text, RUNNING[software], **{label: "0"}) == 0
        engine.behaviour.steady()
        assert await call == 200


async def test_tensor_ranks_report_copies_when_asked_to() -> None:
    async with bench() as made:
        (engine,) = await made.started(1, "sglang", tp_size=2, tensor_rank_copies=True)
        await made.post(engine.url)
        text = await made.metrics(engine)
        copies = [total(text, "sglang:prefill_effective_tokens_total", tp_rank=rank, mode="input") for rank in "01"]
        assert copies[0] == copies[1] > 0


class Recorder(NoKvEvents):
    def __init__(self) -> None:
        self.log: list[str] = []

    def started(self) -> None:
        self.log.append("started")

    def stopped(self) -> None:
        self.log.append("stopped")

    def stored(self, rank, hashes, parent, token_ids, block_size) -> None:
        self.log.append("stored" if parent is None else "stored after parent")

    def cleared(self, rank) -> None:
        self.log.append("cleared")


@pytest.mark.parametrize("software", SOFTWARE)
async def test_the_cache_is_announced_through_the_hook(software: str) -> None:
    async with bench() as made:
        recorder = Recorder()
        engine = made.engine(software, hook=recorder, block_size=4)
        await engine.start()
        await made.post(engine.url, max_tokens=40)
        path = "/reset_prefix_cache" if software == "vllm" else "/flush_cache"
        async with made.session.post(engine.url + path) as response:
            assert response.status == 200
        at_once = software == "sglang"
        assert recorder.log == ["started", "stored", "stored after parent"] + ["cleared"] * at_once
        await made.post(engine.url)
        assert recorder.log[3] == "cleared"
        await engine.die()
        assert recorder.log[-1] == "stopped"


async def test_prefill_and_decode_engines_show_the_transfer() -> None:
    async with bench() as made:
        (decode,) = await made.started(1, "vllm", kind="Decode")
        await made.post(decode.url, kv_transfer_params={"do_remote_prefill": True})
        text = await made.metrics(decode)
        assert total(text, "vllm:prompt_tokens_by_source_total", source="external_kv_transfer") > 0
        (prefill,) = await made.started(1, "sglang", kind="Prefill")
        assert samples(await made.metrics(prefill), "sglang:kv_transfer_total_mb_count") == []
        await made.post(prefill.url, bootstrap_room=1, max_tokens=50)
        text = await made.metrics(prefill)
        assert total(text, "sglang:kv_transfer_total_mb_count", engine_type="prefill") == 1
        assert total(text, "sglang:generation_tokens_total") == 8 + 1


async def test_an_encoder_shows_no_token_series() -> None:
    async with bench() as made:
        (engine,) = await made.started(1, "vllm", kind="Encode")
        assert await made.post(engine.url) == 200
        text = await made.metrics(engine)
        assert total(text, "vllm:mm_cache_queries_total") == 1
        assert total(text, "vllm:generation_tokens_total") == total(text, "vllm:time_to_first_token_seconds_count") == 0


def test_an_unknown_software_is_named() -> None:
    from observer.simulate.spec import EngineSpec

    with pytest.raises(ValueError, match="'vlm', want one of vllm, sglang"):
        EngineSpec(software="vlm")
