"""What judging a canary concludes: verdicts, decisions, reasons, the stored state and the published status.

Times are wall seconds; published ones are whole.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from router_contract.canary import MeasuredBy, Operator
from router_contract.readings import Wall

MAX_NAMES = 20
"""Names in one list of a published result."""


class Verdict(StrEnum):
    """The answer of a metric, a series or a sample."""

    FAILED = "Failed"
    INCONCLUSIVE = "Inconclusive"
    PASSED = "Passed"


class Decision(StrEnum):
    """What the rollout should do. The observer only says so."""

    ADVANCE = "Advance"
    HOLD = "Hold"
    ROLLBACK = "Rollback"
    FAILED = "Failed"


class Reason(StrEnum):
    """Why a verdict or a decision is what it is. Closed: gates, dashboards and alerts depend on it."""

    # a conclusive verdict
    WITHIN_THRESHOLD = "WithinThreshold"
    THRESHOLD_BREACHED = "ThresholdBreached"
    WITHIN_MARGIN = "WithinMargin"
    MARGIN_EXCEEDED = "MarginExceeded"
    # nothing to judge
    NO_DATA = "NoData"
    NOT_A_NUMBER = "NotANumber"
    INFINITE = "Infinite"
    NON_FINITE_SERIES = "NonFiniteSeries"
    UNSUPPORTED_TYPE = "UnsupportedType"
    PARTIAL_RESPONSE = "PartialResponse"
    STALE_SAMPLE = "StaleSample"
    CLOCK_SKEW = "ClockSkew"
    NOT_MEASURED = "NotMeasured"
    NO_METRICS = "NoMetrics"
    # the source
    QUERY_ERROR = "QueryError"
    BAD_QUERY = "BadQuery"
    QUERY_INVALID = "QueryInvalid"
    EMPTY_VARIABLE = "EmptyVariable"
    AUTH_REJECTED = "AuthRejected"
    AUTH_SECRET_MISSING = "AuthSecretMissing"  # noqa: S105  # a reason, no secret
    AUTH_SECRET_KEY_MISSING = "AuthSecretKeyMissing"  # noqa: S105  # a reason, no secret
    AUTH_SECRET_EMPTY = "AuthSecretEmpty"  # noqa: S105  # a reason, no secret
    AUTH_SECRET_INVALID = "AuthSecretInvalid"  # noqa: S105  # a reason, no secret
    PROVIDER_UNBOUND = "ProviderUnbound"
    NO_SOURCE = "NoSource"
    SOURCE_FORBIDDEN = "SourceForbidden"
    WRONG_ENDPOINT = "WrongEndpoint"
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    SOURCE_UNREACHABLE = "SourceUnreachable"
    REDIRECT_REFUSED = "RedirectRefused"
    TIMEOUT = "Timeout"
    TOO_LARGE = "TooLarge"
    BAD_RESPONSE = "BadResponse"
    # native measurement
    SIGNAL_UNAVAILABLE = "SignalUnavailable"
    INSUFFICIENT_SAMPLES = "InsufficientSamples"
    INSUFFICIENT_EVIDENCE = "InsufficientEvidence"
    INCIDENT_COUNTED = "IncidentCounted"
    BUCKET_RESOLUTION = "BucketResolution"
    BUCKET_MISMATCH = "BucketMismatch"
    BUCKET_OVERFLOW = "BucketOverflow"
    DEGENERATE_HISTOGRAM = "DegenerateHistogram"
    MISSING_PODS = "MissingPods"
    WARMING_UP = "WarmingUp"
    BASELINE_UNUSABLE = "BaselineUnusable"
    BASELINE_FORMING = "BaselineForming"
    INCOMPARABLE = "Incomparable"
    CACHE_MIX_DIFFERS = "CacheMixDiffers"
    CACHE_MIX_UNKNOWN = "CacheMixUnknown"
    # what holds a step
    AWAITING_SAMPLE = "AwaitingSample"
    FAILURES_BELOW_LIMIT = "FailuresBelowLimit"
    MIN_PASSES = "MinPasses"
    BAKE = "Bake"
    MANUAL = "Manual"
    PAUSED = "Paused"
    CAPACITY = "Capacity"
    PRE_STEP_HOLD = "PreStepHold"
    # what ends a step
    STEP_PASSED = "StepPassed"
    PAUSE_ELAPSED = "PauseElapsed"
    NO_GATE = "NoGate"
    PROMOTED = "Promoted"
    COMPLETED = "Completed"
    ROLLBACK_REQUESTED = "RollbackRequested"
    ROLLED_BACK_ON_INCONCLUSIVE = "RolledBackOnInconclusive"
    ANALYSIS_STALLED = "AnalysisStalled"
    STABLE_REVISION_MISSING = "StableRevisionMissing"


class SampleFate(StrEnum):
    """What became of a sample: counted, or dropped because it was counted before, or begun for something else."""

    COUNTED = "Counted"
    DUPLICATE = "Duplicate"
    SUPERSEDED = "Superseded"
    NOT_ASKED = "NotAsked"


class MetricResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One metric of one sample. The first seven fields are OME's, with its meaning.

    ``value`` is empty unless the verdict is conclusive; read back and compared with ``threshold`` it gives ``passed``.
    ``estimate`` is the number where there is one, whatever the verdict; the truth lies from ``low`` to ``high`` (``None``:
    no bound). Names of Pods are at most `MAX_NAMES`, the counts are of all. ``evidence`` is the natural logarithm of the e-value against the canary. ``samples`` are of the canary,
    ``need`` what a pass wants, ``enough_in_seconds`` when they are there at the rate measured (``None``: never, or no
    need). ``series`` and ``worst`` describe a query's answer; ``dropped_series`` were not finite.
    """

    name: str
    value: str = ""
    threshold: str
    operator: Operator
    passed: bool = False
    message: str = ""
    time: int = 0
    verdict: Verdict
    reason: Reason
    required: bool = True
    permanent: bool = False
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    exact: bool = False
    samples: float | None = None
    stable_samples: float | None = None
    stable_estimate: float | None = None
    need: int | None = None
    enough_in_seconds: float | None = None
    evidence: float | None = None
    design_effect: float | None = None
    measured_by: MeasuredBy | None = None
    window_start: int | None = None
    window_end: int | None = None
    lossy: bool = False
    aborted: float = 0.0
    series: int | None = None
    worst: tuple[tuple[str, str], ...] = ()
    dropped_series: int = 0
    expected_pods: int = 0
    missing_count: int = 0
    missing_pods: tuple[str, ...] = ()
    warming_pods: tuple[str, ...] = ()
    unattributed_pods: tuple[str, ...] = ()
    mixed_pairing: bool = False
    baseline: str = ""
    baseline_age_seconds: float | None = None
    baseline_unhealthy: bool = False
    query: str = ""
    infos: tuple[str, ...] = ()


