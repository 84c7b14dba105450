"""One deployment as a line of the first page: what is shown, filtered and sorted. Nothing is judged here.

A count over several roles is known only when it is known for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from exporters.page.query import Column, contains, one_of, sort
from exporters.summaries import DeploymentSummary, RoleSummary, deployment_summary, unrendered_summary
from exporters.timestamps import rfc3339
from router_contract.documents import WindowEntry
from router_contract.history import SERIES, Past
from router_contract.readings import Instant
from router_contract.status import Phase, ServingState
from router_contract.targets import Component, DeploymentKey
from router_contract.verdicts import Condition, DeploymentReport, Status


class Counted(msgspec.Struct, frozen=True):
    """A count, or why there is none."""

    value: float | None
    why: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment as shown at ``at``. ``state`` counts are over its roles; ``seen_at`` is the oldest value's read."""

    key: DeploymentKey
    at: Instant
    summary: DeploymentSummary
    want: Counted
    ready: Counted
    eligible: Counted
    serving: Counted
    serving_state: str
    conditions: Mapping[str, Condition]
    numbers: Mapping[str, float | None]
    seen_at: float | None
    sentence: str

    @property
    def problem(self) -> bool:
        """Whether an explanation names something, or the deployment was not judged."""
        return self.summary.answer is not None or self.summary.phase != Phase.READY


def row(report: DeploymentReport) -> Row:
    """The line of one report."""
    summary = deployment_summary(report)
    convergence = report.convergence
    state = convergence.serving.state if convergence is not None else None
    told = report.explanation
    return Row(
        key=report.key,
        at=report.at,
        summary=summary,
        want=_total(summary.roles, "desired"),
        ready=_total(summary.roles, "ready"),
        eligible=_total(summary.roles, "eligible"),
        serving=_serving(report),
        serving_state=state.value if state is not None else "",
        conditions={condition.type: condition for condition in report.conditions},
        numbers=_numbers(report, summary),
        seen_at=None if summary.age_seconds is None else report.at.wall - summary.age_seconds,
        sentence=told.sentences[0] if told is not None and told.sentences else "",
    )


def unrendered(key: DeploymentKey, error: Exception, at: Instant, seen_at: float | None) -> Row:
    """The line of a report that cannot be shown. ``at`` and ``seen_at`` are those of the last line that could be made."""
    summary = unrendered_summary(key, error)
    unknown = Counted(None, summary.message)
    return Row(
        key=key,
        at=at,
        summary=summary,
        want=unknown,
        ready=unknown,
        eligible=unknown,
        serving=unknown,
        serving_state="",
        conditions={},
        numbers=dict.fromkeys(SERIES),
        seen_at=seen_at,
        sentence=summary.message,
    )


_NOT_TOLD = {
    "desired": "nobody says how many replicas are wanted",
    "ready": "not every replica's readiness is known",
    "eligible": "a replica is not qualified or refused yet, so the count is not complete",
}


def _total(roles: Sequence[RoleSummary], field: str) -> Counted:
    found = [getattr(role, field) for role in roles]
    lacking = [role.name for role, value in zip(roles, found, strict=True) if value is None]
    if lacking or not roles:
        names = f"role {', '.join(lacking)}: " if lacking else ""
        return Counted(None, names + _NOT_TOLD[field])
    return Counted(float(sum(found)))


def _serving(report: DeploymentReport) -> Counted:
    found = report.convergence
    if found is None:
        return Counted(None, "not judged yet")
    if found.serving.state is ServingState.CONFIRMED and found.serving.value is not None:
        return Counted(float(found.serving.value))
    why = found.serving.reason or {
        ServingState.NOT_CONFIGURED: "no router is declared",
        ServingState.NOT_CONVERGED: "the routers do not select one and the same set",
    }.get(found.serving.state, "the routers' views are not known")
    return Counted(None, why)


def _numbers(report: DeploymentReport, summary: DeploymentSummary) -> dict[str, float | None]:
    """The numbers of which an hour is kept, as `router_contract.history.SERIES` names them."""
    roles, router = summary.roles, summary.router
    return {
        "ready": _total(roles, "ready").value,
        "eligible": _total(roles, "eligible").value,
        "serving": _serving(report).value,
        "running": _sum([role.running for role in roles]),
        "waiting": _sum([role.waiting for role in roles]),
        "kvUsage": max((role.kv_cache_usage for role in roles if role.kv_cache_usage is not None), default=None),
        "requestsPerSecond": router.requests_per_second if router is not None else None,
        "tokensPerSecond": _tokens(report),
        "ttft": _mean([role.ttft for role in roles]),
        "itl": _mean([role.itl for role in roles]),
        "errorRatio": router.error_ratio if router is not None else None,
        "age": summary.age_seconds,
    }


