"""The status document of one deployment, and the documents of its explanation and of its router contract.

Field names are those of the users' status; what an operator says stands beside what we observe, under its own name. A
field that is not known is absent. It is null only where null is an answer: a qualification list that is not complete
(``endpoints.eligible``), a degree that a role does not declare, an ordinal that a platform does not have, a fact of a
router's view that its source does not tell. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from exporters.document import not_found
from exporters.platform_records import record_fields
from exporters.status_views import convergence_entry, view_entries
from exporters.timestamps import rfc3339
from router_contract.documents import Unavailable
from router_contract.platform_words import Look
from router_contract.status import (
    DrainAnswer,
    Finding,
    GroupVerdict,
    MemberVerdict,
    OperatorVoice,
    Parallelism,
    RetirementStatus,
    RoleStatus,
    Serving,
    Transition,
)
from router_contract.targets import DeploymentKey
from router_contract.verdicts import Condition, DeploymentReport

API_VERSION = "observer.modeldeployment.io/v1alpha1"
KIND = "ModelDeploymentObservation"
NOT_JUDGED = "not judged yet"

DEGREES = (
    "tensorParallel", "pipelineParallel", "dataParallel", "dataParallelLocal", "prefillContextParallel",
    "decodeContextParallel", "expertParallel", "attentionContextParallel", "moeDpSize", "dwdpSize",
)  # fmt: skip
"""Every degree of a role's parallelism, in the order in which they are shown; one that is not declared is null."""

Json = dict[str, Any]


def status_document(report: DeploymentReport | None, key: DeploymentKey) -> Json | Unavailable:
    """Everything judging said about one deployment, or why there is no such answer."""
    refused = _refused(report, key)
    if refused is not None or report is None:
        return refused or not_found(key)
    return {**_head(report, KIND), "status": status_fields(report)}


def explain_document(
    report: DeploymentReport | None, key: DeploymentKey, *, history: bool, looks: Sequence[Look] = ()
) -> Json | Unavailable:
    """The explanation: three sentences, the findings behind them, and with ``history`` the last transitions.

    ``looks`` is what was looked at because it was asked for.
    """
    refused = _refused(report, key)
    if refused is not None or report is None or report.explanation is None:
        return refused or _unavailable(key, report.awaiting if report is not None else "")
    told = report.explanation
    found: Json = {
        **_head(report, "Explanation"),
        "phase": report.phase.value,
        "sentences": list(told.sentences),
        "others": [finding_entry(item) for item in told.others],
        "unknown": [finding_entry(item) for item in told.unknown],
    }
    if told.main is not None:
        found["main"] = finding_entry(told.main)
    if told.notices:
        found["notices"] = [finding_entry(item) for item in told.notices]
    if told.notes:
        found["notes"] = [{"topic": item.topic, "says": item.says} for item in told.notes]
    if looks:
        found["looks"] = [look_entry(item) for item in looks]
    if history:
        found["history"] = [transition_entry(item) for item in reversed(report.transitions)]
    return found


def contract_document(report: DeploymentReport | None, key: DeploymentKey) -> Json | Unavailable:
    """Both sides of the contract that the router was rendered from; ``holds`` is null where our side was not read."""
    refused = _refused(report, key)
    if refused is not None or report is None:
        return refused or not_found(key)
    condition = next((item for item in report.conditions if item.type == "RouterContractHolds"), None)
    return {
        **_head(report, "RouterContract"),
        **({"condition": condition_entry(condition)} if condition is not None else {}),
        "checks": [
            {"item": item.item, "declared": item.declared, "observed": item.observed, "holds": item.holds}
            | _known(reason=item.reason or None)
            for item in report.contract
        ],
    }


def _refused(report: DeploymentReport | None, key: DeploymentKey) -> Unavailable | None:
    if report is None:
        return not_found(key)
    return None if report.judged else _unavailable(key, report.awaiting)


