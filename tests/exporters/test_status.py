"""The documents of judging: what is known, what is null, what is absent, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from msgspec.structs import replace

from exporters.status import contract_document, explain_document, status_document
from router_contract.documents import Unavailable
from router_contract.status import Convergence, Endpoints, Phase, Serving, ServingState
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport
from tests.exporters.judged import CONVERGED, EVERYTHING, UNKNOWN, judged, role, view
from tests.exporters.reports import KEY, report

ABSENT = object()


def status(made: DeploymentReport) -> dict[str, Any]:
    document = status_document(made, KEY)
    assert isinstance(document, dict)
    return orjson.loads(orjson.dumps(document))


def at(document: Any, path: str) -> Any:
    """A value by a dotted path, or ``ABSENT``."""
    for part in path.split("."):
        if isinstance(document, list):
            document = document[int(part)]
        elif part in document:
            document = document[part]
        else:
            return ABSENT
    return document


FIELDS = {
    "kind": "ModelDeploymentObservation",
    "metadata.generation": 4,
    "timestamp": "2027-01-15T08:00:00.000Z",
    "status.phase": "Degraded",
    "status.phaseMessage": "1 of 2 replicas are ready",
    "status.roleSummary": "1R1S",
    "status.endpoint": "http://chat.prod.svc:8000",
    "status.conditions.0": {
        "type": "EndpointEligibility",
        "status": "False",
        "reason": "Revoked",
        "message": "1 of 2",
        "lastTransitionTime": "2027-01-15T07:59:30.000Z",
        "provenance": "Computed",
        "evidence": [{"name": "revoked", "value": "1"}],
    },
    "status.conditions.2.provenance": "Mirrored",
    "status.roles.0.endpoints": {"eligible": None, "serving": {"state": "Confirmed", "value": 1}},
    "status.roles.0.quotaReserved": 0,
    "status.roles.0.assignedFlavors": ["a100"],
    "status.roles.0.unmanaged": False,
    "status.roles.0.readiness": {"meaning": "ProcessStarted", "why": "the listener was moved"},
    "status.roles.0.parallelism.declared.tensorParallel": 2,
    "status.roles.0.parallelism.declared.dataParallelLocal": 0,
    "status.roles.0.parallelism.declared.pipelineParallel": None,
    "status.roles.0.parallelism.modes": {"expertParallel": False},
    "status.roles.0.parallelism.source": {"kind": "ExtraArgs", "complete": True},
    "status.roles.0.groups.0.qualifiedAt": "2027-01-15T07:59:00.000Z",
    "status.roles.0.groups.0.legs": [{"name": "MembersReady", "state": "Verified", "why": "1 of 1 answer"}],
    "status.roles.0.groups.1.qualifiedAt": ABSENT,
    "status.roles.0.groups.1.reason": "MembersReady",
    "status.roles.0.groups.2.ordinal": None,
    "status.roles.0.groups.2.members": [{"name": "p2x", "uid": "uid-p2x", "ready": "Unknown"}],
    "status.routerViews.0.ageSeconds": 3.0,
    "status.routerViews.0.failure": {
        "at": "2027-01-15T07:59:57.000Z",
        "ageSeconds": 3.0,
        "kind": "Timeout",
        "detail": "2 s",
    },
    "status.routerViews.0.workers.0.circuit": "open",
    "status.routerViews.0.workers.0.inSelection": False,
    "status.routerViews.0.workers.0.load": None,
    "status.convergence.wanted": [{"name": "p0", "uid": "uid-p0"}],
    "status.convergence.missing": [],
    "status.operator.0": {
        "type": "EndpointEligibility",
        "operator": {"status": "True", "reason": "Qualified", "observedGeneration": 4, "ageSeconds": 2.0},
        "observed": {"status": "False", "reason": "Revoked", "provenance": "Computed"},
        "disagrees": True,
        "since": "2027-01-15T07:59:50.000Z",
    },
    "status.operator.1.observed": ABSENT,
    "status.sources.0": {
        "kind": "Workload",
        "why": "Forbidden",
        "since": "2027-01-15T07:50:00.000Z",
        "detail": "no list",
    },
    "status.scaler": {"binding": "scaler-a", "decision": "to 2"},
    "status.retirement.replicaOrdinal": 0,
    "status.retirement.targetMemberUIDs": ["uid-p0"],
    "status.retirement.phaseSecondsLeft": 190.0,
    "status.retirement.deadline": ABSENT,
    "status.drain.0": {"role": "server", "ordinal": 0, "state": "Busy", "requests": 3.0, "why": "3 run"},
    "status.transitions.0.to": "False",
    "status.explanation": ["One.", "Two.", "Three."],
}


@pytest.mark.parametrize(("path", "wanted"), FIELDS.items(), ids=FIELDS)
def test_a_field(path: str, wanted: Any) -> None:
    assert at(status(EVERYTHING), path) == wanted


UNKNOWNS = {
    "ready": ("status.roles.0.ready", judged(role_status=(role(ready=None),)), ABSENT),
    "quota": ("status.roles.0.quotaReserved", judged(), ABSENT),
    "flavors": ("status.roles.0.assignedFlavors", judged(), ABSENT),
    "eligible is null": ("status.roles.0.endpoints.eligible", judged(role_status=(role(eligible=None),)), None),
    "eligible is 0": ("status.roles.0.endpoints.eligible", judged(role_status=(role(eligible=0),)), 0),
    "serving without a value": (
        "status.roles.0.endpoints.serving",
        judged(role_status=(role(endpoints=Endpoints(eligible=1, serving=UNKNOWN)),)),
        {"state": "Unknown", "reason": "a view is missing"},
    ),
    "confirmed 0": (
        "status.roles.0.endpoints.serving.value",
        judged(
            role_status=(role(endpoints=Endpoints(eligible=1, serving=Serving(state=ServingState.CONFIRMED, value=0))),)
        ),
        0,
    ),
    "no retirement": ("status.retirement", judged(), ABSENT),
    "no endpoint": ("status.endpoint", judged(), ABSENT),
    "no scaler": ("status.scaler", judged(), ABSENT),
    "seen without valid views": (
        "status.convergence.seen",
        judged(convergence=replace(CONVERGED, valid=False, selected=(), serving=UNKNOWN)),
        None,
    ),
    "missing while views disagree": (
        "status.convergence.missing",
        judged(convergence=replace(CONVERGED, serving=Serving(state=ServingState.NOT_CONVERGED))),
        None,
    ),
    "nothing to converge on": (
        "status.convergence.seen",
        judged(convergence=Convergence(serving=Serving(state=ServingState.NOT_CONFIGURED))),
        ABSENT,
    ),
    "a router Pod that was never asked": (
        "status.routerViews",
        judged(),
        [{"router": "gate-0", "podUID": "uid-gate-0"}],
    ),
    "a router without workers": ("status.routerViews.0.workers", judged(views=(view(),)), []),
}


@pytest.mark.parametrize(("path", "made", "wanted"), UNKNOWNS.values(), ids=UNKNOWNS)
def test_not_known_is_absent_or_null_and_never_zero(path: str, made: DeploymentReport, wanted: Any) -> None:
    assert at(status(made), path) == wanted


DOCUMENTS = {
    "status": status_document,
    "explain": lambda made, key: explain_document(made, key, history=True),
    "contract": contract_document,
}


@pytest.mark.parametrize("make", DOCUMENTS.values(), ids=DOCUMENTS)
def test_what_was_not_judged_has_no_answer(make) -> None:
    assert make(report(), KEY) == Unavailable(reason="ServiceUnavailable", message="prod/chat is not judged yet")
    waiting = make(msgspec.structs.replace(report(), awaiting="it waits for its first reads"), KEY)
    assert waiting == Unavailable(
        reason="ServiceUnavailable", message="prod/chat is not judged yet: it waits for its first reads"
    )
    gone = make(None, DeploymentKey("prod", "other"))
    assert gone == Unavailable(reason="NotFound", message="no deployment prod/other is observed")


def test_a_deployment_that_is_being_deleted_has_a_short_status() -> None:
    made = judged(phase=Phase.DELETING, conditions=(), role_status=(), explanation=None, convergence=None)
    assert status(made)["status"]["phase"] == "Deleting"
    assert isinstance(explain_document(made, KEY, history=False), Unavailable)


def test_an_explanation_has_findings_with_evidence_and_age() -> None:
    made = explain_document(EVERYTHING, KEY, history=False)
    assert isinstance(made, dict)
    assert made["sentences"] == ["One.", "Two.", "Three."]
    assert made["main"] == {
        "type": "Member p1",
        "status": "False",
        "reason": "Down",
        "message": "connection refused",
        "advice": "Act",
        "ageSeconds": 7.0,
    }
    assert made["others"][0]["evidence"] == [{"name": "ready", "value": "0"}]
    assert [item["type"] for item in made["unknown"]] == ["EngineProgressing", "WeightsReady"]
    assert "history" not in made


def test_history_is_newest_first() -> None:
    made = explain_document(EVERYTHING, KEY, history=True)
    assert isinstance(made, dict)
    assert [item["time"] for item in made["history"]] == ["2027-01-15T07:59:30.000Z", "2027-01-15T07:58:30.000Z"]


def test_a_contract_shows_both_sides_and_what_was_not_read() -> None:
    made = contract_document(EVERYTHING, KEY)
    assert isinstance(made, dict)
    assert [check["holds"] for check in made["checks"]] == [True, None]
    assert "reason" not in made["checks"][0]
    assert "condition" not in made
    assert msgspec.json.encode(made)
