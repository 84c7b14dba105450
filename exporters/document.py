"""The `ModelDeploymentMetrics` document of one deployment at one instant, made from its report.

Everything expected is either an entry or named in ``missing[]`` with its reason. ``partial`` says that a reason was
among those that matter. Nothing is read, estimated or judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec import UNSET, UnsetType

from exporters.caches import cache_entries
from exporters.combine import Level, Moved, levels, moved
from exporters.entries import PodValues, tallies, window, window_entry
from exporters.expectation_tables import ENGINE_ENTRIES, ROLE_LATENCY, ROUTER_ENTRIES
from exporters.expectations import LEVELS, Entry, Place, Section
from exporters.pods import ROUTER_SCOPE, Pod, Roster, missing, roster
from exporters.timestamps import rfc3339
from router_contract.documents import (
    REASONS,
    CacheHit,
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
from router_contract.verdicts import DeploymentReport, RoleMeasurement, TargetState, TargetStatus

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
    people = roster(report)
    if 0 < pods < len(people.pods):
        people = people.first(pods)
    unavailable = _unavailable(report, people)
    if unavailable is not None:
        return unavailable
    readable = [PodValues(pod) for pod in people.pods if _shown(pod)]
    gaps = [*people.missing, *_unread(people.pods)]
    gauges, gauge_gaps = _gauges(readable)
    for scope, place in people.parked:
        for entry in _entries(scope, place, LEVELS):
            if not entry.optional:
                gauges[entry.section].append(_zero(entry, scope, report.at))
    windows: dict[Section, list[WindowEntry]] = {Section.LATENCY: [], Section.TRAFFIC: [], Section.TRANSFER: []}
    caches: list[CacheHit] = []
    gaps += gauge_gaps
    for values in readable:
        current = _current(values.pod)
        for section, found in _pod_entries(values):
            if isinstance(found, WindowEntry):
                windows[section].append(found)
            elif current:
                gaps.append(found)
        for hit in cache_entries(values):
            if isinstance(hit, CacheHit):
                caches.append(hit)
            elif current:
                gaps.append(hit)
    return _assembled(report, people, gauges, windows, caches, gaps)


def _assembled(
    report: DeploymentReport,
    people: Roster,
    gauges: dict[Section, list[Gauge]],
    windows: dict[Section, list[WindowEntry]],
    caches: list[CacheHit],
    gaps: list[Missing],
) -> ModelDeploymentMetrics:
    by_pod = {section: sorted(found, key=lambda entry: (entry.pod, entry.name)) for section, found in windows.items()}
    by_name = {section: sorted(found, key=lambda entry: (entry.name, entry.scope)) for section, found in gauges.items()}
    return ModelDeploymentMetrics(
        metadata=Metadata(name=report.key.name, namespace=report.key.namespace),
        timestamp=rfc3339(report.at.wall),
        processing=_or_unset(by_name[Section.PROCESSING]),
        queueing=_or_unset(by_name[Section.QUEUEING]),
        cache_hits=_or_unset(sorted(caches, key=lambda entry: (entry.pod, entry.scope))),
        latency=_or_unset(by_pod[Section.LATENCY]),
        traffic=_or_unset(by_pod[Section.TRAFFIC]),
        transfer=_or_unset(by_pod[Section.TRANSFER]),
        missing=_or_unset(
            sorted(set(gaps), key=lambda entry: (entry.pod, entry.source, str(entry.code), str(entry.name)))
        ),
        partial=any(REASONS[MissingCode(gap.code)].partial for gap in gaps if isinstance(gap.code, str)),
        coverage=people.coverage(),
        skipped=people.skipped or UNSET,
        roles=_or_unset(list(_role_latencies(report))),
    )


def _or_unset(entries: list[Shown]) -> tuple[Shown, ...] | UnsetType:
    return tuple(entries) if entries else UNSET


def _has_values(pod: Pod) -> bool:
    return pod.target is not None and any(value.missing is None for value in pod.target.values)


def _current(pod: Pod) -> bool:
    """Whether the last read was good: only then does a missing value say something of its own."""
    return pod.target is not None and pod.target.status.state is TargetState.UP


def _shown(pod: Pod) -> bool:
    return pod.table is not None and (_current(pod) or _has_values(pod))


def _pending(pod: Pod) -> bool:
    if pod.target is None:
        return pod.has_address
    return pod.target.status.state is TargetState.PENDING


def _unavailable(report: DeploymentReport, people: Roster) -> Unavailable | None:
    """Why there can be no document: no Pod that should serve, or none that ever answered and is not too old."""
    if any(_current(pod) or _has_values(pod) or _pending(pod) for pod in people.pods):
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
    return next((gap.reason for gap in _unread((pod,))), REASONS[MissingCode.EXPIRED].sentence)


def _unread(pods: Iterable[Pod]) -> Iterator[Missing]:
    """What is missing of whole Pods: reads that failed or did not happen, and programs without a table."""
    for pod in pods:
        if pod.target is None:
            code = MissingCode.NEVER_READ if pod.has_address else MissingCode.NO_ADDRESS
            yield missing(pod.name, "scrape", code)
            continue
        status = pod.target.status
        if status.state is TargetState.PENDING:
            yield missing(pod.name, "scrape", MissingCode.NEVER_READ)
        elif status.state is TargetState.SHED:
            yield missing(pod.name, "pod-discovery", MissingCode.TOO_MANY_PODS)
        elif status.state is TargetState.FAILING:
            yield missing(pod.name, "scrape", MissingCode.SCRAPE_FAILED, _failure(status))
        elif pod.table is None:
            yield missing(pod.name, "scrape", MissingCode.UNKNOWN_SOFTWARE, pod.place.software or "an unnamed program")


def _failure(status: TargetStatus) -> str:
    kind = status.last_error_kind.value if status.last_error_kind else "error"
    return f"{kind}: {status.last_error}" if status.last_error else kind


def _gauges(readable: list[PodValues]) -> tuple[dict[Section, list[Gauge]], list[Missing]]:
    """Levels summed over the Pods of each scope, and what single Pods lack."""
    gauges: dict[Section, list[Gauge]] = {section: [] for section in LEVELS}
    gaps: list[Missing] = []
    for scope in dict.fromkeys(values.pod.scope for values in readable):
        pods = [values for values in readable if values.pod.scope == scope]
        for entry in _entries(scope, pods[0].pod.place, LEVELS):
            parts: list[Level] = []
            for values in pods:
                found = _level(values, entry)
                if isinstance(found, Level):
                    parts.append(found)
                elif found is not None and _current(values.pod):
                    gaps.append(found)
            if parts:
                gauges[entry.section].append(_gauge(entry, scope, parts))
    return gauges, gaps


def _entries(scope: str, place: Place, sections: frozenset[Section]) -> Iterator[Entry]:
    table = ROUTER_ENTRIES if scope == ROUTER_SCOPE else ENGINE_ENTRIES
    return (entry for entry in table if entry.section in sections and entry.holds(place))


def _level(values: PodValues, entry: Entry) -> Level | Missing | None:
    if entry.unsupported is not None:
        return missing(values.name, entry.name, entry.unsupported, name=entry.name)
    found = values.level(values.first(entry.signals))
    if isinstance(found, Level):
        return found
    if entry.optional and found.code in {MissingCode.ABSENT, MissingCode.UNSUPPORTED_SOURCE}:
        return None
    code = entry.absent_as if entry.absent_as and found.code is MissingCode.ABSENT else found.code
    return missing(values.name, found.source, code, name=entry.name)


def _gauge(entry: Entry, scope: str, parts: list[Level]) -> Gauge:
    whole = levels(parts, SIGNALS[entry.signals[0]].combine)
    return Gauge(
        name=entry.name,
        source=whole.source,
        scope=scope,
        unit=entry.unit,
        value=whole.value,
        pod_count=len(parts),
        observed_at=rfc3339(whole.observed_at),
        age_seconds=whole.age,
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


def _pod_entries(values: PodValues) -> Iterator[tuple[Section, WindowEntry | Missing]]:
    """Every window entry expected of a Pod, with the section it belongs to."""
    sections = frozenset(Section) - LEVELS
    for entry in _entries(values.pod.scope, values.pod.place, sections):
        found = window_entry(values, entry)
        if found is not None:
            yield entry.section, found
    if values.pod.scope == ROUTER_SCOPE:
        for found in tallies(values):
            yield Section.TRAFFIC, found


def _role_latencies(report: DeploymentReport) -> Iterator[RoleLatency]:
    """Each role's merged latency, in the order of the roles; a role without an observation is left out."""
    for role in report.roles:
        entries = tuple(_role_entries(role))
        if entries:
            yield RoleLatency(role=role.name, latency=entries)


def _role_entries(role: RoleMeasurement) -> Iterator[WindowEntry]:
    for name, signal in ROLE_LATENCY:
        for value in role.values:
            found = moved([value]) if value.signal == signal else None
            if isinstance(found, Moved) and found.mean is not None:
                yield window(name, "seconds", "", f"engine/{role.name}", found, histogram=True)
