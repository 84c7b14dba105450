"""Rolling windows over the reads of one target: a chain of deltas between consecutive reads.

A delta is decided for each wire family as a whole:

- the same incarnation, the same bounds and nothing lower than before: the difference;
- another incarnation, or any number of the family lower: a reset. What is counted now was counted since, so the new
  counts are the delta, and the window is marked lossy (what the old process counted after its last read is lost); a
  window with three or more of them has no rate;
- other bounds without a restart: a new baseline and no delta.

The first read of a target gives a delta only where the process is known to have started within the window: everything
it counted, it counted since. A series that is new in a family counts from 0 only where its table says that it is
created by its first use and its paired signal was read before, in the same incarnation: then the earlier read proves
that it was still 0. Any other new series may have been hidden (another model, a family that was unreadable), so its
first read is a baseline. A family that is unreadable or torn in one body keeps its older read as the baseline: the next
good read closes the longer pair. A series that is gone from a readable body is closed.

A total takes the deltas of windows, but not those of a number that falls for a third time without a known restart.

What was proved to be 0 at one read was 0 at every read before it in the same life. So the window of a series that
began at its first use reaches as far back as those of the others in its body, and may be added to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from itertools import zip_longest

import msgspec

from observer.measure.columns import Columns
from observer.measure.extract import Frame, histogram_of
from observer.measure.histograms import window_of
from observer.measure.layout import Floats
from observer.measure.pairs import Change, Link, Step, Tail, first, repeat
from observer.measure.plan import OurLabels
from observer.measure.totals import Totals
from router_contract.readings import Histogram, Instant, MissingCode, Window

_SAME_START_SECONDS = 1.0
_MOST_RESETS = 2
"""Resets that a window may hold. Each of them takes a whole count for a delta: true of a restart, absurd for a number that
keeps falling. Nothing restarts three times in one window and has a rate, so past this there is none.
"""


class ChainLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the past a chain keeps: links that reach into the last ``window_seconds``, at most ``links``."""

    window_seconds: float = 60.0
    links: int = 128


class Sums(msgspec.Struct, frozen=True, eq=False):
    """The sum of the newest links, where all of them are plain deltas or resets of the same columns.

    ``resets`` counts them by the place of a series.
    """

    deltas: Floats
    seconds: float
    resets: Counter[int]

    def broken(self, place: int) -> bool:
        """Whether a series was reset too often to have a rate."""
        return bool(self.resets) and self.resets[place] > _MOST_RESETS


