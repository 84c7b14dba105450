"""The rows of what users reported about systems like ours, and which test tries each. The numbers are the fact sheet's.

A test says which rows it tries with `row`; `test_table` compares what was said with `ROWS`, so that no row is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

ROWS: dict[int, str] = {
    1: "a removed backend leaves the exposition; what nobody told is not healthy",
    2: "a watch that was cut is listed again, and who was deleted meanwhile is gone",
    3: "a target added and deleted while its probe hangs is not kept",
    4: "a target that accepts and never answers is not eligible",
    5: "targets of the former list are asked no more",
    6: "Ready with an empty list of models is not serving",
    7: "neither not-ready nor unselected members are eligible, whatever their health says",
    9: "a sample that arrives after its worker left brings nothing back",
    10: "series of Pods that are gone are not counted",
    12: "Ready with the serving port closed is not eligible",
    14: "the serving port is chosen by name, not by place",
    15: "two servers in one Pod are two endpoints",
    17: "health 200 with a frozen core is a stall",
    19: "refused is dead, a timeout is saturated, and a restart is no progress lost",
    20: "a list of models that still answers proves no progress",
    21: "waiting requests and no prompt tokens are a stall",
    23: "counts of ranks add, usage takes the rule of its kind",
    24: "counts add, usage is averaged, histograms merge",
    25: "copies of a tensor-parallel group are not added",
    27: "of several processes the largest value counts",
    28: "a renamed metric is found under either name and never counted twice",
    29: "every name of a dashboard is exported",
    30: "a family that a version dropped is not expected of it",
    31: "a router whose families were all renamed is read under the new names",
    32: "usage of several Pods is no sum",
    35: "the block size stands beside the hit ratio",
    37: "block size and block count stand beside the usage",
    38: "throughput of an idle engine is derived from its counters",
    40: "a body with half of the families gives the other half's values",
    41: "a source that is not configured is absent with a reason",
    43: "equal duplicates fold, unequal ones make the family unreadable, a repeated label is a fault",
    47: "a selector that matches nothing is said",
    48: "after a reset the new value is the increase",
    50: "no increase is ever negative",
    52: "an idle window has no ratio, and says idle",
    53: "a failed read is not a zero",
    54: "with every target down the desired number stays",
    55: "an empty answer of a query is an error, not 0",
    56: "no endpoint is an explicit 0 beside what is desired",
    58: "a cold member without histograms is warming and not excluded",
    60: "a value whose read was skipped ages",
    61: "only wanted families are parsed",
    62: "reading for long does not grow",
    63: "18 000 junk series cost no wanted value",
    64: "the series of ours for one deployment are few and counted",
    66: "50 000 series are read within a bound",
    67: "an HTTPS engine with an authority of its own is read",
    68: "the metrics port may be another one, and a refusal of a sidecar is told with its status",
    69: "IPv6 addresses are joined with brackets",
    70: "refused and no answer are told apart",
    71: "time of reads, failures and ages are exported",
    72: "two observers give the same thing the same labels, and only the owner publishes it",
    73: "a gap in the sequence is found, replayed and counted",
    74: "a sequence that goes back is another life",
    75: "a first sequence above 0 is replayed or said to be incomplete",
    78: "an unknown block among removals stops nothing",
    80: "events queued for a Pod that left are never applied",
    81: "a clear clears that rank",
    83: "the index is bounded in bytes",
    84: "each rank has its own stream, and a silent one is seen",
    87: "a thousand clears cost nothing and are counted",
    88: "hashes of different spaces are never compared",
}
"""What each row wants, in our words. Numbers that are not here are not in the sheet."""

FURTHER: dict[str, str] = {
    "outage": "events lost in an outage are found afterwards",
    "recovery": "while a stream is repaired it does not say live",
    "duplicates": "a block stored twice is removed twice before it is gone",
}
"""What the sheet names beside its rows."""

SAID: dict[int | str, list[str]] = defaultdict(list)


def row(*numbers: int | str) -> Callable[[F], F]:
    """Says that a test tries these rows."""

    def note(test: F) -> F:
        for number in numbers:
            SAID[number].append(f"{test.__module__}.{test.__name__}")
        return test

    return note
