"""Canary runs of OME services: the pinned plan while a run is open, policies resolved, a state for each unit."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from observer.discover.ome_canary import ome_canaries
from router_contract.canary import NativeMetric, OnInconclusive, PromqlMetric
from router_contract.canary_decode import decode

CHECK = {"name": "errors", "query": 'x{r="{{.CanaryRevision}}"}', "operator": "LT", "threshold": "0.01"}
ANALYSIS = {"interval": "60s", "failureLimit": 3, "onInconclusive": "RollbackOnStall", "metrics": [CHECK]}
CANARY: dict[str, Any] = {
    "readyTimeout": "20m",
    "prometheus": {"providerRef": {"name": "main"}},
    "steps": [
        {"capacity": "25%", "traffic": 10, "analysis": ANALYSIS, "pause": {"duration": "5m"}},
        {"capacity": 4, "traffic": 100},
    ],
}
STATE: dict[str, Any] = {
    "targetID": "t-1",
    "canaryRevisionHash": "new",
    "stableRevisionHash": "old",
    "currentStep": 0,
    "stepEnteredTime": "2026-01-02T03:04:05Z",
    "observedTrafficWeight": 10,
}


def service(*, components: tuple[str, ...] = ("engine",), open_: bool = True, **more: Any) -> dict[str, Any]:
    """A service with a canary on `components`; ``more`` changes its entry component's canary status."""
    entry = "router" if "router" in components else "engine"
    group = {"components": list(components), "canary": copy.deepcopy(CANARY)}
    run = {"runID": "r", "plan": {"groups": [{"source": "Inline", "group": group}]}}
    return {
        "metadata": {"name": "chat", "namespace": "ml", "annotations": {}},
        "spec": {"rollout": {"groups": [copy.deepcopy(group)]}},
        "status": {
            "components": {entry: {"rolloutPhase": "Paused", "canary": {**STATE, **more}}},
            **({"rollout": {"activeRun": run}} if open_ else {}),
        },
    }


def test_an_open_run_is_read_as_it_was_pinned() -> None:
    made = service()
    made["spec"]["rollout"]["groups"][0]["canary"]["steps"][0]["analysis"]["failureLimit"] = 1
    (unit,) = ome_canaries(made, {}).units
    gate = unit.definition.steps[0].analysis
    assert gate is not None
    assert gate.failure_limit == 3, "the edited spec is only for the next run"
    assert (gate.on_inconclusive, unit.definition.ready_timeout) == (OnInconclusive.ROLLBACK_ON_STALL, 1200.0)
    assert isinstance(gate.metrics[0].measure, PromqlMetric)
    assert (str(unit.key), unit.definition.target.name) == ("ml/ome-chat-engine", "chat")
    run = unit.run
    assert (run.target, run.canary, run.stable, run.step, run.weight) == ("t-1", "new", "old", 0, 10)
    assert (run.step_entered, run.serving, run.promote, run.rollback) == (1767323045.0, True, "", False)


