"""What was read, when, and how it failed: the values that pass from collecting to judging and publishing.

A number never travels alone: it carries its signal, its labels, its time and its state. Times are an `Instant`
(monotonic for ages, wall for what is published).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from router_contract.targets import TargetKey

Wall = Annotated[float, msgspec.Meta(ge=0.0, lt=253_402_300_800.0)]
"""Wall seconds that can be written as a time, until the end of the year 9999; what was stored otherwise is not read."""


class Instant(msgspec.Struct, frozen=True, order=True, gc=False):
    """One moment on both clocks, in seconds. Ages use ``mono``; published times use ``wall``."""

    mono: float
    wall: float


class State(StrEnum):
    """The state of a value at the moment it is looked at. There is no state for "zero because unseen"."""

    FRESH = "Fresh"
    STALE = "Stale"
    MISSING = "Missing"


class FailureKind(StrEnum):
    """Every way in which reading a target can fail. Closed: dashboards and alerts depend on it."""

    REFUSED = "Refused"
    UNREACHABLE = "Unreachable"
    DNS = "Dns"
    TIMEOUT = "Timeout"
    TLS = "Tls"
    HTTP = "Http"
    REDIRECT = "Redirect"
    TOO_LARGE = "TooLarge"
    TRUNCATED = "Truncated"
    BAD_ENCODING = "BadEncoding"
    MALFORMED = "Malformed"
    NOT_EXPOSITION = "NotExposition"


class Histogram(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Cumulative bucket counts at upper bounds (seconds, tokens, …), the last bound ``inf``; ``sum`` of observations.

    ``counts[i]`` observations were ≤ ``bounds[i]``; ``counts[-1]`` is the number of observations. As a delta the same
    shape holds. ``sum`` is ``nan`` where a program exports none.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float

    @property
    def count(self) -> float:
        """The number of observations."""
        return self.counts[-1] if self.counts else 0.0


class Series(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One combined series of a signal in one body: our labels and its number or histogram.

    For `Kind.INFO` signals ``info`` holds the wire labels and ``value`` is 1. ``source`` is the wire name it came
    from. ``folded`` counts the equal copies (tensor ranks, processes, duplicate lines) that became this one.
    """

    labels: tuple[tuple[str, str], ...] = ()
    value: float
    histogram: Histogram | None = None
    info: tuple[tuple[str, str], ...] = ()
    source: str = ""
    folded: int = 0


class Problem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing wrong inside a body that was otherwise readable: which family, what was found, where (1-based line)."""

    family: str
    kind: str
    detail: str
    line: int = 0


class ScrapeFailed(msgspec.Struct, frozen=True, kw_only=True, tag="failed", gc=False):
    """A read that gave nothing. ``status`` is the HTTP status for `FailureKind.HTTP` and `FailureKind.REDIRECT`."""

    target: TargetKey
    at: Instant
    kind: FailureKind
    detail: str
    status: int | None = None
    duration_seconds: float = 0.0
    body_bytes: int = 0


class Estimate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A quantile from merged buckets: the interpolated value, the bracket it lies in, and whether it is exact.

    ``high`` is ``None`` when the rank lies beyond the last finite bound.
    """

    value: float
    low: float
    high: float | None
    exact: bool


