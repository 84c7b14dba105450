"""Plain reads at a replica that owns nothing: passed on, read directly, or refused; never answered as if there were nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from exporters.aggregated.forwarding import FORWARDED
from exporters.api import METRICS_PATH, STATUS_PATH
from exporters.canary import GATE_PATH
from exporters.listening import Listen
from exporters.server import Server
from observer.app.direct import AWAITING, Direct
from observer.app.relay import HANDOVER_PATH, HttpRelay
from observer.clock import SystemClock
from observer.collect.fetch import Fetcher
from observer.collect.options import ScrapeSettings
from observer.settings import Settings
from router_contract.targets import Deployment, DeploymentKey
from tests.fleets import KEY, body, deployment, member

METRICS = METRICS_PATH.format(namespace=KEY.namespace, name=KEY.name)
STATUS = STATUS_PATH.format(namespace=KEY.namespace, name=KEY.name)
TOKEN = "shared"
SETTINGS = Settings(scrape=ScrapeSettings(period=5.0, timeout=1.0))


class Table:
    """Who owns what, as a test says."""

    def __init__(self) -> None:
        self.mine = False
        self.holder: str | None = "b"
        self.places: dict[str, str] = {}

    def owns_shard(self) -> bool:
        return self.mine

    def owner(self, key: DeploymentKey) -> str | None:
        return None if self.mine else self.holder

    def active(self) -> str | None:
        return None if self.mine else self.holder

    def plain_urls(self) -> Mapping[str, str]:
        return self.places


class Engine:
    """A small engine; it counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0

    async def metrics(self, _: web.Request) -> web.Response:
        self.reads += 1
        return web.Response(body=body(running=3), content_type="text/plain")


