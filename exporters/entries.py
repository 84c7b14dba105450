"""The windows of one Pod as entries: latency, traffic, transfer and request counts, or why each is missing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from msgspec import UNSET
from msgspec.structs import replace

from exporters.combine import Gap, Level, Moved, add, first_source, larger, level, moved, total
from exporters.expectation_tables import BUSY_SIGNALS, IDLE_SIGNALS, TALLIES
from exporters.expectations import Entry, Part, Tally
from exporters.pods import Pod, missing
from exporters.timestamps import rfc3339
from router_contract.documents import Missing, WindowEntry
from router_contract.readings import MissingCode, SignalValue
from router_contract.signals import SIGNALS

_NOT_BEGUN = frozenset({MissingCode.COUNTER_NOT_YET, MissingCode.HISTOGRAM_NOT_YET})
_QUIET = frozenset({MissingCode.ABSENT, MissingCode.NO_OBSERVATIONS, MissingCode.NO_QUERIES, *_NOT_BEGUN})
"""What an optional entry is not missed for."""


class PodValues:
    """One Pod's values by signal, its idleness, and what its table would have called an absent signal."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.name = pod.name
        self._values: dict[str, list[SignalValue]] = {}
        self._merged: dict[str, SignalValue] = {}
        if pod.target is not None:
            for value in pod.target.values:
                self._values.setdefault(value.signal, []).append(value)
            self._merged = {value.signal: value for value in pod.target.merged}

    def of(self, signal: str) -> list[SignalValue]:
        """Every value of a signal, ranks apart."""
        return self._values.get(signal, [])

    def has(self, signal: str) -> bool:
        """Whether the last answer had the signal."""
        return any(value.missing is None for value in self.of(signal))

    def first(self, signals: tuple[str, ...]) -> str:
        """The first of several signals that the Pod has, else the first of them."""
        return next((signal for signal in signals if self.has(signal)), signals[0])

    def window(self, signal: str) -> Moved | Gap:
        """What a signal moved by, over all ranks; quantiles come from the merged histogram where there are several."""
        values = self.of(signal)
        found = moved(values)
        if len(values) > 1 and isinstance(found, Moved) and signal in self._merged:
            found = moved([self._merged[signal]])
        return self.explained(signal, found)

    def explained(self, signal: str, found: Moved | Gap) -> Moved | Gap:
        """A gap with the wire name that was looked for, and told apart from what this version never exports."""
        return self._named(signal, found) if isinstance(found, Gap) else found

    def level(self, signal: str) -> Level | Gap:
        """A level over all ranks, ratios weighed by the signal that weighs them."""
        rule = SIGNALS[signal]
        weights: dict[str, float] = {}
        for value in self.of(rule.weight) if rule.weight else ():
            if value.value is not None:
                weights[dict(value.labels).get("rank", "")] = value.value
        found = level(self.of(signal), rule.combine, weights)
        return self._named(signal, found) if isinstance(found, Gap) else found

    def _named(self, signal: str, gap: Gap) -> Gap:
        """The gap under the name that the Pod's table has for the signal; unsupported where its version has none."""
        table = self.pod.table
        terms = [term for term in table.terms if term.signal == signal] if table else []
        held = [term for term in table.select(self.pod.version) if term.signal == signal] if table else []
        best = min(held or terms, key=lambda term: term.preference, default=None)
        never = gap.code is MissingCode.ABSENT and bool(terms) and not held
        code = MissingCode.UNSUPPORTED_SOURCE if never else gap.code
        return Gap(code, gap.source or (best.name if best else signal))

    def inference(self, signal: str) -> list[SignalValue]:
        """The values of a router's counter that are of inference calls: probes and administration are left out."""
        routes = self.pod.table.inference_routes if self.pod.table else ()
        return [
            value for value in self.of(signal) if not routes or dict(value.labels).get("route", routes[0]) in routes
        ]

    @cached_property
    def idle(self) -> bool:
        """No counter that work moves has moved, at least one was seen, and nothing is in hand."""
        table = self.pod.table
        names = (*(table.progress if table else ()), *IDLE_SIGNALS)
        windows = [found for found in (moved(self.inference(name)) for name in names) if isinstance(found, Moved)]
        if not windows or any(found.increase > 0 for found in windows):
            return False
        for name in table.idle_levels if table else ():
            found = self.of(name)
            if not found or any(value.missing is not None for value in found):
                return False
        return not any((value.value or 0) > 0 for name in BUSY_SIGNALS for value in self.of(name))


