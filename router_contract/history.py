"""What is remembered of a deployment for an hour: which numbers, and the shape in which they are handed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

SERIES = (
    "ready",
    "eligible",
    "serving",
    "running",
    "waiting",
    "kvUsage",
    "requestsPerSecond",
    "tokensPerSecond",
    "ttft",
    "itl",
    "errorRatio",
    "age",
)
"""What is kept of each deployment, in the order of a ring's columns. Times in seconds, usage and ratios as fractions."""

CANARY_SERIES = ("canary", "low", "high", "stable", "threshold", "evidence", "level", "samples", "stableSamples")
"""What is kept of each metric of a canary: its number with the bracket of the truth, the other side's, the threshold, the
logarithm of the evidence against the canary and the one that convicts, and how much each side has seen."""


class Past(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Samples of one thing, oldest first: wall seconds, and for each series a number or ``None`` (not known)."""

    times: tuple[float, ...] = ()
    series: Mapping[str, Sequence[float | None]] = {}