Natural = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A count or a place in a list."""


class Park(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why and when the run was parked. ``reason`` is AnalysisStalled or StableRevisionMissing."""

    reason: Reason
    time: Wall


class FrozenBound(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The latency bound of one relative metric, chosen from stable's requests; only what came after ``since`` counts.

    ``bound`` ``None``: stable's own quantile lies beyond the last finite bucket.
    """

    metric: str
    bound: float | None
    since: float


class CanaryState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that must survive a restart and a change of owner. It encodes to JSON and back without loss.

    ``counted`` is the id of the last sample that was counted; only a higher one counts. ``failed_checks``,
    ``consecutive_failures`` and ``passes`` are of the current step. ``watched_from`` and ``watched_until`` are the
    unbroken stretch in which somebody looked. ``promoted`` is the promote value that was used, ``rejected`` the revision
    that was rolled back. Whoever stored it: what is no count or no time is not read.
    """

    target: str
    canary: str
    plan: str
    step: Natural = 0
    step_entered: Wall = 0.0
    counted: Natural = 0
    failed_checks: Natural = 0
    consecutive_failures: Natural = 0
    passes: Natural = 0
    evaluated_at: Wall | None = None
    conclusive_at: Wall | None = None
    verdict: Verdict | None = None
    results: tuple[MetricResult, ...] = ()
    bounds: tuple[FrozenBound, ...] = ()
    decision: Decision = Decision.HOLD
    reason: Reason = Reason.AWAITING_SAMPLE
    decided_at: Wall = 0.0
    park: Park | None = None
    rejected: str = ""
    promoted: str = ""
    watched_from: Wall = 0.0
    watched_until: Wall = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one call of `evaluate` concludes: the state to store before anything is published, and what to say.

    ``verdict`` and ``verdicts`` are of the sample of this call, ``None`` and empty without one that counted. ``step`` is
    the step judged; an Advance may have moved ``state.step`` past it. ``warnings`` are sentences for people.
    """

    state: CanaryState
    decision: Decision
    reason: Reason
    sentence: str
    step: int
    fate: SampleFate | None = None
    verdict: Verdict | None = None
    verdicts: tuple[MetricResult, ...] = ()
    config_invalid: bool = False
    warnings: tuple[str, ...] = ()


class FailedStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """OME's ``failed`` block."""

    reason: str
    time: int


class CanaryStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The published status: OME's fields with its meaning and spelling, then ours. Times are whole wall seconds.

    ``measured_share`` is the canary's percent of the requests, as counted. ``metric_results`` are the required metrics of the last sample, all with one time; ``dry_run_results`` the others.
    """

    target_id: str = msgspec.field(name="targetID")
    canary_revision: str = msgspec.field(name="canaryRevisionHash")
    stable_revision: str = msgspec.field(name="stableRevisionHash", default="")
    current_step: int | None = msgspec.field(name="currentStep", default=None)
    step_entered: int | None = msgspec.field(name="stepEnteredTime", default=None)
    observed_weight: int | None = msgspec.field(name="observedTrafficWeight", default=None)
    measured_share: int | None = msgspec.field(name="measuredRequestShare", default=None)
    promoted_through: str = msgspec.field(name="promotedThrough", default="")
    pre_step_hold: bool = msgspec.field(name="preStepHold", default=False)
    rolled_back: str = msgspec.field(name="rolledBackRevisionHash", default="")
    failed_checks: int = msgspec.field(name="analysisFailedChecks", default=0)
    last_evaluation: int | None = msgspec.field(name="lastEvaluationTime", default=None)
    last_conclusive: int | None = msgspec.field(name="lastConclusiveEvaluationTime", default=None)
    metric_results: tuple[MetricResult, ...] = msgspec.field(name="metricResults", default=())
    failed: FailedStatus | None = None
    dry_run_results: tuple[MetricResult, ...] = msgspec.field(name="dryRunResults", default=())
    sample_id: int = msgspec.field(name="sampleID", default=0)
    verdict: Verdict | None = None
    decision: Decision | None = None
    reason: Reason | None = None
    message: str = ""
    failure_limit: int | None = msgspec.field(name="failureLimit", default=None)
    steps: int | None = None
    config_invalid: bool = msgspec.field(name="analysisConfigInvalid", default=False)
