"""Combining one signal's values of a Pod (its ranks, its kept labels) and of several Pods into what a document shows.

A sum is only a sum when each of its parts is known: one missing part makes the whole missing, with the part's code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from router_contract.readings import Estimate, Histogram, MissingCode, SignalValue, State
from router_contract.signals import Combine


class Gap(msgspec.Struct, frozen=True, gc=False):
    """A value that is not there: its code, what was looked for, and what the sentence needs to be told."""

    code: MissingCode
    source: str = ""
    detail: str = ""


class Level(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A gauge of one or several series: the oldest read counts for its age, one stale part makes it stale."""

    value: float
    weight: float | None = None
    observed_at: float
    age: float
    state: State
    source: str


class Moved(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a counter or histogram grew by in a window. ``mean`` and ``quantiles`` belong to histograms."""

    increase: float
    per_second: float
    seconds: float
    lossy: bool
    observed_at: float
    age: float
    state: State
    source: str
    mean: float | None = None
    quantiles: tuple[tuple[float, Estimate], ...] = ()

    @property
    def span(self) -> tuple[float, float]:
        """What two windows must share to be compared: when they ended and how long they were."""
        return (round(self.observed_at, 3), round(self.seconds, 3))


def first_source(values: Iterable[SignalValue]) -> str:
    """The wire name of the first value that has one."""
    return next((value.source for value in values if value.source), "")


def level(values: Sequence[SignalValue], rule: Combine, weights: dict[str, float] | None = None) -> Level | Gap:
    """One level from a signal's values on one Pod. ``weights`` gives a rank's weight for ratios."""
    source = first_source(values)
    if not values:
        return Gap(MissingCode.ABSENT)
    numbers: list[float] = []
    for value in values:
        if value.missing is not None or value.value is None:
            return Gap(value.missing or MissingCode.ABSENT, source)
        if not math.isfinite(value.value) or value.value < 0:
            return Gap(MissingCode.NOT_FINITE, source)
        numbers.append(value.value)
    weighed = [(weights or {}).get(dict(value.labels).get("rank", "")) for value in values]
    total, weight = _fold(numbers, weighed, rule)
    return Level(
        value=total,
        weight=weight,
        observed_at=min(value.observed_at or 0.0 for value in values),
        age=max(value.age_seconds or 0.0 for value in values),
        state=_worst(values),
        source=source,
    )


def levels(parts: Sequence[Level], rule: Combine) -> Level:
    """One level of several Pods; ``parts`` is not empty."""
    # Lists where generators would do: a document of many Pods is made after every read.
    total, weight = _fold([part.value for part in parts], [part.weight for part in parts], rule)
    return Level(
        value=total,
        weight=weight,
        observed_at=min([part.observed_at for part in parts]),
        age=max([part.age for part in parts]),
        state=State.STALE if State.STALE in [part.state for part in parts] else State.FRESH,
        source=parts[0].source,
    )


def _fold(numbers: list[float], weights: list[float | None], rule: Combine) -> tuple[float, float | None]:
    """The combined number and its weight: ratios weigh evenly as soon as one weight is not known."""
    if rule is Combine.MAX:
        return max(numbers), None
    if rule is not Combine.WEIGH:
        return math.fsum(numbers), None
    known = [weight for weight in weights if weight is not None and weight > 0]
    if len(known) < len(numbers):
        return math.fsum(numbers) / len(numbers), None
    total = math.fsum(known)
    return math.fsum(number * weight for number, weight in zip(numbers, known, strict=True)) / total, total


def _worst(values: Iterable[SignalValue]) -> State:
    return State.STALE if any(value.state is State.STALE for value in values) else State.FRESH


def moved(values: Sequence[SignalValue]) -> Moved | Gap:
    """What one signal's values on one Pod grew by together."""
    source = first_source(values)
    begun = [value for value in values if _code(value) is not MissingCode.COUNTER_NOT_YET]
    if not begun:
        return Gap(MissingCode.COUNTER_NOT_YET if values else MissingCode.ABSENT, source)
    parts: list[Moved] = []
    for value in begun:
        part = _one(value)
        if isinstance(part, Gap):
            return Gap(part.code, source)
        parts.append(part)
    return total(parts) if len(parts) > 1 else parts[0]


def _code(value: SignalValue) -> MissingCode | None:
    """Why the value has no window, ``None`` when it has one."""
    if value.missing is not None:
        return value.missing
    if value.window is None:
        return value.window_missing or MissingCode.AWAITING_SECOND_SAMPLE
    return None


def _one(value: SignalValue) -> Moved | Gap:
    code = _code(value)
    window = value.window
    if code is not None or window is None:
        return Gap(code or MissingCode.AWAITING_SECOND_SAMPLE, value.source)
    if not math.isfinite(window.increase) or window.increase < 0:
        return Gap(MissingCode.NOT_FINITE, value.source)
    return Moved(
        increase=window.increase,
        per_second=window.per_second,
        seconds=window.seconds,
        lossy=window.lossy,
        observed_at=value.observed_at or 0.0,
        age=value.age_seconds or 0.0,
        state=value.state,
        source=value.source,
        mean=window.mean if window.mean is not None else _mean(window.histogram),
        quantiles=window.quantiles,
    )


def _mean(histogram: Histogram | None) -> float | None:
    if histogram is None or histogram.count <= 0 or not math.isfinite(histogram.sum):
        return None
    return histogram.sum / histogram.count


def total(parts: Sequence[Moved]) -> Moved:
    """The sum of several windows; ``parts`` is not empty. Means weigh by their observations; quantiles do not add."""
    observed = [part for part in parts if part.increase > 0]
    count = math.fsum(part.increase for part in parts)
    means = [part.mean * part.increase for part in observed if part.mean is not None]
    return Moved(
        increase=count,
        per_second=math.fsum(part.per_second for part in parts),
        seconds=max(part.seconds for part in parts),
        lossy=any(part.lossy for part in parts),
        observed_at=min(part.observed_at for part in parts),
        age=max(part.age for part in parts),
        state=State.STALE if any(part.state is State.STALE for part in parts) else State.FRESH,
        source="+".join(dict.fromkeys(part.source for part in parts)),
        mean=math.fsum(means) / count if observed and len(means) == len(observed) else None,
    )


def larger(values: Sequence[SignalValue], label: str) -> Moved | Gap:
    """The largest sum over the values of one label: where one event moves each of them once."""
    groups: dict[str, list[SignalValue]] = {}
    for value in values:
        groups.setdefault(dict(value.labels).get(label, ""), []).append(value)
    found = [moved(group) for group in groups.values()]
    known = [part for part in found if isinstance(part, Moved)]
    gaps = [part for part in found if isinstance(part, Gap) and part.code is not MissingCode.COUNTER_NOT_YET]
    if gaps or not known:
        return gaps[0] if gaps else moved(values)
    return max(known, key=lambda part: part.increase)


def add(parts: Sequence[Moved | Gap]) -> Moved | Gap:
    """The sum of several signals of one Pod. What has not begun adds nothing; windows must be the same."""
    known = [part for part in parts if isinstance(part, Moved)]
    gaps = [part for part in parts if isinstance(part, Gap)]
    source = "+".join(dict.fromkeys(part.source for part in parts if part.source))
    stopped = next((gap for gap in gaps if gap.code is not MissingCode.COUNTER_NOT_YET), None)
    if stopped is not None or not known:
        return Gap(stopped.code if stopped else MissingCode.COUNTER_NOT_YET, source)
    if len({part.span for part in known}) > 1:
        return Gap(MissingCode.DIFFERENT_WINDOWS, source)
    return msgspec.structs.replace(total(known), source=source)
