"""The one entry: a deployment's evidence and stored state in, every verdict and the next stored state out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from observer.judge import conditions as condition_set
from observer.judge.conditions_ours import LAG_KEY
from observer.judge.conditions_serving import router_ready_count
from observer.judge.contract_holds import contract_checks, contract_holds
from observer.judge.convergence import read_selection, view_needs_proof
from observer.judge.drain import drain_answer, retirement_status
from observer.judge.explain import explain
from observer.judge.groups import JudgedGroup, judge_groups
from observer.judge.phase import endpoint, phase, role_status, role_summary
from observer.judge.qualification import CONVERGED, converge, endpoint_eligibility, group_name, still_converging
from observer.judge.stall import engine_progressing
from router_contract.judging import DeploymentInputs, GroupRecord, Judged, JudgePolicy, Stored
from router_contract.platform_facts import Unset
from router_contract.readings import Instant
from router_contract.status import (
    Convergence,
    DrainAnswer,
    Explanation,
    OperatorVoice,
    Phase,
    Serving,
    ServingState,
    Transition,
)
from router_contract.verdicts import Condition, DeploymentReport


def judge(inputs: DeploymentInputs, stored: Stored, now: Instant, policy: JudgePolicy) -> Judged:
    """Judge one deployment at one instant. Pure: the same arguments give the same result, and nothing is raised.

    ``stored`` must be what the last pass returned (or what was loaded after a restart). While the deployment is being
    deleted judging stops and the stored state is returned as it was.
    """
    if inputs.deployment.deleting:
        return _deleting(inputs, stored, now)
    selection = read_selection(inputs, now, policy)
    groups = judge_groups(inputs, stored, selection, now, policy)
    roles = tuple(role_status(inputs, role, groups, selection) for role in inputs.deployment.roles)
    convergence, converged = converge(inputs, stored, selection, groups, now)
    checks = contract_checks(inputs)
    standings = [item for group in groups for item in group.standings]
    judged = (
        endpoint_eligibility(groups),
        converged,
        contract_holds(inputs, checks),
        engine_progressing(standings),
    )
    conditions = condition_set.compute(inputs, stored, roles, judged, now, policy)
    operator = condition_set.voices(inputs, stored, conditions, now)
    by_type = {item.type: item for item in conditions}
    word, message = phase(inputs, roles, conditions)
    explanation = explain(inputs, word, roles, groups, conditions, convergence, now)
    return Judged(
        conditions=conditions,
        operator=operator,
        roles=roles,
        convergence=convergence,
        contract=checks,
        drain=_drain(inputs, groups, now, policy),
        retirement=retirement_status(inputs, now),
        phase=word,
        phase_message=message,
        role_summary=role_summary(
            roles,
            router=inputs.deployment.router is not None,
            router_ready=router_ready_count(inputs, now, policy),
        ),
        endpoint=endpoint(inputs, by_type.get("RouterReady")),
        explanation=explanation,
        stored=_remember(inputs, stored, groups, convergence, conditions, operator, now, policy),
        proof_wanted=_proof_wanted(inputs, groups, now, policy),
        writable=inputs.deployment.complete,
    )


def _deleting(inputs: DeploymentInputs, stored: Stored, now: Instant) -> Judged:
    nothing = Convergence(serving=Serving(state=ServingState.UNKNOWN, reason="the deployment is being deleted"))
    sentence = f"{inputs.deployment.key} is being deleted."
    return Judged(
        conditions=(),
        operator=(),
        roles=(),
        convergence=nothing,
        contract=(),
        drain=(),
        retirement=retirement_status(inputs, now),
        phase=Phase.DELETING,
        phase_message="the deployment is being deleted",
        role_summary="",
        endpoint=None,
        explanation=Explanation(
            sentences=(sentence, "Judging has stopped.", "Nothing needs to be done."), notes=inputs.facts.notes
        ),
        stored=stored,
        writable=False,
    )


def _drain(
    inputs: DeploymentInputs, groups: Sequence[JudgedGroup], now: Instant, policy: JudgePolicy
) -> tuple[DrainAnswer, ...]:
    roles = {role.name: role for role in inputs.deployment.roles}
    return tuple(
        drain_answer(inputs, roles[item.verdict.role], item.replica, item, now, policy)
        for item in groups
        if not item.verdict.elastic
    )


def _proof_wanted(inputs: DeploymentInputs, groups: Sequence[JudgedGroup], now: Instant, policy: JudgePolicy) -> bool:
    """Whether one uncached list is worth its cost: a view is shaky and a qualified group would be held without it."""
    if inputs.facts.ready_by_reading or not any(item.proof_wanted for item in groups):
        return False
    return view_needs_proof(inputs, now, policy)


def _remember(
    inputs: DeploymentInputs,
    stored: Stored,
    groups: Sequence[JudgedGroup],
    convergence: Convergence,
    conditions: Sequence[Condition],
    operator: Sequence[OperatorVoice],
    now: Instant,
    policy: JudgePolicy,
) -> Stored:
    """The state for the next pass. After a failed list groups that were not seen are kept, not forgotten."""
    records = [item.record for item in groups]
    if not inputs.deployment.complete:
        seen = {_place(item) for item in records}
        records += [item for item in stored.groups if _place(item) not in seen]
    eligible = convergence.wanted
    changed = stored.eligible_changed_at if eligible == stored.eligible_set else now.wall
    disagreements = [(item.type, item.since) for item in operator if item.disagrees and item.since is not None]
    lag = condition_set.lag_since(inputs, stored, now)
    if lag is not None:
        disagreements.append((LAG_KEY, lag))
    finding = next((item for item in conditions if item.type == CONVERGED), None)
    converged = "" if finding is None else f"{finding.status.value}/{finding.reason}"
    kept = (*stored.transitions, *transitions(stored, groups, conditions, now))
    return msgspec.structs.replace(
        stored,
        groups=tuple(records),
        conditions=condition_set.remembered(conditions),
        disagreements=tuple(sorted(disagreements)),
        converged=converged,
        converged_since=convergence.since,
        eligible_set=eligible,
        eligible_changed_at=changed,
        transitions=kept[-policy.transitions_kept :],
        converging=finding is not None and still_converging(stored, eligible, finding.reason),
    )


def transitions(
    stored: Stored, groups: Sequence[JudgedGroup], conditions: Sequence[Condition], now: Instant
) -> tuple[Transition, ...]:
    """What changed since the stored state: statuses of conditions and states of groups of the same place."""
    changed = []
    before = {item.type: item.status.value for item in stored.conditions}
    for item in conditions:
        old = before.get(item.type, "")
        if old and old != item.status.value:
            changed.append(
                Transition(at=now.wall, what=item.type, before=old, after=item.status.value, reason=item.reason)
            )
    states = {_place(record): record.state.value for record in stored.groups}
    for group in groups:
        old = states.get(_place(group.record), "")
        if old and old != group.verdict.state.value:
            what = f"group {group_name(group)}"
            changed.append(
                Transition(
                    at=now.wall, what=what, before=old, after=group.verdict.state.value, reason=group.verdict.reason
                )
            )
    return tuple(changed)


def _place(record: GroupRecord) -> tuple[str, str]:
    """Where a group stands: its ordinal, or on a platform that numbers nothing its very members."""
    return record.role, record.generation if record.ordinal is None else str(record.ordinal)


def with_verdicts(report: DeploymentReport, inputs: DeploymentInputs, judged: Judged) -> DeploymentReport:
    """A report with everything that judging said, for exporters."""
    scaler = inputs.facts.scaler
    return msgspec.structs.replace(
        report,
        judged=True,
        conditions=judged.conditions,
        phase=judged.phase,
        phase_message=judged.phase_message,
        role_summary=judged.role_summary,
        endpoint=judged.endpoint,
        role_status=judged.roles,
        convergence=judged.convergence,
        operator=judged.operator,
        contract=judged.contract,
        drain=judged.drain,
        retirement=judged.retirement,
        explanation=judged.explanation,
        views=inputs.views,
        sources=inputs.facts.sources,
        scaler=None if isinstance(scaler, Unset) else scaler,
        records=inputs.facts.records,
        transitions=judged.stored.transitions,
    )
