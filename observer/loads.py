"""What can be told of many targets in one cheap walk over their records, without making a value. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from observer.fleet import Record
from router_contract.readings import FailureKind

_TOO_LARGE = "TooLarge"


class Loads(msgspec.Struct, frozen=True, kw_only=True):
    """The largest of what was last read, over all targets.

    ``too_large`` counts targets whose last read failed for its size; ``cut`` are the details of problems of size.
    """

    targets: int = 0
    body_bytes: int = 0
    samples: int = 0
    too_large: int = 0
    cut: tuple[str, ...] = ()


def loads(records: Collection[Record]) -> Loads:
    """Over these records; no target is shown for it, so that it can be asked every few seconds."""
    frames = [record.frame for record in records if record.frame is not None]
    failures = [record.failure for record in records if record.consecutive and record.failure is not None]
    return Loads(
        targets=len(records),
        body_bytes=max((record.body_bytes for record in records), default=0),
        samples=max((frame.samples_kept for frame in frames), default=0),
        too_large=sum(failure.kind is FailureKind.TOO_LARGE for failure in failures),
        cut=tuple(problem.detail for each in frames for problem in each.problems if problem.kind == _TOO_LARGE),
    )


def memory(records: Collection[Record]) -> tuple[int, int]:
    """Bytes of numbers that last reads, and windows with running totals, keep; a longer walk than that of `loads`."""
    frames = [record.frame for record in records if record.frame is not None]
    readings = sum(frame.nbytes for frame in frames)
    return readings, sum(record.chain.nbytes_beside(record.frame) for record in records)


def apart(records: Iterable[Record | None]) -> frozenset[str]:
    """The histogram signals that have several sets of bounds in what was last read: others can always be merged."""
    plans = {id(record.frame.plan): record.frame.plan for record in records if record is not None and record.frame}
    bounds: dict[str, set[tuple[float, ...]]] = {}
    for plan in plans.values():
        for signal, several in plan.series.items():
            for each in several:
                if each.spread is not None:
                    bounds.setdefault(signal, set()).add(each.spread.bounds)
    return frozenset(signal for signal, found in bounds.items() if len(found) > 1)
