"""What is kept of the Pods of one deployment's metrics document: bytes with places for ages, levels, gaps, states.

Everything stands in columns with a place for each Pod in the order of the document, so that a document of many Pods
touches as little as can be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import orjson

from exporters.combine import Level
from exporters.document import Column, in_order, marks
from exporters.encoding import encode
from exporters.expectations import Section
from exporters.pod_parts import PodPart, level_entries, pod_part
from exporters.pods import ROUTER_SCOPE, Pod, Roster
from exporters.protocols import Sight, Sights
from router_contract.targets import Component, Deployment
from router_contract.verdicts import TargetState

_WINDOWS = (Section.LATENCY, Section.TRAFFIC, Section.TRANSFER)
_CACHES = "cache_hits"
_ARRAYS = (_CACHES, *(section.value for section in _WINDOWS))
# Inside of a JSON text every quote is escaped, so this is always a key.
_AGE = re.compile(rb'(?<="ageSeconds":)[^,}]*')

Pieces = tuple[bytes, ...]


class Written(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One Pod's part as it was made at ``sight``. ``entries`` are by array of the document, cut where an age stands."""

    sight: Sight | None
    state: TargetState | None
    levels: tuple[Level | None, ...]
    entries: dict[str, Pieces]
    gaps: bytes
    marks: bool


def write(pod: Pod, sight: Sight | None) -> Written:
    """The part of a Pod whose target stands as it did at ``sight``."""
    part = pod_part(pod)
    gaps = in_order(part.gaps)
    return Written(
        sight=sight,
        state=pod.target.status.state if pod.target is not None else None,
        levels=part.levels,
        entries=dict(_entries(part)),
        gaps=listed(gaps),
        marks=marks(gaps),
    )


def _entries(part: PodPart) -> Iterator[tuple[str, Pieces]]:
    yield _CACHES, _pieces(part.caches)
    for section in _WINDOWS:
        yield section.value, _pieces([entry for of, entry in part.windows if of is section])


def _pieces(entries: Sequence[object]) -> Pieces:
    """Entries as JSON, cut where their age stands."""
    return tuple(_AGE.split(encode(entries)[1:-1])) if entries else ()


def listed(entries: Iterable[object], *, brackets: bool = False) -> bytes:
    """Entries as the inside of a JSON array, or the array itself; empty without an entry."""
    found = tuple(entries)
    if not found:
        return b""
    made = encode(found)
    return made if brackets else made[1:-1]


class KeptParts:
    """The columns of one deployment; what ``before`` kept of a Pod holds on where nothing else about the Pod changed.

    ``plain`` says that the Pods' names do not order the document, so that nothing here can be used for it.
    """

    def __init__(self, deployment: Deployment, people: Roster, before: KeptParts | None) -> None:
        self.deployment = deployment
        self.people = people
        whole = in_order(people.missing)
        self.own_gaps, self.own_marks = listed(whole), marks(whole)
        self.skipped = encode(people.skipped) if people.skipped else b""
        names = {pod.name for pod in people.pods}
        self.plain = len(names) < len(people.pods) or "" in names
        self.places = _places(deployment, people.pods)
        size = len(people.pods)
        self.written: list[Written | None] = [None] * size
        self.states: list[TargetState | None] = [None] * size
        self._gaps = [b""] * size
        self._marks = [False] * size
        self._entries: dict[str, list[Pieces]] = {name: [()] * size for name in _ARRAYS}
        self._scopes: dict[str, list[int]] = {}
        for place, pod in enumerate(people.pods):
            self._scopes.setdefault(pod.scope, []).append(place)
        self._levels: dict[str, list[list[Level | None]]] = {
            scope: [[None] * len(places) for _ in level_entries(scope, people.pods[places[0]].place)]
            for scope, places in self._scopes.items()
        }
        self._within = {place: number for places in self._scopes.values() for number, place in enumerate(places)}
        known = {pod.name: place for place, pod in enumerate(before.people.pods)} if before is not None else {}
        for place, pod in enumerate(people.pods):
            old = known.get(pod.name)
            if before is not None and old is not None and before.people.pods[old] == pod:
                made = before.written[old]
                if made is not None:
                    self.put(place, made)

    def put(self, place: int, made: Written) -> None:
        """One Pod's part is another one."""
        self.written[place], self.states[place] = made, made.state
        self._gaps[place], self._marks[place] = made.gaps, made.marks
        for name, column in self._entries.items():
            column[place] = made.entries[name]
        for number, levels in enumerate(self._levels[self.people.pods[place].scope]):
            levels[self._within[place]] = made.levels[number] if made.levels else None

    def sight(self, place: int, sights: Sights) -> Sight | None:
        """How the target of a Pod stands; ``None`` for a Pod without one."""
        at = self.places[place]
        return None if at is None else sights.targets[at]

    def ages(self, sights: Sights) -> list[float | None]:
        """How old what was read of each Pod is, in seconds."""
        return [None if at is None else sights.ages[at] for at in self.places]

    def columns(self, ages: Sequence[float | None]) -> Iterator[Column]:
        """The levels of each scope at these ages."""
        for scope, places in self._scopes.items():
            known = ages if len(places) == len(ages) else [ages[place] for place in places]
            entries = level_entries(scope, self.people.pods[places[0]].place)
            for entry, levels in zip(entries, self._levels[scope], strict=True):
                yield Column(entry, scope, levels, known)

    def arrays(self, ages: Sequence[float | None]) -> dict[str, bytes]:
        """The arrays of entries of single Pods, every entry at its Pod's age; none for an array without an entry."""
        texts = orjson.dumps(ages)[1:-1].split(b",")
        found: dict[str, bytes] = {}
        for name, column in self._entries.items():
            several = [age.join(pieces) for pieces, age in zip(column, texts, strict=True) if pieces]
            if several:
                found[name] = b"[%b]" % b",".join(several)
        return found

    def lacking(self) -> dict[str, bytes]:
        """What is missing, and whether the document is partial for it."""
        gaps = b",".join(filter(None, (self.own_gaps, *self._gaps)))
        partial = self.own_marks or True in self._marks
        return {"missing": b"[%b]" % gaps if gaps else b"", "partial": encode(partial)}


def _places(deployment: Deployment, pods: Sequence[Pod]) -> list[int | None]:
    """Where each Pod's target stands among those of the deployment."""
    found = {
        (target.component is Component.ROUTER, target.key.member_uid): place
        for place, target in enumerate(deployment.targets())
        if target.component is not Component.STORE
    }
    return [found.get((pod.scope == ROUTER_SCOPE, pod.uid)) for pod in pods]
