"""One round of asking a router Pod: which way answers, what is remembered, and how each failure reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from observer.collect.fetch import Fetcher
from observer.collect.view_sources import RouterMember, ViewOptions, ViewRound
from router_contract.readings import Instant, Series
from router_contract.router_series import circuit_reading, endpoint_series
from router_contract.router_views import Circuit, CircuitReading, EndpointSeries, RouterView, ViewFailed, ViewSource
from router_contract.targets import Address, DeploymentKey, Member
from tests.fakes import hostile
from tests.fakes.api import Api, in_turn
from tests.fakes.hostile import closed_port, reply

QUICK = ViewOptions(timeout=0.3, busy_pause=0.01, retry_absent=60.0, valid=15.0, series_fresh=12.0)
ROW = {
    "url": "http://10.0.0.1:8000",
    "port": "8000",
    "role": "regular",
    "pod_hint": None,
    "worker_id": "w",
    "selection": {"registered": True, "healthy": True, "circuit_open": False, "in_selection": True},
}
NO = reply(status="404 Not Found")


class Hands:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> Instant:
        return Instant(self.at, 1.7e9 + self.at)


class World:
    """One router Pod, its clock, and what its metrics scrape last saw."""

    def __init__(self, fetcher: Fetcher, api: Api | None, software: str, **more: object) -> None:
        self.clock = Hands()
        self.circuits: CircuitReading | None = None
        self.endpoints: EndpointSeries | None = None
        port = api.port if api is not None else closed_port()
        address = Address(host="127.0.0.1", port=port, path="")
        member = Member(uid="uid-r", name="r-0", host="127.0.0.1", api=address, metrics=address)
        self.subject = RouterMember(
            deployment=DeploymentKey("default", "d"),
            software=software,
            member=member,
            **more,  # type: ignore[arg-type]  # a test's shorthand
        )
        self.round = ViewRound(fetcher, self.clock, QUICK, lambda _: self.circuits, lambda _: self.endpoints)

    async def read(self) -> RouterView | ViewFailed:
        return await self.round.read(self.subject)

    async def view(self) -> RouterView:
        found = await self.read()
        assert isinstance(found, RouterView), found
        return found

    async def failure(self) -> ViewFailed:
        found = await self.read()
        assert isinstance(found, ViewFailed), found
        return found

    def saw(self, path: Path, circuit: str, outcomes: str) -> None:
        """The metrics scrape as it read a recording."""
        self.circuits = circuit_reading(
            self.clock.now(), series(path, circuit, "worker"), series(path, outcomes, "worker"), whole=True
        )


def series(path: Path, name: str, label: str) -> Iterator[Series]:
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            if sample.name == name and sample.value >= 0:
                yield Series(labels=((label, sample.labels.get(label, "")),), value=sample.value)


def patched(*rows: object, boot: int = 7) -> bytes:
    document = {"router": {"boot_generation": boot, "now_ms": 1}, "registry_revision": 3, "workers": list(rows)}
    return json.dumps(document).encode()


RECORDED = [
    (
        "vllm-router-0.1.17",
        "04-errors500",
        "vllm_router",
        "vllm_router",
        {"18001": True, "18002": False, "18003": True},
    ),
    ("vllm-router-0.1.17", "01-fresh", "vllm_router", "vllm_router", {"18001": True, "18002": True, "18003": True}),
    (
        "sglang-router-0.3.2",
        "04-errors500",
        "sglang_gateway",
        "smg_worker",
        {"18001": True, "18002": False, "18003": True},
    ),
    ("sglang-router-0.3.2", "32-no-worker-up", "sglang_gateway", "smg_worker", {}),
    ("sglang-router-0.2.4", "01-fresh", "sglang_gateway", "sgl_router", {"31001": True, "31002": True}),
    ("sglang-router-0.1.9", "01-fresh", "sglang_gateway", "sgl_router", {"31001": None, "31002": None}),
]


@pytest.mark.parametrize(("folder", "number", "software", "prefix", "wanted"), RECORDED, ids=lambda v: str(v)[:20])
async def test_a_recorded_router_answers_by_its_worker_api(
    recordings: Path, fetcher: Fetcher, folder: str, number: str, software: str, prefix: str, wanted: dict[str, bool]
) -> None:
    """The worker API joined with the circuits that the metrics port of the same moment shows."""
    async with Api.replaying(recordings / folder / f"endpoints-{number}.txt").running() as api:
        world = World(fetcher, api, software)
        world.saw(recordings / folder / f"metrics-{number}.prom", f"{prefix}_cb_state", f"{prefix}_cb_outcomes_total")
        view = await world.view()
    assert view.source is ViewSource.WORKERS_API
    assert {str(row.port): row.in_selection for row in view.workers} == wanted
    assert (view.router, view.pod_uid, view.read_at) == ("r-0", "uid-r", world.clock.now())


async def test_ranks_after_an_at_sign_are_told_apart(recordings: Path, fetcher: Fetcher) -> None:
    folder = recordings / "vllm-router-0.1.17"
    async with Api.replaying(folder / "endpoints-51-dp2.txt").running() as api:
        world = World(fetcher, api, "vllm-router")
        world.saw(folder / "metrics-51-dp2.prom", "vllm_router_cb_state", "vllm_router_cb_outcomes_total")
        view = await world.view()
    assert sorted((row.host, row.port, row.rank, row.in_selection) for row in view.workers) == [
        ("127.0.0.1", 18101, 0, True),
        ("127.0.0.1", 18101, 1, True),
    ]


async def test_the_vllm_router_is_asked_for_nothing_that_it_hands_on(recordings: Path, fetcher: Fetcher) -> None:
    """Its unknown paths go to an engine, move its counters and count as an outcome of that worker's circuit."""
    async with Api.replaying(recordings / "vllm-router-0.1.17" / "endpoints-02-traffic.txt").running() as api:
        world = World(fetcher, api, "vllm_router")
        for _ in range(3):
            await world.view()
        api.routes["/workers"] = hostile.never
        await world.failure()
    assert set(api.asked) == {"/workers"}


