"""The listener over a real socket: documents, lists, pages, probes, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from exporters.api import Api
from exporters.families import FAMILIES
from exporters.listening import Listen, ListenError, is_loopback
from exporters.prometheus import Renderer
from exporters.self_metrics import SelfMetrics
from exporters.server import Server
from router_contract.readings import MissingCode, SignalValue
from router_contract.verdicts import RoleMeasurement, TargetState
from tests.exporters.reports import KEY, Pods, counter, gauge, gone, hist, report, status
from tests.exporters.sources import Reports

DOCUMENT = "/api/v1/namespaces/prod/modeldeployments/chat/metrics"
AGGREGATED = "/apis/metrics.modeldeployment.io/v1/namespaces/prod/modeldeployments/chat/metrics"


def good(running: float = 2.0) -> Pods:
    return Pods().pod("p", gauge("requests-running", running), gauge("requests-waiting", 0.0))


@asynccontextmanager
async def serving(source: Reports, *, fresh: float = 8.0, **options: object) -> AsyncIterator[aiohttp.ClientSession]:
    metrics = SelfMetrics("test", "3")
    api = Api(source, Renderer(FAMILIES, metrics.registry), fresh_seconds=fresh)
    server = Server(api.routes(), Listen(**({"port": 0} | options)), metrics)
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield session
    finally:
        await server.stop()


async def test_both_paths_answer_the_same_document() -> None:
    async with serving(Reports(report(good()))) as session:
        answers = [await (await session.get(path)).json() for path in (DOCUMENT, AGGREGATED)]
    assert answers[0] == answers[1]
    assert answers[0]["kind"] == "ModelDeploymentMetrics"
    assert answers[0]["processing"][0]["value"] == 2.0


STATUSES = {
    "unknown deployment": (
        "GET",
        "/api/v1/namespaces/prod/modeldeployments/other/metrics",
        404,
        "NotFound",
        "prod/other",
    ),
    "nothing there": ("GET", "/nowhere", 404, "NotFound", "/api/v1/deployments"),
    "wrong method": ("POST", DOCUMENT, 405, "MethodNotAllowed", "possible: GET, HEAD"),
    "bad boolean": ("GET", f"{DOCUMENT}?fresh=maybe", 400, "BadRequest", "fresh is 'maybe'"),
    "bad limit": ("GET", "/api/v1/targets?limit=0", 400, "BadRequest", "limit is '0'; want a number from 1 to 5000"),
    "bad state": ("GET", "/api/v1/targets?state=Down", 400, "BadRequest", "want one of Pending, Up, Failing, Shed"),
    "bad filter": ("GET", "/api/v1/targets?nmespace=x", 400, "BadRequest", "'nmespace' is not known"),
    "bad token": ("GET", "/api/v1/targets?continue=%21", 400, "BadRequest", "continue is '!'"),
}


@pytest.mark.parametrize(("method", "path", "code", "reason", "part"), STATUSES.values(), ids=STATUSES)
async def test_failures_are_status_objects(method: str, path: str, code: int, reason: str, part: str) -> None:
    async with serving(Reports(report(good()))) as session, session.request(method, path) as answer:
        body = await answer.json()
    assert (answer.status, body["kind"], body["status"], body["code"], body["reason"]) == (
        code,
        "Status",
        "Failure",
        code,
        reason,
    )
    assert part in body["message"]


async def test_no_readable_pod_is_service_unavailable() -> None:
    source = Reports(report(Pods().pod("p", state=TargetState.FAILING)))
    async with serving(source) as session, session.get(DOCUMENT) as answer:
        body = await answer.json()
    assert (answer.status, body["reason"], body["details"]["name"]) == (503, "ServiceUnavailable", "chat")
    assert "p: the last read failed: Http: status 500" in body["message"]


async def test_fresh_reads_once_and_shows_what_came() -> None:
    source = Reports(report(good(2.0)))
    source.on_refresh[KEY] = report(good(7.0))
    async with serving(source) as session:
        stale = await (await session.get(DOCUMENT)).json()
        fresh = await (await session.get(f"{DOCUMENT}?fresh=true")).json()
    assert [d["processing"][0]["value"] for d in (stale, fresh)] == [2.0, 7.0]
    assert source.refreshed == [KEY]


async def test_fresh_gives_up_waiting_and_answers_from_memory() -> None:
    source = Reports(report(good(2.0)))
    source.gate.clear()
    async with serving(source, fresh=0.01) as session, session.get(f"{DOCUMENT}?fresh=true") as answer:
        body = await answer.json()
    assert (answer.status, body["processing"][0]["value"]) == (200, 2.0)


async def test_the_list_says_what_is_known_and_null_for_what_is_not() -> None:
    pods = Pods().pod("p", gauge("requests-running", 2.0), gone("requests-waiting", MissingCode.UNREADABLE))
    router = Pods("router", "Router", "sglang_gateway").pod(
        "r", counter("router-requests", 40.0), counter("router-retries-exhausted", 10.0)
    )
    role = RoleMeasurement(name="server", values=(hist("time-to-first-token", 4.0, 0.25),))
    async with serving(Reports(report(pods, router, roles=(role,), model="tiny"))) as session:
        items = (await (await session.get("/api/v1/deployments")).json())["items"]
        none = (await (await session.get("/api/v1/deployments?namespace=dev")).json())["items"]
    assert none == []
    (item,) = items
    assert (item["namespace"], item["name"], item["model"], item["state"]) == ("prod", "chat", "tiny", "Partial")
    assert item["message"] == "p: local-prefix: the Pod answered without this metric"
    assert item["targets"] == {"Pending": 0, "Up": 2, "Failing": 0, "Shed": 0}
    shown = item["roles"][0]
    assert (shown["desired"], shown["observed"], shown["running"], shown["waiting"]) == (1, 1, 2.0, None)
    assert (shown["ttft"]["value"], shown["itl"], shown["kvCacheUsage"]) == (0.25, None, None)
    assert item["router"]["errorRatio"] == 0.25
    assert item["router"]["requestsPerSecond"] == pytest.approx(40 / 60)
    assert item["ageSeconds"] == 1.0


async def test_requests_of_a_router_are_known_when_each_of_its_pods_tells() -> None:
    moved = counter("router-requests", 40.0), counter("router-retries-exhausted", 10.0)
    failed = gone("router-requests", MissingCode.UNREADABLE), gone("router-retries-exhausted", MissingCode.UNREADABLE)
    hidden = moved[0], gone("router-retries-exhausted", MissingCode.UNREADABLE)

    async def told(*pods: tuple[SignalValue, ...]) -> tuple[object, object]:
        router = Pods("router", "Router", "sglang_gateway")
        for place, values in enumerate(pods):
            router.pod(f"r{place}", *values)
        engines = Pods().pod("p", gauge("requests-running", 2.0))
        async with serving(Reports(report(engines, router))) as session:
            (item,) = (await (await session.get("/api/v1/deployments")).json())["items"]
        return item["router"]["requestsPerSecond"], item["router"]["errorRatio"]

    assert await told(moved, moved) == (pytest.approx(80 / 60), 0.25)
    assert await told(moved, failed) == (None, None)
    assert await told(moved, hidden) == (pytest.approx(80 / 60), None)


async def test_an_unavailable_deployment_is_listed_with_its_reason() -> None:
    async with serving(Reports(report(Pods().pod("p", state=TargetState.FAILING)))) as session:
        (item,) = (await (await session.get("/api/v1/deployments")).json())["items"]
    assert (item["state"], item["ageSeconds"], item["roles"][0]["running"]) == ("Unavailable", None, None)


async def test_targets_are_paged_and_filtered() -> None:
    source = Reports(extra=tuple(status(f"pod-{i}") for i in range(5)))
    source.extra += (status("bad", state=TargetState.FAILING),)
    async with serving(source) as session:
        names: list[str] = []
        query: dict[str, str] = {"limit": "2"}
        for _ in range(3):
            part = await (await session.get("/api/v1/targets", params=query)).json()
            names += [item["pod"] for item in part["items"]]
            query = {"limit": "2", "continue": part["metadata"].get("continue", "")}
        failing = await (await session.get("/api/v1/targets?state=Failing")).json()
    assert names == ["bad", "pod-0", "pod-1", "pod-2", "pod-3", "pod-4"]
    assert part["metadata"] == {}
    (item,) = failing["items"]
    assert (item["pod"], item["lastErrorKind"], item["lastError"], item["lastSuccess"]) == (
        "bad",
        "Http",
        "status 500",
        None,
    )


async def test_metrics_in_both_formats() -> None:
    async with serving(Reports(report(good()))) as session:
        text = await session.get("/metrics")
        body = await text.text()
        openmetrics = await session.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert text.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert openmetrics.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    names = {family.name for family in text_string_to_metric_families(body)}
    assert {"modeldeployment_requests_running", "observer_targets", "observer_build_info"} <= names


async def test_requests_are_counted_by_pattern_and_not_by_path() -> None:
    async with serving(Reports(report(good()))) as session:
        for path in (DOCUMENT, DOCUMENT.replace("chat", "x"), "/a", "/b"):
            await session.get(path)
        body = await (await session.get("/metrics")).text()
    found = {line for line in body.splitlines() if line.startswith("observer_http_requests_total")}
    pattern = "/api/v1/namespaces/{namespace}/modeldeployments/{name}/metrics"
    assert found == {
        f'observer_http_requests_total{{code="200",route="{pattern}"}} 1.0',
        f'observer_http_requests_total{{code="404",route="{pattern}"}} 1.0',
        'observer_http_requests_total{code="404",route="other"} 2.0',
    }


@pytest.mark.parametrize(("path", "attribute"), [("/livez", "is_alive"), ("/readyz", "is_ready")])
async def test_probes(path: str, attribute: str) -> None:
    source = Reports()
    async with serving(source) as session:
        before = await session.get(path)
        setattr(source, attribute, (False, "no target was read yet"))
        after = await session.get(path)
        text = await after.text()
    assert (before.status, after.status, text) == (200, 503, "failing: no target was read yet\n")


async def test_a_foreign_host_name_is_refused() -> None:
    async with serving(Reports()) as session:
        for host, code in {"localhost": 200, "[::1]:9480": 200, "127.0.0.2": 200, "evil.example": 403}.items():
            answer = await session.get("/livez", headers={"Host": host})
            assert answer.status == code, host


async def test_a_token_is_asked_for_except_by_probes() -> None:
    async with serving(Reports(report(good())), token="secret") as session:
        codes = [
            (await session.get(path, headers=headers)).status
            for path, headers in (
                ("/livez", {}),
                (DOCUMENT, {}),
                (DOCUMENT, {"Authorization": "Bearer other"}),
                (DOCUMENT, {"Authorization": "Bearer secret"}),
                (DOCUMENT, {"Authorization": "Bearer secret", "Host": "observer.example"}),
            )
        ]
    assert codes == [200, 401, 401, 200, 200]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "observer.example"])
def test_other_addresses_need_a_token(host: str) -> None:
    with pytest.raises(ListenError, match="without a token"):
        Server([], Listen(host=host))


LOOPBACK = {"localhost": True, "127.9.9.9": True, "[::1]": True, "::1": True, "a.localhost.": True}
LOOPBACK |= {"": False, "10.0.0.1": False, "localhost.evil.example": False, "127.0.0.1.example": False}


@pytest.mark.parametrize(("host", "wanted"), LOOPBACK.items(), ids=LOOPBACK)
def test_what_is_loopback(host: str, wanted: bool) -> None:
    assert is_loopback(host) is wanted


async def test_a_taken_port_is_said() -> None:
    first = Server([], Listen(port=0))
    await first.start()
    try:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(ListenError, match=rf"cannot listen on 127.0.0.1:{port}.*--listen"):
            await Server([], Listen(port=port)).start()
    finally:
        await first.stop()


async def test_limits_on_headers_and_requests_in_flight() -> None:
    source = Reports(report(good()))
    source.gate.clear()
    async with serving(source, in_flight=1, header_bytes=2000) as session:
        long = await session.get("/livez", headers={"X-Long": "a" * 4000})
        waiting = asyncio.create_task(session.get(f"{DOCUMENT}?fresh=true"))
        while not source.refreshed:
            await asyncio.sleep(0)
        refused = await session.get("/api/v1/targets")
        probe = await session.get("/livez")
        source.gate.set()
        answered = await waiting
    assert (long.status, refused.status, refused.headers["Retry-After"], answered.status) == (400, 429, "1", 200)
    assert probe.status == 200, "who asks how we do is always answered"


async def test_an_answer_that_takes_too_long_is_a_timeout() -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    server = Server([web.get("/never", never)], Listen(port=0, answer_seconds=0.01))
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session, session.get("/never") as answer:
            body = await answer.json()
    finally:
        await server.stop()
    assert (answer.status, body["reason"], body["message"]) == (504, "Timeout", "/never took longer than 0.01 s")


async def test_stopping_lets_requests_in_hand_end() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        begun.set()
        await release.wait()
        return web.Response(text="done")

    server = Server([web.get("/slow", slow)], Listen(port=0))
    await server.start()
    async with aiohttp.ClientSession(server.url) as session:
        request = asyncio.create_task(session.get("/slow"))
        await begun.wait()
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        release.set()
        answer = await request
        assert await answer.text() == "done"
        await stopping


async def test_two_who_ask_for_metrics_at_once_get_the_same_whole_answer() -> None:
    async with serving(Reports(report(good()))) as session:

        async def asked() -> list[str]:
            text = await (await session.get("/metrics")).text()
            return [line for line in text.splitlines() if line.startswith("modeldeployment_")]

        answers = await asyncio.gather(*(asked() for _ in range(4)))
    assert answers[0]
    assert all(answer == answers[0] for answer in answers)
