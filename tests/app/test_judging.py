"""Judging passes: what they remember, what they forget, and how a restart leaves no trace in what is stored."""

from __future__ import annotations

from msgspec.structs import replace

from observer.app.judging import Judging
from observer.settings import Settings
from observer.store import Store
from router_contract.judging import Stored
from router_contract.probes import HealthAnswered, MemberProbe, ModelsListed
from router_contract.router_views import Circuit, RouterView, ViewFailed, ViewSource, WorkerRow
from router_contract.status import GroupState
from router_contract.targets import Deployment, DeploymentKey
from router_contract.verdicts import DeploymentReport, Status
from tests.fleets import KEY, at, body, deployment, report, routed, store, take

WAITING = '# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine="0"} 0\n'


def probe(name: str, seconds: float) -> MemberProbe:
    return MemberProbe(
        deployment=KEY,
        uid=f"uid-{name}",
        member=name,
        software="vllm",
        health=HealthAnswered(at=at(seconds), healthy=True, status=200),
        models=ModelsListed(at=at(seconds), models=("m",)),
    )


def view(seconds: float, *ports: int, pod: str = "uid-router") -> RouterView:
    rows = tuple(
        WorkerRow(
            url=f"http://10.0.0.1:{port}",
            host="10.0.0.1",
            port=port,
            healthy=True,
            circuit=Circuit.CLOSED,
            in_selection=True,
        )
        for port in ports
    )
    return RouterView(router="router", pod_uid=pod, read_at=at(seconds), source=ViewSource.WORKERS_API, workers=rows)


def living(kept: Store, judging: Judging, of: Deployment, begin: float, passes: int, tokens: int = 0) -> None:
    """Some seconds of a deployment that is well: one read, probe and view each, then a pass."""
    names = [member.name for member in of.roles[0].members()]
    for step in range(passes):
        moment = begin + step
        for name in names:
            take(kept, of, name, body(running=1, tokens=tokens + step, start=50.0, more=WAITING), moment)
            judging.on_probe(probe(name, moment))
        judging.on_view(KEY, view(moment, *(8000 + place for place in range(len(names)))))
        judging.judge_all(at(moment))


def shown(kept: Store, judging: Judging, seconds: float) -> DeploymentReport:
    return judging.add_verdicts(report(kept, seconds))


def started(of: Deployment, *, seconds: float = 0.0, stored: Stored | None = None) -> tuple[Store, Judging]:
    kept = store()
    judging = Judging(kept, Settings())
    if stored is not None:
        judging.load(KEY, stored)
    kept.set_deployments((of,), at(seconds))
    return kept, judging


def states(judging: Judging) -> list[GroupState]:
    return [group.state for group in judging.stored()[KEY].groups]


def test_before_the_first_pass_a_report_is_not_judged() -> None:
    of = routed("a")
    kept, judging = started(of)
    assert (shown(kept, judging, 0.0).judged, judging.last_pass) == (False, None)
    judging.judge_all(at(0))
    found = shown(kept, judging, 0.5)
    assert (found.judged, judging.last_pass) == (True, at(0))
    assert {condition.status for condition in found.conditions} & {Status.UNKNOWN}


def test_a_deployment_that_is_well_qualifies_once() -> None:
    of = routed("a", "b")
    kept, judging = started(of)
    living(kept, judging, of, 0.0, 4)
    first = judging.stored()[KEY]
    assert states(judging) == [GroupState.ELIGIBLE] * 2, shown(kept, judging, 3.0).explanation
    living(kept, judging, of, 4.0, 20, tokens=10)
    later = judging.stored()[KEY]
    assert [group.qualified_at for group in later.groups] == [group.qualified_at for group in first.groups]