def window_entry(values: PodValues, entry: Entry) -> WindowEntry | Missing | None:
    """One entry of latency, traffic or transfer; ``None`` for an optional one that this Pod does not export."""
    signal = values.first(entry.signals)
    found = _filtered(values, signal, entry.at_least) if entry.at_least else values.window(signal)
    if isinstance(found, Moved) and entry.histogram and found.mean is None:
        code = MissingCode.UNREADABLE if found.increase > 0 else MissingCode.NO_OBSERVATIONS
        found = Gap(code, found.source)
    if isinstance(found, Moved):
        return written(values, entry.name, entry.unit, found, histogram=entry.histogram)
    code = _adjusted(values, entry, found.code)
    if entry.optional and code in _QUIET:
        return None
    return missing(values.name, found.source, code, name=entry.name)


def _filtered(values: PodValues, signal: str, at_least: tuple[str, int]) -> Moved | Gap:
    """The sum over the samples whose label is a number from 100 to 599, those below the limit counting nothing.

    So one valid sample is enough for a real zero.
    """
    label, limit = at_least
    parts: list[Moved] = []
    for value in values.of(signal):
        text = dict(value.labels).get(label, "")
        number = int(text) if text.isascii() and text.isdecimal() else 0
        found = moved([value])
        if isinstance(found, Gap):
            return values.explained(signal, found)
        if 100 <= number <= 599:
            parts.append(found if number >= limit else replace(found, increase=0.0, per_second=0.0))
    source = first_source(values.of(signal))
    return replace(total(parts), source=source) if parts else values.explained(signal, Gap(MissingCode.ABSENT, source))


def _adjusted(values: PodValues, entry: Entry, code: MissingCode) -> MissingCode:
    """The code after looking at the Pod's idleness and the entry's companion."""
    if code is MissingCode.NO_OBSERVATIONS and values.idle:
        return MissingCode.IDLE
    if not entry.companion or code not in {MissingCode.ABSENT, *_NOT_BEGUN}:
        return code
    if not entry.histogram:
        return MissingCode.COUNTER_NOT_YET if values.has(entry.companion) else code
    # A histogram has only not begun while its companion observes nothing either.
    companion = moved(values.of(entry.companion))
    quiet = isinstance(companion, Moved) and companion.increase == 0
    return MissingCode.HISTOGRAM_NOT_YET if quiet else MissingCode.ABSENT


def written(values: PodValues, name: str, unit: str, found: Moved, *, histogram: bool) -> WindowEntry:
    """A Pod's window as an entry."""
    return window(name, unit, values.name, values.pod.scope, found, histogram=histogram)


def window(name: str, unit: str, pod: str, scope: str, found: Moved, *, histogram: bool) -> WindowEntry:
    """A window as an entry: the mean of a histogram or the rate of a counter. ``pod`` is empty for a whole role."""
    estimates = dict(found.quantiles)
    return WindowEntry(
        name=name,
        pod=pod,
        source=found.source,
        scope=scope,
        unit=unit,
        value=found.mean if histogram and found.mean is not None else found.per_second,
        samples=found.increase,
        window_seconds=found.seconds,
        observed_at=rfc3339(found.observed_at),
        age_seconds=found.age,
        state=found.state.value,
        lossy=found.lossy or UNSET,
        p50=estimates.get(0.5, UNSET),
        p90=estimates.get(0.9, UNSET),
        p99=estimates.get(0.99, UNSET),
    )


