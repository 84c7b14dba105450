"""What can be told of many targets in one cheap walk over their records, without making a value. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from observer.fleet import Policy, Record, state_at
from observer.measure.budget import LayoutBudget
from observer.measure.merging import Counted
from observer.measure.totals import onto
from router_contract.readings import FailureKind, Histogram, Instant, State
from router_contract.targets import Role

_TOO_LARGE = "TooLarge"


class Loads(msgspec.Struct, frozen=True, kw_only=True):
    """The largest of what was last read, over all targets.

    ``too_large`` counts targets whose last read failed for its size; ``cut`` are the details of problems of size.
    ``layout_bytes`` are those of all layouts, at most ``layout_most``; ``layouts_refused`` counts those not made for it.
    """

    targets: int = 0
    body_bytes: int = 0
    samples: int = 0
    too_large: int = 0
    cut: tuple[str, ...] = ()
    layout_bytes: int = 0
    layout_most: int = 0
    layouts_refused: int = 0


def loads(records: Collection[Record], layouts: LayoutBudget) -> Loads:
    """Over these records, read with these layouts; no target is shown for it, so that it can be asked every few seconds."""
    frames = [record.frame for record in records if record.frame is not None]
    failures = [record.failure for record in records if record.consecutive and record.failure is not None]
    return Loads(
        targets=len(records),
        body_bytes=max((record.body_bytes for record in records), default=0),
        samples=max((frame.samples_kept for frame in frames), default=0),
        too_large=sum(failure.kind is FailureKind.TOO_LARGE for failure in failures),
        cut=tuple(problem.detail for each in frames for problem in each.problems if problem.kind == _TOO_LARGE),
        layout_bytes=layouts.used,
        layout_most=layouts.most,
        layouts_refused=layouts.refused,
    )


def memory(records: Collection[Record]) -> tuple[int, int]:
    """Bytes of numbers that last reads, and windows with running totals, keep; a longer walk than that of `loads`."""
    frames = [record.frame for record in records if record.frame is not None]
    readings = sum(frame.nbytes for frame in frames)
    return readings, sum(record.chain.nbytes_beside(record.frame) for record in records)


def apart(records: Iterable[Record | None]) -> frozenset[str]:
    """The histogram signals that have several sets of bounds in what was last read: others can always be merged."""
    frames = (record.frame for record in records if record is not None and record.frame is not None)
    bounds: dict[str, set[tuple[float, ...]]] = {}
    for columns in {id(frame.columns): frame.columns for frame in frames}.values():
        for signal, places in columns.histograms.items():
            bounds.setdefault(signal, set()).update(map(columns.bounds, places))
    return frozenset(signal for signal, found in bounds.items() if len(found) > 1)


def role_totals(
    role: Role, records: Mapping[str, Sequence[Record]], counts: Counted, now: Instant, policy: Policy
) -> tuple[tuple[str, Histogram], ...]:
    """The running totals that a role's report shows at an instant: of signals that one of its members tells now.

    ``records`` are those of engines by the UID of their member, ``counts`` what the role counted, of signals that are not
    `apart`.
    """
    present = [
        record
        for member in role.members()
        if not member.terminating
        for record in records.get(member.uid, ())
        if record.frame is not None and state_at(record, now, policy) is not State.MISSING
    ]
    found = ((signal, total, _bounds(present, signal)) for signal, total in sorted(counts.items()))
    return tuple((signal, onto(total, bounds)) for signal, total, bounds in found if bounds is not None)


def _bounds(records: Iterable[Record], signal: str) -> tuple[float, ...] | None:
    """The bounds of the first series of a signal that tells a histogram."""
    series = (each for record in records if record.frame is not None for each in record.frame.series(signal))
    return next((each.histogram.bounds for each in series if each.histogram is not None), None)