def test_a_restart_of_the_observer_changes_nothing_that_is_stored() -> None:
    of = routed("a", "b")
    kept, judging = started(of)
    living(kept, judging, of, 0.0, 20)
    before = judging.stored()[KEY]
    answers = {each.type: each.status for each in shown(kept, judging, 19.0).conditions}

    kept, judging = started(of, seconds=25.0, stored=before)
    judging.judge_all(at(25))
    assert not shown(kept, judging, 25.0).judged
    assert judging.stored()[KEY] == before
    living(kept, judging, of, 26.0, 20, tokens=30)
    after = judging.stored()[KEY]
    assert after.groups == before.groups
    assert after.conditions == before.conditions
    assert after.transitions == before.transitions
    assert {each.type: each.status for each in shown(kept, judging, 45.0).conditions} == answers


def test_an_idle_deployment_keeps_its_forward_proof_over_a_restart() -> None:
    of = routed("a")
    kept, judging = started(of)
    living(kept, judging, of, 0.0, 20)
    before = judging.stored()[KEY]
    assert before.groups[0].forwarded
    kept, judging = started(of, seconds=25.0, stored=before)
    for moment in (26.0, 27.0, 28.0):
        take(kept, of, "a", body(running=0, tokens=19, start=50.0, more=WAITING), moment)
        judging.on_probe(probe("a", moment))
        judging.on_view(KEY, view(moment, 8000))
        judging.judge_all(at(moment))
    after = judging.stored()[KEY]
    assert after.groups == before.groups


def test_evidence_is_awaited_for_a_while_and_then_judged_as_it_is() -> None:
    of = routed("a")
    kept, judging = started(of)
    living(kept, judging, of, 0.0, 20)
    before = judging.stored()[KEY]
    kept, judging = started(of, seconds=100.0, stored=before)
    patience = 3 * Settings().scrape.period + Settings().scrape.timeout
    assert patience == 17.0
    judging.judge_all(at(100))
    judging.judge_all(at(100 + patience - 0.1))
    waiting = shown(kept, judging, 103.0)
    assert not waiting.judged
    assert waiting.awaiting == (
        "after a restart it waits for its first reads (metrics 0 of 2, engine API 0 of 1, router API 0 of 1), "
        "for 14 s more at most"
    )
    judging.judge_all(at(100 + patience))
    found = shown(kept, judging, 100 + patience)
    assert found.judged
    assert states(judging) != [GroupState.ELIGIBLE]
    assert judging.stored()[KEY].groups[0].qualified_at == before.groups[0].qualified_at


def test_departed_deployments_members_and_routers_are_forgotten() -> None:
    of = routed("a", "b", routers=("router", "other"))
    kept, judging = started(of)
    judging.on_view(KEY, view(0.0, 8000, 8001, pod="uid-other"))
    living(kept, judging, of, 0.0, 4)
    assert {each.pod_uid for each in shown(kept, judging, 3.0).views} == {"uid-router", "uid-other"}
    fewer = routed("a", routers=("router",))
    kept.set_deployments((fewer,), at(4))
    judging.judge_all(at(4))
    assert {each.pod_uid for each in shown(kept, judging, 4.0).views} == {"uid-router"}
    kept.set_deployments((of,), at(5))
    judging.judge_all(at(5))
    second = next(
        group for role in shown(kept, judging, 5.0).role_status for group in role.groups if group.ordinal == 1
    )
    assert second.qualified_at is None, "a member that left and came back in another generation inherits nothing"
    kept.set_deployments((), at(6))
    judging.judge_all(at(6))
    assert judging.stored() == {}
    kept.set_deployments((of,), at(7))
    judging.judge_all(at(7))
    assert shown(kept, judging, 7.0).views == ()


def test_a_lost_view_stands_beside_the_last_good_one() -> None:
    of = routed("a")
    kept, judging = started(of)
    living(kept, judging, of, 0.0, 2)
    lost = ViewFailed(router="router", pod_uid="uid-router", at=at(3), kind="Timeout")
    judging.on_view(KEY, lost)
    judging.judge_all(at(3))
    assert shown(kept, judging, 3.0).views == (view(1.0, 8000), lost)
    judging.on_view(KEY, view(4.0, 8000))
    judging.judge_all(at(4))
    assert shown(kept, judging, 4.0).views == (view(4.0, 8000),)


