"""What judging a canary is handed: answers of queries, what each revision's Pods counted, and how the rollout stands.

Collecting fills these; nothing here says whether it is good. Times are wall seconds.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router_contract.canary import MeasuredBy
from router_contract.canary_results import Reason
from router_contract.readings import Histogram


class ResultType(StrEnum):
    """The result types of the query API. Only scalars and vectors can be judged."""

    SCALAR = "scalar"
    VECTOR = "vector"
    MATRIX = "matrix"
    STRING = "string"


class Point(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One series of an answer. ``value`` may be NaN or infinite, as the source sent it; ``None``: a native histogram."""

    labels: tuple[tuple[str, str], ...] = ()
    value: float | None
    at: float


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True, tag_field="outcome", tag="answer", gc=False):
    """A whole answer with ``status: success``. ``query`` is the text that was sent."""

    type: ResultType
    points: tuple[Point, ...] = ()
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    query: str = ""


class QueryTrouble(msgspec.Struct, frozen=True, kw_only=True, tag_field="outcome", tag="trouble", gc=False):
    """No answer: why, in a sentence without anything the source sent.

    ``permanent`` trouble does not pass by itself: the configuration is wrong. ``retry_after`` is in seconds.
    """

    reason: Reason
    detail: str
    permanent: bool = False
    status: int | None = None
    retry_after: float | None = None
    query: str = ""


class QueryObservation(msgspec.Struct, frozen=True, kw_only=True, tag="query", gc=False):
    """What a query metric's query gave, and its traffic query where it has one."""

    metric: str
    outcome: QueryAnswer | QueryTrouble
    traffic: QueryAnswer | QueryTrouble | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one Pod counted in one stretch of about a minute that began at ``start``.

    For a ratio ``events`` of ``total``; for a rate ``events``; for quantile and mean the ``histogram``.
    """

    pod: str
    start: float
    events: float = 0.0
    total: float = 0.0
    histogram: Histogram | None = None


class CountWindow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the Pods of one revision counted from ``start`` to ``end``, in cells that do not overlap.

    ``lossy``: a restart inside lost at most one read's worth. ``aborted`` are requests that clients gave up, not counted
    as failures.
    """

    start: float
    end: float
    cells: tuple[Cell, ...] = ()
    lossy: bool = False
    aborted: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.start


class BaselineKind(StrEnum):
    """Where the stable side comes from: its Pods now, or the window kept from when it last had some."""

    LIVE = "live"
    FROZEN = "frozen"


class Mix(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a revision was asked: the share of prompt tokens found in the prefix cache and the mean prompt length."""

    hit_rate: float | None = None
    prompt_tokens: float | None = None


class Baseline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The stable side. ``before`` is what it counted before the step began; ``mix`` belongs to ``window``."""

    window: CountWindow
    kind: BaselineKind = BaselineKind.LIVE
    before: CountWindow | None = None
    mix: Mix | None = None


class NativeObservation(msgspec.Struct, frozen=True, kw_only=True, tag="native", gc=False):
    """What the observer's own reads say for one native metric.

    ``since_step`` has everything since the step began and its Pods were warm; ``recent`` what came after the last
    conclusive sample, so that nothing counts twice. ``expected`` Pods should have been read; ``missing`` were not,
    ``warming`` are not warm, ``unattributed`` could not be given to a revision. ``mixed_pairing`` says that requests may
    have crossed revisions between prefill and decode. ``unavailable`` says why the signal cannot be read at all,
    ``incomparable`` why the two revisions' numbers mean different things (the engine's meaning changed, for example).
    """

    metric: str
    measured_by: MeasuredBy
    since_step: CountWindow
    recent: CountWindow
    stable: Baseline | None = None
    mix: Mix | None = None
    expected: int = 0
    missing: tuple[str, ...] = ()
    warming: tuple[str, ...] = ()
    unattributed: tuple[str, ...] = ()
    mixed_pairing: bool = False
    unavailable: str = ""
    incomparable: str = ""


Observation = QueryObservation | NativeObservation


class Sample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One evaluation of all metrics. ``id`` is one more than the last; step, revision and plan are those it was begun for.

    ``started`` is when the first metric was asked, ``completed`` when the last had answered.
    """

    id: int
    step: int
    canary: str
    plan: str
    started: float
    completed: float
    observations: tuple[Observation, ...] = ()


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the rollout stands, as its controller or the analysis object says.

    ``target`` names the pinned target set: another one starts afresh. ``step`` ``None``: nobody else moves the step, so
    an Advance moves it here. ``serving`` is False while the step's capacity is not there. ``promote`` is the value of the
    promote verb, empty when none. ``restarted_at`` is the newest start of a canary Pod. ``weight`` is the traffic that the
    controller programmed for the canary (percent); ``None``: nobody says.
    """

    target: str
    canary: str
    stable: str | None
    step: int | None = None
    step_entered: float | None = None
    serving: bool = True
    paused: bool = False
    pre_step_hold: bool = False
    promote: str = ""
    rollback: bool = False
    restarted_at: float | None = None
    weight: int | None = None


class Observations(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that one call of `evaluate` sees: how the rollout stands, and a sample where one was just completed."""

    run: Run
    sample: Sample | None = None
