"""Documents put together of kept parts are, to the byte, those that are made of a whole report at the same instant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from exporters import kept_documents
from exporters.aggregated.api import AggregatedContent
from exporters.aggregated.request import ask
from exporters.document import metrics_document, not_found
from exporters.encoding import encode
from exporters.kept_documents import KeptDocuments
from exporters.protocols import Sight
from exporters.signals_read import DOCUMENT_SIGNALS, document_report
from exporters.summaries import deployment_summary
from observer.app import role_windows
from observer.app.source import Source
from observer.settings import Settings
from router_contract.documents import Unavailable
from router_contract.readings import Instant
from router_contract.targets import Deployment, DeploymentKey, Replica, Role
from router_contract.verdicts import TargetReport
from tests.app.watched import Watched
from tests.fleets import KEY, at, body, deployment, member, routed, take, target, ttft

SECOND = ttft((0.0, 4.0, 5.0), total=2.5).replace('engine="0"', 'engine="1"').split("\n", 1)[1]
WAITING = '# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine="0"} 3\n'
ITL = ttft((2.0, 3.0, 9.0), total=0.7).replace("time_to_first_token", "inter_token_latency")
HITS = (
    '# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total{engine="0"} %d\n'
    '# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total{engine="0"} %d\n'
)
BODIES = (
    body(1, 100, (1.0, 2.0, 3.0), more=WAITING + ITL + HITS % (100, 20)),
    body(2, 150, (2.0, 4.0, 6.0), total=3.7, more=ITL.replace(" 9.0", " 11.0") + WAITING + HITS % (180, 30)),
    body(2, 170, (3.0, 6.0, 9.0), total=5.1, more=SECOND),
    body(2, 50, (0.0, 1.0, 1.0)),
    body(3, 60, None),
    body("NaN", 170, (4.0, 4.0, 6.0), bounds=("0.2", "1.0", "+Inf")),
    body(1, 180, (4.0, 3.0, 6.0)),
    body(1, 200, (4.5, 5.5, 8.5)),
    b"nothing that anybody could read",
    b"# TYPE vllm:some_other counter\nvllm:some_other 4\n",
)
ROUTER = (
    b"# TYPE vllm_router:running_requests gauge\nvllm_router:running_requests 2\n"
    b"# TYPE vllm_router:request_errors_total counter\nvllm_router:request_errors_total 1\n"
)


class World(Watched):
    """A source over a store, and its documents."""

    def __init__(self, of: Deployment, pods: int = 0) -> None:
        super().__init__(of)
        self.pods = pods
        self.documents = KeptDocuments(self.source, pods)

    def check(self) -> None:
        """The kept document, and the summary of a report without the other signals, are those of the whole report."""
        report = self.source.deployment(KEY)
        assert report is not None
        made, kept = metrics_document(report, self.pods), self.documents.document(KEY)
        assert kept == (made if isinstance(made, Unavailable) else encode(made))
        short = document_report(self.source, KEY)
        assert short is not None
        assert encode(deployment_summary(short)) == encode(deployment_summary(report))


NAMES = ("a", "b", "c")
STEPS = st.one_of(
    st.tuples(st.just("read"), st.sampled_from(NAMES), st.integers(0, len(BODIES) - 1)),
    st.tuples(st.just("read"), st.sampled_from(NAMES), st.integers(0, 2)),
    st.tuples(st.just("fail"), st.sampled_from(NAMES), st.sampled_from(("no route", 'a "quoted" \\ detail'))),
    st.tuples(st.just("wait"), st.sampled_from((0.3, 5.0, 13.0, 290.0, 400.0)), st.none()),
    st.tuples(st.just("shed"), st.sets(st.sampled_from(NAMES)), st.none()),
    st.tuples(st.just("members"), st.sets(st.sampled_from(NAMES)), st.booleans()),
    st.tuples(st.just("version"), st.sampled_from(NAMES), st.sampled_from(("0.6.0", "0.32.0"))),
)


def grown(names: Iterable[str], *, split: bool) -> Deployment:
    """These members and a router, in one role or in a pair of roles, one of them leaving."""
    found = routed(*sorted(names))
    roles = found.roles
    if split:
        leaving = tuple(
            Replica(ordinal=each.ordinal, members=tuple(replace(one, terminating=True) for one in each.members))
            for each in roles[0].replicas[:1]
        )
        first = replace(roles[0], name="prefill", kind="prefill", replicas=roles[0].replicas[1:2] + leaving, desired=2)
        roles = (first, replace(roles[0], name="decode", kind="decode", replicas=roles[0].replicas[2:], desired=1))
    return replace(found, roles=roles)


def play(world: World, steps: list[tuple[str, Any, Any]]) -> None:
    seconds = 0.0
    for kind, what, more in steps:
        seconds += 0.5 if kind != "wait" else what
        world.clock.set(seconds)
        there = {each.member for each in world.of.targets()}
        if kind == "read" and what in there:
            take(world.store, world.of, what, BODIES[more], seconds)
        elif kind == "fail" and what in there:
            world.fail(what, more)
        elif kind == "shed":
            world.pool.shed = tuple(each.key for each in world.of.targets() if each.member in what)
        elif kind == "members":
            world.change(grown(what, split=more))
        elif kind == "version":
            world.store.tell_version(KEY, f"uid-{what}", more)
        if "router" in there and kind == "wait":
            take(world.store, world.of, "router", ROUTER, seconds)
        world.check()


@given(st.lists(STEPS, max_size=25), st.sampled_from((0, 2)))
@settings(max_examples=60, deadline=None)
def test_whatever_happened_the_bytes_are_those_of_the_whole_report(
    steps: list[tuple[str, Any, Any]], pods: int
) -> None:
    play(World(routed(*NAMES), pods), steps)


def test_what_is_played_reaches_documents_with_everything() -> None:
    """So that the property above is about something."""
    world = World(routed(*NAMES))
    play(world, [("read", name, which) for which in (0, 1) for name in NAMES])
    made = world.documents.document(KEY)
    assert isinstance(made, bytes)
    for name in ("processing", "queueing", "cacheHits", "latency", "traffic", "missing", "coverage", "roles"):
        assert f'"{name}":'.encode() in made, name
    assert made.count(b'"ttft"') == len(NAMES) + 1


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(((0.5, 1.25, 2.0), (0.75, 2.5, 3.0)), id="counts that are no whole numbers"),
        pytest.param(((1e16, 1e16, 1e16), (3e16, 3e16, 3e16)), id="counts too large to add in any order"),
        pytest.param(((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), id="nothing observed"),
    ],
)
def test_role_windows_of_odd_counts(counts: tuple[tuple[float, ...], ...]) -> None:
    world = World(deployment(*NAMES))
    for step, of in enumerate((*counts, *counts)):
        for place, name in enumerate(NAMES):
            seconds = 5.0 * step + place
            world.clock.set(seconds)
            take(world.store, world.of, name, body(1, 10, of), seconds)
            world.check()


def test_a_member_that_never_answered_and_others_of_one_role() -> None:
    world = World(deployment(*NAMES))
    for step in range(4):
        world.clock.set(5.0 * step)
        for name in NAMES[1:]:
            take(world.store, world.of, name, BODIES[step % 2], 5.0 * step)
        world.check()


def test_pods_of_one_name_are_put_in_order_all_the_same() -> None:
    same = tuple(replace(member("x", 8000 + place, uid=f"uid-{place}"), name="x") for place in range(2))
    role = Role(
        name="server",
        engine="vllm",
        desired=2,
        replicas=tuple(Replica(ordinal=n, members=(m,)) for n, m in enumerate(same)),
    )
    world = World(Deployment(key=KEY, uid="uid", roles=(role,)))
    for step in range(3):
        world.clock.set(5.0 * step)
        for each in world.of.targets():
            world.store.on_body(each, BODIES[step % 2], "text/plain", at(5.0 * step), 0.01)
        world.check()


def test_a_deployment_that_is_not_there_and_one_that_left() -> None:
    world = World(deployment("a"))
    gone = DeploymentKey("default", "gone")
    assert world.documents.document(gone) == not_found(gone)
    take(world.store, world.of, "a", BODIES[0], 0.0)
    world.check()
    world.store.set_deployments((), at(1))
    assert world.documents.document(KEY) == not_found(KEY)


def test_other_metadata_stands_in_its_place() -> None:
    world = World(deployment("a"))
    for dark in (True, False):
        if not dark:
            take(world.store, world.of, "a", BODIES[0], 0.0)
        else:
            take(world.store, world.of, "a", BODIES[0], 0.0)
            world.fail("a", "no")
        made = world.documents.document(KEY, lambda of: {"name": of.key.name, "labels": {"team": "x"}})
        assert isinstance(made, bytes)
        assert b'"metadata":{"name":"chat","labels":{"team":"x"}},"timestamp"' in made


def test_every_signal_of_a_document_is_named() -> None:
    """A report without any other signal gives the same document, whatever engine or router it is about."""
    assert {"requests-running", "kv-cache-usage", "generation-tokens", "time-to-first-token"} <= DOCUMENT_SIGNALS


class Counting(Source):
    """Counts what was made of single targets."""

    made = 0

    def target(self, sight: Sight, at: Instant, signals: frozenset[str]) -> TargetReport:
        self.made += 1
        return super().target(sight, at, signals)


def test_only_what_changed_is_made_anew() -> None:
    world = World(routed(*NAMES))
    source = Counting(world.store, world.pool, world.judging, world.clock, Settings())
    documents = KeptDocuments(source)

    def made() -> int:
        before = source.made
        assert documents.document(KEY) == encode(metrics_document(world.source.deployment(KEY)))
        return source.made - before

    play(world, [("read", name, which) for which in (0, 1) for name in NAMES])
    assert made() >= len(NAMES), "everything is new"
    for seconds in (7.0, 8.0):
        world.clock.set(seconds)
        assert made() == 0, "nothing but ages changed"
    take(world.store, world.of, "b", BODIES[2], 8.0)
    assert made() == 1, "one Pod was read"
    world.fail("c", "refused")
    assert made() == 1, "one Pod did not answer"
    world.pool.shed = (target(world.of, "a").key,)
    assert made() == 1, "one Pod was left out"
    world.clock.set(100.0)
    assert made() == len(NAMES), "all are stale"
    world.change(replace(world.of, facts=(("a", "b"),)))
    assert made() == 0, "a deployment that is another one with the same Pods"


def test_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_documents, "KEPT_PODS", 2)
    monkeypatch.setattr(role_windows, "_MEMBERS", 2)
    keys = [DeploymentKey("default", f"chat-{number}") for number in range(3)]
    fleet = [deployment(*(f"{key.name}-{name}" for name in NAMES), key=key) for key in keys]
    world = Watched(*fleet)
    documents = KeptDocuments(world.source)
    for step in range(2):
        world.clock.set(5.0 * step)
        for of in fleet:
            for each in of.targets():
                world.store.on_body(each, BODIES[step], "text/plain", at(5.0 * step), 0.01)
        for key in (*keys, *keys):
            report = world.source.deployment(key)
            assert report is not None
            assert documents.document(key) == encode(metrics_document(report))


@pytest.mark.parametrize("dark", [False, True], ids=["readable", "no Pod answers any more"])
@pytest.mark.parametrize("path", ["modeldeploymentmetrics/chat", "modeldeployments/chat/metrics"])
async def test_the_aggregated_api_sends_the_same_with_kept_documents(path: str, dark: bool) -> None:
    world = World(routed(*NAMES))
    play(world, [("read", name, which) for which in (0, 1) for name in NAMES])
    for name in NAMES if dark else ():
        world.fail(name, "refused")
    asked = ask("GET", f"/apis/metrics.modeldeployment.io/v1/namespaces/default/{path}", {})

    def described(key: DeploymentKey) -> dict[str, str]:
        return {"team": key.name}

    whole = AggregatedContent(world.source, lambda: 0.0, "1", described=described)
    kept = AggregatedContent(world.source, lambda: 0.0, "1", described=described, documents=world.documents)
    for accept in ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"):
        answers = [await each.answer(asked, {"Accept": accept}, {}, forwarded=False) for each in (whole, kept)]
        assert answers[0] == answers[1]
        assert b'"team":"chat"' in answers[0].body
