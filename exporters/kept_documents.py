"""Metrics documents as bytes, put together of what was kept of each Pod since its last read.

Between two reads of a Pod nothing of its entries changes but their age, and their state when the age passes a bound. So
each Pod's entries are kept as bytes with a place for the age, and only sums over Pods are made anew. The bytes equal
those of `exporters.document.metrics_document` at the same instant.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import msgspec
import orjson

from exporters.document import expected_pods, gauges, in_order, marks, metrics_document, not_found, role_latencies
from exporters.encoding import encode
from exporters.expectation_tables import ROLE_LATENCY
from exporters.expectations import Section
from exporters.pod_parts import PodPart, pod_part
from exporters.pods import ROUTER_SCOPE, Pod, Roster, seen
from exporters.protocols import Sight, Sights, SightSource
from exporters.signals_read import DOCUMENT_SIGNALS
from exporters.timestamps import rfc3339
from router_contract.documents import Metadata, ModelDeploymentMetrics, Unavailable
from router_contract.readings import Instant
from router_contract.targets import Component, Deployment, DeploymentKey, TargetKey
from router_contract.verdicts import DeploymentReport, TargetReport, TargetState

KEPT_PODS = 4_096
"""Of how many Pods parts are kept, over all documents; one takes about 6 kB. The document asked for longest ago goes."""
_ROLE_SIGNALS = frozenset(signal for _, signal in ROLE_LATENCY)
_WINDOWS = (Section.LATENCY, Section.TRAFFIC, Section.TRANSFER)
_CACHES = "cache_hits"
_ARRAYS = (_CACHES, *(section.value for section in _WINDOWS))
# Inside of a JSON text every quote is escaped, so this is always a key.
_AGE = re.compile(rb'(?<="ageSeconds":)[^,}]*')
_EMPTY = ModelDeploymentMetrics(metadata=Metadata(name="", namespace=""), timestamp="", partial=False)
_NAMES = dict(
    zip(ModelDeploymentMetrics.__struct_fields__, ModelDeploymentMetrics.__struct_encode_fields__, strict=True)
)

Pieces = tuple[bytes, ...]
Meta = Callable[[Deployment], object]


def _metadata(of: Deployment) -> Metadata:
    return Metadata(name=of.key.name, namespace=of.key.namespace)


class _Written(msgspec.Struct, frozen=True, eq=False):
    """One Pod's part as it was made at ``sight``. ``entries`` are by array of the document, cut where an age stands."""

    sight: Sight | None
    state: TargetState | None
    levels: PodPart
    entries: dict[str, Pieces]
    gaps: bytes
    marks: bool


class _Slot:
    """A Pod of the document, its place among the deployment's targets if it has one, and what was made of it last."""

    __slots__ = ("place", "pod", "written")

    def __init__(self, pod: Pod, place: int | None, written: _Written | None) -> None:
        self.pod = pod
        self.place = place
        self.written = written


class _Kept:
    """What is kept of one deployment's document; ``plain`` when its Pods' names do not order it."""

    def __init__(self, deployment: Deployment, people: Roster, before: Iterable[_Slot]) -> None:
        self.deployment = deployment
        self.people = people
        known = {slot.pod.name: slot for slot in before}
        places = {
            (target.component is Component.ROUTER, target.key.member_uid): place
            for place, target in enumerate(deployment.targets())
            if target.component is not Component.STORE
        }
        self.slots = [
            _Slot(pod, places.get((pod.scope == ROUTER_SCOPE, pod.uid)), _still(known.get(pod.name), pod))
            for pod in people.pods
        ]
        names = {pod.name for pod in people.pods}
        self.plain = len(names) < len(people.pods) or "" in names
        whole = in_order(people.missing)
        self.gaps, self.marks = _listed(whole), marks(whole)
        self.skipped = encode(people.skipped) if people.skipped else b""


def _still(slot: _Slot | None, pod: Pod) -> _Written | None:
    """What was made of a Pod holds while everything that is known of it beside its reads is the same."""
    return slot.written if slot is not None and slot.pod == pod else None