def test_the_object_that_keeps_its_state_says_the_same() -> None:
    (unit,) = ome_canaries(service(), {}).units
    document = {
        "apiVersion": "observer.modeldeployment.io/v1alpha1",
        "kind": "CanaryAnalysis",
        "metadata": {"name": unit.definition.name, "namespace": "ml"},
        "spec": dict(unit.spec),
    }
    assert decode(document) == unit.definition


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"annotations": {"ome.io/rollout-promote": "new"}}, {"promote": "new"}),
        ({"annotations": {"ome.io/rollout-promote-force": "new"}}, {"promote": "new"}),
        ({"annotations": {"ome.io/rollout-rollback": "true"}}, {"rollback": True}),
        ({"annotations": {"ome.io/rollout-rollback": "yes"}}, {"rollback": False}),
        ({"state": {"rolledBackRevisionHash": "new"}}, {"rollback": True}),
        ({"state": {"rolledBackRevisionHash": "other"}}, {"rollback": False}),
        ({"state": {"preStepHold": True}}, {"pre_step_hold": True}),
        ({"state": {"capacityWaitSince": "2026-01-02T03:04:05Z"}}, {"serving": False}),
        ({"phase": "Pending"}, {"serving": False}),
        ({"state": {"currentStep": 2}}, {"step": 2}),
        ({"state": {"currentStep": 9}}, {"step": 2}),
        ({"state": {"stableRevisionHash": ""}}, {"stable": None}),
        ({"state": {"stepEnteredTime": "soon"}}, {"step_entered": None}),
    ],
)
def test_how_a_run_stands(change: dict[str, Any], wanted: dict[str, Any]) -> None:
    made = service(**change.get("state", {}))
    made["metadata"]["annotations"] = change.get("annotations", {})
    made["status"]["components"]["engine"]["rolloutPhase"] = change.get("phase", "Paused")
    (unit,) = ome_canaries(made, {}).units
    assert {name: getattr(unit.run, name) for name in wanted} == wanted


def test_the_annotation_outranks_the_plans_ready_timeout() -> None:
    made = service()
    made["metadata"]["annotations"] = {"ome.io/rollout-ready-timeout": "30m"}
    (unit,) = ome_canaries(made, {}).units
    assert unit.definition.ready_timeout == 1800.0


def test_each_unit_has_its_own_run_on_its_entry() -> None:
    made = service(components=("router",))
    group = {"components": ["engine", "decoder"], "canary": CANARY}
    made["status"]["rollout"]["activeRun"]["plan"]["groups"].append({"source": "Inline", "group": group})
    made["status"]["components"]["engine"] = {"canary": {**STATE, "canaryRevisionHash": "e2", "currentStep": 1}}
    router, engine = ome_canaries(made, {}).units
    assert (router.definition.component, router.run.canary, router.run.step) == ("router", "new", 0)
    assert (engine.definition.component, engine.run.canary, engine.run.step) == ("engine", "e2", 1)
    assert router.key != engine.key


def test_the_router_is_the_entry_of_a_group_that_has_it() -> None:
    (unit,) = ome_canaries(service(components=("engine", "router")), {}).units
    assert unit.definition.component == "router"


def test_without_a_run_nothing_is_judged_and_the_next_plan_is_checked() -> None:
    made = service(open_=False)
    assert ome_canaries(made, {}) == ome_canaries({}, {})
    made["spec"]["rollout"]["groups"][0]["canary"]["steps"][0]["analysis"]["metrics"][0]["threshold"] = "NaN"
    (problem,) = ome_canaries(made, {}).problems
    assert problem.startswith("spec.rollout.groups[0].canary.steps[0].analysis.metrics[0].threshold: found")


def test_a_run_that_is_not_armed_and_a_plan_that_cannot_be_judged_are_no_analysis() -> None:
    made = service()
    del made["status"]["components"]["engine"]["canary"]
    assert ome_canaries(made, {}) == ome_canaries({}, {})
    made = service()
    made["status"]["rollout"]["activeRun"]["plan"]["groups"][0]["group"]["canary"]["steps"][0]["traffic"] = 101
    found = ome_canaries(made, {})
    assert (found.units, len(found.problems)) == ((), 1)


POLICY = {"spec": {"canary": CANARY}}


