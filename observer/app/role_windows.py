"""The merged histogram windows of roles at an instant, of what was kept of each member since its last read.

`observer.fleet.report` merges whole values and running totals; a document that is made after every read needs the
windows alone. What is merged is the same, to the bit.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from exporters.protocols import Sight, Sights
from observer.measure.histograms import window_of
from observer.measure.merging import merged
from router_contract.readings import Histogram, Instant, SignalValue, Window
from router_contract.targets import Component, Deployment, DeploymentKey, Role, TargetKey
from router_contract.verdicts import RoleMeasurement, TargetReport

_MEMBERS = 2_048
"""Of how many members windows are kept, over all deployments; the deployment asked for longest ago goes."""
_EXACT = 2.0**53
"""Sums of whole numbers below it are exact in any order."""

Read = Callable[[Sight, Instant, frozenset[str]], TargetReport]
Made = Mapping[TargetKey, TargetReport]


class _Row(msgspec.Struct, frozen=True, eq=False):
    """One member's histograms as they were at ``sight``, by signal."""

    sight: Sight
    values: dict[str, tuple[SignalValue, ...]]


class _Sum:
    """All windows of one signal of a role, kept while members change one by one.

    ``odd`` is above 0 while something cannot be added in any order (other bounds, counts that are no whole numbers): then
    nothing else here is used. The lists have a place for each member.
    """

    __slots__ = ("bounds", "count", "counts", "first", "longest", "lossy", "odd", "sums", "windows")

    def __init__(self, members: int) -> None:
        self.bounds: tuple[float, ...] | None = None
        self.counts: list[float] = []
        self.count = 0.0
        self.windows = 0
        self.odd = 0
        self.first: list[SignalValue | None] = [None] * members
        self.sums: list[tuple[float, ...]] = [()] * members
        self.longest = [0.0] * members
        self.lossy = [False] * members

    def change(self, member: int, before: Sequence[SignalValue], now: Sequence[SignalValue]) -> None:
        """One member's values became others."""
        for value, sign in (*((value, -1) for value in before), *((value, 1) for value in now)):
            if value.histogram is not None:
                self._add(value.histogram, value.window, sign)
        windows = [value.window for value in now if value.window is not None]
        self.first[member] = now[0] if now else None
        self.sums[member] = tuple(each.histogram.sum for each in windows if each.histogram is not None)
        self.longest[member] = max((each.seconds for each in windows), default=0.0)
        self.lossy[member] = any(each.lossy for each in windows)

    def _add(self, histogram: Histogram, window: Window | None, sign: int) -> None:
        if self.bounds is None:
            self.bounds, self.counts = histogram.bounds, [0.0] * len(histogram.bounds)
        delta = window.histogram if window is not None else None
        alike = histogram.bounds == self.bounds and histogram.count.is_integer()
        if not alike or not (window is None or (delta is not None and _fits(delta, self.bounds))):
            self.odd += sign
            return
        self.count += sign * histogram.count
        if delta is not None:
            self.windows += sign
            self.counts = [held + sign * moved for held, moved in zip(self.counts, delta.counts, strict=True)]
        if not max(self.count, *self.counts) < _EXACT:
            self.odd += 1  # and never again below 1: something was rounded


def _fits(histogram: Histogram, bounds: tuple[float, ...]) -> bool:
    """Whether it has a whole number for each of these bounds."""
    return (
        histogram.bounds == bounds
        and len(histogram.counts) == len(bounds)
        and all(map(float.is_integer, histogram.counts))
    )


class _Role:
    """A role's members, by their places among the targets of the deployment, with what is kept of each."""

    def __init__(self, name: str, places: Sequence[int], signals: frozenset[str]) -> None:
        self.name = name
        self.places = places
        self.rows: list[_Row | None] = [None] * len(places)
        self.sums = {signal: _Sum(len(places)) for signal in sorted(signals)}

    def put(self, number: int, row: _Row) -> None:
        """One member changed."""
        before = self.rows[number]
        for signal, total in self.sums.items():
            total.change(number, before.values.get(signal, ()) if before else (), row.values.get(signal, ()))
        self.rows[number] = row