def _unavailable(key: DeploymentKey, awaiting: str) -> Unavailable:
    why = f": {awaiting}" if awaiting else ""
    return Unavailable(reason="ServiceUnavailable", message=f"{key} is {NOT_JUDGED}{why}")


def _head(report: DeploymentReport, kind: str) -> Json:
    deployment = report.deployment
    metadata = {"namespace": report.key.namespace, "name": report.key.name, "uid": deployment.uid}
    return {
        "kind": kind,
        "apiVersion": API_VERSION,
        "metadata": metadata | _known(generation=deployment.generation),
        "timestamp": rfc3339(report.at.wall),
    }


def _known(**fields: Any) -> Json:
    """The fields that have a value, in camelCase; the unknown ones are left out."""
    return {_camel(name): value for name, value in fields.items() if value is not None}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def _time(wall: float | None) -> str | None:
    return None if wall is None else rfc3339(wall)


def _age(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def status_fields(report: DeploymentReport) -> Json:
    """The ``status`` of a judged report."""
    names = {member.uid: member.name for role in report.deployment.roles for member in role.members()}
    by_type = {item.type: item for item in report.conditions}
    found: Json = {
        "phase": report.phase.value,
        "phaseMessage": report.phase_message,
        "roleSummary": report.role_summary,
        **_known(endpoint=report.endpoint),
        "conditions": [condition_entry(item) for item in report.conditions],
        "roles": [_role(item) for item in report.role_status],
        "routerViews": view_entries(report, names),
        "operator": [_voice(item, by_type.get(item.type)) for item in report.operator],
        "sources": [
            {"kind": item.kind, "why": item.why, "since": rfc3339(item.since)} | _known(detail=item.detail or None)
            for item in report.sources
        ],
        "drain": [_drain(item) for item in report.drain],
        "transitions": [transition_entry(item) for item in reversed(report.transitions)],
    }
    if report.convergence is not None:
        found["convergence"] = convergence_entry(report.convergence, by_type.get("RouterConverged"), names)
    if report.retirement is not None:
        found["retirement"] = _retirement(report.retirement)
    if report.scaler is not None:
        found["scaler"] = _known(binding=report.scaler.binding or None, decision=report.scaler.decision or None)
    found |= record_fields(report.records)
    if report.explanation is not None:
        found["explanation"] = list(report.explanation.sentences)
    return found


def condition_entry(item: Condition) -> Json:
    """One condition in Kubernetes' shape, with its provenance and the numbers it used."""
    return {
        "type": item.type,
        "status": item.status.value,
        "reason": item.reason,
        "message": item.message,
        **_known(observed_generation=item.observed_generation, last_transition_time=_time(item.last_transition)),
        "provenance": item.provenance.value,
        **_known(evidence=_evidence(item.evidence)),
    }


def _evidence(pairs: Iterable[tuple[str, str]]) -> list[Json] | None:
    return [{"name": name, "value": value} for name, value in pairs] or None


def _role(role: RoleStatus) -> Json:
    flavors = None if role.assigned_flavors is None else list(role.assigned_flavors)
    readiness = None if role.readiness is None else {"meaning": role.readiness.meaning.value, "why": role.readiness.why}
    return {
        "name": role.name,
        "kind": role.kind,
        **_known(
            desired=role.desired,
            ready=role.ready,
            quota_reserved=role.quota_reserved,
            unmanaged=role.unmanaged,
            assigned_flavors=flavors,
            parallelism=None if role.parallelism is None else _parallelism(role.parallelism),
        ),
        "endpoints": {"eligible": role.endpoints.eligible, "serving": serving_entry(role.endpoints.serving)},
        **_known(readiness=readiness),
        "groups": [_group(item) for item in role.groups],
    }


def serving_entry(serving: Serving) -> Json:
    """The routers' confirmation; only ``Confirmed`` carries ``value``."""
    return {"state": serving.state.value, **_known(value=serving.value, reason=serving.reason or None)}


def _parallelism(read: Parallelism) -> Json:
    declared = dict(read.declared)
    return {
        "declared": {name: declared.get(name) for name in DEGREES},
        "modes": dict(read.modes),
        "loadBalance": read.load_balance.value,
        "source": {
            "kind": read.source.kind.value,
            "complete": read.source.complete,
            **_known(unreadable_reason=read.source.unreadable_reason or None),
        },
        **_known(ranks_seen=read.ranks_seen),
    }


def _group(group: GroupVerdict) -> Json:
    return {
        "role": group.role,
        "ordinal": group.ordinal,
        "generation": group.generation,
        "state": group.state.value,
        "reason": group.reason,
        "message": group.message,
        **_known(qualified_at=_time(group.qualified_at)),
        **({"retained": True} if group.retained else {}),
        **({"elastic": True} if group.elastic else {}),
        "members": [_member(item) for item in group.members],
        "legs": [
            {"name": leg.name.value, "state": leg.state.value} | _known(why=leg.why or None, source=leg.source or None)
            for leg in group.legs
        ],
    }


def _member(member: MemberVerdict) -> Json:
    return {
        "name": member.name,
        "uid": member.uid,
        **_known(seat=member.seat),
        "ready": member.ready,
        **_known(standing=member.standing or None, detail=member.detail or None),
    }


def _voice(voice: OperatorVoice, ours: Condition | None) -> Json:
    """The operator's answer beside ours. A mirrored answer of ours is the operator's own: there is no second voice."""
    said = _known(
        status=voice.status,
        reason=voice.reason,
        message=voice.message or None,
        observed_generation=voice.observed_generation,
        age_seconds=_age(voice.age_seconds),
    )
    observed = None if ours is None else _observed(ours)
    return {
        "type": voice.type,
        "operator": said,
        **_known(observed=observed),
        "disagrees": voice.disagrees,
        **_known(since=_time(voice.since)),
    }


def _observed(ours: Condition) -> Json:
    return {"status": ours.status.value, "reason": ours.reason, "provenance": ours.provenance.value}


def _drain(answer: DrainAnswer) -> Json:
    return {
        "role": answer.role,
        "ordinal": answer.ordinal,
        "state": answer.state.value,
        **_known(requests=answer.requests, why=answer.why or None),
    }


def _retirement(shown: RetirementStatus) -> Json:
    record = shown.record
    return {
        "roleName": record.role_name,
        "replicaOrdinal": record.replica_ordinal,
        "state": record.state,
        "reason": record.reason,
        **_known(observed_generation=record.observed_generation),
        "targetMemberUIDs": list(record.target_member_uids),
        **({"targetWorkloadUID": record.target_workload_uid} if record.target_workload_uid is not None else {}),
        **_known(
            started_at=_time(record.started_at),
            deadline=_time(record.deadline),
            phase_started_at=_time(record.phase_started_at),
            last_consumed_retry_token=record.last_consumed_retry_token,
            phase_seconds_left=_age(shown.phase_seconds_left),
            total_seconds_left=_age(shown.total_seconds_left),
            message=shown.message or None,
        ),
    }


def transition_entry(item: Transition) -> Json:
    """One change: when, of what, from what to what, and why."""
    return {
        "time": rfc3339(item.at),
        "what": item.what,
        "from": item.before,
        "to": item.after,
        "reason": item.reason,
    }


def look_entry(item: Look) -> Json:
    """One Event or published URL that was looked at on demand."""
    texts = {name: getattr(item, name) or None for name in ("said", "advice", "whose", "hint")}
    return {"kind": item.kind, "name": item.name, "reason": item.reason, **_known(**texts, at=_time(item.at))}


def finding_entry(item: Finding) -> Json:
    """One finding of an explanation, with its evidence, its age, and what to do about it."""
    made: Mapping[str, Any] = msgspec.structs.asdict(item)
    texts = {name: made[name] or None for name in ("message", "advice", "whose", "hint")}
    return {
        "type": item.type,
        "status": item.status,
        "reason": item.reason,
        **_known(**texts, age_seconds=_age(item.age_seconds), evidence=_evidence(item.evidence)),
    }