def tallies(values: PodValues) -> Iterator[WindowEntry | Missing]:
    """A router's requests, failures and their ratio."""
    for tally in TALLIES:
        if tally.holds(values.pod.place):
            requests, failed = _count(values, tally, tally.requests), _count(values, tally, tally.failed)
            certain = _certain(values, tally, failed)
            yield _shown(values, "requests", "requests/second", requests)
            shown = _shown(values, "failed-requests", "errors/second", failed)
            yield _bounded(shown, certain, failed.seconds if isinstance(failed, Moved) else 1.0)
            ratio = _ratio(values, requests, failed)
            yield _bounded(ratio, certain, requests.increase if isinstance(requests, Moved) else 1.0)


def _count(values: PodValues, tally: Tally, parts: tuple[Part, ...]) -> Moved | Gap:
    """The sum of some of a tally's parts. One that is absent has not begun if any other of the tally was read."""
    begun = any(values.has(part.signal) for part in (*tally.requests, *tally.failed))
    found: list[Moved | Gap] = []
    for part in parts:
        counted = [
            value
            for value in values.inference(part.signal)
            if not part.label or dict(value.labels).get(part.label, "") in part.only
        ]
        one = larger(counted, part.larger_of) if part.larger_of else moved(counted)
        one = values.explained(part.signal, one)
        if isinstance(one, Gap) and one.code is MissingCode.ABSENT and begun:
            one = Gap(MissingCode.COUNTER_NOT_YET, one.source)
        found.append(one)
    return add(found)


def _certain(values: PodValues, tally: Tally, failed: Moved | Gap) -> float | None:
    """How many of the failures were none of the refusals that the router counts alike; ``None`` when all were."""
    if isinstance(failed, Gap) or not tally.unclear or failed.increase == 0:
        return None
    unclear, cleared = _count(values, tally, tally.unclear), _count(values, tally, tally.cleared)
    if isinstance(unclear, Gap):
        return None if unclear.code is MissingCode.COUNTER_NOT_YET else 0.0
    doubted = unclear.increase - (cleared.increase if isinstance(cleared, Moved) else 0.0)
    return max(0.0, failed.increase - doubted) if doubted > 0 else None


def _bounded(shown: WindowEntry | Missing, certain: float | None, by: float) -> WindowEntry | Missing:
    """An entry that says when it is an upper bound: ``certain`` failures over ``by`` is what it is at least."""
    if certain is None or isinstance(shown, Missing):
        return shown
    return replace(shown, at_least=certain / by)


def _shown(values: PodValues, name: str, unit: str, found: Moved | Gap) -> WindowEntry | Missing:
    if isinstance(found, Gap):
        return missing(values.name, found.source, found.code, name=name)
    return written(values, name, unit, found, histogram=False)


def _ratio(values: PodValues, requests: Moved | Gap, failed: Moved | Gap) -> WindowEntry | Missing:
    name = "error-ratio"
    source = f"{failed.source}+{requests.source}" if failed.source not in requests.source else requests.source
    if isinstance(requests, Gap):
        return missing(values.name, source, requests.code, name=name)
    if isinstance(failed, Gap):
        return missing(values.name, source, failed.code, name=name)
    if requests.span != failed.span:
        return missing(values.name, source, MissingCode.DIFFERENT_WINDOWS, name=name)
    if requests.increase == 0:
        return missing(values.name, source, MissingCode.IDLE if values.idle else MissingCode.NO_REQUESTS, name=name)
    if failed.increase > requests.increase:
        return missing(values.name, source, MissingCode.ERRORS_EXCEED_REQUESTS, name=name)
    lossy = requests.lossy or failed.lossy
    entry = written(values, name, "fraction", replace(requests, lossy=lossy), histogram=False)
    return replace(entry, source=source, value=failed.increase / requests.increase)