class KeptDocuments:
    """Documents over one source; ``pods`` bounds the Pods of one (0 does not). For one event loop."""

    def __init__(self, source: SightSource, pods: int = 0) -> None:
        self._source = source
        self._pods = pods
        self._kept: OrderedDict[DeploymentKey, _Kept] = OrderedDict()

    def document(self, key: DeploymentKey, meta: Meta | None = None) -> bytes | Unavailable:
        """One deployment's document of this moment as JSON, or why there is none; ``meta`` makes its ``metadata``."""
        sights = self._source.sights(key)
        if sights is None:
            self._kept.pop(key, None)
            return not_found(key)
        kept = self._current(key, sights)
        made: dict[TargetKey, TargetReport] = {}
        written, ages = ([], []) if kept.plain else self._written(kept, sights, made)
        if not any(each.state is TargetState.UP for each in written):
            return self._whole(key, meta)  # whether anything can be shown is then a question to every value
        told = {
            "api_version": encode(_EMPTY.api_version),
            "kind": encode(_EMPTY.kind),
            "metadata": encode((meta or _metadata)(sights.deployment)),
            "timestamp": encode(rfc3339(sights.at.wall)),
            **_levels(kept.people, zip(written, ages, strict=True), sights.at),
            **_arrays(written, ages),
            **_lacking(kept, written),
            "coverage": encode(kept.people.covered([each.state for each in written])),
            "skipped": kept.skipped,
            "roles": _listed(role_latencies(self._source.role_windows(sights, _ROLE_SIGNALS, made)), brackets=True),
        }
        return orjson.dumps({wire: orjson.Fragment(told[name]) for name, wire in _NAMES.items() if told.get(name)})

    def _current(self, key: DeploymentKey, sights: Sights) -> _Kept:
        kept = self._kept.get(key)
        if kept is None or kept.deployment is not sights.deployment:
            people = expected_pods(DeploymentReport(deployment=sights.deployment, at=sights.at), self._pods)
            kept = self._kept[key] = _Kept(sights.deployment, people, kept.slots if kept is not None else ())
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(len(each.slots) for each in self._kept.values()) > KEPT_PODS:
            self._kept.popitem(last=False)
        return kept

    def _written(
        self, kept: _Kept, sights: Sights, made: dict[TargetKey, TargetReport]
    ) -> tuple[list[_Written], list[float | None]]:
        """Every Pod's part as it stands now, made anew where the Pod changed, and the age of what was read of it.

        ``made`` is filled with the reports of the targets that changed.
        """
        found: list[_Written] = []
        ages: list[float | None] = []
        for slot in kept.slots:
            sight = None if slot.place is None else sights.targets[slot.place]
            written = slot.written
            if written is None or not _holds(written.sight, sight):
                written = slot.written = self._write(slot.pod, sight, sights, made)
            found.append(written)
            ages.append(sight.moment.age_seconds if sight is not None else None)
        return found, ages

    def _write(self, pod: Pod, sight: Sight | None, sights: Sights, made: dict[TargetKey, TargetReport]) -> _Written:
        if sight is not None:
            made[sight.key] = self._source.target(sight, sights.at, DOCUMENT_SIGNALS)
            pod = seen(pod, made[sight.key])
        part = pod_part(pod)
        gaps = in_order(part.gaps)
        entries = {section.value: _pieces([e for of, e in part.windows if of is section]) for section in _WINDOWS}
        return _Written(
            sight=sight,
            state=pod.target.status.state if pod.target is not None else None,
            levels=msgspec.structs.replace(part, windows=(), caches=(), gaps=()),
            entries={name: pieces for name, pieces in {**entries, _CACHES: _pieces(part.caches)}.items() if pieces},
            gaps=_listed(gaps),
            marks=marks(gaps),
        )

    def _whole(self, key: DeploymentKey, meta: Meta | None) -> bytes | Unavailable:
        """The document made of a whole report."""
        report = self._source.deployment(key)
        if report is None:
            return not_found(key)
        made = metrics_document(report, self._pods)
        if isinstance(made, Unavailable):
            return made
        plain = msgspec.to_builtins(made)
        return encode(plain | {"metadata": msgspec.to_builtins((meta or _metadata)(report.deployment))})


def _holds(before: Sight | None, now: Sight | None) -> bool:
    return before is now if now is None else now.same(before)


def _levels(people: Roster, parts: Iterable[tuple[_Written, float | None]], at: Instant) -> dict[str, bytes]:
    found = gauges(people, [(written.levels, age) for written, age in parts], at)
    return {section.value: _listed(several, brackets=True) for section, several in found.items()}


def _pieces(entries: Sequence[object]) -> Pieces:
    """Entries as JSON, cut where their age stands."""
    return tuple(_AGE.split(encode(entries)[1:-1])) if entries else ()


def _arrays(written: Sequence[_Written], ages: Sequence[float | None]) -> dict[str, bytes]:
    """The arrays of entries of single Pods, every entry at its Pod's age; empty for one without an entry."""
    texts = orjson.dumps(ages)[1:-1].split(b",")
    found: dict[str, bytes] = {}
    for name in _ARRAYS:
        several = [
            age.join(each.entries[name]) for each, age in zip(written, texts, strict=True) if name in each.entries
        ]
        if several:
            found[name] = b"[%b]" % b",".join(several)
    return found


def _lacking(kept: _Kept, written: Sequence[_Written]) -> dict[str, bytes]:
    gaps = b",".join([text for text in (kept.gaps, *(each.gaps for each in written)) if text])
    partial = kept.marks or any(each.marks for each in written)
    return {"missing": b"[%b]" % gaps if gaps else b"", "partial": encode(partial)}


def _listed(entries: Iterable[object], *, brackets: bool = False) -> bytes:
    """Entries as the inside of a JSON array, or the array itself; empty without an entry."""
    found = tuple(entries)
    if not found:
        return b""
    made = encode(found)
    return made if brackets else made[1:-1]