async def test_a_platform_with_patched_routers_has_the_route_asked_once_in_a_process_life(fetcher: Fetcher) -> None:
    workers = reply(b'{"workers":[]}')
    async with Api({"/workers": workers}).running() as api:
        world = World(fetcher, api, "vllm_router", patched=True)
        await world.view()
        world.clock.at += 10_000
        view = await world.view()
        assert api.asked == ["/observer/endpoints", "/workers", "/workers"]
        assert view.passed_over[0][0] == "observer-endpoints"
        world.round.forget()
        await world.view()
    assert api.asked.count("/observer/endpoints") == 2


async def test_without_a_worker_api_the_patched_route_is_tried(fetcher: Fetcher) -> None:
    async with Api({"/observer/endpoints": reply(patched(ROW))}).running() as api:
        view = await World(fetcher, api, "vllm_router").view()
        assert api.asked == ["/workers", "/list_workers", "/observer/endpoints"]
    assert view.source is ViewSource.OBSERVER_ENDPOINTS


async def test_the_strongest_way_wins_and_carries_the_boot_identity(fetcher: Fetcher) -> None:
    routes = {"/observer/endpoints": reply(patched(ROW, boot=42)), "/workers": reply(b'{"workers":[]}')}
    async with Api(routes).running() as api:
        view = await World(fetcher, api, "sglang_gateway").view()
        assert api.asked == ["/observer/endpoints"]
    assert (view.source, view.boot_id, view.revision) == (ViewSource.OBSERVER_ENDPOINTS, "42", 3)
    assert [(row.circuit, row.in_selection) for row in view.workers] == [(Circuit.CLOSED, True)]


async def test_a_way_that_is_not_there_is_asked_again_only_after_a_while(fetcher: Fetcher) -> None:
    async with Api({"/workers": reply(b'{"workers":[]}')}).running() as api:
        world = World(fetcher, api, "smg")
        for _ in range(3):
            await world.view()
        assert api.asked == ["/observer/endpoints", "/workers", "/workers", "/workers"]
        api.routes["/observer/endpoints"] = reply(patched())
        world.clock.at += QUICK.retry_absent + 1
        assert (await world.view()).source is ViewSource.OBSERVER_ENDPOINTS


