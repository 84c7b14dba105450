"""The definition of a canary analysis: which revisions are compared, in which steps, by which metrics.

The shape follows OME's `canary.steps[].analysis`, so that an OME plan and a `CanaryAnalysis` object are one thing here.
`canary_decode` reads it from a document and refuses what cannot be judged. Durations are in seconds.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Operator(StrEnum):
    """The comparison a metric must satisfy: value, operator, threshold."""

    LT = "LT"
    LTE = "LTE"
    GT = "GT"
    GTE = "GTE"

    @property
    def is_upper(self) -> bool:
        """Whether the threshold is an upper bound, so that larger values are worse."""
        return self in {Operator.LT, Operator.LTE}

    def holds(self, value: float, threshold: float) -> bool:
        """Whether a finite value satisfies it."""
        if self is Operator.LT:
            return value < threshold
        if self is Operator.LTE:
            return value <= threshold
        return value > threshold if self is Operator.GT else value >= threshold


class OnInconclusive(StrEnum):
    """What an inconclusive sample does: hold until the stall time parks, roll back at once, roll back when stalled."""

    HOLD = "Hold"
    ROLLBACK = "Rollback"
    ROLLBACK_ON_STALL = "RollbackOnStall"


class NonFiniteSeries(StrEnum):
    """Series that are NaN or infinite beside others that are numbers: left out, or the metric is inconclusive."""

    IGNORE = "ignore"
    INCONCLUSIVE = "inconclusive"


class Warnings(StrEnum):
    """An answer with warnings (a partial one, as a rule) is inconclusive, or accepted."""

    INCONCLUSIVE = "inconclusive"
    ACCEPT = "accept"


class EmptyMeans(StrEnum):
    """What an empty answer is: no data, or zero where an independent query proves that there was traffic."""

    NO_DATA = "noData"
    ZERO = "zero"


class NativeKind(StrEnum):
    """What is made of a signal: a share of requests, a quantile, a mean, an increase per second."""

    RATIO = "ratio"
    QUANTILE = "quantile"
    MEAN = "mean"
    RATE = "rate"


class MeasuredBy(StrEnum):
    """Whose signal it is. The router measures both revisions with the same code and is preferred."""

    ROUTER = "router"
    ENGINE = "engine"


class Procedure(StrEnum):
    """How an absolute native metric fails.

    ``SEQUENTIAL``: when the evidence since the step began reaches 1/alpha, valid at any number of looks.
    ``POINT``: when the number of the newest window breaches the threshold, as OME does with a query.
    """

    SEQUENTIAL = "sequential"
    POINT = "point"


class BucketPolicy(StrEnum):
    """A threshold inside a bucket: inconclusive when the bracket does not decide, or decided by interpolation."""

    BRACKET = "bracket"
    INTERPOLATE = "interpolate"


class PromqlMetric(msgspec.Struct, frozen=True, kw_only=True, tag="promql", gc=False):
    """A query with OME's template variables. ``timeout`` bounds its evaluation; the sample's deadline does too."""

    query: str
    traffic_query: str | None = None
    empty_means: EmptyMeans = EmptyMeans.NO_DATA
    non_finite: NonFiniteSeries = NonFiniteSeries.IGNORE
    warnings: Warnings = Warnings.INCONCLUSIVE
    timeout: float = 5.0


class Relative(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Not worse than stable by more than a factor: ``margin`` 1.25 allows a quarter more."""

    margin: float = 1.25