class World:
    """Two replicas' listeners; ``a`` is asked."""

    def __init__(self) -> None:
        self.table = Table()
        self.engine = Engine()
        self.known: dict[DeploymentKey, Deployment] = {}
        self.asked: list[web.Request] = []
        self.answer: Any = {"from": "b"}
        self.handed = 0
        self.url = ""
        self.other: Server | None = None
        self.hang = asyncio.Event()
        self.hang.set()

    async def theirs(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        await self.hang.wait()
        if isinstance(self.answer, int):
            return web.Response(status=self.answer)
        return web.json_response(self.answer, headers={"ETag": '"x"', "X-Own": "1"})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for word in (b"data: one\n\n", b"data: two\n\n"):
            await answer.write(word)
        return answer

    async def mine(self, _: web.Request) -> web.Response:
        return web.json_response({"from": "a"})

    async def take_over(self, _: web.Request) -> web.StreamResponse:
        self.handed += 1
        return web.json_response({})

    async def get(self, path: str, **headers: str) -> tuple[int, Mapping[str, str], Any]:
        told = {"Authorization": f"Bearer {TOKEN}", **headers}
        async with aiohttp.ClientSession() as session, session.get(self.url + path, headers=told) as answer:
            data = await answer.read()
            return answer.status, answer.headers, msgspec.json.decode(data) if "json" in answer.content_type else data


@asynccontextmanager
async def two() -> AsyncIterator[World]:
    world = World()
    listen = Listen(port=0, token=TOKEN, stop_seconds=0.1)
    async with AsyncExitStack() as stack:
        app = web.Application()
        app.add_routes([web.get("/metrics", world.engine.metrics)])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        world.known[KEY] = deployment(members=(member("a", host="127.0.0.1", port=port),))
        fetcher = await stack.enter_async_context(Fetcher(SystemClock(), SETTINGS.body_limits))
        direct = Direct(SystemClock(), SETTINGS, fetcher, world.known.get, lambda: tuple(world.known))
        paths = (GATE_PATH, STATUS_PATH, METRICS_PATH, "/api/v1/deployments", "/metrics", "/livez", "/api/v1/limits")
        other = Server([*(web.get(path, world.theirs) for path in paths), web.get("/events", world.stream)], listen)
        asked = Server([*(web.get(path, world.mine) for path in paths), web.get("/events", world.mine)], listen)
        relay = HttpRelay(world.table, direct, listen, world.take_over, 0, seconds=0.3)
        asked.relay = await stack.enter_async_context(relay)
        for each in (other, asked):
            await each.start()
            stack.push_async_callback(each.stop)
        world.url, world.other = asked.url, other
        world.table.places["b"] = other.url
        yield world


async def test_the_owner_answers_with_our_token_and_only_what_a_client_needs_passes() -> None:
    async with two() as world:
        status, headers, found = await world.get(f"{STATUS}?history=1", Accept="application/json", **{"X-Else": "1"})
        assert (status, found, headers["ETag"]) == (200, {"from": "b"}, '"x"')
        assert "X-Own" not in headers
        (request,) = world.asked
        assert (request.headers[FORWARDED], request.headers["Authorization"]) == ("1", f"Bearer {TOKEN}")
        assert request.path_qs == f"{STATUS}?history=1"
        assert "X-Else" not in request.headers
        assert (await world.get("/api/v1/deployments"))[2] == {"from": "b"}
        assert (await world.get("/events"))[2] == b"data: one\n\ndata: two\n\n"


async def test_what_each_replica_says_of_itself_is_never_passed_on() -> None:
    async with two() as world:
        for path in ("/metrics", "/livez", "/api/v1/limits"):
            assert (await world.get(path))[2] == {"from": "a"}
        assert world.asked == []


async def test_an_owner_answers_itself() -> None:
    async with two() as world:
        world.table.mine = True
        world.known.clear()
        for path in (STATUS, METRICS, "/api/v1/deployments", "/events"):
            assert (await world.get(path))[2] == {"from": "a"}


async def test_a_stranger_is_refused_before_anybody_is_asked() -> None:
    async with two() as world:
        status, _, _ = await world.get(STATUS, Authorization="Bearer other")
        assert (status, world.asked) == (401, [])
        assert (await world.get(HANDOVER_PATH, Authorization="Bearer other"))[0] == 401
        assert world.handed == 0
        await world.get(HANDOVER_PATH)
        assert world.handed == 1


TROUBLES = {
    "away": lambda world: world.table.places.update(b="http://127.0.0.1:1"),
    "unknown": lambda world: world.table.places.clear(),
    "nobody": lambda world: setattr(world.table, "holder", None),
    "not the owner either": lambda world: setattr(world, "answer", 503),
    "another token": lambda world: setattr(world, "answer", 401),
    "hangs": lambda world: world.hang.clear(),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_without_the_owner_metrics_are_read_directly_and_the_rest_is_unavailable(trouble: Any) -> None:
    async with two() as world:
        trouble(world)
        status, _, found = await world.get(METRICS)
        assert (status, found["partial"]) == (200, True)
        assert [each["value"] for each in found["processing"] if each["name"] == "running"] == [3.0]
        assert "latency" not in found
        assert (await world.get(METRICS))[0] == 200
        assert world.engine.reads == 1, "many readers are one read in a period"
        assert (await world.get(STATUS))[0] == 503
        status, headers, _ = await world.get("/api/v1/deployments")
        assert (status, headers["Retry-After"]) == (503, "1"), "an empty list would say that there is nothing"
        world.hang.set()


async def test_an_analysis_is_asked_of_every_owner_and_here_last() -> None:
    gate = GATE_PATH.format(namespace="prod", name="chat-2", component="engine")
    async with two() as world:
        world.table.mine = True
        assert (await world.get(gate))[2] == {"from": "b"}
        world.answer = 404
        assert (await world.get(gate))[2] == {"from": "a"}
        world.table.mine = False
        assert (await world.get(gate))[0] == 503, "who owns nothing knows of no analysis"


async def test_two_never_ask_in_a_circle() -> None:
    async with two() as world:
        status, _, found = await world.get(STATUS, **{FORWARDED: "1"})
        assert (status, "does not own it" in found["message"]) == (503, True)
        assert world.asked == []
        world.known.clear()
        assert (await world.get(STATUS, **{FORWARDED: "1"}))[2] == {"from": "a"}


async def test_an_engine_that_is_down_is_missing_in_a_direct_read_and_not_zero() -> None:
    async with two() as world:
        world.table.holder = None
        world.known[KEY] = deployment(members=(member("a", host="127.0.0.1", port=1),))
        status, _, found = await world.get(METRICS)
        assert status == 503, found


async def test_a_direct_read_says_why_it_has_no_verdict() -> None:
    known = {KEY: deployment(members=(member("a", host="127.0.0.1", port=1),))}
    async with Fetcher(SystemClock(), SETTINGS.body_limits) as fetcher:
        direct = Direct(SystemClock(), SETTINGS, fetcher, known.get, lambda: tuple(known))
        found = await direct.read(KEY)
        assert found is not None
        assert (found.awaiting, found.judged, direct.keys()) == (AWAITING, False, (KEY,))
        assert await direct.read(DeploymentKey("x", "y")) is None
        assert direct.known(DeploymentKey("x", "y")) is None