async def test_busy_is_asked_again_within_the_round(fetcher: Fetcher) -> None:
    busy = reply(b"busy", status="503 Service Unavailable")
    async with Api({"/observer/endpoints": in_turn(busy, busy, reply(patched(ROW)))}).running() as api:
        view = await World(fetcher, api, "smg").view()
        assert api.asked == ["/observer/endpoints"] * 3
    assert view.source is ViewSource.OBSERVER_ENDPOINTS


async def test_a_weaker_way_takes_over_only_when_the_last_view_no_longer_counts(fetcher: Fetcher) -> None:
    busy = reply(b"busy", status="503 Service Unavailable")
    good = reply(patched(ROW))
    routes = {"/observer/endpoints": in_turn(good, busy), "/workers": reply(b'{"workers":[]}')}
    async with Api(routes).running() as api:
        world = World(fetcher, api, "smg")
        await world.view()
        failed = await world.failure()
        assert (failed.kind, failed.status) == ("Http", 503)
        assert "/workers" not in api.asked
        world.clock.at += QUICK.valid + 1
        view = await world.view()
        assert view.source is ViewSource.WORKERS_API
        assert "503" in view.passed_over[0][1]
        api.routes["/observer/endpoints"] = good
        assert (await world.view()).source is ViewSource.OBSERVER_ENDPOINTS


FAILURES = [
    ("hang", hostile.never, "Timeout", None),
    ("redirect", reply(status="302 Found", headers="Location: http://127.0.0.1:1/workers\r\n"), "Redirect", 302),
    ("oversize", reply(b"", length=(4 << 20) + 1), "TooLarge", None),
    ("not json", reply(b"<html>"), "Malformed", None),
    ("nested", reply(b"[" * 100_000), "Malformed", None),
    ("no array", reply(b'{"workers":null}'), "Malformed", None),
    (
        "bad url",
        reply(json.dumps({"workers": [{"url": "http://h:1@" + "9" * 5000, "is_healthy": True}]}).encode()),
        "Malformed",
        None,
    ),
    ("cut short", reply(b'{"workers":', length=100), "Timeout", None),
    ("forbidden", reply(status="403 Forbidden"), "Http", 403),
    ("server error", reply(status="500 Oh"), "Http", 500),
    ("busy for ever", reply(status="503 Busy"), "Http", 503),
    ("nothing there", NO, "Http", 404),
]


