"""The families of judging: state sets have exactly one 1, and what is not known has no series."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from exporters.families import FAMILIES
from exporters.prometheus import Renderer
from exporters.snapshot import snapshot
from exporters.status_families import STATUS_FAMILIES
from router_contract.status import Convergence, Endpoints, Phase, Serving, ServingState
from router_contract.verdicts import DeploymentReport, Status
from tests.exporters.judged import (
    CONVERGED,
    ELIGIBLE,
    EVERYTHING,
    HELD,
    REVOKED,
    SERVING,
    TIMES,
    UNKNOWN,
    condition,
    judged,
    role,
)
from tests.exporters.reports import Pods, gauge, report

D = ("prod", "chat")
P0, P1 = (*D, "server", "p0", "8000"), (*D, "server", "p1", "8000")


def rows(name: str, *reports: DeploymentReport) -> dict[tuple[str, ...], object]:
    (family,) = [family for family in FAMILIES if family.name == f"modeldeployment_{name}"]
    found = list(family.rows(snapshot(reports, ())))
    assert all(len(labels) == len(family.labels) for labels, _ in found)
    assert len(dict(found)) == len(found), "the same series twice"
    return dict(found)


def test_three_series_a_condition_and_a_reason_that_is_ours() -> None:
    assert rows("status_condition", judged()) == {
        (*D, "EndpointEligibility", "true", ""): 0.0,
        (*D, "EndpointEligibility", "false", "Revoked"): 1.0,
        (*D, "EndpointEligibility", "unknown", ""): 0.0,
        (*D, "RouterConverged", "true", "Converged"): 1.0,
        (*D, "RouterConverged", "false", ""): 0.0,
        (*D, "RouterConverged", "unknown", ""): 0.0,
        (*D, "WeightsReady", "true", ""): 0.0,
        (*D, "WeightsReady", "false", ""): 1.0,
        (*D, "WeightsReady", "unknown", ""): 0.0,
        (*D, "QuotaReserved", "true", ""): 0.0,
        (*D, "QuotaReserved", "false", ""): 0.0,
        (*D, "QuotaReserved", "unknown", "NotObservable"): 1.0,
    }


@pytest.mark.parametrize("phase", Phase)
def test_one_phase_is_1(phase: Phase) -> None:
    found = rows("status_phase", judged(phase=phase))
    assert found == {(*D, each.value): float(each is phase) for each in Phase}


REPLICAS = {
    "all known": (judged(), {"desired": 2.0, "observed": 3.0, "ready": 1.0, "eligible": 1.0}),
    "eligible null": (
        judged(role_status=(role(eligible=None),)),
        {"desired": 2.0, "observed": 3.0, "ready": 1.0},
    ),
    "eligible 0": (
        judged(role_status=(role(eligible=0, ready=0),)),
        {"desired": 2.0, "observed": 3.0, "ready": 0.0, "eligible": 0.0},
    ),
    "ready not known": (
        judged(role_status=(role(ready=None, eligible=None),)),
        {"desired": 2.0, "observed": 3.0},
    ),
    "not judged": (replace(judged(), judged=False), {"desired": 2.0, "observed": 3.0}),
    "the list failed": (report(Pods(desired=2).pod("p0"), complete=False), {"desired": 2.0}),
}


@pytest.mark.parametrize(("made", "wanted"), REPLICAS.values(), ids=REPLICAS)
def test_replicas(made: DeploymentReport, wanted: dict[str, float]) -> None:
    assert rows("replicas", made) == {(*D, "server", state): number for state, number in wanted.items()}


def ones(found: dict[tuple[str, ...], object]) -> Iterable[tuple[str, ...]]:
    return [labels for labels, value in found.items() if value == 1.0]


def test_groups_are_named_by_ordinal_and_first_member_and_have_one_state() -> None:
    found = rows("group_state", judged(role_status=(role(ELIGIBLE, REVOKED, HELD, eligible=None),)))
    assert ones(found) == [
        (*D, "server", "0", "p0", "Eligible"),
        (*D, "server", "1", "p1", "NotReady"),
        (*D, "server", "", "p2x", "Unverified"),
    ]
    assert len(found) == 3 * 8


def test_an_undecided_endpoint_has_no_eligibility_and_no_reason() -> None:
    made = judged(role_status=(role(ELIGIBLE, REVOKED, HELD, eligible=None),))
    assert rows("endpoint_eligible", made) == {P0: 1.0, P1: 0.0}
    reasons = rows("endpoint_ineligible_reason", made)
    assert ones(reasons) == [(*P1, "MembersReady")]
    assert {labels[:-1] for labels in reasons} == {P0, P1}
    assert len(reasons) == 2 * 5


def test_stalls_are_0_without_work_and_absent_where_nobody_knows() -> None:
    assert rows("endpoint_stall_seconds", judged()) == {(*P0, "0"): 0.0, (*P1, ""): 75.0}


def test_the_rank_of_a_stall_does_not_depend_on_signals_that_no_family_asked_for() -> None:
    (family,) = (each for each in STATUS_FAMILIES if each.name.endswith("endpoint_stall_seconds"))
    whole = judged()
    told = [replace(each, values=(gauge("kv-capacity-blocks", 1.0, rank="0"),)) for each in whole.targets]
    lean = [replace(each, values=tuple(v for v in each.values if v.signal in family.signals)) for each in told]
    found = [rows("endpoint_stall_seconds", replace(whole, targets=tuple(each))) for each in (told, lean)]
    assert found[0] == found[1] == {(*P0, ""): 0.0, (*P1, ""): 75.0}


G = (*D, "gate")
ROUTERS = {
    "converged": (judged(role_status=(role(),)), {"wanted": 1.0, "seen": 1.0, "missing": 0.0, "extra": 0.0}),
    "eligibility open": (judged(role_status=(role(eligible=None),)), {"seen": 1.0}),
    "eligibility open and one extra": (
        judged(role_status=(role(eligible=None),), convergence=replace(CONVERGED, extra=("uid-p1",))),
        {"seen": 1.0, "extra": 1.0},
    ),
    "views disagree": (
        judged(convergence=replace(CONVERGED, serving=Serving(state=ServingState.NOT_CONVERGED))),
        {"wanted": 1.0, "seen": 1.0},
    ),
    "a view is lost": (
        judged(convergence=replace(CONVERGED, valid=False, serving=UNKNOWN, selected=())),
        {"wanted": 1.0},
    ),
    "not judged": (replace(judged(), judged=False), {}),
    "no router": (replace(judged(), deployment=report(Pods().pod("p0")).deployment), {}),
}


@pytest.mark.parametrize(("made", "wanted"), ROUTERS.values(), ids=ROUTERS)
def test_router_endpoints(made: DeploymentReport, wanted: dict[str, float]) -> None:
    assert rows("router_endpoints", made) == {(*G, state): number for state, number in wanted.items()}


@pytest.mark.parametrize(
    ("status", "wanted"), [(Status.TRUE, {G: 1.0}), (Status.FALSE, {G: 0.0}), (Status.UNKNOWN, {})], ids=str
)
def test_converged_is_absent_while_not_known(status: Status, wanted: dict[tuple[str, ...], float]) -> None:
    assert rows("router_converged", judged(conditions=(condition("RouterConverged", status, "Any"),))) == wanted


def test_convergence_times() -> None:
    assert rows("router_convergence_seconds", judged()) == {D: TIMES}
    assert rows("router_convergence_seconds", judged(convergence_seconds=None)) == {}


def test_a_deployment_that_was_not_judged_has_none_of_them() -> None:
    shot = snapshot((replace(EVERYTHING, judged=False),), ())
    found = {family.name: list(family.rows(shot)) for family in STATUS_FAMILIES}
    assert [name for name, made in found.items() if made] == ["modeldeployment_replicas"]


def test_everything_renders() -> None:
    endless = Convergence(serving=SERVING, valid=True)
    told = role(ELIGIBLE, endpoints=Endpoints(eligible=0, serving=SERVING))
    shot = snapshot((EVERYTHING, replace(judged(convergence=endless, role_status=(told,)))), ())
    body = Renderer(STATUS_FAMILIES).render(shot).body.decode()
    assert 'modeldeployment_status_phase{deployment="chat",namespace="prod",phase="Degraded"} 1.0' in body
    assert 'modeldeployment_router_convergence_seconds_bucket{deployment="chat",le="+Inf",namespace="prod"} 2.0' in body
