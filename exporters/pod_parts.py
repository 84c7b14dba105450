"""What one Pod gives a metrics document: its entries, its part of each level, and what is missing of it.

A document is put together of these; nothing of a Pod's part depends on another Pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from exporters.caches import cache_entries
from exporters.combine import Level
from exporters.entries import PodValues, tallies, window_entry
from exporters.expectation_tables import ENGINE_ENTRIES, ROUTER_ENTRIES
from exporters.expectations import LEVELS, Entry, Place, Section
from exporters.pods import ROUTER_SCOPE, Pod, missing
from router_contract.documents import CacheHit, Missing, WindowEntry
from router_contract.readings import MissingCode
from router_contract.verdicts import TargetState, TargetStatus

_MOVING = frozenset(Section) - LEVELS


class PodPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One Pod's part. ``windows`` are sorted by name and ``caches`` by scope, as they stand in the document.

    ``levels`` has a place for each of `level_entries`, ``None`` where the Pod does not have the level. ``readable`` is
    False for a Pod of which nothing can be shown; then ``gaps`` say why.
    """

    scope: str
    place: Place
    readable: bool
    windows: tuple[tuple[Section, WindowEntry], ...] = ()
    caches: tuple[CacheHit, ...] = ()
    levels: tuple[Level | None, ...] = ()
    gaps: tuple[Missing, ...] = ()


def pod_part(pod: Pod) -> PodPart:
    """The part of one Pod, as its target stands at the report's instant."""
    gaps = list(unread(pod))
    readable = pod.table is not None and (current(pod) or has_values(pod))
    if not readable:
        return PodPart(scope=pod.scope, place=pod.place, readable=False, gaps=tuple(gaps))
    values = PodValues(pod)
    levels: list[Level | None] = []
    windows: list[tuple[Section, WindowEntry]] = []
    caches: list[CacheHit] = []
    lacking: list[Missing] = []
    for entry in level_entries(pod.scope, pod.place):
        found = _level(values, entry)
        levels.append(found if isinstance(found, Level) else None)
        if isinstance(found, Missing):
            lacking.append(found)
    for section, shown in _windows(values):
        if isinstance(shown, WindowEntry):
            windows.append((section, shown))
        else:
            lacking.append(shown)
    for hit in cache_entries(values):
        if isinstance(hit, CacheHit):
            caches.append(hit)
        else:
            lacking.append(hit)
    return PodPart(
        scope=pod.scope,
        place=pod.place,
        readable=True,
        windows=tuple(sorted(windows, key=lambda item: item[1].name)),
        caches=tuple(sorted(caches, key=lambda hit: hit.scope)),
        levels=tuple(levels),
        gaps=(*gaps, *lacking) if current(pod) else tuple(gaps),
    )


def current(pod: Pod) -> bool:
    """Whether the last read was good: only then does a missing value say something of its own."""
    return pod.target is not None and pod.target.status.state is TargetState.UP


def has_values(pod: Pod) -> bool:
    """Whether anything that was read of the Pod is not too old."""
    return pod.target is not None and any(value.missing is None for value in pod.target.values)


def unread(pod: Pod) -> Iterator[Missing]:
    """What is missing of a whole Pod: a read that failed or did not happen, or a program without a table."""
    if pod.target is None:
        code = MissingCode.NEVER_READ if pod.has_address else MissingCode.NO_ADDRESS
        yield missing(pod.name, "scrape", code)
        return
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


def level_entries(scope: str, place: Place) -> tuple[Entry, ...]:
    """The levels that are expected of a Pod, in the order of their table."""
    return _expected(scope == ROUTER_SCOPE, place, LEVELS)


@lru_cache(maxsize=256)
def _expected(router: bool, place: Place, sections: frozenset[Section]) -> tuple[Entry, ...]:
    table = ROUTER_ENTRIES if router else ENGINE_ENTRIES
    return tuple(entry for entry in table if entry.section in sections and entry.holds(place))


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


def _windows(values: PodValues) -> Iterator[tuple[Section, WindowEntry | Missing]]:
    """Every window entry expected of a Pod, with the section it belongs to."""
    for entry in _expected(values.pod.scope == ROUTER_SCOPE, values.pod.place, _MOVING):
        found = window_entry(values, entry)
        if found is not None:
            yield entry.section, found
    if values.pod.scope == ROUTER_SCOPE:
        for found in tallies(values):
            yield Section.TRAFFIC, found
