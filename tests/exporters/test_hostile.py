"""One impossible value, one hostile header, one answer too large: the others are answered, and it is said."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest
from aiohttp import web

from exporters import live
from exporters.api import Api
from exporters.encoding import UNRENDERABLE, encode
from exporters.families import FAMILIES
from exporters.family import Family, FamilyType
from exporters.listening import Listen, host_of
from exporters.prometheus import Renderer
from exporters.self_metrics import SelfMetrics
from exporters.server import Server
from exporters.timestamps import rfc3339
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport
from tests.exporters.reports import Pods, gauge, report
from tests.exporters.sources import Reports

BAD = DeploymentKey("prod", "bad")
HUGE = 10**400
STATUS = "/api/v1/namespaces/prod/modeldeployments/{}/{}"


def healthy() -> DeploymentReport:
    return report(Pods().pod("p", gauge("requests-running", 2.0), gauge("requests-waiting", 0.0)))


def impossible(value: float) -> DeploymentReport:
    """A deployment whose one Pod has a number that a float cannot hold."""
    made = report(Pods().pod("q", gauge("requests-running", value), gauge("requests-waiting", 0.0)))
    deployment = msgspec.structs.replace(made.deployment, key=BAD)
    targets = tuple(
        msgspec.structs.replace(
            target,
            status=msgspec.structs.replace(
                target.status,
                age_seconds=value,
                key=msgspec.structs.replace(target.status.key, deployment=BAD),
            ),
        )
        for target in made.targets
    )
    return msgspec.structs.replace(made, deployment=deployment, targets=targets)


class Raising(Reports):
    """Cannot even make one of its reports."""

    def deployment(
        self, key: DeploymentKey, signals: frozenset[str] | None = None, totals: frozenset[str] = frozenset()
    ) -> DeploymentReport | None:
        if key == BAD:
            raise OverflowError("int too large to convert to float")
        return super().deployment(key)


@asynccontextmanager
async def serving(
    source: Reports, *extra: web.RouteDef, families: tuple[Family, ...] = FAMILIES, pods: int = 0, **options: object
) -> AsyncIterator[aiohttp.ClientSession]:
    metrics = SelfMetrics("test", "3")
    api = Api(source, Renderer(families, metrics.registry), pods=pods, failed=metrics.render_failed)
    server = Server([*api.routes(), *extra], Listen(**({"port": 0} | options)), metrics)
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield session
    finally:
        await server.stop()


@pytest.mark.parametrize(
    "source", [Reports(healthy(), impossible(HUGE)), Raising(healthy(), impossible(1.0))], ids=["value", "report"]
)
async def test_one_impossible_value_takes_nobody_else_down(source):
    async with serving(source) as session:
        async with session.get("/api/v1/deployments") as answer:
            assert answer.status == 200
            items = {item["name"]: item for item in (await answer.json())["items"]}
        for _ in range(2):  # the second is rendered from what the first left behind
            async with session.get("/metrics") as answer:
                assert answer.status == 200
                text = await answer.text()
        async with session.get(STATUS.format("chat", "metrics")) as answer:
            assert answer.status == 200
    assert items["chat"]["state"] != "Unavailable"
    assert items["bad"]["state"] == "Unavailable"
    assert "could not be rendered: OverflowError" in items["bad"]["message"]
    running = [line for line in text.splitlines() if line.startswith("modeldeployment_requests_running{")]
    assert [line.rpartition(" ")[2] for line in running] == ["2.0"]
    assert 'name="bad"' not in text
    assert 'observer_render_failures_total{what="deployments"} 1.0' in text
    assert 'observer_render_failures_total{what="metrics"} 2.0' in text or isinstance(source, Raising)


def test_a_table_shows_the_deployment_that_cannot_be_rendered():
    good, bad = live.summaries([healthy(), impossible(HUGE)])
    assert good["state"] != "Unavailable"
    assert (bad["name"], bad["state"]) == ("bad", "Unavailable")


async def test_metrics_are_whole_again_once_the_value_is_gone():
    source = Reports(healthy(), impossible(HUGE))
    async with serving(source) as session:
        await session.get("/metrics")
        source.reports[BAD] = impossible(3.0)
        text = await (await session.get("/metrics")).text()
    running = [line for line in text.splitlines() if line.startswith("modeldeployment_requests_running{")]
    assert sorted(line.rpartition(" ")[2] for line in running) == ["2.0", "3.0"]


async def test_a_family_that_fails_is_left_out_alone():
    def rows(_: object):
        yield (), HUGE

    family = Family(name="broken_total", help="x", type=FamilyType.COUNTER, labels=(), rows=rows)
    async with serving(Reports(healthy()), families=(*FAMILIES, family)) as session:
        answer = await session.get("/metrics")
        text = await answer.text()
    assert answer.status == 200
    assert "modeldeployment_requests_running{" in text
    assert 'observer_render_failures_total{what="metrics-family"} 1.0' in text


async def test_an_answer_that_cannot_be_made_is_a_status_of_its_own(caplog):
    async def broken(_: web.Request) -> web.Response:
        return web.Response(text=str(float(HUGE)))

    async with serving(Reports(healthy()), web.get("/broken", broken)) as session:
        answer = await session.get("/broken")
        body = await answer.json()
        text = await (await session.get("/metrics")).text()
    assert (answer.status, body["kind"], body["reason"]) == (500, "Status", "InternalError")
    assert 'observer_render_failures_total{what="answer"} 1.0' in text
    assert "could not be made" in caplog.text


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ({"a": 2**64 - 1, "b": -(2**63)}, {"a": 2**64 - 1, "b": -(2**63)}),
        ({"a": 2**64}, {"a": str(2**64)}),
        ([10**30, True, None, 1.5], [str(10**30), True, None, 1.5]),
        ({"a": [10**5000]}, {"a": [hex(10**5000)]}),
        ({"a": "x\udcff"}, {"a": "x?"}),
        ({1: 2**70}, {"1": str(2**70)}),
    ],
)
def test_json_never_fails_for_a_number_or_a_text(value, want):
    assert json.loads(encode(value)) == want


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost:9480", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:80", "::1"),
        ("localhost:99999", None),
        ("localhost:", None),
        ("evil.com#@127.0.0.1", None),
        ("evil.com/@127.0.0.1", None),
        ("user@localhost", None),
        ("localhost, evil.com", None),
        ("::1", None),
        ("", None),
    ],
)
def test_host_headers(header, host):
    assert host_of(header) == host


async def asked(server: Server, *lines: bytes) -> tuple[int, bytes]:
    """The status and body for a request as raw lines, since no client library sends these."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(b"\r\n".join([*lines, b"Connection: close", b"", b""]))
        await writer.drain()
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


