"""What a platform says of a deployment's parts, for the status document: components and homes, in its own words.

A count that is not known is null. Whatever else is not known is absent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from exporters.timestamps import rfc3339
from router_contract.operator_condition import OperatorCondition
from router_contract.platform_records import (
    CanaryRunRecord,
    ComponentRecord,
    HoldRecord,
    HomeRecord,
    InstanceRow,
    PlacementRecord,
    PlatformRecords,
    RetryRecord,
    ScalerRecord,
)

Json = dict[str, Any]

TICKING = frozenset({"lastProgressAt", "lastEvaluationTime", "lastConclusiveEvaluationTime", "results"})
"""Keys whose values change with every sample or step, which is no news."""


def record_fields(records: PlatformRecords) -> Json:
    """`components` and `placement` of a status, each only where the platform says something."""
    found: Json = {}
    if records.components:
        found["components"] = [_component(item) for item in records.components]
    if records.placement is not None:
        found["placement"] = _placement(records.placement)
    return found


def still(components: list[Json]) -> list[Json]:
    """Components without what only ticks."""
    return [_still(component) for component in components]


def _still(value: Json) -> Json:
    return {key: _each_still(held) for key, held in value.items() if key not in TICKING}


def _each_still(held: Any) -> Any:
    if isinstance(held, dict):
        return _still(held)
    return [_each_still(each) for each in held] if isinstance(held, list) else held


def _said(**fields: Any) -> Json:
    """The fields that say something; keys end in ``_`` where Python has the word."""
    return {key.rstrip("_"): value for key, value in fields.items() if value not in (None, "", [], ())}


def _time(wall: float | None) -> str | None:
    return None if wall is None else rfc3339(wall)


def _component(item: ComponentRecord) -> Json:
    return {
        "name": item.name,
        **_said(mode=item.mode, why=item.why),
        "rolloutContract": item.contract,
        **_said(objects=list(item.objects), encoding=item.encoding, fault=item.fault),
        "phases": [{"phase": phase, "instances": count} for phase, count in item.phases],
        "operations": [_operation(row) for row in item.instances if row.operation is not None],
        "failures": [_failure(row) for row in item.instances if row.last_failure is not None],
        **_said(
            instancesLeftOut=item.more or None,
            rolloutHold=None if item.hold is None else _hold(item.hold),
            retryBlocks=[_retry(each) for each in item.retries],
            conditions=_conditions(item.conditions),
            autoscaler=None if item.scaler is None else _scaler(item.scaler),
            canaryRun=None if item.canary is None else _canary(item.canary),
        ),
    }


def _operation(row: InstanceRow) -> Json:
    found = row.operation
    if found is None:
        return {}
    return {
        "instance": row.index,
        "type": found.type,
        **_said(
            step=found.step,
            reason=found.reason,
            waiting=found.waiting,
            targetRevision=found.target_revision,
            startedAt=_time(found.started_at),
            lastProgressAt=_time(found.last_progress_at),
            deadline=_time(found.deadline),
            capacityRefusedAt=_time(found.capacity_refused_at),
            fromNode=found.from_node,
            surgeInstance=found.surge_index,
        ),
        "retries": found.retries,
    }


def _failure(row: InstanceRow) -> Json:
    found = row.last_failure
    if found is None:
        return {}
    said = _said(
        pod=found.pod,
        container=found.container,
        reason=found.reason,
        exitCode=found.exit_code,
        message=found.message,
        time=_time(found.at),
    )
    return {"instance": row.index, "phase": row.phase, **said}


def _hold(found: HoldRecord) -> Json:
    return {"gate": found.gate, **_said(reason=found.reason, target=found.target, since=_time(found.since))}


def _retry(found: RetryRecord) -> Json:
    said = _said(nextRetryAt=_time(found.next_at), reason=found.reason)
    return {"targetRevision": found.target, "state": found.state, "attempts": found.attempts, **said}


def _conditions(found: Iterable[OperatorCondition]) -> list[Json]:
    return [
        {
            "type": item.type,
            "status": item.status,
            **_said(reason=item.reason, message=item.message, lastTransitionTime=_time(item.last_transition)),
        }
        for item in found
    ]


def _scaler(found: ScalerRecord) -> Json:
    return {
        **_said(class_=found.kind, managedBy=found.managed_by, specSource=found.source),
        "currentReplicas": found.current,
        "desiredReplicas": found.desired,
        **_said(why=found.why, lastScaleTime=_time(found.last_scale), conditions=_conditions(found.conditions)),
    }


def _canary(found: CanaryRunRecord) -> Json:
    failed = _said(reason=found.failed_reason, time=_time(found.failed_at))
    return {
        **_said(phase=found.phase, target=found.target, canary=found.canary, stable=found.stable),
        "open": found.open,
        "step": found.step,
        "steps": found.steps,
        "heldBy": found.held_by.value,
        "failedChecks": found.failed_checks,
        **_said(
            stepEnteredTime=_time(found.step_entered),
            trafficWeight=found.weight,
            capacityWaitSince=_time(found.capacity_wait_since),
            rejected=found.rejected,
            failed=failed or None,
            lastEvaluationTime=_time(found.last_evaluation),
            lastConclusiveEvaluationTime=_time(found.last_conclusive),
            results=[
                {"name": each.name, "passed": each.passed}
                | _said(value=each.value, operator=each.operator, threshold=each.threshold, message=each.message)
                for each in found.results
            ],
            analysis=found.analysis,
        ),
    }


def _placement(found: PlacementRecord) -> Json:
    totals = {
        "homes": len(found.homes) + found.more,
        "homesKnown": found.known,
        "admitted": found.admitted,
        "ready": found.ready,
    }
    return {
        **_said(phase=found.phase, cluster=found.cluster, endpoint=found.endpoint),
        "totals": totals,
        "homes": [_home(home) for home in found.homes],
    }


def _home(home: HomeRecord) -> Json:
    return {
        "name": home.name,
        **_said(phase=home.phase, endpoint=home.endpoint),
        "state": home.state.value,
        **_said(since=_time(home.since)),
        "admitted": home.admitted,
        "ready": home.ready,
        "draining": home.draining,
    }