@pytest.mark.parametrize(("answer", "kind", "status"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
async def test_each_failure_is_a_value_with_a_sentence(
    fetcher: Fetcher, answer: hostile.Answer, kind: str, status: int | None
) -> None:
    async with Api({"/workers": answer}).running() as api:
        found = await World(fetcher, api, "vllm_router").failure()
        asked = list(api.asked)
    assert (found.kind, found.status) == (kind, status)
    assert found.detail
    assert "metrics" not in found.detail
    assert not any(path in asked for path in ("/metrics", "/v1/models", "/server_info"))


async def test_a_refused_listener_is_not_asked_twice_and_the_process_is_forgotten(fetcher: Fetcher) -> None:
    world = World(fetcher, None, "smg")
    assert (await world.failure()).kind == "Refused"
    async with Api({"/workers": reply(b'{"workers":[]}')}).running() as api:
        address = Address(host="127.0.0.1", port=api.port, path="")
        member = msgspec.structs.replace(world.subject.member, api=address)
        gone, there = world.subject, msgspec.structs.replace(world.subject, member=member)
        world.subject = there
        await world.view()
        world.subject = gone
        assert (await world.failure()).kind == "Refused"
        world.subject = there
        await world.view()
        assert api.asked == ["/observer/endpoints", "/workers"] * 2, "a new process may have what the old one had not"


async def test_a_router_without_an_address_is_a_missing_view(fetcher: Fetcher) -> None:
    world = World(fetcher, None, "smg")
    world.subject = msgspec.structs.replace(world.subject, member=Member(uid="u", name="r-1"))
    found = await world.failure()
    assert (found.kind, found.pod_uid) == ("NoAddress", "u")


async def test_an_unknown_router_is_said_so(fetcher: Fetcher) -> None:
    assert (await World(fetcher, None, "haproxy").failure()).kind == "UnknownSoftware"


@pytest.mark.parametrize("age", [None, 13.0], ids=["never read", "stale"])
async def test_without_fresh_metrics_a_circuit_is_unknown_and_so_is_the_selection(
    fetcher: Fetcher, age: float | None
) -> None:
    body = b'{"workers":[{"url":"http://10.0.0.1:8000","is_healthy":true},{"url":"http://10.0.0.2:8000","is_healthy":false}]}'
    async with Api({"/workers": reply(body)}).running() as api:
        world = World(fetcher, api, "vllm_router")
        if age is not None:
            world.circuits = CircuitReading(at=Instant(world.clock.at - age, 0.0))
        view = await world.view()
    assert [(row.circuit, row.in_selection) for row in view.workers] == [
        (Circuit.UNKNOWN, None),
        (Circuit.UNKNOWN, False),
    ]
    assert view.circuits_read_at is None


def epp(world: World, names: tuple[str, ...], ready: float | None) -> EndpointSeries:
    queues = [Series(labels=(("endpoint", name),), value=0.0) for name in names]
    return endpoint_series(world.clock.now(), queues, [] if ready is None else [Series(value=ready)], whole=True)


async def test_llm_d_is_read_from_its_series_and_told_loads_where_allowed(fetcher: Fetcher) -> None:
    state = b'{"plugins":{"inflight":{"state":{"endpoints":[{"endpoint":"a-rank-0","requests":3,"tokens":9}]}}}}'
    async with Api({"/debug/plugins/state": reply(state)}).running() as api:
        world = World(fetcher, api, "llm-d")
        world.endpoints = epp(world, ("a-rank-0", "b-rank-0"), 2)
        view = await world.view()
    assert view.source is ViewSource.SERIES
    assert [(row.endpoint, row.rank, row.in_selection, row.load) for row in view.workers] == [
        ("a", 0, True, 3.0),
        ("b", 0, True, None),
    ]


async def test_llm_d_without_its_debug_state_is_asked_for_it_once(fetcher: Fetcher) -> None:
    async with Api({"/debug/plugins/state": reply(status="401 Unauthorized")}).running() as api:
        world = World(fetcher, api, "llm_d")
        world.endpoints = epp(world, ("a-rank-0",), 2)
        assert [row.in_selection for row in (await world.view()).workers] == [None], "the counts do not agree"
        await world.view()
        assert api.asked.count("/debug/plugins/state") == 1


@pytest.mark.parametrize(
    ("change", "kind"),
    [("none", "NeverRead"), ("old", "Expired"), ("no gauge", "Malformed")],
)
async def test_llm_d_without_usable_series_has_no_view(fetcher: Fetcher, change: str, kind: str) -> None:
    async with Api().running() as api:
        world = World(fetcher, api, "llm_d")
        if change != "none":
            world.endpoints = epp(world, (), None if change == "no gauge" else 0)
        if change == "old":
            world.clock.at += 13
        assert (await world.failure()).kind == kind


async def test_llm_ds_journal_must_say_whether_it_still_dispatches(fetcher: Fetcher) -> None:
    wrong = reply(patched(ROW | {"last_job": {"other": 1}}))
    right = reply(patched(ROW | {"last_job": {"recent_dispatch": True}}))
    async with Api({"/observer/endpoints": in_turn(wrong, right)}).running() as api:
        world = World(fetcher, api, "llm_d")
        assert (await world.failure()).kind == "Malformed"
        assert [row.recent_dispatch for row in (await world.view()).workers] == [True]


async def test_headers_and_tokens_go_along(fetcher: Fetcher, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-1\n")
    async with Api({"/workers": reply(b'{"workers":[]}')}).running() as api:
        world = World(fetcher, api, "vllm_router")
        assert world.subject.member.api is not None
        address = msgspec.structs.replace(
            world.subject.member.api, headers=(("X-Tenant", "t"),), bearer_token_file=str(token)
        )
        world.subject = msgspec.structs.replace(
            world.subject, member=msgspec.structs.replace(world.subject.member, api=address)
        )
        await world.view()
        assert api.header("authorization") == ["Bearer secret-1"]
        assert api.header("x-tenant") == ["t"]
        assert "application/json" in api.header("accept")[0]
