"""The recipes' queries on a real Prometheus that scrapes an observer on a simulated fleet, while it is there and after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.settings import HttpSettings
from observer.simulate.fleet import SimulatedFleet
from tests.conftest import require
from tests.prometheus.server import Prometheus, free_port, job, prometheus
from tests.scaling.clients import HpaClient, KedaClient, Workload
from tests.scaling.recipes import adapter_query, keda_query, load
from tests.scaling.test_outage import lived
from tests.whole.world import SETTINGS, deployments_of, small_fleet

pytestmark = pytest.mark.prometheus
QUERIES = {"keda": keda_query(), "prometheus-adapter": adapter_query()}
WAIT = 40.0


async def until(server: Prometheus, query: str, wanted: Callable[[list[float]], bool]) -> list[float]:
    """The answer's values once they are as wanted; `TimeoutError` says what they were instead."""
    found: list[float] = []
    try:
        async with asyncio.timeout(WAIT):
            while True:
                found = [float(each["value"][1]) for each in await server.query(query)]
                if wanted(found):
                    return found
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"found {found} for {WAIT:g} s: {query}") from None


async def test_a_number_while_the_observer_is_there_and_no_answer_after(tmp_path: Path) -> None:
    require("prometheus", "queries are proven on a real one")
    clock = SystemClock()
    settings = msgspec.structs.replace(SETTINGS, http=HttpSettings(listen=f"127.0.0.1:{free_port()}"))
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(SimulatedFleet(small_fleet(), clock=clock))
        place = settings.http.listen
        server = await stack.enter_async_context(prometheus(tmp_path, [job("one", [place], honoured=True)]))
        async with Watcher(settings, clock) as watcher:
            await watcher.watch(deployments_of(fleet, tmp_path))
            for query in QUERIES.values():
                (value,) = await until(server, query, lambda found: len(found) == 1)
                assert value >= 0
        # The target is down: Prometheus ends its series, and what it answers is what the clients get.
        answers = {name: await until(server, query, lambda found: not found) for name, query in QUERIES.items()}
    for name, client, file in (
        ("keda", KedaClient, "keda.yaml"),
        ("prometheus-adapter", HpaClient, "hpa.yaml"),
    ):
        answer = answers[name]
        history = lived(
            lambda ask, workload, client=client, file=file: client(load(file), ask, workload),  # type: ignore[misc]  # bound now
            lambda answer=answer: answer,  # type: ignore[misc]  # as above
        ).history
        assert history == [], f"{name} scaled on {answer}: {history}"


def exposition(*, running: dict[str, float], waiting: dict[str, float], ready: int | None) -> str:
    """The families that the queries read, with Pods of the test's choice."""
    common = 'namespace="demo",deployment="chat",role="server"'
    lines = [
        f'{family}{{{common},pod="{pod}",port="8000",rank="0"}} {value}'
        for family, levels in (
            ("modeldeployment_requests_running", running),
            ("modeldeployment_requests_waiting", waiting),
        )
        for pod, value in levels.items()
    ]
    if ready is not None:
        lines.append(f'modeldeployment_replicas{{{common},state="ready"}} {ready}')
        lines.append(f'modeldeployment_replicas{{{common},state="desired"}} 9')
    return "\n".join(lines) + "\n"


@asynccontextmanager
async def exposing(text: str) -> AsyncIterator[str]:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=text)

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


TWO = {"a": 5.0, "b": 7.0}
CASES: dict[str, tuple[str, list[float]]] = {
    "all known": (exposition(running=TWO, waiting={"a": 1.0, "b": 3.0}, ready=2), [16.0]),
    "idle": (exposition(running={"a": 0.0}, waiting={"a": 0.0}, ready=1), [0.0]),
    "one ready Pod without numbers": (exposition(running={"a": 5.0}, waiting={"a": 1.0}, ready=2), []),
    "one ready Pod without a queue": (exposition(running=TWO, waiting={"a": 1.0}, ready=2), []),
    "a Pod that starts and is read": (exposition(running=TWO, waiting=TWO, ready=1), [24.0]),
    "not known how many are ready": (exposition(running=TWO, waiting=TWO, ready=None), []),
    "nobody is ready, nothing is read": (exposition(running={}, waiting={}, ready=0), []),
}


async def test_what_is_not_known_is_no_number(tmp_path: Path) -> None:
    require("prometheus", "queries are proven on a real one")
    async with AsyncExitStack() as stack:
        jobs = []
        for name, (text, _) in CASES.items():
            address = await stack.enter_async_context(exposing(text.replace('namespace="demo"', f'namespace="{name}"')))
            jobs.append(job(name, [address], honoured=True))
        # Two replicas of the observer that change over export the same numbers for a moment.
        both = [await stack.enter_async_context(exposing(CASES["all known"][0])) for _ in range(2)]
        jobs.append(job("both", both, honoured=True))
        server = await stack.enter_async_context(prometheus(tmp_path, jobs))
        await until(server, "sum(up)", lambda found: found == [len(CASES) + 2.0])
        for query in QUERIES.values():
            assert 'namespace="demo"' in query
            for name, (_, wanted) in CASES.items():
                asked = query.replace('namespace="demo"', f'namespace="{name}"')
                found = [float(each["value"][1]) for each in await server.query(asked)]
                assert found == wanted, name
            assert [float(each["value"][1]) for each in await server.query(query)] == [16.0]


def test_the_clients_are_given_a_workload_that_could_shrink() -> None:
    """What keeps the replicas in the test above is the answer, not a workload at its smallest."""
    for file in ("keda.yaml", "hpa.yaml"):
        spec = load(file)["spec"]
        smallest = spec.get("minReplicaCount", spec.get("minReplicas"))
        assert 0 < smallest < Workload(6).replicas
