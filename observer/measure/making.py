"""From the last read of one target to the values of its signals, as they were at that read; ages are added when shown."""

from __future__ import annotations

from collections.abc import Iterator

from observer.measure.extract import Frame
from observer.measure.plan import OurLabels
from observer.measure.window import Chain
from router_contract.readings import Histogram, Instant, MissingCode, SignalValue, Window
from router_contract.signals import SIGNALS, Kind

_MOVING = (Kind.COUNTER, Kind.HISTOGRAM)


class Maker:
    """Makes the values of one read, signal by signal: ``frame`` read at ``at``, which ``chain`` holds already.

    ``span`` and ``longest`` are seconds, those of `Chain.window`.
    """

    def __init__(self, frame: Frame, chain: Chain, at: Instant, span: float, longest: float) -> None:
        self._frame = frame
        self._chain = chain
        self._at = at
        self._span = span
        self._longest = longest

    def signal(self, signal: str, source: str) -> tuple[SignalValue, ...]:
        """What the read tells of a signal, or why it tells nothing; ``source`` is the wire name that is looked for."""
        return tuple(self._values(signal, source))

    def _values(self, signal: str, source: str) -> Iterator[SignalValue]:
        frame = self._frame
        series, gaps = frame.series(signal), frame.gaps(signal)
        if not series and not gaps:
            gaps = (((), frame.missing(signal) or MissingCode.ABSENT),)
        for labels, code in gaps:
            yield self._missing(signal, labels, source, code)
        moving = SIGNALS[signal].kind in _MOVING
        for each in series:
            window, why = self._window(signal, each.labels) if moving else (None, None)
            total = self._chain.total(signal, each.labels) if moving else None
            yield SignalValue(
                signal=signal,
                labels=each.labels,
                value=each.value,
                histogram=each.histogram,
                info=each.info,
                observed_at=self._at.wall,
                source=each.source,
                window=window,
                window_missing=why,
                running_total=total.count if isinstance(total, Histogram) else total,
                running_histogram=total if isinstance(total, Histogram) else None,
            )

    def _missing(self, signal: str, labels: OurLabels, source: str, code: MissingCode) -> SignalValue:
        """A signal that a readable body did not have: the age of that body is the age of the finding."""
        return SignalValue(
            signal=signal,
            labels=labels,
            source=source,
            missing=code,
            window_missing=code,
            observed_at=self._at.wall,
        )

    def _window(self, signal: str, labels: OurLabels) -> tuple[Window | None, MissingCode | None]:
        found = self._chain.window(signal, labels, self._at, self._span, self._longest)
        return (found, None) if isinstance(found, Window) else (None, found)
