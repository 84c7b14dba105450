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


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of one deployment, oldest first: wall seconds, and for each series a number or ``None`` (not known)."""

    times: tuple[float, ...] = ()
    series: Mapping[str, Sequence[float | None]] = {}
