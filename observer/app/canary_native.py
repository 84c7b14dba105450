"""The native source of canary analyses: which Pods belong to which revision, and what their reads counted in a step.

The router is preferred where it measures a signal for each worker: it measures both revisions with the same code. Which
of the two it was stands in each observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from observer.app.canary_sides import ROUTER, Kept, RevisionEndpoints, Sides, Way, authority, counted_of, plain
from observer.fleet import Record, sources
from observer.judge.canary.warmup import warm_from
from observer.measure.canary_cells import Counted, Gathering, Part, by_label
from observer.store import Store
from router_contract.canary import Analysis, CanaryAnalysis, MeasuredBy, NativeKind, NativeMetric
from router_contract.canary_inputs import Baseline, BaselineKind, CountWindow, Mix, NativeObservation
from router_contract.readings import Instant
from router_contract.signals import SIGNALS
from router_contract.targets import Component, DeploymentKey, Member, Ready, TargetKey
from router_contract.vocabulary import Absence, Term

_WORKER: Final = "worker"
_ENDED: Final = "requests-finished"
_REQUESTS: Final = NativeMetric(kind=NativeKind.RATE, signal=_ENDED, measured_by=MeasuredBy.ENGINE)
_ABORTS: Final = NativeMetric(
    kind=NativeKind.RATE, signal=_ENDED, where=(("reason", "abort"),), measured_by=MeasuredBy.ENGINE
)
REQUESTS: Final = "\0requests"
_ABORTED: Final = "\0aborted"
_COUNTS: Final = {REQUESTS: _REQUESTS, _ABORTED: _ABORTS}
"""What is counted of every Pod beside the metrics, whether it is warm or not: its share of the requests, and aborts."""
_HITS: Final = NativeMetric(kind=NativeKind.RATIO, signal="prefix-cache-hits", total="prefix-cache-queries")
_PROMPTS: Final = NativeMetric(kind=NativeKind.MEAN, signal="request-prompt-tokens")
_MIX: Final = {"\0hit rate": _HITS, "\0prompt length": _PROMPTS}
"""What says whether the two revisions were asked alike; no metric is named so."""


NOTHING_KEPT: Final[Mapping[str, Kept]] = {}


class NativeSource:
    """Looks at the store for one analysis. `look` counts what came since the last look; `observe` makes a sample's part."""

    def __init__(self, store: Store, fresh_seconds: float) -> None:
        self._store = store
        self._fresh = fresh_seconds
        self.endpoints: Callable[[CanaryAnalysis], RevisionEndpoints | None] = lambda _: None

    def sides(self, definition: CanaryAnalysis) -> Sides:
        """The Pods as they are now."""
        key = DeploymentKey(definition.namespace, definition.target.name)
        found = next((each for each in self._store.deployments() if each.key == key), None)
        return Sides(definition, found, self.endpoints(definition))

    def look(self, sides: Sides, analysis: Analysis, gathering: Gathering, now: Instant) -> None:
        """Count what every Pod's reads grew by since the last look."""
        gathering.tick(now.wall)
        metrics = _native(analysis) | _COUNTS
        warm = {name: self._warm(sides, name, analysis, gathering) for name in (*sides.canary, *sides.stable)}
        for what, measure in metrics.items():
            way = self._way(sides, measure)
            if way.unavailable:
                continue
            for is_canary, names in ((True, sides.canary), (False, sides.stable)):
                part = Part(what=what, canary=is_canary)
                gathering.measured(part, way, now.wall)
                for record, pod, counted in self._counted(sides, measure, way, names):
                    start, read = record.chain.process_start, record.chain.first_at
                    own = way.by is MeasuredBy.ENGINE or sides.definition.component == ROUTER
                    new = read is not None and read.wall >= gathering.opened
                    known = own and new and start is not None and start >= gathering.opened
                    life = record.target.key
                    gathering.add(part, life, pod, counted, counts=what in _COUNTS or warm[pod], from_zero=known)
                    if record.chain.resets > gathering.resets.setdefault((part, life), record.chain.resets):
                        gathering.resets[part, life] = record.chain.resets
                        gathering.restarted(part)

    def observe(
        self,
        sides: Sides,
        analysis: Analysis,
        gathering: Gathering,
        now: Instant,
        kept: Mapping[str, Kept] = NOTHING_KEPT,
    ) -> list[NativeObservation]:
        """What each native metric of a sample saw, up to the last look. ``kept`` is of the step before, by metric."""
        found = []
        for what, measure in _native(analysis).items():
            if what in _MIX:
                continue
            way = self._way(sides, measure)
            mine, theirs = Part(what=what, canary=True), Part(what=what, canary=False)
            expected = [name for name in sides.canary if not sides.members[name].terminating]
            missing = () if way.unavailable else self._missing(sides, way, expected, now)
            before = kept.get(what)
            if before is not None and (before.measure, before.stable) != (measure, sides.definition.stable):
                before = None
            found.append(
                NativeObservation(
                    metric=what,
                    measured_by=way.by,
                    since_step=self._aborted(gathering, gathering.whole(mine, now.wall)),
                    recent=gathering.recent(mine, now.wall),
                    stable=self._baseline(sides, gathering, theirs, before, now),
                    incomparable=self._incomparable(sides, measure, way),
                    mix=self._mix(gathering, now, canary=True),
                    expected=len(expected),
                    missing=missing,
                    warming=tuple(
                        name
                        for name in expected
                        if name not in missing and not self._warm(sides, name, analysis, gathering)
                    ),
                    unattributed=sides.unattributed,
                    mixed_pairing=sides.mixed_pairing,
                    unavailable=way.unavailable or self._unseen(sides, measure, way),
                )
            )
        return found

    def _baseline(
        self, sides: Sides, gathering: Gathering, part: Part, before: Kept | None, now: Instant
    ) -> Baseline | None:
        """Stable's side: its Pods now; where none are left what it counted in the step before, else earlier in this one."""
        window, mix = gathering.whole(part, now.wall), self._mix(gathering, now, canary=False)
        if sides.stable:
            return Baseline(window=window, before=None if before is None else before.window, mix=mix)
        if before is not None and before.window.cells:
            return Baseline(window=before.window, kind=BaselineKind.FROZEN, mix=before.mix)
        return Baseline(window=window, kind=BaselineKind.FROZEN, mix=mix) if window.cells else None

    def keep(self, sides: Sides, analysis: Analysis, gathering: Gathering, now: Instant) -> dict[str, Kept]:
        """What stable counted in a step that ends now, by metric."""
        mix, found = self._mix(gathering, now, canary=False), {}
        for what, measure in _native(analysis).items():
            window = gathering.whole(Part(what=what, canary=False), now.wall)
            if what not in _MIX and window.cells:
                found[what] = Kept(measure=measure, stable=sides.definition.stable, window=window, mix=mix)
        return found

    def _aborted(self, gathering: Gathering, window: CountWindow) -> CountWindow:
        """The window with the requests that clients gave up meanwhile, told apart."""
        cells = gathering.whole(Part(what=_ABORTED, canary=True), window.end).cells
        return msgspec.structs.replace(window, aborted=sum(cell.events for cell in cells))

    def share(self, gathering: Gathering, now: Instant) -> float | None:
        """The canary's share of all requests that were finished since the step began; ``None`` without any."""
        sides = [
            sum(cell.events for cell in gathering.whole(Part(what=REQUESTS, canary=canary), now.wall).cells)
            for canary in (True, False)
        ]
        return sides[0] / sum(sides) if sum(sides) else None

    def _incomparable(self, sides: Sides, measure: NativeMetric, way: Way) -> str:
        """Why a latency says nothing about the build: the engines of the two revisions measure another thing by its name."""
        if measure.relative is None or way.by is MeasuredBy.ROUTER or way.unavailable:
            return ""
        told = []
        for names in (sides.canary, sides.stable):
            records = [record for name in names for record in self._records(sides, way.by, name)]
            told.append(
                {
                    f"{record.target.software}'s {sources(record.vocabulary, record.version).get(way.signal, 'nothing')}"
                    for record in records
                    if record.vocabulary is not None
                }
            )
        if not all(told) or told[0] == told[1]:
            return ""
        return f"canary and stable measure {way.signal} otherwise: {', '.join(sorted(told[0]))} and {', '.join(sorted(told[1]))}"

    def _mix(self, gathering: Gathering, now: Instant, *, canary: bool) -> Mix:
        hits, prompts = (gathering.whole(Part(what=what, canary=canary), now.wall).cells for what in _MIX)
        asked = sum(cell.total for cell in hits)
        lengths = [cell.histogram for cell in prompts if cell.histogram is not None]
        count = sum(each.count for each in lengths)
        return Mix(
            hit_rate=sum(cell.events for cell in hits) / asked if asked else None,
            prompt_tokens=sum(each.sum for each in lengths) / count if count else None,
        )

    def _records(self, sides: Sides, by: MeasuredBy, name: str) -> list[Record]:
        """What is kept of the targets that measure one Pod."""
        routers = sides.deployment.router if sides.deployment is not None else None
        engine = sides.definition.component != ROUTER
        if by is MeasuredBy.ROUTER and engine:
            members: Iterable[Member] = routers.members if routers is not None else ()
        else:
            members = (sides.members[name],)
        component = Component.ENGINE if by is MeasuredBy.ENGINE else Component.ROUTER
        found = (self._record(sides, member, component) for member in members)
        return [record for record in found if record is not None]

    def _record(self, sides: Sides, member: Member, component: Component) -> Record | None:
        if member.metrics is None or sides.deployment is None:
            return None
        return self._store.record(TargetKey(sides.deployment.key, member.uid, component, member.metrics.port))

    def _counted(
        self, sides: Sides, measure: NativeMetric, way: Way, names: Iterable[str]
    ) -> Iterable[tuple[Record, str, Counted]]:
        """Each record's totals for each Pod that it measures."""
        shared = way.by is MeasuredBy.ROUTER and sides.definition.component != ROUTER
        if not shared:
            for name in names:
                for record in self._records(sides, way.by, name):
                    if record.chain.totals is not None:
                        found = counted_of(record, measure, way, "")
                        yield record, name, found.get("", Counted())
            return
        workers = {authority(sides.members[name]): name for name in names}
        some = next(iter(workers.values()), None)
        for record in self._records(sides, way.by, some) if some is not None else ():
            if record.chain.totals is None:
                continue
            for worker, counted in counted_of(record, measure, way, _WORKER).items():
                name = workers.get(plain(worker), "")
                if name:
                    yield record, name, counted

    def _missing(self, sides: Sides, way: Way, expected: Iterable[str], now: Instant) -> tuple[str, ...]:
        """Pods whose newest good read is too old, or has the signal's family or a number of it unreadable."""
        missing = []
        for name in expected:
            records = self._records(sides, way.by, name)
            if not records or any(self._stale(record, way, now) for record in records):
                missing.append(name)
        return tuple(missing)

    def _stale(self, record: Record, way: Way, now: Instant) -> bool:
        if record.read_at is None or now.mono - record.read_at.mono > self._fresh or record.chain.tail is None:
            return True
        unreadable, frame = record.chain.tail.plan.unreadable, record.frame
        signals = [signal for signal in (way.signal, way.total) if signal]
        # What tells no number now grows by nothing, which is not that nothing was counted.
        return any(each in unreadable or (frame is not None and bool(frame.gaps(each))) for each in signals)

    def _warm(self, sides: Sides, name: str, analysis: Analysis, gathering: Gathering) -> bool:
        """Whether a Pod's requests count now. Once they do, they do until it restarts: a Pod that fails is not cold.

        Where no platform tells since when it is ready, the first good read of its metrics stands for it: an engine
        serves those only once it is up.
        """
        member = sides.members[name]
        component = Component.ROUTER if sides.definition.component == ROUTER else Component.ENGINE
        record = self._record(sides, member, component)
        if record is None or record.chain.first_at is None or record.read_at is None:
            return False
        life = name, member.uid, record.chain.process_start
        rule, ready = analysis.warm_up, max(record.chain.first_at.wall, record.chain.process_start or 0.0)
        reads = [(record.read_at.wall, _ended(record))]
        warm = member.ready is not Ready.FALSE and (
            not (rule.requests or rule.seconds) or warm_from(rule, gathering.opened, ready, reads) is not None
        )
        if warm:
            gathering.warm.add(life)
        return life in gathering.warm

    def _way(self, sides: Sides, measure: NativeMetric) -> Way:
        """By whom a metric is measured."""
        total = measure.total
        routers = sides.deployment.router.members if sides.deployment and sides.deployment.router else ()
        if sides.definition.component == ROUTER:
            return self._checked(sides, measure, Way(by=MeasuredBy.ROUTER, signal=measure.signal, total=total), "")
        if measure.signal.startswith("router-"):
            way = Way(by=MeasuredBy.ROUTER, signal=measure.signal, total=total)
            if measure.measured_by is MeasuredBy.ENGINE:
                return msgspec.structs.replace(
                    way, unavailable=f"{measure.signal} is the router's signal, not an engine's"
                )
            if not routers:
                return msgspec.structs.replace(way, unavailable=f"no router is there to tell {measure.signal}")
            return self._checked(sides, measure, way, _WORKER)
        if measure.measured_by is not MeasuredBy.ENGINE:
            other = f"router-{total}" if total is not None else None
            way = Way(by=MeasuredBy.ROUTER, signal=f"router-{measure.signal}", total=other)
            told = self._checked(sides, measure, way, _WORKER) if _alike(measure, way) else None
            if told is not None and not told.unavailable and routers:
                return told
            if measure.measured_by is MeasuredBy.ROUTER:
                return msgspec.structs.replace(way, unavailable=f"no router here measures {measure.signal} by worker")
        return self._checked(sides, measure, Way(by=MeasuredBy.ENGINE, signal=measure.signal, total=total), "")

    def _checked(self, sides: Sides, measure: NativeMetric, way: Way, label: str) -> Way:
        """The way, or why it is none: no table of these programs has the signal, or not with these labels."""
        names = (*sides.canary, *sides.stable)
        records = [record for name in names for record in self._records(sides, way.by, name)]
        for signal, wanted in ((way.signal, tuple(name for name, _ in measure.where)), (way.total, ())):
            if signal is None or not records:
                continue
            terms = [term for record in records for term in _terms(record, signal)]
            need = {*wanted, label} - {""}
            if any(need <= {ours for ours, _ in term.keep} for term in terms):
                continue
            by = f" by {', '.join(sorted(need))}" if need else ""
            programs = ", ".join(sorted({record.target.software for record in records}))
            return msgspec.structs.replace(way, unavailable=f"{programs} does not tell {signal}{by}")
        return way

    def _unseen(self, sides: Sides, measure: NativeMetric, way: Way) -> str:
        """Why events that no Pod ever exported may not be taken for zero; empty where they may."""
        if measure.kind not in {NativeKind.RATIO, NativeKind.RATE}:
            return ""
        names = (*sides.canary, *sides.stable)
        records = [record for name in names for record in self._records(sides, way.by, name)]
        lazy = any(term.absence is Absence.NOT_YET for record in records for term in _terms(record, way.signal))
        totals = [record.chain.totals for record in records if record.chain.totals is not None]
        if lazy or not totals or any(by_label(each, way.signal, measure.where) for each in totals):
            return ""
        labels = "".join(f" with {name}={value}" for name, value in measure.where)
        return f"no Pod exports a series of {way.signal}{labels}"


def _alike(measure: NativeMetric, way: Way) -> bool:
    """Whether the router's signals are of the same kind as the engine's of that name."""
    pairs = ((measure.signal, way.signal), (measure.total, way.total))
    found = [(SIGNALS.get(one or ""), SIGNALS.get(other or "")) for one, other in pairs if one is not None]
    return all(one is not None and other is not None and one.kind is other.kind for one, other in found)


def _native(analysis: Analysis) -> dict[str, NativeMetric]:
    """The native metrics of a gate, and what a comparison of latencies needs beside them."""
    found = {each.name: each.measure for each in analysis.metrics if isinstance(each.measure, NativeMetric)}
    return found | _MIX if any(each.relative is not None for each in found.values()) else found


def _terms(record: Record, signal: str) -> Iterable[Term]:
    return (term for term in record.vocabulary.terms if term.signal == signal) if record.vocabulary is not None else ()


def _ended(record: Record) -> float:
    """Requests that a program has finished, as far as its reads tell."""
    value = by_label(record.chain.totals, _ENDED).get("") if record.chain.totals is not None else None
    return value if isinstance(value, float) else 0.0
