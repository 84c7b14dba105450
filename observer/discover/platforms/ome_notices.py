"""What of OME's records `explain` tells: what waits and for what, what failed last, what holds a rollout, stale homes.

Types are the words under which advice stands in the platform's document; a place follows after a space. Reasons are OME's
own wherever it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from observer.discover.platforms import loose
from observer.discover.platforms.loose import Json
from router_contract.operator_condition import OperatorCondition
from router_contract.platform_records import (
    CanaryHold,
    CanaryRunRecord,
    ComponentRecord,
    HomeRecord,
    HomeState,
    InstanceRow,
    NoticeFact,
    PlacementRecord,
    ScalerRecord,
)

MAX_NOTICES: Final = 64
"""Most notices of one deployment; trouble is told before what is not known."""
BAD_WHEN_TRUE: Final = frozenset({"FailedScale", "FailedUpdate", "GangSchedulingUnavailable", "OperationStuck"})
BAD_WHEN_FALSE: Final = frozenset({"Available", "Progressing"})
_SCALER_BAD_WHEN_FALSE: Final = frozenset({"ScalingActive", "AbleToScale", "Ready"})
_SCALER_BAD_WHEN_TRUE: Final = frozenset({"Fallback", "ScalingLimited"})
_FALSE, _UNKNOWN = "False", "Unknown"
_ORDER = {_FALSE: 0, _UNKNOWN: 1}


def notices(
    service: Json,
    components: Sequence[ComponentRecord],
    placed: PlacementRecord | None,
    missing: Iterable[tuple[str, str]],
) -> tuple[NoticeFact, ...]:
    """Everything worth a word, trouble first."""
    found = [
        *(notice for component in components for notice in _of_component(component)),
        *(_absent(component, name) for component, name in missing),
        *(notice for home in (placed.homes if placed is not None else ()) for notice in _of_home(home)),
        *_of_model(service),
    ]
    left = sum(component.more for component in components) + (placed.more if placed is not None else 0)
    left += max(0, len(found) - MAX_NOTICES)
    told = sorted(found, key=lambda each: _ORDER.get(each.status, 2))[:MAX_NOTICES]
    return (*told, *_left_out(left))


def _of_component(component: ComponentRecord) -> Iterator[NoticeFact]:
    name = component.name
    yield from (notice for row in component.instances for notice in _of_instance(name, row))
    if component.hold is not None:
        held = component.hold
        about = held.reason + (f" (towards {held.target})" if held.target else "")
        yield NoticeFact(type=f"RolloutHold {name}", status=_FALSE, reason=held.gate, message=about, since=held.since)
    for block in component.retries:
        if block.state == "Held":
            about = f"{block.attempts} attempts at {block.target} failed: {block.reason}".rstrip(": ")
            yield NoticeFact(type=f"RetryBlock {name}", status=_FALSE, reason=block.state, message=about)
    yield from (_condition(name, item) for item in component.conditions if _bad(item, BAD_WHEN_TRUE, BAD_WHEN_FALSE))
    if component.scaler is not None:
        yield from _of_scaler(name, component.scaler)
    if component.canary is not None:
        yield from _of_canary(name, component.canary)
    if component.fault:
        yield NoticeFact(type=f"Instances {name}", status=_UNKNOWN, reason="Unreadable", message=component.fault)
    if component.contract is not True:
        reason = "NoRolloutContract" if component.contract is False else "ModeNotKnown"
        yield NoticeFact(type=f"RolloutContract {name}", status=_UNKNOWN, reason=reason, message=component.why)


def _of_instance(component: str, row: InstanceRow) -> Iterator[NoticeFact]:
    place = f"{component}/{row.index}"
    operation, failure = row.operation, row.last_failure
    if operation is not None and operation.waiting:
        about = f"{operation.type} waits at {operation.step or 'its first step'}"
        about += f", begun because of {operation.reason}" if operation.reason else ""
        since = operation.capacity_refused_at or operation.last_progress_at or operation.started_at
        yield NoticeFact(type=f"Operation {place}", status=_FALSE, reason=operation.waiting, message=about, since=since)
    if failure is not None and row.phase != "Ready":
        code = "" if failure.exit_code is None else f" with exit code {failure.exit_code}"
        about = f"{failure.pod}{'/' if failure.container else ''}{failure.container} ended{code}: {failure.message}"
        reason = failure.reason or "PodFailed"
        yield NoticeFact(
            type=f"LastFailure {place}", status=_FALSE, reason=reason, message=about.rstrip(": "), since=failure.at
        )


def _bad(item: OperatorCondition, when_true: frozenset[str], when_false: frozenset[str]) -> bool:
    return (item.type in when_true and item.status == "True") or (item.type in when_false and item.status == "False")


def _condition(name: str, item: OperatorCondition, head: str = "") -> NoticeFact:
    return NoticeFact(
        type=f"{head or item.type} {name}",
        status=_FALSE,
        reason=item.reason or item.type,
        message=item.message if not head else f"{item.type} is {item.status}: {item.message}".rstrip(": "),
        since=item.last_transition,
    )


def _of_scaler(name: str, scaler: ScalerRecord) -> Iterator[NoticeFact]:
    if scaler.managed_by == "ome":
        for item in scaler.conditions:
            if _bad(item, _SCALER_BAD_WHEN_TRUE, _SCALER_BAD_WHEN_FALSE):
                yield _condition(name, item, "Autoscaler")
    if scaler.why:
        reason = {"external": "External", "none": "NoScaler", "ome": "NotReported"}.get(scaler.managed_by, "NotKnown")
        if reason != "NoScaler":
            yield NoticeFact(type=f"Autoscaler {name}", status=_UNKNOWN, reason=reason, message=scaler.why)


def _of_canary(name: str, run: CanaryRunRecord) -> Iterator[NoticeFact]:
    kind = f"CanaryRun {name}"
    number = "of a number not known" if run.step is None else str(run.step + 1)
    at = f"step {number}" + (f" of {run.steps}" if run.steps is not None and run.step is not None else "")
    if run.failed_reason:
        yield NoticeFact(
            type=kind, status=_FALSE, reason=run.failed_reason, message=f"parked at {at}", since=run.failed_at
        )
    elif run.rejected:
        about = f"revision {run.rejected} was rolled back and is not tried again"
        yield NoticeFact(type=kind, status=_FALSE, reason="TargetRejected", message=about)
    elif run.held_by is CanaryHold.PRE_STEP:
        about = f"{at} would raise the canary's share after a repin: it waits for a promotion of {run.canary}"
        yield NoticeFact(type=kind, status=_FALSE, reason="PreStepHold", message=about, since=run.step_entered)
    elif run.held_by is CanaryHold.CAPACITY:
        about = f"{at} waits for its capacity; this is not its soak, and takes nothing from it"
        yield NoticeFact(type=kind, status=_FALSE, reason="CapacityWait", message=about, since=run.capacity_wait_since)
    elif run.held_by is CanaryHold.PROMOTION:
        about = f"{at} pauses without a time: it waits for a promotion of {run.canary}"
        yield NoticeFact(type=kind, status=_UNKNOWN, reason="AwaitingPromotion", message=about, since=run.step_entered)


def _left_out(count: int) -> Iterator[NoticeFact]:
    if count:
        about = f"{count} more records are left out here; the objects themselves have them"
        yield NoticeFact(type="Records", status=_UNKNOWN, reason="TooMany", message=about)


def _absent(component: str, name: str) -> NoticeFact:
    about = f"the service refers to the InferenceReplica {name}, which does not exist"
    return NoticeFact(type=f"ReplicaRef {component}", status=_FALSE, reason="NotFound", message=about)


def _of_home(home: HomeRecord) -> Iterator[NoticeFact]:
    kind = f"Home {home.name}"
    if home.draining:
        about = "it is withdrawn from routing before it is removed"
        yield NoticeFact(type=kind, status=_FALSE, reason="Draining", message=about)
    if home.state is HomeState.STALE:
        about = "its counts are those of the last good read"
        yield NoticeFact(type=kind, status=_UNKNOWN, reason="ObservationFailing", message=about, since=home.since)
    elif home.state is HomeState.UNKNOWN:
        about = "nothing is known of its replicas" + (f"; its phase was {home.phase}" if home.phase else "")
        yield NoticeFact(type=kind, status=_UNKNOWN, reason="NoEvidence", message=about, since=home.since)


def _of_model(service: Json) -> Iterator[NoticeFact]:
    """A model that does not load, in the words of the service's own status."""
    found = loose.part(loose.part(service, "status"), "modelStatus")
    transition, failure = loose.word(found, "transitionStatus"), loose.part(found, "lastFailureInfo")
    if transition in {"BlockedByFailedLoad", "InvalidSpec"}:
        reason = loose.word(failure, "reason")
        about = ": ".join(each for each in (reason, loose.word(failure, "message")) if each)
        since = loose.time(failure, "time")
        yield NoticeFact(type="ModelStatus", status=_FALSE, reason=transition, message=about, since=since)