class CacheGuard(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When a relative latency says nothing about the build: the cache or the prompts differ too much.

    ``hit_rate`` is the largest difference of the prefix-cache hit rates, ``prompt_length`` the largest ratio of the mean
    prompt lengths, the longer over the shorter.
    """

    enabled: bool = True
    hit_rate: float = 0.2
    prompt_length: float = 1.5


class NativeMetric(msgspec.Struct, frozen=True, kw_only=True, tag="native", gc=False):
    """A metric from the signals that the observer reads itself.

    ``signal`` is counted, observed or divided, only its series with the labels of ``where``; ``total`` is the denominator
    of a ratio. ``quantile`` is in (0, 1).
    ``measured_by`` ``None`` takes the router where it measures the signal per revision, else the engines.
    ``min_samples`` ``None`` is derived from the metric. ``max_missing`` is the share of expected Pods that may be unread.
    """

    kind: NativeKind
    signal: str
    where: tuple[tuple[str, str], ...] = ()
    total: str | None = None
    quantile: float | None = None
    measured_by: MeasuredBy | None = None
    relative: Relative | None = None
    min_samples: int | None = None
    test: Procedure = Procedure.SEQUENTIAL
    alpha: float = 0.05
    bucket_policy: BucketPolicy = BucketPolicy.BRACKET
    max_missing: float = 0.0
    cache_guard: CacheGuard = CacheGuard()

    @property
    def sequential(self) -> bool:
        """Whether this metric spends a share of the step's false-alarm budget."""
        counts = self.kind in {NativeKind.RATIO, NativeKind.QUANTILE}
        return counts and (self.relative is not None or self.test is Procedure.SEQUENTIAL)


class Metric(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One check: ``measure`` compared with ``limit``; ``threshold`` is that number as it was written.

    A metric that is not ``required`` is a dry run: evaluated and published, never part of the verdict.
    """

    name: str
    operator: Operator
    threshold: str
    limit: float
    measure: PromqlMetric | NativeMetric
    required: bool = True


class WarmUp(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a Pod must have behind it before its requests count: time since Ready and requests served."""

    seconds: float = 0.0
    requests: int = 0


class Analysis(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The gate of one step.

    ``failure_limit`` failed samples roll back, and so do ``consecutive_failure_limit`` (0: off) without a pass between
    them. ``min_passes`` samples must pass before the step advances. ``stall_timeout`` ``None`` takes the run's ready
    timeout. ``exclude_warm_up`` starts the stall clock after warm-up; ``None`` does so where any metric is native.
    """

    interval: float
    failure_limit: int
    metrics: tuple[Metric, ...]
    initial_delay: float = 0.0
    on_inconclusive: OnInconclusive = OnInconclusive.HOLD
    consecutive_failure_limit: int = 0
    min_passes: int = 1
    stall_timeout: float | None = None
    exclude_warm_up: bool | None = None
    warm_up: WarmUp = WarmUp()
    deadline: float = 30.0

    @property
    def warm_up_excluded(self) -> bool:
        """Whether the stall clock starts only after warm-up."""
        native = any(isinstance(metric.measure, NativeMetric) for metric in self.metrics)
        return native if self.exclude_warm_up is None else self.exclude_warm_up

    @property
    def shares(self) -> int:
        """Among how many required metrics the step's false-alarm budget is shared, at least 1."""
        found = sum(
            metric.required and isinstance(metric.measure, NativeMetric) and metric.measure.sequential
            for metric in self.metrics
        )
        return max(1, found)


class Pause(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A wait: so many seconds, or ``None`` for a person. Beside an analysis it is the least time in the step."""

    seconds: float | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step. ``traffic`` (percent) is what the controller programs; the observer does not route."""

    traffic: int | None = None
    pause: Pause | None = None
    analysis: Analysis | None = None


class SecretKey(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A key of a Secret in the analysis's own namespace."""

    name: str
    key: str


class Source(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where queries go: a provider bound by the operator, or an address, with its token and headers.

    Header values are secrets as far as printing goes.
    """

    provider: str | None = None
    server_address: str | None = None
    auth: SecretKey | None = None
    headers: tuple[tuple[str, str], ...] = ()


class TargetRef(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which deployment it is about, in the analysis's own namespace."""

    kind: str
    name: str


class CanaryAnalysis(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One analysis: two revisions of one component of a deployment, and the steps the canary has to take.

    ``ready_timeout`` is the stall time of steps that state none; ``None``: they never stall.
    """

    namespace: str
    name: str
    target: TargetRef
    component: str
    stable: str
    canary: str
    steps: tuple[Step, ...]
    source: Source | None = None
    ready_timeout: float | None = None

    def stall_timeout(self, step: int) -> float | None:
        """Seconds after which a step without a conclusive sample is stalled; ``None``: never."""
        analysis = self.steps[step].analysis
        own = None if analysis is None else analysis.stall_timeout
        return self.ready_timeout if own is None else own
