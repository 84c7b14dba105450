"""Asking engine members: what is asked of which engine, how often, and what each answer or failure becomes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from observer.clock import SystemClock
from observer.collect.api_probe import ApiProbe, EngineMember, ProbeOptions, engine_members
from observer.collect.fetch import Fetcher
from observer.supervise import Supervisor
from router_contract.endpoints import EventsForm
from router_contract.probe_parsers import ProbeError, parse_event_sources, parse_models, parse_version_told
from router_contract.probes import MemberProbe
from router_contract.targets import Address, Deployment, DeploymentKey, KvEventSource, Member, Replica, Role
from tests.fakes import hostile
from tests.fakes.api import Api, in_turn
from tests.fakes.hostile import reply

KEY = DeploymentKey("default", "d")
MODELS = reply(b'{"object":"list","data":[{"id":"tiny"},{"id":"adapter"}]}', headers="Content-Type: text/plain\r\n")
QUICK = ProbeOptions(period=0.05, timeout=2.0)
HASTY = ProbeOptions(period=0.05, timeout=0.2)
PATHS = ("/v1/models", "/health", "/version", "/kv_event_sources")


class Kept:
    """Keeps what was told."""

    def __init__(self) -> None:
        self.probes: list[MemberProbe] = []

    def __call__(self, probe: MemberProbe) -> None:
        self.probes.append(probe)

    async def rounds(self, count: int, uid: str = "uid-a") -> MemberProbe:
        """The latest after so many more rounds."""
        seen = sum(each.uid == uid for each in self.probes)
        async with asyncio.timeout(10):
            while sum(each.uid == uid for each in self.probes) < seen + count:
                await asyncio.sleep(0.005)
        return [each for each in self.probes if each.uid == uid][-1]

    async def until(self, condition: Callable[[MemberProbe], bool]) -> MemberProbe:
        """The first, from now on, of which something holds."""
        seen = len(self.probes)
        async with asyncio.timeout(10):
            while not any(map(condition, self.probes[seen:])):
                await asyncio.sleep(0.005)
        return next(filter(condition, self.probes[seen:]))


def member(port: int, software: str = "vllm", uid: str = "uid-a", **more: object) -> EngineMember:
    address = Address(host="127.0.0.1", port=port, path="")
    made = Member(uid=uid, name=uid, host="127.0.0.1", api=address, **more)  # type: ignore[arg-type]  # a test's shorthand
    return EngineMember(deployment=KEY, software=software, member=made)


@contextlib.asynccontextmanager
async def probing(fetcher: Fetcher, kept: Kept, options: ProbeOptions = QUICK) -> AsyncIterator[ApiProbe]:
    clock = SystemClock()
    async with Supervisor(clock) as supervisor:
        yield ApiProbe(fetcher=fetcher, sink=kept, clock=clock, supervisor=supervisor, options=options)


async def test_sglang_as_recorded_tells_everything_and_is_never_asked_for_its_health(
    recordings: Path, fetcher: Fetcher
) -> None:
    kept = Kept()
    replayed = Api.replaying(recordings / "sglang-0.5.23" / "endpoints-fresh.txt")
    # that file cuts this one answer short; the whole of it has a file of its own
    replayed.routes["/server_info"] = reply((recordings / "sglang-0.5.23" / "server_info.json").read_bytes())
    async with replayed.running() as api:
        async with probing(fetcher, kept) as probe:
            await probe.sync([member(api.port, "sglang")])
            told = await kept.rounds(3)
        assert set(api.asked) == {"/v1/models", "/server_info"}
        assert api.asked.count("/server_info") == 1, "version and publishers come from one answer, once"
    assert told.version is not None
    assert told.version.version == "0.5.23"
    assert told.models is not None
    assert told.models.models == ("tiny",)
    assert told.health is None
    assert told.health_failed is None
    assert told.events is not None
    assert told.events.sources == (
        KvEventSource(endpoint="tcp://127.0.0.1:31571", replay_endpoint="tcp://127.0.0.1:31671", topic="kv-events"),
    )


async def test_vllm_tells_a_publisher_for_each_rank(recordings: Path, fetcher: Fetcher) -> None:
    kept = Kept()
    routes = {
        "/version": reply(b'{"version":"0.32.0"}'),
        "/v1/models": MODELS,
        "/health": reply(),
        "/kv_event_sources": reply((recordings / "vllm-0.32.0" / "kv_event_sources-dp2.json").read_bytes()),
    }
    async with Api(routes).running() as api, probing(fetcher, kept) as probe:
        await probe.sync([member(api.port)])
        told = await kept.rounds(3)
        assert api.asked.count("/version") == api.asked.count("/kv_event_sources") == 1
        assert api.asked.count("/v1/models") >= 3
    assert told.models is not None
    assert told.models.models == ("adapter", "tiny")
    assert told.health is not None
    assert told.health.healthy
    assert told.events is not None
    assert [(each.rank, each.endpoint, each.replay_endpoint) for each in told.events.sources] == [
        (0, "tcp://127.0.0.1:15557", "tcp://127.0.0.1:15657"),
        (1, "tcp://127.0.0.1:15558", "tcp://127.0.0.1:15658"),
    ]


async def test_a_restart_makes_the_old_process_say_nothing_more(fetcher: Fetcher) -> None:
    kept = Kept()
    versions = in_turn(reply(b'{"version":"0.1"}'), reply(status="503 Loading"), reply(b'{"version":"0.2"}'))
    events = in_turn(reply(b"{}"), reply(status="503 Loading"), reply(b"{}"))
    async with (
        Api({"/version": versions, "/v1/models": MODELS, "/kv_event_sources": events}).running() as api,
        probing(fetcher, kept) as probe,
    ):
        await probe.sync([member(api.port)])
        first = await kept.rounds(1)
        assert first.version is not None
        probe.restarted(KEY, "uid-a")
        probe.restarted(KEY, "nobody")
        loading = await kept.rounds(1)
        assert loading.version is None
        assert loading.version_failed is not None
        assert loading.version_failed.status == 503
        assert loading.events == first.events, "a subscription is not given up for a moment's doubt"
        again = await kept.rounds(2)
    assert again.version is not None
    assert again.version.version == "0.2"
    assert again.version_failed is None


async def test_a_restarted_container_is_asked_again(fetcher: Fetcher) -> None:
    kept = Kept()
    async with (
        Api({"/version": reply(b'{"version":"1"}'), "/v1/models": MODELS}).running() as api,
        probing(fetcher, kept) as probe,
    ):
        await probe.sync([member(api.port, restarts=0)])
        await kept.rounds(2)
        await probe.sync([member(api.port, restarts=0, terminating=True)])
        await kept.rounds(2)
        assert api.asked.count("/version") == 1
        await probe.sync([member(api.port, restarts=1)])
        await kept.rounds(2)
        assert api.asked.count("/version") == 2


async def test_an_answer_that_a_restart_overtook_does_not_count(fetcher: Fetcher) -> None:
    kept = Kept()
    asked, go = asyncio.Event(), asyncio.Event()

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        asked.set()
        await go.wait()
        await reply(b'{"version":"old"}')(reader, writer, head)

    versions = in_turn(old, reply(b'{"version":"new"}'))
    async with Api({"/version": versions, "/v1/models": MODELS}).running() as api, probing(fetcher, kept) as probe:
        await probe.sync([member(api.port)])
        await asked.wait()
        probe.restarted(KEY, "uid-a")
        go.set()
        await kept.rounds(2)
    assert {each.version.version for each in kept.probes if each.version is not None} == {"new"}


async def test_a_process_that_comes_back_after_refusing_is_asked_who_it_is(fetcher: Fetcher) -> None:
    kept = Kept()
    async with probing(fetcher, kept) as probe:
        async with Api({"/version": reply(b'{"version":"1"}'), "/v1/models": MODELS}).running() as api:
            port = api.port
            await probe.sync([member(port)])
            await kept.rounds(2)
        down = await kept.rounds(2)
        assert down.models_failed is not None
        async with Api({"/version": reply(b'{"version":"2"}'), "/v1/models": MODELS}).running(port):
            back = await kept.rounds(3)
    assert back.version is not None
    assert back.version.version == "2"


async def test_what_was_told_stays_beside_a_later_failure(fetcher: Fetcher) -> None:
    kept = Kept()
    routes = {"/v1/models": MODELS, "/health": reply()}
    async with Api(routes).running() as api, probing(fetcher, kept, HASTY) as probe:
        await probe.sync([member(api.port)])
        good = await kept.rounds(1)
        api.routes |= {"/v1/models": hostile.never, "/health": reply(status="503 Dead")}
        bad = await kept.rounds(2)
    assert bad.models is not None
    assert good.models is not None
    assert bad.models.at >= good.models.at
    assert bad.models_failed is not None
    assert bad.models_failed.kind == "Timeout"
    assert bad.models_failed.at > bad.models.at
    assert bad.health is not None
    assert (bad.health.healthy, bad.health.status) == (False, 503)


async def test_an_engine_without_a_route_is_not_asked_for_it_every_round(fetcher: Fetcher) -> None:
    kept = Kept()
    async with Api({"/v1/models": MODELS}).running() as api, probing(fetcher, kept) as probe:
        await probe.sync([member(api.port)])
        told = await kept.rounds(4)
        assert api.asked.count("/kv_event_sources") == 1
    assert told.events is None, "not told is not the same as none"
    assert told.events_failed is not None
    assert told.events_failed.status == 404


async def test_an_answer_of_another_shape_is_not_asked_for_every_round(fetcher: Fetcher) -> None:
    kept = Kept()
    async with Api({"/server_info": reply(b'{"version":"0.4.6"}')}).running() as api, probing(fetcher, kept) as probe:
        await probe.sync([member(api.port, "sglang")])
        told = await kept.rounds(4)
        assert api.asked.count("/server_info") == 1
    assert told.version is not None
    assert told.events is None
    assert told.events_failed is not None
    assert told.events_failed.kind == "Malformed"


async def test_version_and_publishers_are_asked_now_and_then(fetcher: Fetcher) -> None:
    kept = Kept()
    options = ProbeOptions(period=0.05, timeout=2.0, identity_period=0.0)
    async with Api({"/version": reply(b'{"version":"1"}')}).running() as api, probing(fetcher, kept, options) as probe:
        await probe.sync([member(api.port)])
        await kept.rounds(3)
        assert api.asked.count("/version") >= 3


async def test_nobody_there_costs_one_question_a_round_and_ends_the_life(fetcher: Fetcher) -> None:
    kept = Kept()
    async with probing(fetcher, kept) as probe:
        await probe.sync([member(hostile.closed_port())])
        told = await kept.rounds(2)
    failed = (told.version_failed, told.models_failed, told.health_failed, told.events_failed)
    assert {each.kind.value for each in failed if each is not None} == {"Refused"}
    assert all(each is not None for each in failed)


FAILURES = [
    ("hang", hostile.never, "Timeout"),
    ("redirect", reply(status="307 Elsewhere", headers="Location: http://127.0.0.1:1/\r\n"), "Redirect"),
    ("oversize", reply(b"", length=(1 << 20) + 1), "TooLarge"),
    ("not json", reply(b"No models available"), "Malformed"),
    ("empty", reply(b""), "Malformed"),
    ("nested", reply(b"[" * 100_000), "Malformed"),
    ("server error", reply(status="500 Oh"), "Http"),
]


@pytest.mark.parametrize(("answer", "kind"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
async def test_each_failure_is_a_value_and_delays_no_other(fetcher: Fetcher, answer: hostile.Answer, kind: str) -> None:
    kept = Kept()
    bad = {"/v1/models": answer, "/version": answer, "/kv_event_sources": answer, "/health": answer}
    async with (
        Api(bad).running() as one,
        Api({"/v1/models": MODELS}).running() as two,
        probing(fetcher, kept, HASTY) as probe,
    ):
        await probe.sync([member(one.port), member(two.port, uid="uid-b")])
        told = await kept.until(lambda probe: probe.uid == "uid-a" and probe.events_failed is not None)
        other = await kept.rounds(2, "uid-b")
    for failed in (told.models_failed, told.version_failed, told.events_failed):
        assert failed is not None
        assert failed.kind == kind
        assert failed.detail
    assert other.models is not None


async def test_a_listing_is_told_before_questions_that_hang_are_over(fetcher: Fetcher) -> None:
    kept, slow = Kept(), ProbeOptions(period=30.0, timeout=2.0)
    routes = {"/v1/models": MODELS, "/health": hostile.never, "/version": hostile.never}
    async with Api(routes).running() as api, probing(fetcher, kept, slow) as probe:
        await probe.sync([member(api.port)])
        probe.restarted(KEY, "uid-a")  # at once, not at its slot
        told = await kept.until(lambda probe: probe.models is not None)
        assert (told.health, told.health_failed, told.version_failed) == (None, None, None)
        told = await kept.until(lambda probe: probe.version_failed is not None)
        assert told.health_failed is not None


async def test_a_member_that_hangs_everywhere_is_not_asked_everything_in_each_round(fetcher: Fetcher) -> None:
    kept = Kept()
    async with Api(dict.fromkeys(PATHS, hostile.never)).running() as api, probing(fetcher, kept, HASTY) as probe:
        await probe.sync([member(api.port)])
        await kept.until(lambda probe: probe.version_failed is not None)
        await kept.rounds(12)
        asked = [path for path in api.asked if path in PATHS]
    levels, identity = asked.count("/v1/models"), asked.count("/version")
    assert identity, "though not never"
    assert levels >= 2 * identity - 1


async def test_members_that_leave_are_asked_no_more(fetcher: Fetcher) -> None:
    kept = Kept()
    async with Api({"/v1/models": MODELS}).running() as api, probing(fetcher, kept) as probe:
        await probe.sync([member(api.port), member(api.port, uid="uid-b")])
        await kept.rounds(1)
        await kept.rounds(1, "uid-b")
        await probe.sync([member(api.port)])
        before = sum(each.uid == "uid-b" for each in kept.probes)
        await kept.rounds(3)
        assert sum(each.uid == "uid-b" for each in kept.probes) == before


def test_only_serving_members_with_an_api_and_a_known_engine_are_asked() -> None:
    api = Address(host="10.0.0.1", port=8000, path="")
    members = (
        Member(uid="leader", name="leader", api=api),
        Member(uid="follower", name="follower", api=api, serves=False),
        Member(uid="nowhere", name="nowhere"),
    )
    replicas = (Replica(members=members),)
    roles = (Role(name="a", engine="vLLM", replicas=replicas), Role(name="b", engine="else", replicas=replicas))
    found = list(engine_members([Deployment(key=KEY, uid="u", roles=roles)]))
    assert [(each.member.uid, each.software) for each in found] == [("leader", "vLLM")]


def test_a_listing_is_never_older_than_two_scrape_periods_while_all_is_well() -> None:
    options = ProbeOptions.of(5.0, 2.0)
    assert options.period + options.timeout <= 2 * 5.0
    assert ProbeOptions.of(5.0, 9.0).period == 5.0


def rank(**fields: object) -> bytes:
    made = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": "tcp://*:1", "topic": ""}
    return json.dumps({"0": made | fields}).encode()


def base(**fields: object) -> bytes:
    made = {"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": 5557, "topic": "t", "dp_size": 2}
    return json.dumps({"kv_events": made | fields}).encode()


@pytest.mark.parametrize(
    ("form", "body", "endpoints", "notes"),
    [
        pytest.param(EventsForm.BY_RANK, rank(), ["tcp://[fd00::1]:1"], 0, id="wildcard"),
        pytest.param(EventsForm.BY_RANK, rank(enable_kv_cache_events=False), [], 0, id="turned off"),
        pytest.param(EventsForm.BY_RANK, rank(endpoint="tcp://10.9.9.9:1"), [], 1, id="connects outwards"),
        pytest.param(EventsForm.BY_RANK, rank(endpoint="tcp://*:0"), [], 1, id="port not told"),
        pytest.param(EventsForm.BY_RANK, rank(endpoint="ipc:///x"), [], 1, id="not a network socket"),
        pytest.param(EventsForm.BY_RANK, b"{}", [], 0, id="no rank"),
        pytest.param(EventsForm.PORT_BASE, base(), ["tcp://[fd00::1]:5557", "tcp://[fd00::1]:5558"], 0, id="two ranks"),
        pytest.param(EventsForm.PORT_BASE, base(endpoint_host="169.254.169.254"), [], 1, id="not this member"),
        pytest.param(EventsForm.PORT_BASE, b'{"kv_events":null}', [], 0, id="none configured"),
    ],
)
def test_publishers_are_dialled_only_where_the_engine_says(
    form: EventsForm, body: bytes, endpoints: list[str], notes: int
) -> None:
    found = parse_event_sources(body, form, "fd00::1")
    assert [each.endpoint for each in found.sources] == endpoints
    assert len(found.problems) == notes


@pytest.mark.parametrize(
    ("form", "body", "wanted"),
    [
        (EventsForm.PORT_BASE, b'{"version":"0.4.6"}', "does not tell"),
        (EventsForm.PORT_BASE, b"[]", "an object is wanted"),
        (EventsForm.BY_RANK, b'{"0":5}', "no object"),
        (EventsForm.BY_RANK, b'{"detail":"x"}', "no object"),
    ],
)
def test_an_engine_that_does_not_tell_publishers_is_an_error(form: EventsForm, body: bytes, wanted: str) -> None:
    with pytest.raises(ProbeError, match=wanted):
        parse_event_sources(body, form, "10.0.0.1")


@pytest.mark.parametrize("body", [b"{}", b'{"version":""}', b'{"version":5}', b'{"version":null}', b'"0.1"'])
def test_a_version_is_a_text(body: bytes) -> None:
    with pytest.raises(ProbeError):
        parse_version_told(body, "version")


@pytest.mark.parametrize("body", [b"{}", b'{"data":{}}', b'{"data":[{}]}', b'{"data":[{"id":""}]}', b'{"data":[1]}'])
def test_a_model_list_is_strict(body: bytes) -> None:
    with pytest.raises(ProbeError):
        parse_models(body)


def test_an_empty_model_list_is_an_answer() -> None:
    assert parse_models(b'{"data":[]}') == ()