HOSTILE = {
    "port": ([b"GET /livez HTTP/1.1", b"Host: localhost:99999"], None, 400),
    "fragment": ([b"GET /livez HTTP/1.1", b"Host: evil.com#@127.0.0.1"], None, 400),
    "userinfo": ([b"GET /livez HTTP/1.1", b"Host: evil.com@127.0.0.1"], None, 400),
    "foreign": ([b"GET /livez HTTP/1.1", b"Host: evil.com"], None, 403),
    "good": ([b"GET /livez HTTP/1.1", b"Host: localhost:1"], None, 200),
    "token of no utf-8": (
        [b"GET /api/v1/targets HTTP/1.1", b"Host: x", b"Authorization: Bearer \xff\xfe"],
        "secret",
        401,
    ),
    "host with a token": ([b"GET /livez HTTP/1.1", b"Host: localhost:99999"], "secret", 400),
    "cursor": ([b"GET /api/v1/targets?continue=%ff%fe HTTP/1.1", b"Host: localhost"], None, 400),
    "cursor beyond ascii": ([b"GET /api/v1/targets?continue=%C3%A9 HTTP/1.1", b"Host: localhost"], None, 400),
    "cursor of no utf-8": ([b"GET /api/v1/targets?continue=__4= HTTP/1.1", b"Host: localhost"], None, 400),
    "limit": ([b"GET /api/v1/targets?limit=" + b"9" * 5000 + b" HTTP/1.1", b"Host: localhost"], None, 400),
}