def _sum(found: Sequence[float | None]) -> float | None:
    known = [value for value in found if value is not None]
    return math.fsum(known) if known and len(known) == len(found) else None


def _mean(found: Sequence[WindowEntry | None]) -> float | None:
    entries = [entry for entry in found if entry is not None]
    samples = math.fsum(entry.samples for entry in entries)
    return math.fsum(entry.value * entry.samples for entry in entries) / samples if samples else None


def _tokens(report: DeploymentReport) -> float | None:
    """Generated tokens a second over all engines; not known while one engine that has the counter has no window."""
    windows = [
        value.window
        for target in report.targets
        if target.status.component is Component.ENGINE
        for value in target.values
        if value.signal == "generation-tokens" and (value.missing is None or value.window_missing is not None)
    ]
    known = [window.per_second for window in windows if window is not None]
    return math.fsum(known) if known and len(known) == len(windows) else None


def _condition(name: str) -> Any:
    order = {Status.FALSE: 0, Status.UNKNOWN: 1, Status.TRUE: 2}

    def key(item: Row) -> int | None:
        found = item.conditions.get(name)
        return None if found is None else order[found.status]

    return key


_PHASES = {Phase.DEGRADED: 0, Phase.STARTING: 1, Phase.UNKNOWN: 2, Phase.DELETING: 3, Phase.READY: 4}

COLUMNS = (
    Column(name="name", title="Deployment", key=lambda item: (item.key.namespace, item.key.name)),
    Column(name="phase", title="Phase", key=lambda item: _PHASES.get(item.summary.phase)),
    Column(name="want", title="Want", key=lambda item: item.want.value, numeric=True, hint="replicas wanted"),
    Column(name="ready", title="Ready", key=lambda item: item.ready.value, numeric=True, hint="whole replicas ready"),
    Column(
        name="eligible", title="Eligible", key=lambda item: item.eligible.value, numeric=True, hint="may get traffic"
    ),
    Column(
        name="serving", title="Serving", key=lambda item: item.serving.value, numeric=True, hint="confirmed by routers"
    ),
    Column(name="converged", title="Converged", key=_condition("RouterConverged")),
    Column(name="cache", title="Cache", key=_condition("CacheAttached")),
    Column(name="canary", title="Canary", key=_condition("CanaryAnalysis")),
    Column(name="fresh", title="Oldest value", key=lambda item: item.seen_at),
    Column(name="tokens", title="Tokens/s, 1 h", key=lambda item: item.numbers["tokensPerSecond"], numeric=True),
)
FILTERS = ("q", "namespace", "phase", "show", "sort")
SHOW = ("problems",)


def chosen(rows: Sequence[Row], query: Mapping[str, str]) -> list[Row]:
    """The rows that pass the query, in its order. Raises `BadPageQueryError`."""
    phase = one_of(query, "phase", [phase.value for phase in Phase])
    problems = one_of(query, "show", SHOW)
    needle, namespace = query.get("q", ""), query.get("namespace")
    kept = [
        item
        for item in rows
        if (namespace is None or item.key.namespace == namespace)
        and (phase is None or item.summary.phase == phase)
        and (problems is None or item.problem)
        and (not needle or contains(needle, str(item.key), item.summary.model, item.sentence))
    ]
    return sort(kept, COLUMNS, query.get("sort"))


def twin(item: Row) -> dict[str, Any]:
    """The row for JSON: the API's summary, when it was made, and the counts that the page adds."""
    made: dict[str, Any] = msgspec.to_builtins(item.summary)
    counts = {
        name: {"value": counted.value} | ({"why": counted.why} if counted.why else {})
        for name, counted in (
            ("want", item.want),
            ("ready", item.ready),
            ("eligible", item.eligible),
            ("serving", item.serving),
        )
    }
    return made | {"asOf": rfc3339(item.at.wall), "counts": counts, "numbers": dict(item.numbers)}


def recent(past: Past, name: str, most: int = 60) -> list[float | None]:
    """One series of the past in at most ``most`` steps: of each step its last known number."""
    found = list(past.series.get(name, ()))
    width = max(1, math.ceil(len(found) / most))
    steps = [found[start : start + width] for start in range(0, len(found), width)]
    return [next((value for value in reversed(step) if value is not None), None) for step in steps]
