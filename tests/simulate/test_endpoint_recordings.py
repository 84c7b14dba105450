"""The router APIs against recorded answers: status, content type, texts, and the keys and value types of JSON bodies."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from observer.clock import SystemClock
from observer.simulate.kv_fleet import publishing
from observer.simulate.spec import EngineSpec, RoleSpec
from observer.simulate.workers import DECODE, PREFILL, WorkerAddress
from tests.simulate.harness import Bench, bench

GATEWAY, ROUTER = "sglang-router-0.3.2", "vllm-router-0.1.17"
SOFTWARE = {GATEWAY: "sglang_gateway", ROUTER: "vllm_router"}
# A proxied answer is the worker's: the recorded workers were stand-ins whose answers say nothing of the router.
PROXIED = {
    GATEWAY: {"/get_model_info", "/engine_metrics"},
    ROUTER: {"/v1/models", "/get_server_info", "/server_info", "/get_model_info", "/metrics", "/health_generate",
             "/engine_metrics", "/scheduling/diagnostics"},
}  # fmt: skip
CASES = [
    (GATEWAY, "01-fresh"),
    (GATEWAY, "15-all-dead"),
    (GATEWAY, "21-pd-fresh"),
    (GATEWAY, "32-no-worker-up"),
    (GATEWAY, "41-realvllm-workers"),
    (GATEWAY, "51-realsglang-worker"),
    (ROUTER, "01-fresh"),
    (ROUTER, "15-all-dead"),
    (ROUTER, "21-pd-fresh"),
]
BLOCK = re.compile(
    r"^### GET (\S+) \| HTTP/1.1 (\d+) [^|]*\| ?(?:content-type: )?(.*)\n((?:(?!### GET ).*\n?)*)", re.MULTILINE
)


def recorded(path: Path) -> dict[str, tuple[int, str, str]]:
    return {
        name: (int(status), kind.strip(), body.rstrip("\n"))
        for name, status, kind, body in BLOCK.findall(path.read_text())
    }


def keys(value: Any, at: str = "") -> set[str]:
    """Paths of a JSON value with the types at their ends; list items fold together; metadata is the worker's own."""
    if at.endswith(".metadata"):
        return {at}
    if isinstance(value, dict):
        return {at} | {path for name, item in value.items() for path in keys(item, f"{at}.{name}")}
    if isinstance(value, list):
        return {f"{at}[]"} | {path for item in value for path in keys(item, f"{at}[]")}
    return {f"{at}:{type(value).__name__}"}


def comparable(body: str) -> Any:
    try:
        return keys(json.loads(body))
    except json.JSONDecodeError:
        return sorted(re.sub(r"http://127.0.0.1:\d+", "URL", body).split())


async def placed(made: Bench, folder: str, state: str) -> Any:
    pairs, engine = state.startswith("21"), "vllm" if "realvllm" in state else "sglang"
    if pairs:
        prefill, decode = await made.started(2, engine, kind="Prefill"), await made.started(2, engine, kind="Decode")
        workers = [WorkerAddress(each.url, PREFILL, 8998) for each in prefill]
        workers += [WorkerAddress(each.url, DECODE) for each in decode]
    elif state.startswith("32"):
        workers = [WorkerAddress(made.engine(engine).url)]
    else:
        workers = [WorkerAddress(each.url) for each in await made.started(3 if folder == ROUTER else 2, engine)]
    router = await made.router(SOFTWARE[folder], workers, health_interval=600.0, failure_threshold=1)
    if state.startswith("15"):
        for each in made.engines:
            await each.die()
        for worker in router.workers:
            await router._check(worker)
    return router


@pytest.mark.parametrize(("folder", "state"), CASES, ids=[f"{folder}-{state}" for folder, state in CASES])
async def test_answers_have_the_recorded_form(folder: str, state: str, recordings: Path) -> None:
    wanted = recorded(recordings / folder / f"endpoints-{state}.txt")
    assert len(wanted) > 8
    async with bench() as made:
        router = await placed(made, folder, state)
        for path, (status, kind, body) in wanted.items():
            if path in PROXIED[folder] or (path == "/get_loads" and status == 500):
                continue
            async with made.session.get(router.api.url + path) as response:
                text = await response.text()
                found = (response.status, comparable(text) if text else "")
                assert found == (status, comparable(body) if body else ""), path
                if kind:
                    assert response.headers["Content-Type"] == kind, path


ENGINE_BLOCK = re.compile(r"^### GET (\S+) \| (\d+) ?(.*)\n((?:(?!### GET ).*\n?)*)", re.MULTILINE)


async def test_the_sglang_engine_shows_nothing_that_the_real_one_does_not(recordings: Path) -> None:
    text = (recordings / "sglang-0.5.23" / "endpoints-fresh.txt").read_text()
    wanted = {path: (int(status), body) for path, status, _, body in ENGINE_BLOCK.findall(text)}
    assert len(wanted) == 11
    whole = (recordings / "sglang-0.5.23" / "server_info.json").read_text()
    for path in ("/server_info", "/get_server_info"):  # the block file cuts these long bodies short
        wanted[path] = (200, whole)
    async with bench() as made:
        (engine,) = await made.started(1, "sglang")
        for path, (status, body) in wanted.items():
            found_status, found = await made.get(engine.url + path)
            assert found_status == status, path
            if body.strip():
                surplus = {key.split(":")[0] for key in keys(json.loads(found))} - {
                    key.split(":")[0] for key in keys(json.loads(body))
                }
                assert surplus <= {".kv_events"}, path


async def test_the_vllm_engine_tells_its_publishers_as_the_real_one(recordings: Path) -> None:
    wanted = json.loads((recordings / "vllm-0.32.0" / "kv_event_sources-dp2.json").read_text())
    clock = SystemClock()
    async with bench() as made:
        role = RoleSpec(engine=EngineSpec(dp_size=2))
        engine = made.engine("vllm", hook=publishing(clock)("e", role), dp_size=2)
        await engine.start()
        found = await made.json(f"{engine.url}/kv_event_sources")
        assert keys(found) == keys(wanted)
        ports = [int(found[rank]["endpoint"].rsplit(":", 1)[1]) for rank in ("0", "1")]
        assert ports[1] == ports[0] + 1
