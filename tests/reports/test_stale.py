"""Stale values, dead backends and who may get traffic: reports 1 to 21."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporters.families import FAMILIES
from exporters.prometheus import Format, Renderer
from exporters.self_metrics import SelfMetrics
from exporters.snapshot import snapshot
from observer.judge.standing import Standing, member_standing
from router_contract.readings import FailureKind, MissingCode, ScrapeFailed
from router_contract.router_views import Circuit
from router_contract.targets import Component, Ready
from router_contract.verdicts import DeploymentReport, TargetState
from tests.collect.test_pool import pooled, until
from tests.collect.test_pool import target as readable
from tests.discover.platforms.shapes import find, md, pod, router_pod
from tests.fakes import hostile
from tests.fakes.hostile import reply, serving
from tests.fakes.kube_api import FakeKube
from tests.fleets import at, body, deployment, due, key, member, report, store, take, target
from tests.judge import build
from tests.kube.test_informer import following
from tests.reports.rows import row

UNREADY = Ready.FALSE
UNGATED = {"command": ("serve",)}
"""Of a role whose Pods have no readiness that an engine answers: only what we read ourselves proves anything."""


def exposed(shown: DeploymentReport) -> set[str]:
    """The Pods that ``/metrics`` names."""
    shot = snapshot([shown], [each.status for each in shown.targets])
    text = Renderer(FAMILIES, SelfMetrics("0", "3").registry).render(shot, Format.TEXT).body.decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {name for sample in samples if (name := sample.labels.get("pod"))}


def eligible(*members: object, evidence: tuple[object, ...] = (), **more: object) -> str:
    """The state of the one group that these members make, qualified before."""
    role = build.role(build.replica(*members), **UNGATED)
    given = build.inputs(build.deployment(role), members=evidence, **more)
    return build.group(build.run(given, build.kept())).state.value


@row(1, 9, 10)
def test_who_left_leaves_the_exposition_and_a_late_answer_brings_nothing_back() -> None:
    both, alone, kept = deployment("a", "b", "c"), deployment("a", "b"), store()
    kept.set_deployments((both,), at(0))
    for name in "abc":
        take(kept, both, name, body(), 1.0)
    assert exposed(report(kept, 1.0)) == {"a", "b", "c"}
    kept.set_deployments((alone,), at(2))
    take(kept, both, "c", body(running=99), 3.0)
    shown = report(kept, 3.0)
    assert exposed(shown) == {"a", "b"}
    assert [status.member for status in kept.statuses(at(3.0), due)] == ["a", "b"]
    (first,) = [value for value in shown.roles[0].values if value.signal == "time-to-first-token"]
    assert first.value == 6.0, "three observations each of the two that exist"


@row(1)
def test_a_health_that_nobody_told_is_not_healthy() -> None:
    """A router that lists a worker without saying whether it is healthy, in a circuit that nobody knows."""
    silent = build.row("a", healthy=None, circuit=Circuit.UNKNOWN, in_selection=None)
    judged = build.run(build.inputs(build.deployment(with_router=True), views=(build.view(silent),)))
    assert build.answer(judged, "RouterConverged").startswith("Unknown/")
    assert eligible(build.member(readiness_gated=False)) != "Eligible", "nobody read it"


@row(2)
async def test_a_deletion_that_a_cut_watch_missed_is_found_by_the_next_list() -> None:
    async with FakeKube() as kube:
        for name in "abc":
            kube.put("pods", name)
        async with following(kube) as it:
            await kube.opened(1)
            await it.settle(*"abc")
            kube.delete("pods", "b", heard=False)
            kube.put("pods", "d", spec={})
            kube.cut_watches()
            await it.settle("a", "c", "d")
            assert "Deleted* b" in it.told


@row(3)
async def test_a_target_that_leaves_while_its_read_hangs_is_not_kept() -> None:
    async with serving(hostile.never) as server, pooled() as (pool, sink):
        one = readable("zombie", server.port)
        await pool.sync([one])
        await until(lambda: bool(server.heads))
        await pool.sync([])
        assert pool.schedule(one.key) is None
        failures = len(sink.failures)
        await asyncio.sleep(0.25)
        assert len(sink.failures) == failures


@row(4)
async def test_a_target_that_accepts_and_never_answers() -> None:
    with hostile.mute() as port:
        async with pooled() as (pool, sink):
            await pool.sync([readable("dead", port)])
            await until(lambda: bool(sink.failures))
            assert sink.failures[0].kind is FailureKind.TIMEOUT
    silent = build.evidence("a", answered_at=None, failed_at=build.ago(1), failure=FailureKind.TIMEOUT)
    for name, ready in (("a", Ready.UNKNOWN), ("a", UNREADY)):
        assert eligible(build.member(name, ready=ready, readiness_gated=False), evidence=(silent,)) != "Eligible"


@row(5)
async def test_the_former_list_is_asked_no_more() -> None:
    async with serving(reply(b"a 1\n")) as old, serving(reply(b"a 1\n")) as new, pooled() as (pool, sink):
        await pool.sync([readable("old", old.port)])
        await until(lambda: sink.count("old") >= 2)
        await pool.sync([readable("new", new.port)])
        asked = len(old.heads)
        await until(lambda: sink.count("new") >= 3)
        assert len(old.heads) == asked


@row(6)
def test_ready_with_no_model_listed_is_not_serving() -> None:
    seen = build.evidence("a", answered_at=build.ago(1), listed_model=False, listed_at=build.ago(1))
    static = build.deployment(build.role(build.replica(build.member(ready=Ready.UNKNOWN, readiness_gated=False))))
    for facts in (build.GPUSTACK, build.STATIC):
        given = build.inputs(msgspec.structs.replace(static, model="m"), members=(seen,), facts=facts)
        assert build.group(build.run(given, build.kept())).state.value != "Eligible"


@row(7)
@pytest.mark.parametrize("what", ["ready flips", "label flips"])
def test_health_200_does_not_make_a_member_eligible(what: str) -> None:
    healthy = build.evidence("a", health_at=build.ago(1))
    if what == "ready flips":
        for ready, wanted in ((Ready.TRUE, "Eligible"), (UNREADY, "NotReady")):
            role = build.role(build.replica(build.member(ready=ready)))
            judged = build.run(build.inputs(build.deployment(role), members=(healthy,)), build.kept())
            assert build.group(judged).state.value == wanted
        return
    without = build.deployment(build.role(desired=1, replicas=()), with_router=True)
    given = build.inputs(without, members=(healthy,), views=(build.view(build.row("a")),))
    judged = build.run(given, build.kept())
    assert not any(group.state.value == "Eligible" for group in judged.groups()), "it is selected no more"
    assert not build.answer(judged, "RouterConverged").startswith("True"), "and the router still has it"


@row(12)
def test_ready_with_a_closed_serving_port_is_down() -> None:
    gone = build.refused("a", attempt=1)
    found = member_standing(build.member(), gone, answered=True, now=build.NOW, policy=build.POLICY)
    assert found.standing is not Standing.PROGRESSING
    ungated = build.member(ready=Ready.TRUE, readiness_gated=False)
    assert eligible(ungated, evidence=(gone,)) != "Eligible"


@row(14)
def test_the_serving_port_is_the_one_that_is_named_and_not_the_first() -> None:
    ports = [{"containerPort": 5600, "name": "nixl"}, {"containerPort": 8123, "name": "http"}]
    engine = pod("chat-a", annotations={"prometheus.io/port": "8123"}, container={"ports": ports})
    router = router_pod()
    router["spec"]["containers"][-1]["ports"] = [{"containerPort": 5600, "name": "nixl"}, *ports[1:]]
    found = find(md(spec={"router": {"name": "sglang-gateway"}}), engine, router).discovered.deployment
    (member,) = found.roles[0].members()
    assert member.metrics is not None
    assert member.api is not None
    assert (member.metrics.port, member.api.port) == (8123, 8123)
    assert found.router is not None
    assert [each.api.port for each in found.router.members if each.api is not None] in ([8123], [])


@row(15)
def test_two_servers_in_one_pod_are_two_endpoints() -> None:
    of = deployment(members=(member("one", 8000, uid="pod/8000"), member("two", 8001, uid="pod/8001")))
    kept = store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "one", body(running=3), 1.0)
    hung = target(of, "two")
    kept.on_failure(hung, ScrapeFailed(target=hung.key, at=at(1.0), kind=FailureKind.TIMEOUT, detail="hung"))
    states = {each.status.member: each.status.state for each in report(kept, 1.0).targets}
    assert states == {"one": TargetState.UP, "two": TargetState.FAILING}
    assert key("one", 8000) != key("one", 8001)


STILL = {"moved_at": build.ago(120), "watched_since": build.ago(300)}


@row(17, 20, 21)
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"health_at": build.ago(1)}, id="17 health 200"),
        pytest.param({"listed_model": True, "listed_at": build.ago(1)}, id="20 models listed"),
        pytest.param({}, id="21 only waiting requests"),
    ],
)
def test_work_and_flat_counters_are_a_stall_whatever_else_answers(more: dict[str, object]) -> None:
    stuck = build.evidence("a", ranks=(build.rank(work=5.0, work_since=build.ago(120), **STILL),), **more)
    judged = build.run(build.inputs(members=(stuck,)), build.kept())
    assert build.answer(judged, "EngineProgressing") == "False/Stalled"


@row(19)
def test_refused_is_dead_a_timeout_is_saturated_and_a_restart_begins_anew() -> None:
    def standing(seen: object) -> Standing:
        return member_standing(build.member(), seen, answered=True, now=build.NOW, policy=build.POLICY).standing

    before = {"answered_at": build.ago(30), "failed_at": build.ago(1)}
    assert standing(build.evidence("a", failure=FailureKind.REFUSED, **before)) is Standing.DOWN
    assert standing(build.evidence("a", failure=FailureKind.TIMEOUT, **before)) is Standing.SATURATED
    flat = build.rank(work=1.0, work_since=build.ago(130), moved_at=build.ago(120), watched_since=build.ago(300))
    assert standing(build.evidence("a", ranks=(flat,))) is Standing.STALLED
    again = build.rank(work=1.0, work_since=build.ago(130), moved_at=build.ago(2), watched_since=build.ago(4))
    assert standing(build.evidence("a", ranks=(again,))) is Standing.PROGRESSING


def test_a_count_that_drops_to_zero_and_grows_is_progress() -> None:
    of, kept = deployment("a"), store()
    kept.set_deployments((of,), at(0))
    for moment, tokens in ((0.0, 900), (120.0, 900), (125.0, 0), (130.0, 40)):
        take(kept, of, "a", body(tokens=tokens), moment)
    (value,) = report(kept, 130.0).targets[0].of("prompt-tokens")
    assert value.window is not None
    assert value.window.increase >= 40
    assert report(kept, 130.0).targets[0].status.resets == 1


def test_a_member_that_nobody_asked_is_pending_and_not_up() -> None:
    of, kept = deployment("a"), store()
    kept.set_deployments((of,), at(0))
    shown = report(kept, 9.0).targets[0]
    assert shown.status.state is TargetState.PENDING
    assert {value.missing for value in shown.values} == {MissingCode.NEVER_READ}
    assert shown.status.component is Component.ENGINE


async def test_a_listener_that_closes_mid_header_is_no_healthy_target() -> None:
    """As report 4, one step further: the connection is half closed before a status line."""
    async with serving(hostile.raw(b"HTTP/1.1 20")) as server, pooled() as (pool, sink):
        await pool.sync([readable("half", server.port)])
        await until(lambda: bool(sink.failures))
        assert sink.count("half") == 0