@pytest.mark.parametrize(
    ("group", "policies", "words"),
    [
        ({"policyRef": {"name": "p", "progression": "canary"}}, {"p": POLICY}, None),
        ({"policyRef": {"name": "p", "progression": "canary"}}, {}, "PolicyNotFound"),
        ({"policyRef": {"name": "p", "progression": "canary"}}, {"p": {"spec": {"blueGreen": {}}}}, "ProgressionMismatch: found blueGreen"),
        ({"policyRef": {"name": "p", "progression": "canary"}, "canary": CANARY}, {}, None),
        ({"policyRef": {"name": "p", "progression": "blueGreen"}}, {"p": {"spec": {"blueGreen": {}}}}, None),
        (
            {"policyRef": {"name": "p", "progression": "canary"}},
            {"p": {"spec": {"canary": {**CANARY, "prometheus": {"serverAddress": "http://prom:9090"}}}}},
            "RolloutPolicyInvalid",
        ),
    ],
    ids=["found", "not found", "another progression", "inline outranks", "no canary", "a raw address"],
)  # fmt: skip
def test_policies_of_the_next_run(group: dict[str, Any], policies: dict[str, Any], words: str | None) -> None:
    made = {"spec": {"rollout": {"groups": [{"components": ["engine"], **group}]}}}
    problems = ome_canaries(made, policies).problems
    assert len(problems) == (words is not None), problems
    assert words is None or words in problems[0]


@pytest.mark.parametrize("odd", [{"status": 3}, {"spec": {"rollout": []}}, {"status": {"rollout": {"activeRun": {"plan": {"groups": [1, {"group": {"canary": {"steps": 3}}}]}}}}}])  # fmt: skip
def test_what_is_not_as_promised_raises_nothing(odd: dict[str, Any]) -> None:
    assert ome_canaries(odd, {}).units == ()


def test_native_metrics_are_not_of_omes_plans() -> None:
    (unit,) = ome_canaries(service(), {}).units
    gates = [step.analysis for step in unit.definition.steps if step.analysis is not None]
    assert not any(isinstance(metric.measure, NativeMetric) for gate in gates for metric in gate.metrics)


ODD: dict[str, Any] = {
    "a number": 3,
    "a text": "x",
    "true": True,
    "nothing": None,
    "a list": [None, 3, [], {}],
    "a mapping": {"a": 1},
    "below none": -1,
    "huge": 10**30,
    "the year 1": "0001-01-01T00:00:00Z",
    "the year 0": "0001-01-01T00:00:00+10:00",
    "beyond the year 9999": "9999-12-31T23:59:59-23:59",
    "without a zone": "2026-01-02T03:04:05",
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
@pytest.mark.parametrize("field", [*STATE, "preStepHold", "rolledBackRevisionHash", "capacityWaitSince"])
def test_a_state_of_any_shape_is_read_or_is_not_known(field: str, value: Any) -> None:
    for unit in ome_canaries(service(**{field: value}), {}).units:
        assert 0 <= unit.run.step <= 2
        assert unit.run.weight is None or 0 <= unit.run.weight <= 100
        assert unit.run.step_entered is None or 0 < unit.run.step_entered < 253_402_300_800


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_a_plan_of_any_shape_raises_nothing(value: Any) -> None:
    for place in ("components", "canary"):
        made = service()
        made["status"]["rollout"]["activeRun"]["plan"]["groups"][0]["group"][place] = value
        ome_canaries(made, {})
    for key in CANARY:
        made = service()
        made["status"]["rollout"]["activeRun"]["plan"]["groups"][0]["group"]["canary"][key] = value
        ome_canaries(made, {})
    for part in ("rollout", "components"):
        made = service()
        made["status"][part] = value
        ome_canaries(made, {})


@pytest.mark.parametrize("said", ["two", True, -1, 1.5, []], ids=repr)
def test_a_step_that_is_no_step_is_judged_as_none(said: Any) -> None:
    found = ome_canaries(service(currentStep=said), {})
    assert found.units == ()
    (problem,) = found.problems
    wanted = f"status.components.engine.canary.currentStep: found {str(said)!r}, wanted a whole number from 0"
    assert problem == wanted


def test_a_step_that_is_left_out_is_the_first() -> None:
    made = service()
    del made["status"]["components"]["engine"]["canary"]["currentStep"]
    assert ome_canaries(made, {}).units[0].run.step == 0