class Window(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What moved during a rolling window: a chain of deltas between consecutive reads.

    ``increase`` is the counter's growth (for histograms, the number of observations), ``seconds`` the true span
    between the first and last read used. ``lossy`` says that a restart inside lost at most one scrape period.
    ``histogram`` is the delta of a histogram signal, ``mean`` its sum over its count (``None`` without an observation
    or without a sum), ``quantiles`` its ``(q, estimate)`` pairs in rising order of ``q`` (empty without an observation).
    """

    increase: float
    seconds: float
    lossy: bool = False
    histogram: Histogram | None = None
    mean: float | None = None
    quantiles: tuple[tuple[float, Estimate], ...] = ()

    @property
    def per_second(self) -> float:
        """The rate; the caller has made sure that ``seconds`` is above 0 (a window is never made otherwise)."""
        return self.increase / self.seconds


class MissingCode(StrEnum):
    """Why a value that was expected, or could have been, is not there. Closed; ``documents`` has the sentences."""

    NO_OWNED_POD = "NoOwnedPod"
    PODS_MISSING = "PodsMissing"
    TOO_MANY_PODS = "TooManyPods"
    SCRAPE_FAILED = "ScrapeFailed"
    EXPIRED = "Expired"
    ABSENT = "Absent"
    UNREADABLE = "Unreadable"
    NOT_FINITE = "NotFinite"
    UNKNOWN_SOFTWARE = "UnknownSoftware"
    AWAITING_SECOND_SAMPLE = "AwaitingSecondSample"
    COUNTER_RESET = "CounterReset"
    INCOMPATIBLE_DENOMINATOR = "IncompatibleDenominator"
    NO_QUERIES = "NoQueries"
    NO_OBSERVATIONS = "NoObservations"
    DIFFERENT_WINDOWS = "DifferentWindows"
    NO_REQUESTS = "NoRequests"
    ERRORS_EXCEED_REQUESTS = "ErrorsExceedRequests"
    COUNTER_NOT_YET = "CounterNotYetExported"
    HISTOGRAM_NOT_YET = "HistogramNotYetExported"
    UNSUPPORTED_SOURCE = "UnsupportedSource"
    IDLE = "Idle"
    NEVER_READ = "NeverRead"
    NO_ADDRESS = "NoAddress"
    LIST_FAILED = "ListFailed"
    NO_ROUTER_GAUGE = "UnsupportedRouterGauge"
    NOT_BY_POLICY = "UnsupportedByPolicy"
    NO_CONNECTOR = "UnsupportedNoConnector"
    NOT_THE_STORE = "UnsupportedNotTheStore"
    NO_HOST_TIER = "UnsupportedNoHostTier"
    NO_STORAGE_TIER = "UnsupportedNoStorageTier"


class SignalValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One signal of one target at one frozen instant, as every exporter shows it.

    Exactly one of these holds: ``value`` (and ``histogram`` for histograms) with state Fresh or Stale, or ``missing``
    with a code. ``window`` is present for counters and histograms once two reads chain; else ``window_missing`` says
    why. ``observed_at`` is wall seconds of the read, ``age_seconds`` its age at the instant. ``source`` is the wire
    name that was read or, for a missing value, the one that was looked for (empty when no table names one).

    ``running_total`` is what the observer itself has seen a counter grow by since it first read it: it never falls
    while the observer runs, whatever the program's restarts do. ``running_histogram`` is the same for a histogram.
    Both are ``None`` before the first read.
    """

    signal: str
    labels: tuple[tuple[str, str], ...] = ()
    value: float | None = None
    histogram: Histogram | None = None
    info: tuple[tuple[str, str], ...] = ()
    state: State = State.MISSING
    age_seconds: float | None = None
    observed_at: float | None = None
    source: str = ""
    missing: MissingCode | None = None
    window: Window | None = None
    window_missing: MissingCode | None = None
    running_total: float | None = None
    running_histogram: Histogram | None = None


class Moment(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """What time has made of one target's values: nothing else about them changes between two of its reads.

    ``read`` is what was read last, told apart by identity only: another object after each good read, and whenever else
    the values become others (the target's program, why there is nothing). ``state`` is that of every value that has one,
    ``windows`` whether windows still hold, ``age_seconds`` the age of every value (``None``: never read).
    """

    read: object
    state: State
    windows: bool
    age_seconds: float | None = None

    def same(self, other: Moment | None) -> bool:
        """Whether the target's values, its merged ones too, are the same at both moments but for their ages."""
        return (
            other is not None
            and self.read is other.read
            and self.state is other.state
            and self.windows is other.windows
        )
