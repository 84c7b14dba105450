"""The `ModelDeploymentMetrics` document of one deployment at one instant, made from its report.

Everything expected is either an entry or named in ``missing[]`` with its reason. ``partial`` says that a reason was
among those that matter. Nothing is read, estimated or judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from exporters.combine import Level, Moved, levels, moved
from exporters.entries import window
from exporters.expectation_tables import ROLE_LATENCY
from exporters.expectations import LEVELS, Entry, Section
from exporters.pod_parts import PodPart, current, has_values, level_entries, pod_part, unread
from exporters.pods import Pod, Roster, roster
from exporters.timestamps import rfc3339
from router_contract.documents import (
    REASONS,
    Gauge,
    Metadata,
    Missing,
    ModelDeploymentMetrics,
    RoleLatency,
    Unavailable,
    WindowEntry,
)
from router_contract.readings import Instant, MissingCode, State
from router_contract.signals import SIGNALS
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport, RoleMeasurement, TargetState

Shown = TypeVar("Shown")

_DECLARED = "declared"
"""The source of a zero that nobody read: no replica is desired and no Pod exists."""


def not_found(key: DeploymentKey) -> Unavailable:
    """The answer for a deployment that is not known."""
    return Unavailable(reason="NotFound", message=f"no deployment {key} is observed")


def metrics_document(report: DeploymentReport, pods: int = 0) -> ModelDeploymentMetrics | Unavailable:
    """The document, or `Unavailable` (``ServiceUnavailable``) when no Pod of the deployment could be read.

    ``pods`` above 0 keeps the first of that many by name; that others are left out is said in ``missing[]``.
    """
    people = expected_pods(report, pods)
    unavailable = _unavailable(report, people)
    if unavailable is not None:
        return unavailable
    parts = [pod_part(pod) for pod in people.pods]
    windows = [item for part in parts for item in part.windows]
    caches = [hit for part in parts for hit in part.caches]
    gaps = [*people.missing, *(gap for part in parts for gap in part.gaps)]
    by_pod = {
        section: sorted((entry for of, entry in windows if of is section), key=lambda entry: (entry.pod, entry.name))
        for section in (Section.LATENCY, Section.TRAFFIC, Section.TRANSFER)
    }
    shown = gauges(people, _columns(parts), report.at)
    return ModelDeploymentMetrics(
        metadata=Metadata(name=report.key.name, namespace=report.key.namespace),
        timestamp=rfc3339(report.at.wall),
        processing=_or_unset(shown[Section.PROCESSING]),
        queueing=_or_unset(shown[Section.QUEUEING]),
        cache_hits=_or_unset(sorted(caches, key=lambda entry: (entry.pod, entry.scope))),
        latency=_or_unset(by_pod[Section.LATENCY]),
        traffic=_or_unset(by_pod[Section.TRAFFIC]),
        transfer=_or_unset(by_pod[Section.TRANSFER]),
        missing=_or_unset(in_order(gaps)),
        partial=marks(gaps),
        coverage=people.coverage(),
        skipped=people.skipped or UNSET,
        roles=_or_unset(list(role_latencies(report.roles))),
    )


def expected_pods(report: DeploymentReport, pods: int) -> Roster:
    """Everybody, of the Pods the first ``pods`` by name (0: all)."""
    people = roster(report)
    return people.first(pods) if 0 < pods < len(people.pods) else people


def in_order(gaps: Iterable[Missing]) -> list[Missing]:
    """What is missing as ``missing[]`` lists it, each once."""
    return sorted(set(gaps), key=lambda entry: (entry.pod, entry.source, str(entry.code), str(entry.name)))


def marks(gaps: Iterable[Missing]) -> bool:
    """Whether a reason among these marks the document as partial."""
    return any(REASONS[MissingCode(gap.code)].partial for gap in gaps if isinstance(gap.code, str))


def _or_unset(entries: list[Shown]) -> tuple[Shown, ...] | UnsetType:
    return tuple(entries) if entries else UNSET


def _pending(pod: Pod) -> bool:
    if pod.target is None:
        return pod.has_address
    return pod.target.status.state is TargetState.PENDING


def _unavailable(report: DeploymentReport, people: Roster) -> Unavailable | None:
    """Why there can be no document: no Pod that should serve, or none that ever answered and is not too old."""
    if any(current(pod) or has_values(pod) or _pending(pod) for pod in people.pods):
        return None
    if people.pods:
        first = people.pods[0]
        text = f"no Pod of {report.key} could be read; {first.name}: {_why_unread(first)}"
        return Unavailable(reason="ServiceUnavailable", message=text)
    roles = report.deployment.roles
    if roles and all(role.desired == 0 for role in roles):
        return None
    skipped = ", ".join(f"{entry.pod} {entry.code}" for entry in people.skipped[:5])
    text = f"no Pod of {report.key} is there to serve" + (f" (skipped: {skipped})" if skipped else "")
    if not report.deployment.complete:
        text += f"; {REASONS[MissingCode.LIST_FAILED].sentence}"
    return Unavailable(reason="ServiceUnavailable", message=text)


def _why_unread(pod: Pod) -> str:
    return next((gap.reason for gap in unread(pod)), REASONS[MissingCode.EXPIRED].sentence)


class Column(msgspec.Struct, frozen=True, eq=False):
    """A level of each Pod of a scope, ``None`` where a Pod does not have it, and how old it is in seconds.

    Without ``ages`` the levels carry their own.
    """

    entry: Entry
    scope: str
    levels: Sequence[Level | None]
    ages: Sequence[float | None] = ()


def _columns(parts: Iterable[PodPart]) -> Iterator[Column]:
    scopes: dict[str, list[PodPart]] = {}
    for part in parts:
        if part.readable:
            scopes.setdefault(part.scope, []).append(part)
    for scope, several in scopes.items():
        for number, entry in enumerate(level_entries(scope, several[0].place)):
            yield Column(entry, scope, [part.levels[number] for part in several])


def gauges(people: Roster, columns: Iterable[Column], at: Instant) -> dict[Section, list[Gauge]]:
    """Levels summed over the Pods of each scope, and the zeros of parked roles at ``at``, as the document lists them."""
    found: dict[Section, list[Gauge]] = {section: [] for section in LEVELS}
    for scope, place in people.parked:
        for entry in level_entries(scope, place):
            if not entry.optional:
                found[entry.section].append(_zero(entry, scope, at))
    for column in columns:
        made = _gauge(column)
        if made is not None:
            found[column.entry.section].append(made)
    return {section: sorted(made, key=lambda entry: (entry.name, entry.scope)) for section, made in found.items()}


def _gauge(column: Column) -> Gauge | None:
    parts, entry = [level for level in column.levels if level is not None], column.entry
    if not parts:
        return None
    whole = levels(parts, SIGNALS[entry.signals[0]].combine)
    pairs = zip(column.levels, column.ages, strict=False)
    ages = [age for level, age in pairs if level is not None and age is not None]
    return Gauge(
        name=entry.name,
        source=whole.source,
        scope=column.scope,
        unit=entry.unit,
        value=whole.value,
        pod_count=len(parts),
        observed_at=rfc3339(whole.observed_at),
        age_seconds=max(ages) if ages else whole.age,
        state=whole.state.value,
    )


def _zero(entry: Entry, scope: str, at: Instant) -> Gauge:
    """The level of a parked role: known to be zero because nothing is desired and nothing is there."""
    return Gauge(
        name=entry.name,
        source=_DECLARED,
        scope=scope,
        unit=entry.unit,
        value=0.0,
        pod_count=0,
        observed_at=rfc3339(at.wall),
        age_seconds=0.0,
        state=State.FRESH.value,
    )


def role_latencies(roles: Iterable[RoleMeasurement]) -> Iterator[RoleLatency]:
    """Each role's merged latency, in the order of the roles; a role without an observation is left out."""
    for role in roles:
        entries = tuple(_role_entries(role))
        if entries:
            yield RoleLatency(role=role.name, latency=entries)


def _role_entries(role: RoleMeasurement) -> Iterator[WindowEntry]:
    for name, signal in ROLE_LATENCY:
        for value in role.values:
            found = moved([value]) if value.signal == signal else None
            if isinstance(found, Moved) and found.mean is not None:
                yield window(name, "seconds", "", f"engine/{role.name}", found, histogram=True)
