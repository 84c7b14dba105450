"""The histograms of several label sets or members as one value: what ranks and replicas did together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from observer.measure.histograms import merge, merge_windows
from observer.measure.totals import onto
from router_contract.readings import Histogram, SignalValue

Counted = Mapping[str, Histogram]
"""By signal: what was ever counted, also by series and members that are gone now."""
NOTHING: Counted = MappingProxyType({})


def merged(
    found: Iterable[SignalValue], counted: Counted = NOTHING, *, always: bool = False
) -> tuple[SignalValue, ...]:
    """The histograms of several label sets once more as one value each; of single ones too when ``always``.

    The running totals are those of ``counted``, so that they do not fall when one of the label sets is missing. A
    signal whose parts share no finite bound is left out.
    """
    parts: dict[str, list[SignalValue]] = {}
    for value in found:
        if value.histogram is not None:
            parts.setdefault(value.signal, []).append(value)
    made = (
        merged_value(several, counted.get(signal)) for signal, several in parts.items() if always or len(several) > 1
    )
    return tuple(value for value in made if value is not None)


def merged_value(several: list[SignalValue], counted: Histogram | None) -> SignalValue | None:
    """Values of one histogram signal as one; ``counted`` is its running total. ``None`` where they share no bound."""
    whole = merge([value.histogram for value in several if value.histogram is not None])
    if whole is None:
        return None
    oldest = max(several, key=lambda value: value.age_seconds or 0.0)
    windows = [value.window for value in several if value.window is not None]
    window = merge_windows(windows)
    total = onto(counted, whole.bounds) if counted is not None else None
    return SignalValue(
        signal=oldest.signal,
        value=whole.count,
        histogram=whole,
        state=oldest.state,
        age_seconds=oldest.age_seconds,
        observed_at=oldest.observed_at,
        source=oldest.source,
        window=window,
        window_missing=None if window is not None else several[0].window_missing,
        running_total=total.count if total is not None else None,
        running_histogram=total,
    )
