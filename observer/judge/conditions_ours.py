"""Our own conditions about reading: whether metrics are fresh, and whether an operator answers for today's spec."""

from __future__ import annotations

from collections.abc import Sequence

from observer.judge.conditions_cluster import not_observable, say
from router_contract.judging import DeploymentInputs, JudgePolicy, TargetFreshness
from router_contract.platform_facts import Unset
from router_contract.readings import Instant
from router_contract.verdicts import Condition, Status

LAG_KEY = "observedGeneration"


def fresh_word(oldest: float | None, never: int, known: int, policy: JudgePolicy) -> tuple[Status, str]:
    """The word of `metrics_fresh` from the ``oldest`` age of the ``known`` targets and how many were ``never`` read."""
    if not never and not known:
        return Status.UNKNOWN, "NoTarget"
    if oldest is not None and oldest > policy.fresh_within:
        return Status.FALSE, "Stale"
    return (Status.UNKNOWN, "NeverRead") if never else (Status.TRUE, "Fresh")


def metrics_fresh(freshness: Sequence[TargetFreshness], policy: JudgePolicy) -> Condition:
    """The worst expected target decides: False/Stale, then Unknown/NeverRead, then True/Fresh. Unknown has no number."""
    known = [(item.age, item) for item in freshness if item.age is not None]
    never = [item for item in freshness if item.age is None]
    status, reason = fresh_word(max((age for age, _ in known), default=None), len(never), len(known), policy)
    if reason == "NoTarget":
        text = "nothing is expected to be read"
    elif reason == "Stale":
        stale = sorted(
            ((age, item.name, item.detail) for age, item in known if age > policy.fresh_within), reverse=True
        )
        age, name, detail = stale[0]
        expired = "expired" if age > policy.stale_after else "stale"
        why = f": {detail}" if detail else ", and no read of it has failed"
        text = f"{name} is {expired}{why} ({len(stale)} of {len(freshness)} targets are not fresh)"
    elif reason == "NeverRead":
        detail = f": {never[0].detail}" if never[0].detail else ""
        text = f"{never[0].name} was never read{detail} ({len(never)} of {len(freshness)} targets)"
    else:
        text = f"{len(freshness)} of {len(freshness)} targets are fresh"
    return say("MetricsFresh", status, reason, text)


def lagging(inputs: DeploymentInputs) -> bool | None:
    """Whether the operator's answers are about an older spec; ``None`` when that cannot be told."""
    operator, generation = inputs.facts.operator, inputs.deployment.generation
    if operator is None or isinstance(operator, Unset):
        return None
    seen = operator.observed_generation
    if seen is None:
        seen = inputs.deployment.observed_generation
    if seen is None or generation is None:
        return None
    return seen < generation


def operator_current(
    inputs: DeploymentInputs, lag_since: float | None, now: Instant, policy: JudgePolicy
) -> Condition | None:
    """False when the observed generation lags for longer than allowed; ``None`` where there is no operator at all."""
    kind = "OperatorCurrent"
    if inputs.facts.operator is None:
        return None
    behind = lagging(inputs)
    if behind is None:
        return not_observable(kind, "the operator's observed generation was not observed")
    if not behind:
        return say(kind, Status.TRUE, "Current", "the operator answers for the present spec")
    if lag_since is not None and now.wall - lag_since > policy.operator_lag:
        return say(kind, Status.FALSE, "Lagging", "the operator's answers are from before your edit")
    return say(kind, Status.TRUE, "CatchingUp", "the operator has not answered for the newest spec yet")