def test_a_deployment_without_router_and_without_addresses_is_judged_too() -> None:
    of = deployment("a")
    bare = replace(
        of,
        roles=(
            replace(
                of.roles[0],
                replicas=(
                    replace(
                        of.roles[0].replicas[0],
                        members=(replace(of.roles[0].replicas[0].members[0], metrics=None, api=None),),
                    ),
                ),
            ),
        ),
    )
    kept, judging = started(bare)
    judging.judge_all(at(0))
    assert shown(kept, judging, 0.0).judged


def others(*names: str) -> list[Deployment]:
    return [replace(deployment("a"), key=DeploymentKey("default", name)) for name in names]


def test_a_pass_that_rests_judges_what_was_there_when_it_began() -> None:
    of = [routed("a"), *others("second", "third")]
    kept = store()
    judging = Judging(kept, Settings())
    kept.set_deployments(of, at(0))
    living(kept, judging, of[0], 0.0, 3)
    steps = judging.steps(at(10))
    # What comes while the pass rests is newer than the pass, and one deployment leaves.
    judging.on_view(KEY, view(10.5, 8000))
    take(kept, of[0], "a", body(running=1, tokens=9, start=50.0, more=WAITING), 10.5)
    before = judging.stored()
    next(steps)
    kept.set_deployments(of[:2], at(11))
    assert judging.last_pass == at(2)
    assert list(steps) == [None]
    assert judging.last_pass == at(10)
    assert shown(kept, judging, 11.0).views == (view(2.0, 8000),)
    left = DeploymentKey("default", "third")
    assert judging.stored()[left] is before[left]
    judging.judge_all(at(12))
    assert set(judging.stored()) == {KEY, DeploymentKey("default", "second")}


def test_what_nobody_saw_again_is_not_looked_at_again_and_stays_the_same() -> None:
    of = routed("a", "b")
    kept, judging = started(of)
    living(kept, judging, of, 0.0, 4)
    judging.judge_all(at(4))
    again = [group.members for role in shown(kept, judging, 4.0).role_status for group in role.groups]
    kept, fresh = started(of)
    living(kept, fresh, of, 0.0, 4)
    fresh._cases[KEY]._due = {0, 1}
    fresh.judge_all(at(4))
    assert again == [group.members for role in shown(kept, fresh, 4.0).role_status for group in role.groups]


def test_drain_answers_from_the_reads_that_are_made_anyway() -> None:
    of = deployment("a")
    kept, judging = started(of)
    states = []
    for moment, running in ((0.0, 0), (5.0, 0), (10.0, 2), (15.0, 0), (20.0, 0)):
        take(kept, of, "a", body(running=running, start=50.0, more=WAITING), moment)
        judging.judge_all(at(moment))
        (found,) = shown(kept, judging, moment).drain
        states.append((found.state.value, found.requests))
    assert states == [("Unknown", None), ("Idle", 0.0), ("Busy", 2.0), ("Busy", 2.0), ("Idle", 0.0)]
    judging.judge_all(at(40))
    (found,) = shown(kept, judging, 40.0).drain
    assert (found.state.value, found.why) == ("Unknown", "a: last read 20 s ago")


def test_requests_at_a_router_and_streams_reach_the_judges() -> None:
    of = routed("a")
    kept = store()
    judging = Judging(kept, Settings(), streams=lambda _: ())
    kept.set_deployments((of,), at(0))
    idle = body(running=0, start=50.0, more=WAITING)
    for step in range(14):
        moment = 5.0 * step
        take(kept, of, "a", idle, moment)
        judging.on_probe(probe("a", moment))
        seen = view(moment, 8000)
        judging.on_view(KEY, replace(seen, workers=(replace(seen.workers[0], load=1.0),)))
        judging.judge_all(at(moment))
    found = next(item for item in shown(kept, judging, 65.0).conditions if item.type == "EngineProgressing")
    assert (found.status, found.reason) == (Status.FALSE, "Stalled")
    assert "1 request at the router" in found.evidence[0][1]