@pytest.mark.parametrize(("lines", "token", "code"), HOSTILE.values(), ids=HOSTILE)
async def test_hostile_requests_are_refused_and_never_an_error_of_ours(lines, token, code):
    metrics = SelfMetrics("test", "3")
    api = Api(Reports(healthy()), Renderer(FAMILIES, metrics.registry))
    server = Server(api.routes(), Listen(port=0, token=token), metrics)
    await server.start()
    try:
        status, _ = await asked(server, *lines)
    finally:
        await server.stop()
    assert status == code


async def test_a_token_beyond_ascii_is_accepted_as_its_bytes():
    metrics = SelfMetrics("test", "3")
    server = Server(Api(Reports(healthy()), Renderer(FAMILIES)).routes(), Listen(port=0, token="é"), metrics)
    await server.start()
    try:
        lines = [b"GET /api/v1/targets HTTP/1.1", b"Host: x", "Authorization: Bearer é".encode()]
        status, _ = await asked(server, *lines)
    finally:
        await server.stop()
    assert status == 200


BASIC = {
    "the token as password": (b"user:secret", 200),
    "no user": (b":secret", 200),
    "another password": (b"user:secre", 401),
    "the token as user": (b"secret:", 401),
    "no colon": (b"secret", 401),
    "no utf-8": (b"\xff:\xff", 401),
}


@pytest.mark.parametrize(("pair", "code"), BASIC.values(), ids=BASIC)
async def test_a_client_that_only_takes_a_url_bears_the_token_as_a_password(pair: bytes, code: int) -> None:
    metrics = SelfMetrics("test", "3")
    server = Server(Api(Reports(healthy()), Renderer(FAMILIES)).routes(), Listen(port=0, token="secret"), metrics)
    await server.start()
    try:
        lines = [b"GET /api/v1/targets HTTP/1.1", b"Host: x", b"Authorization: Basic "]
        for header, wanted in ((base64.b64encode(pair), code), (b"%%%", 401), (b"", 401)):
            status, _ = await asked(server, *lines[:2], lines[2] + header)
            assert status == wanted, header
    finally:
        await server.stop()


async def test_an_answer_above_the_limit_names_it():
    async with serving(Reports(healthy()), response_bytes=100) as session:
        answer = await session.get("/api/v1/deployments")
        body = await answer.json()
        assert (await session.get("/metrics")).status == 200
    assert (answer.status, body["reason"]) == (413, "RequestEntityTooLarge")
    assert "at most 100 are sent (limits.response)" in body["message"]


async def test_pods_above_the_limit_are_named_and_not_shown():
    pods = Pods()
    for name in ("c", "a", "b"):
        pods.pod(name, gauge("requests-running", 1.0), gauge("requests-waiting", 0.0))
    async with serving(Reports(report(pods)), pods=2) as session:
        body = await (await session.get(STATUS.format("chat", "metrics"))).json()
    running = next(entry for entry in body["processing"])
    assert (running["podCount"], running["value"]) == (2, 2.0)
    (cut,) = [entry for entry in body["missing"] if entry["code"] == "TooManyPods"]
    assert (cut["pod"], cut["source"]) == ("", "pod-discovery")
    assert "the first 2 of 3 Pods" in cut["reason"]
    assert (body["coverage"]["expected"], body["coverage"]["read"], body["partial"]) == (3, 2, True)


@pytest.mark.parametrize("wall", [1e18, -1e18, 1e300, float("nan"), float("inf"), 253_402_300_800.0, -62_135_596_801.0])
def test_a_moment_that_no_calendar_has_is_unrenderable_on_every_system(wall: float) -> None:
    with pytest.raises(UNRENDERABLE):
        rfc3339(wall)


@pytest.mark.parametrize(
    ("wall", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000.25, "2023-11-14T22:13:20.250Z"),
        (253_402_300_799.0, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_times_are_written_as_they_are(wall: float, text: str) -> None:
    assert rfc3339(wall) == text