class _Kept:
    """The roles of one deployment; what ``before`` had of a member is taken over."""

    def __init__(self, deployment: Deployment, signals: frozenset[str], before: _Kept | None) -> None:
        self.deployment = deployment
        self.signals = signals
        engines: dict[str, list[int]] = {}
        keys: list[TargetKey] = []
        for place, target in enumerate(deployment.targets()):
            keys.append(target.key)
            if target.component is Component.ENGINE:
                engines.setdefault(target.key.member_uid, []).append(place)
        self.roles = [_Role(role.name, _places(role, engines), signals) for role in deployment.roles]
        roles = before.roles if before is not None and before.signals == signals else ()
        rows = {row.sight.key: row for role in roles for row in role.rows if row is not None}
        for role in self.roles:
            for number, place in enumerate(role.places):
                if keys[place] in rows:
                    role.put(number, rows[keys[place]])

    @property
    def members(self) -> int:
        """Of how many members something is kept."""
        return sum(len(role.rows) for role in self.roles)


def _places(role: Role, engines: Mapping[str, list[int]]) -> list[int]:
    return [place for each in role.members() if not each.terminating for place in engines.get(each.uid, ())]


class RoleWindows:
    """Keeps the windows of members; ``read`` gives the values of one that changed."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._kept: OrderedDict[DeploymentKey, _Kept] = OrderedDict()

    def of(self, sights: Sights, signals: frozenset[str], made: Made) -> tuple[RoleMeasurement, ...]:
        """Each role's merged values of these signals: with their windows, without histograms and running totals.

        ``made`` are reports of this instant that need not be made once more.
        """
        key = sights.deployment.key
        kept = self._kept.get(key)
        if kept is None or kept.deployment is not sights.deployment or kept.signals != signals:
            kept = self._kept[key] = _Kept(sights.deployment, signals, kept)
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(each.members for each in self._kept.values()) > _MEMBERS:
            self._kept.popitem(last=False)
        return tuple(
            RoleMeasurement(name=role.name, values=tuple(self._role(kept, role, sights, made))) for role in kept.roles
        )

    def _role(self, kept: _Kept, role: _Role, sights: Sights, made: Made) -> Iterator[SignalValue]:
        ages: list[float] = []
        for number, place in enumerate(role.places):
            sight, row = sights.targets[place], role.rows[number]
            if row is None or row.sight is not sight:
                report = made.get(sight.key) or self._read(sight, sights.at, kept.signals)
                role.put(number, _Row(sight, _histograms(report.values, kept.signals)))
            ages.append(sights.ages[place] or 0.0)
        for signal, total in role.sums.items():
            whole = _with_care(role, signal, ages) if total.odd else _merged(total, ages)
            if whole is not None:
                yield whole


def _histograms(values: Iterable[SignalValue], signals: frozenset[str]) -> dict[str, tuple[SignalValue, ...]]:
    found: dict[str, tuple[SignalValue, ...]] = {}
    for value in values:
        if value.histogram is not None and value.signal in signals:
            lean = msgspec.structs.replace(value, running_total=None, running_histogram=None)
            found[value.signal] = (*found.get(value.signal, ()), lean)
    return found


def _with_care(role: _Role, signal: str, ages: Sequence[float]) -> SignalValue | None:
    """The values of a signal merged one by one, at their present ages."""
    aged = [
        msgspec.structs.replace(value, age_seconds=age)
        for row, age in zip(role.rows, ages, strict=True)
        if row is not None
        for value in row.values.get(signal, ())
    ]
    return next(iter(merged(aged, always=True)), None)


def _merged(total: _Sum, ages: Sequence[float]) -> SignalValue | None:
    """Values at their present ages (seconds) as one, as `observer.measure.merging.merged` makes it but for what is left out."""
    known = (
        ages
        if None not in total.first
        else [-1.0 if of is None else age for of, age in zip(total.first, ages, strict=True)]
    )
    age = max(known, default=-1.0)
    oldest = total.first[known.index(age)] if known else None
    if oldest is None:
        return None
    window = _window(total) if total.windows else None
    return SignalValue(
        signal=oldest.signal,
        value=total.count,
        state=oldest.state,
        age_seconds=age,
        observed_at=oldest.observed_at,
        source=oldest.source,
        window=window,
        window_missing=None if window is not None else next(filter(None, total.first)).window_missing,
    )


def _window(total: _Sum) -> Window:
    spent = math.fsum(chain.from_iterable(total.sums))
    whole = Histogram(bounds=total.bounds or (), counts=tuple(total.counts), sum=spent)
    return window_of(whole, max(total.longest), lossy=True in total.lossy)
