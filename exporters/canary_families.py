"""Our metric families about canary analyses. What is not known, Inconclusive or stale has no series."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import msgspec

from exporters.family import Family, FamilyType, Row, state_set
from router_contract.canary_results import CanaryStatus, Decision, MetricResult, Reason, Verdict
from router_contract.canary_view import CanaryView

LABELS: Final = ("namespace", "name", "deployment", "component", "revision")
"""``name`` is the analysis, ``revision`` the canary's."""
_WAITS: Final = frozenset({Reason.CAPACITY, Reason.PAUSED, Reason.PRE_STEP_HOLD, Reason.BAKE, Reason.MANUAL})
_METRIC: Final = (*LABELS, "metric")
Numbers = Iterable[tuple[tuple[str, ...], float]]


class CanaryViews(Protocol):
    """Who knows every analysis."""

    def canaries(self) -> tuple[CanaryView, ...]:
        """Every analysis as it stands now."""
        ...


class CanaryFamily(msgspec.Struct, frozen=True, kw_only=True):
    """One family: its name, help, labels, type, and the series of one analysis."""

    name: str
    help: str
    labels: tuple[str, ...] = LABELS
    type: FamilyType = FamilyType.GAUGE
    numbers: Callable[[CanaryView], Numbers]


def _labels(view: CanaryView) -> tuple[str, ...]:
    told = view.definition
    return told.namespace, told.name, told.target.name, told.component, told.canary


def _verdict(view: CanaryView) -> Numbers:
    if view.verdict is not Verdict.INCONCLUSIVE:
        yield _labels(view), float(view.verdict is Verdict.PASSED)


def _decision(view: CanaryView) -> Numbers:
    if view.status is not None and view.status.decision is not None and not view.stale:
        yield (*_labels(view), str(view.status.decision), str(view.status.reason)), 1.0


def _results(view: CanaryView) -> Iterable[MetricResult]:
    """The results of the last sample, while it is not stale."""
    if view.status is not None and not view.stale:
        yield from view.status.metric_results
        yield from view.status.dry_run_results


def _of_metric(number: Callable[[MetricResult], float | None]) -> Callable[[CanaryView], Numbers]:
    def numbers(view: CanaryView) -> Numbers:
        for result in _results(view):
            found = number(result)
            if found is not None and math.isfinite(found):
                yield (*_labels(view), result.name), found

    return numbers


def _by_side(
    canary: Callable[[MetricResult], float | None], stable: Callable[[MetricResult], float | None]
) -> Callable[[CanaryView], Numbers]:
    def numbers(view: CanaryView) -> Numbers:
        for result in _results(view):
            for side, found in (("canary", canary(result)), ("stable", stable(result))):
                if found is not None and math.isfinite(found):
                    yield (*_labels(view), result.name, side), found

    return numbers


def _estimate(result: MetricResult) -> float | None:
    """The number where there is one, whatever the verdict."""
    return result.estimate if result.estimate is not None or not result.value else float(result.value)


def _metric_verdicts(view: CanaryView) -> Numbers:
    for result in _results(view):
        yield from state_set((*_labels(view), result.name), Verdict, result.verdict)


def _phase(view: CanaryView) -> Numbers:
    """Where the run is, in one word; no series before the first look or when nobody looked for long."""
    status = view.status
    if status is None or status.decision is None or view.look_stale:
        return
    if status.decision is Decision.ADVANCE:
        phase = "Completed" if status.reason is Reason.COMPLETED else "Advancing"
    elif status.decision is Decision.HOLD:
        phase = "Analysing" if view.interval is not None and status.reason not in _WAITS else "Waiting"
    else:
        phase = {Decision.ROLLBACK: "RolledBack", Decision.FAILED: "Parked"}[status.decision]
    yield (*_labels(view), phase), 1.0


def _share(view: CanaryView) -> Numbers:
    if view.share is not None and not view.look_stale:
        yield _labels(view), view.share


def _weight(view: CanaryView) -> Numbers:
    """A share, as the measured one; no series where nobody says."""
    if view.status is not None and view.status.observed_weight is not None and not view.look_stale:
        yield _labels(view), view.status.observed_weight / 100


def _of_status(number: Callable[[CanaryStatus], float | None]) -> Callable[[CanaryView], Numbers]:
    def numbers(view: CanaryView) -> Numbers:
        found = number(view.status) if view.status is not None and not view.look_stale else None
        if found is not None:
            yield _labels(view), float(found)

    return numbers


def _tallies(view: CanaryView) -> Numbers:
    for decision, reason, count in view.tallies:
        yield (*_labels(view), decision, reason), float(count)


def _family(
    name: str, text: str, numbers: Callable[[CanaryView], Numbers], labels: tuple[str, ...] = LABELS
) -> CanaryFamily:
    kind = FamilyType.COUNTER if name.endswith("_total") else FamilyType.GAUGE
    return CanaryFamily(name=f"modeldeployment_canary_{name}", help=text, labels=labels, type=kind, numbers=numbers)


_ALL: Final = (
    _family("verdict", "1 when the last sample passed, 0 when it failed; absent while inconclusive or stale.", _verdict),
    _family("decision", "1 at what the rollout should do, with the reason; absent while stale.", _decision, (*LABELS, "decision", "reason")),
    _family("step", "The step that is judged, from 0.", _of_status(lambda status: status.current_step)),
    _family("failed_checks", "Failed samples of this step.", _of_status(lambda status: status.failed_checks)),
    _family("failure_limit", "Failed samples that end this step.", _of_status(lambda status: status.failure_limit)),
    _family("last_conclusive_timestamp_seconds", "When the last conclusive sample was completed.", _of_status(lambda status: status.last_conclusive)),
    _family("phase", "1 at where the run is: Analysing, Waiting, Advancing, Completed, RolledBack, Parked.", _phase, (*LABELS, "phase")),
    _family("request_share", "The canary's share of all requests since the step began, as measured.", _share),
    _family("traffic_weight", "The share of traffic that the controller programmed for the canary.", _weight),
    _family("metric_value", "The number measured on each side, whatever the verdict; absent while stale.", _by_side(_estimate, lambda result: result.stable_estimate), (*_METRIC, "side")),
    _family("metric_samples", "Requests or observations that a metric has seen on each side.", _by_side(lambda result: result.samples, lambda result: result.stable_samples), (*_METRIC, "side")),
    _family("metric_verdict", "1 at the verdict of a metric in the last sample; absent while stale.", _metric_verdicts, (*_METRIC, "verdict")),
    _family("metric_threshold", "The threshold of a metric.", _of_metric(lambda result: float(result.threshold)), _METRIC),
    _family("metric_evidence_log", "The logarithm of the evidence against the canary.", _of_metric(lambda result: result.evidence), _METRIC),
    _family("decisions_total", "Samples counted since the observer started, by what was decided after each.", _tallies, (*LABELS, "decision", "reason")),
)  # fmt: skip
FAMILIES: Final = {family.name: family for family in _ALL}


def canary_families(source: CanaryViews) -> tuple[Family, ...]:
    """Every family over one source; append them to the table."""

    def rows(family: CanaryFamily) -> Callable[[object], Iterator[Row]]:
        def found(_: object) -> Iterator[Row]:
            for view in source.canaries():
                yield from family.numbers(view)

        return found

    return tuple(
        Family(name=each.name, help=each.help, type=each.type, labels=each.labels, rows=rows(each)) for each in _ALL
    )