class Chain(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """The windows of one target. `push` gives the chain after one more read.

    ``resets`` counts the reads that found a restart or a lower number. ``first_at`` and ``at`` are the first and the
    newest read. ``exported`` says that the program itself told ``process_start``, not its platform: those two are never
    equal, so that one says nothing of the other.
    """

    tail: Tail | None = None
    links: tuple[Link, ...] = ()
    first_at: Instant | None = None
    at: Instant | None = None
    incarnation: Hashable | None = None
    process_start: float | None = None
    exported: bool = False
    resets: int = 0
    totals: Totals | None = None
    memo: dict[float, Sums | None] = msgspec.field(default_factory=dict)

    @classmethod
    def empty(cls) -> Chain:
        """The chain of a target that was never read."""
        return cls()

    def push(
        self,
        frame: Frame,
        at: Instant,
        incarnation: Hashable | None = None,
        limits: ChainLimits | None = None,
        *,
        started: float | None = None,
    ) -> Chain:
        """The chain after a read at ``at``.

        ``incarnation`` is whatever tells one life of the program from the next (Pod UID, restart count, start);
        ``None`` is not known. ``started`` is when that life began (wall seconds), where the platform tells it; a start
        that the program itself exports is preferred. A read not later than the newest is no new read: nothing changes.
        """
        limits = limits or ChainLimits()
        exported = frame.process_start
        began = exported if exported is not None else started
        if self.tail is None or self.at is None:
            return self._begin(frame, at, incarnation, limits, began)
        if at.mono <= self.at.mono:
            return self
        restarted = _differ(self.incarnation, incarnation) or (
            self.process_start is not None
            and began is not None
            and self.exported is (exported is not None)
            and abs(began - self.process_start) > _SAME_START_SECONDS
        )
        whole = not (frame.invalid or self.tail.held or self.tail.gaps)
        if frame.columns is self.tail.columns and whole and not restarted:
            pair = repeat(self.tail, frame.plan, frame.packed, at.mono)
        else:
            change = Change(self.tail, frame.plan, frame.columns, frame.packed, frame.invalid, at.mono)
            pair = change.make(restarted=restarted)
        kept = [each for each in self.links if at.mono - each.end < limits.window_seconds]
        totals = self.totals if self.totals is not None else Totals.of(self.tail.columns)
        return Chain(
            tail=pair.tail,
            links=(*kept, pair.link)[-limits.links :],
            first_at=self.first_at,
            at=at,
            incarnation=self.incarnation if incarnation is None else incarnation,
            process_start=self.process_start if began is None else began,
            exported=self.exported if began is None else exported is not None,
            resets=self.resets + pair.reset,
            totals=totals.after(pair.link, pair.deltas, () if restarted else _falling(kept, pair.link)),
        )

    @staticmethod
    def _begin(
        frame: Frame, at: Instant, incarnation: Hashable | None, limits: ChainLimits, began: float | None
    ) -> Chain:
        start = None
        if began is not None and 0 < at.wall - began <= limits.window_seconds:
            start = at.mono - (at.wall - began)
        link, tail = first(frame.plan, frame.columns, frame.packed, frame.invalid, at.mono, start)
        return Chain(
            tail=tail,
            links=() if link is None else (link,),
            first_at=at,
            at=at,
            incarnation=incarnation,
            process_start=began,
            exported=frame.process_start is not None,
            totals=Totals.of(frame.columns) if link is None else Totals.of(frame.columns).after(link, link.deltas()),
        )

    def window(
        self,
        signal: str,
        labels: OurLabels,
        now: Instant,
        span_seconds: float = 60.0,
        max_seconds: float = 300.0,
    ) -> Window | MissingCode:
        """What one series moved by, over the pairs whose span is nearest to ``span_seconds``, ending at the newest read.

        A single pair may be longer than the span, up to ``max_seconds``; a newest read older than that is expired.
        ``labels`` are ours, as in `Series`. A histogram window has its mean and quantiles.
        """
        if self.tail is None or self.at is None:
            return MissingCode.NEVER_READ
        if now.mono - self.at.mono > max_seconds:
            return MissingCode.EXPIRED
        columns = self.tail.columns
        place = columns.where.get((signal, labels))
        if place is None:
            return MissingCode.UNREADABLE if signal in self.tail.plan.unreadable else MissingCode.ABSENT
        total = self.sums(span_seconds, max_seconds)
        if total is not None:
            if total.broken(place):
                return MissingCode.COUNTER_RESET
            part = total.deltas[columns.span(place)]
            return _window(columns, place, part, total.seconds, lossy=place in total.resets)
        return self._walk(place, span_seconds, max_seconds)

    def newest(self, span_seconds: float) -> tuple[Floats, float] | None:
        """What every column moved by over the newest pairs that are plain differences, and the seconds of those.

        At most the window of ``span_seconds``; less where a restart or a new series lies in it, ``None`` where that is
        so of the newest pair. Taken from the newest read it gives an earlier one, with which the same window is closed.
        """
        deltas, end, start = None, 0.0, 0.0
        for link in reversed(self.links):
            plain = self.tail is not None and link.columns is self.tail.columns and not (link.starts or link.lossy)
            if not plain or (link.steps is not None and set(link.steps) != {int(Step.DELTA)}):
                break
            if deltas is not None and (link.end != start or _too_long(end, link.start, link.end, span_seconds)):
                break
            end = link.end if deltas is None else end
            deltas, start = link.deltas() if deltas is None else deltas + link.deltas(), link.start
        return None if deltas is None else (deltas, end - start)

    def total(self, signal: str, labels: OurLabels) -> float | Histogram | None:
        """What one series was seen to grow by since the first read; it never falls. ``None``: it was never there."""
        return None if self.totals is None else self.totals.of_series(signal, labels)

    def moved_at(self, signal: str) -> float | None:
        """When any series of a signal was last seen to grow (mono seconds of that read); ``None``: not since ``first_at``."""
        if self.tail is None:
            return None
        places = self.tail.columns.of_signal.get(signal, ())
        times = [moved for moved in map(self.tail.moved.at, places) if moved == moved]  # noqa: PLR0124  # NaN
        return max(times, default=None)

    @property
    def nbytes(self) -> int:
        """Bytes of numbers that this chain keeps alive."""
        return self.nbytes_beside(None)

    def nbytes_beside(self, frame: Frame | None) -> int:
        """`nbytes` without those that the newest read's ``frame`` keeps anyway."""
        found = sum(link.nbytes for link in self.links)
        if self.tail is not None:
            shared = frame is not None and frame.packed is self.tail.last
            found += self.tail.moved.nbytes + (0 if shared else self.tail.last.nbytes)
        return found + (0 if self.totals is None else self.totals.nbytes)

    def sums(self, span: float, longest: float) -> Sums | None:
        """The sum of the links of a window when every series has the same ones, and at most ``longest`` seconds; else
        ``None``: then each series has its own window.
        """
        if span not in self.memo:
            self.memo[span] = self._add(span)
        found = self.memo[span]
        return found if found is not None and found.seconds <= longest else None

    def _add(self, span: float) -> Sums | None:
        if self.tail is None or not self.links:
            return None
        end, start = self.links[-1].end, self.links[-1].start
        deltas = None
        resets: Counter[int] = Counter()
        for link in reversed(self.links):
            if deltas is not None and (link.end != start or _too_long(end, link.start, link.end, span)):
                break
            whole = link.steps is None or not ({Step.BASELINE, Step.SKIPPED} & set(link.steps))
            if link.columns is not self.tail.columns or not whole or link.starts or link.lossy:
                return None
            deltas = link.deltas() if deltas is None else deltas + link.deltas()
            start = link.start
            resets.update(place for place, step in enumerate(link.steps or b"") if step == Step.RESET)
        return None if deltas is None else Sums(deltas, end - start, resets)

    def _walk(self, place: int, span: float, longest: float) -> Window | MissingCode:
        """The window of one series, link by link from the newest."""
        columns = self.tail.columns if self.tail is not None else self.links[-1].columns
        series, bounds = columns.series[place], columns.bounds(place)
        part: Floats | None = None
        start = end = 0.0
        resets = 0
        from_zero = False
        for index, link in enumerate(reversed(self.links)):
            there = link.columns.where.get((series.signal, series.labels))
            if there is None or link.columns.bounds(there) != bounds or link.columns.size(there) != columns.size(place):
                if there is None and from_zero:
                    start = self._zeros((series.signal, series.labels), index, (start, end), span, longest)
                break
            step = Step.DELTA if link.steps is None else link.steps[there]
            if step == Step.SKIPPED and part is not None:
                continue
            if step == Step.SKIPPED:
                return MissingCode.UNREADABLE
            begins = link.starts.get(there, link.start)
            far = part is not None and (_too_long(end, begins, link.end, span) or end - begins > longest)
            if step == Step.BASELINE or far:
                break
            if part is None:
                end = link.end
                if end - begins > longest:
                    return MissingCode.COUNTER_RESET if step == Step.RESET else MissingCode.AWAITING_SECOND_SAMPLE
            values = link.deltas()[link.columns.span(there)]
            part = values if part is None else part + values
            start = begins
            resets += step == Step.RESET or there in link.lossy
            from_zero = step == Step.DELTA and begins == link.start
        if part is None:
            return MissingCode.AWAITING_SECOND_SAMPLE
        if resets > _MOST_RESETS:
            return MissingCode.COUNTER_RESET
        return _window(columns, place, part, end - start, lossy=resets > 0)

    def _zeros(
        self, key: tuple[str, OurLabels], newer: int, window: tuple[float, float], span: float, longest: float
    ) -> float:
        """The start of a window after the links before a series' first use, in which it was 0; no restart lies there."""
        start, end = window
        older = list(reversed(self.links))[newer:]
        for link, before in zip_longest(older, older[1:]):
            restarted = link.steps is not None and Step.RESET in link.steps
            far = _too_long(end, link.start, link.end, span) or end - link.start > longest
            had = before is not None and key in before.columns.where
            if link.end != start or restarted or far or had:
                break
            start = link.start
        return start


def _falling(kept: list[Link], link: Link) -> list[int]:
    """The series of a new link that fell once more than `_MOST_RESETS` times without a known restart.

    What they count now is no growth of a total, or a number that falls at each read would be added up for ever.
    """
    if link.steps is None or Step.RESET not in link.steps:
        return []
    before: Counter[tuple[str, OurLabels]] = Counter()
    for other in kept:
        if other.steps is not None and Step.RESET in other.steps:
            steps = zip(other.columns.series, other.steps, strict=True)
            before.update((each.signal, each.labels) for each, step in steps if step == Step.RESET)
    steps = zip(link.columns.series, link.steps, strict=True)
    return [
        place
        for place, (each, step) in enumerate(steps)
        if step == Step.RESET and before[each.signal, each.labels] >= _MOST_RESETS
    ]


def _differ(one: Hashable | None, other: Hashable | None) -> bool:
    return one is not None and other is not None and one != other


def _too_long(end: float, start: float, link_end: float, span: float) -> bool:
    """Whether a window is nearer to its span without this link: more than half of the link would stand out."""
    return end - start - span > (link_end - start) / 2


def _window(columns: Columns, place: int, part: Floats, seconds: float, *, lossy: bool) -> Window:
    if columns.series[place].spread is None:
        return Window(increase=float(part[0]), seconds=seconds, lossy=lossy)
    return window_of(histogram_of(columns, place, part), seconds, lossy=lossy)
