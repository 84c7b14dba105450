"""OME's own canary run of a unit as a record: how it stands and what holds its step. Ours stands beside it, by name."""

from __future__ import annotations

from typing import Final

from observer.discover.ome_canary import analysis_name
from observer.discover.platforms import loose
from observer.discover.platforms.loose import Json
from observer.discover.platforms.ome_records import component_status
from router_contract.platform_records import CanaryHold, CanaryMetric, CanaryRunRecord

_SETTLED: Final = frozenset({"Stable", "RolledBack"})


def canary_run(service: Json, component: str) -> CanaryRunRecord | None:
    """The most recent run of the unit whose entry this component is, ``None`` where it never had one."""
    status = component_status(service, component)
    found, phase = loose.part(status, "canary"), loose.word(status, "rolloutPhase")
    if not found:
        return CanaryRunRecord(phase=phase) if phase else None
    steps = _steps(service, component)
    failed = loose.part(found, "failed")
    # the first step is a 0, which its writer may leave out; anything else that is no number is no step
    step = 0 if found.get("currentStep") is None else loose.number(found, "currentStep")
    unfinished = steps is not None and (step is None or step < len(steps)) and phase not in _SETTLED
    return CanaryRunRecord(
        phase=phase,
        target=loose.word(found, "targetID"),
        canary=loose.word(found, "canaryRevisionHash"),
        stable=loose.word(found, "stableRevisionHash"),
        step=step,
        steps=None if steps is None else len(steps),
        open=unfinished,
        held_by=_hold(found, failed, steps, step) if unfinished or failed else _rejected(found),
        step_entered=loose.time(found, "stepEnteredTime"),
        weight=loose.number(found, "observedTrafficWeight"),
        capacity_wait_since=loose.time(found, "capacityWaitSince"),
        rejected=loose.word(found, "rolledBackRevisionHash"),
        failed_reason=loose.word(failed, "reason"),
        failed_at=loose.time(failed, "time"),
        failed_checks=loose.number(found, "analysisFailedChecks"),
        last_evaluation=loose.time(found, "lastEvaluationTime"),
        last_conclusive=loose.time(found, "lastConclusiveEvaluationTime"),
        results=tuple(_metric(each) for each in loose.parts(found, "metricResults")[:64]),
        analysis=analysis_name(loose.word(loose.part(service, "metadata"), "name"), component) if unfinished else "",
    )


def _steps(service: Json, component: str) -> list[Json] | None:
    """The steps of the pinned plan of this component's unit, ``None`` while no run is open."""
    active = loose.part(loose.part(loose.part(service, "status"), "rollout"), "activeRun")
    for pinned in loose.parts(loose.part(active, "plan"), "groups"):
        group = loose.part(pinned, "group")
        members = {each.lower() for each in loose.names(group, "components")}
        entry = "router" if "router" in members else "engine"
        if group.get("canary") and entry == component:
            return loose.parts(loose.part(group, "canary"), "steps")
    return None


def _rejected(found: Json) -> CanaryHold:
    return CanaryHold.REJECTED if loose.word(found, "rolledBackRevisionHash") else CanaryHold.NOTHING


def _hold(found: Json, failed: Json, steps: list[Json] | None, step: int | None) -> CanaryHold:
    """What holds the step, the strongest first: nothing moves while it failed, was rejected, or waits for a word."""
    if failed:
        return CanaryHold.FAILED
    if _rejected(found) is CanaryHold.REJECTED:
        return CanaryHold.REJECTED
    if found.get("preStepHold") is True:
        return CanaryHold.PRE_STEP
    if found.get("capacityWaitSince"):
        return CanaryHold.CAPACITY
    if steps is None or step is None or step >= len(steps):
        return CanaryHold.UNKNOWN
    plan = steps[step]
    if "analysis" in plan:
        return CanaryHold.ANALYSIS
    if "pause" not in plan:
        return CanaryHold.NOTHING
    return CanaryHold.SOAK if loose.word(loose.part(plan, "pause"), "duration") else CanaryHold.PROMOTION


def _metric(found: Json) -> CanaryMetric:
    return CanaryMetric(
        name=loose.word(found, "name"),
        value=loose.word(found, "value"),
        operator=loose.word(found, "operator"),
        threshold=loose.word(found, "threshold"),
        passed=found.get("passed") is True,
        message=loose.word(found, "message"),
    )
