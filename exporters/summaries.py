"""Short forms for lists: one deployment in a line's worth of numbers, one target with how its last read went.

What is not known is null. Every number of a deployment is taken from its metrics document, so it is the same there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from exporters.document import metrics_document
from exporters.encoding import in_words
from exporters.pods import skip_code
from exporters.status import condition_entry
from exporters.timestamps import rfc3339
from router_contract.documents import REASONS, Gauge, ModelDeploymentMetrics, Unavailable, WindowEntry
from router_contract.readings import MissingCode, State
from router_contract.status import RoleStatus, Serving
from router_contract.targets import DeploymentKey, Replica, Role
from router_contract.verdicts import DeploymentReport, TargetState, TargetStatus


class RoleSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One role: replicas by state, requests in hand, and the latency of its merged histograms.

    ``ready``, ``eligible`` and ``serving`` (the routers' confirmation) are null until judging knows them. The state of a
    number is ``Fresh``, or ``Stale`` where a part of it is; null with the number. ``age_seconds`` is the age of the
    oldest of the three.
    """

    name: str
    kind: str
    engine: str
    desired: int | None
    observed: int | None
    ready: int | None
    eligible: int | None
    serving: Serving | None
    running: float | None
    waiting: float | None
    kv_cache_usage: float | None
    ttft: WindowEntry | None
    itl: WindowEntry | None
    running_state: str | None = None
    waiting_state: str | None = None
    kv_cache_usage_state: str | None = None
    age_seconds: float | None = None


class RouterSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The router: Pods desired and observed, requests and failures per second, with states as those of a role.

    Requests and their ratio are over all of its Pods, null while one of them does not tell.
    """

    name: str
    software: str
    desired: int | None
    observed: int
    running: float | None
    requests_per_second: float | None
    error_ratio: float | None
    running_state: str | None = None
    requests_state: str | None = None
    age_seconds: float | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an explanation says first: whose finding it is and the reason."""

    type: str
    status: str
    reason: str


class DeploymentSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One deployment.

    ``phase`` is null and ``answer`` too until it was judged; ``answer`` is the main finding, if there is any.
    ``state`` is ``Complete``, ``Partial`` or ``Unavailable``, ``message`` the first reason why it is not complete.
    ``targets`` counts targets by state, ``age_seconds`` is the age of the oldest value shown.
    """

    namespace: str
    name: str
    model: str | None
    platform: str
    phase: str | None
    phase_message: str
    role_summary: str
    answer: Answer | None
    state: str
    message: str
    roles: tuple[RoleSummary, ...]
    router: RouterSummary | None
    targets: dict[str, int]
    age_seconds: float | None
    conditions: list[dict[str, Any]]


def deployment_summary(report: DeploymentReport) -> DeploymentSummary:
    """The line of one deployment."""
    made = metrics_document(report)
    document = None if isinstance(made, Unavailable) else made
    states = {state.value: 0 for state in TargetState}
    for target in report.targets:
        states[target.status.state.value] += 1
    deployment = report.deployment
    return DeploymentSummary(
        namespace=report.key.namespace,
        name=report.key.name,
        model=deployment.model,
        platform=deployment.platform,
        phase=report.phase.value if report.judged else None,
        phase_message=report.phase_message,
        role_summary=report.role_summary,
        answer=_answer(report),
        state=_state(document),
        message=_message(made),
        roles=_roles(report, document),
        router=_router(report, document),
        targets=states,
        age_seconds=_age(document),
        conditions=[condition_entry(condition) for condition in report.conditions],
    )


def unrendered_summary(key: DeploymentKey, error: Exception) -> DeploymentSummary:
    """The line of a deployment whose report could not be rendered: unavailable, and everything else not known."""
    why = f"its report could not be rendered: {in_words(error)}"
    return DeploymentSummary(
        namespace=key.namespace,
        name=key.name,
        model=None,
        platform="",
        phase=None,
        phase_message=why,
        role_summary="",
        answer=None,
        state="Unavailable",
        message=why,
        roles=(),
        router=None,
        targets={state.value: 0 for state in TargetState},
        age_seconds=None,
        conditions=[],
    )


def _answer(report: DeploymentReport) -> Answer | None:
    main = report.explanation.main if report.explanation is not None else None
    return None if main is None else Answer(type=main.type, status=main.status, reason=main.reason)


def _state(document: ModelDeploymentMetrics | None) -> str:
    if document is None:
        return "Unavailable"
    return "Partial" if document.partial else "Complete"


def _message(made: ModelDeploymentMetrics | Unavailable) -> str:
    if isinstance(made, Unavailable):
        return made.message
    for gap in made.missing or ():
        if isinstance(gap.code, str) and REASONS[MissingCode(gap.code)].partial:
            return ": ".join(part for part in (gap.pod, gap.source, gap.reason) if part)
    return ""


def _existing(replicas: tuple[Replica, ...]) -> int:
    return sum(any(not member.terminating for member in replica.members) for replica in replicas)


def _gauge(document: ModelDeploymentMetrics | None, name: str, scope: str) -> Gauge | None:
    gauges: tuple[Gauge, ...] = (*(document.processing or ()), *(document.queueing or ())) if document else ()
    return next((gauge for gauge in gauges if gauge.name == name and gauge.scope == scope), None)


def _value(gauge: Gauge | None) -> float | None:
    return None if gauge is None else gauge.value


def _worst(*entries: Gauge | WindowEntry | None) -> str | None:
    """Stale where one of the entries is, else fresh; null where there is none."""
    states = {entry.state for entry in entries if entry is not None and isinstance(entry.state, str)}
    return State.STALE.value if State.STALE.value in states else next(iter(states), None)


def _oldest(*entries: Gauge | WindowEntry | None) -> float | None:
    ages = [entry.age_seconds for entry in entries if entry is not None]
    return max((age for age in ages if isinstance(age, float)), default=None)


def _roles(report: DeploymentReport, document: ModelDeploymentMetrics | None) -> tuple[RoleSummary, ...]:
    measured = document.roles or () if document else ()
    latency = {role.role: {entry.name: entry for entry in role.latency} for role in measured}
    judged = {role.name: role for role in report.role_status}
    return tuple(
        _role(role, report.deployment.complete, judged.get(role.name), document, latency.get(role.name, {}))
        for role in report.deployment.roles
    )


def _role(
    role: Role,
    complete: bool,
    judged: RoleStatus | None,
    document: ModelDeploymentMetrics | None,
    latency: Mapping[str, WindowEntry],
) -> RoleSummary:
    names = ("running", "waiting", "kv-cache-usage")
    running, waiting, usage = (_gauge(document, name, f"engine/{role.name}") for name in names)
    return RoleSummary(
        name=role.name,
        kind=role.kind,
        engine=role.engine,
        desired=role.desired,
        observed=_existing(role.replicas) if complete else None,
        ready=judged.ready if judged else None,
        eligible=judged.endpoints.eligible if judged else None,
        serving=judged.endpoints.serving if judged else None,
        running=_value(running),
        waiting=_value(waiting),
        kv_cache_usage=_value(usage),
        ttft=latency.get("ttft"),
        itl=latency.get("itl"),
        running_state=_worst(running),
        waiting_state=_worst(waiting),
        kv_cache_usage_state=_worst(usage),
        age_seconds=_oldest(running, waiting, usage),
    )


def _router(report: DeploymentReport, document: ModelDeploymentMetrics | None) -> RouterSummary | None:
    router = report.deployment.router
    if router is None:
        return None
    traffic = [entry for entry in (document.traffic or ()) if entry.scope == "router"] if document else []
    requests = [entry for entry in traffic if entry.name == "requests"]
    ratios = [entry for entry in traffic if entry.name == "error-ratio"]
    # A sum over Pods of which one does not tell is none, and so is a ratio without one that was asked.
    whole = len(requests) == sum(skip_code(member) is None for member in router.members)
    told = whole and {entry.pod for entry in requests if entry.samples} <= {entry.pod for entry in ratios}
    samples = math.fsum(entry.samples for entry in ratios) if told else 0.0
    running = _gauge(document, "router-running", "router")
    return RouterSummary(
        name=router.name,
        software=router.software,
        desired=router.desired,
        observed=sum(not member.terminating for member in router.members),
        running=_value(running),
        requests_per_second=math.fsum(entry.value for entry in requests) if requests and whole else None,
        error_ratio=math.fsum(entry.value * entry.samples for entry in ratios) / samples if samples else None,
        running_state=_worst(running),
        requests_state=_worst(*requests, *ratios),
        age_seconds=_oldest(running, *requests, *ratios),
    )


def _age(document: ModelDeploymentMetrics | None) -> float | None:
    if document is None:
        return None
    windows = (*(document.latency or ()), *(document.traffic or ()), *(document.transfer or ()))
    ages = [gauge.age_seconds for gauge in (*(document.processing or ()), *(document.queueing or ()))]
    ages += [entry.age_seconds for entry in windows] + [hit.age_seconds for hit in document.cache_hits or ()]
    return max((age for age in ages if isinstance(age, float)), default=None)


def target_summary(status: TargetStatus) -> dict[str, object]:
    """One target as JSON: its place, its state, its last error and its last read."""
    return {
        "namespace": status.key.deployment.namespace,
        "deployment": status.key.deployment.name,
        "component": status.component.value,
        "software": status.software,
        "version": status.version,
        "role": status.role,
        "pod": status.member,
        "port": status.key.port,
        "uid": status.key.member_uid,
        "url": status.url,
        "state": status.state.value,
        "lastErrorKind": status.last_error_kind.value if status.last_error_kind else None,
        "lastError": status.last_error,
        "lastErrorAt": _time(status.last_error_at),
        "lastSuccess": _time(status.last_success),
        "ageSeconds": status.age_seconds,
        "durationSeconds": status.duration_seconds,
        "bodyBytes": status.body_bytes,
        "samplesKept": status.samples_kept,
        "samplesDropped": status.samples_dropped,
        "nextDueSeconds": status.next_due_seconds,
        "reads": status.reads,
        "failures": status.failures,
        "consecutiveFailures": status.consecutive_failures,
        "resets": status.resets,
        "absent": status.absent,
        "unknownFamilies": status.unknown_families,
        "problems": [msgspec.to_builtins(problem) for problem in status.problems],
    }


def unrendered_target(status: TargetStatus, error: Exception) -> dict[str, object]:
    """A target of which only the place could be rendered."""
    return {
        "namespace": status.key.deployment.namespace,
        "deployment": status.key.deployment.name,
        "component": status.component.value,
        "role": status.role,
        "pod": status.member,
        "port": status.key.port,
        "uid": status.key.member_uid,
        "state": status.state.value,
        "lastError": f"its status could not be rendered: {in_words(error)}",
    }


def _time(wall: float | None) -> str | None:
    return None if wall is None else rfc3339(wall)
