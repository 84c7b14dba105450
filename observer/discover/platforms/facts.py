"""What a platform says beside its Pods: the operator's voice, records in the target, and objects that it refers to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from observer.discover.platforms import paths
from observer.discover.platforms.document import PlatformDocument
from observer.discover.platforms.members import moment
from observer.discover.platforms.objects import Objects
from observer.discover.platforms.taking import Scope, label, present, text
from observer.discover.platforms.words import counts, events, notes
from router_contract.contract import decode_router
from router_contract.operator_condition import OperatorCondition
from router_contract.platform_facts import (
    ContractMetrics,
    ContractRole,
    OperatorStatus,
    PlatformFacts,
    PublisherFact,
    RouterContract,
    SourceFault,
    Unset,
)
from router_contract.platform_words import ReasonFact
from router_contract.status import Retirement
from router_contract.targets import Role, RouterDeclaration

MAX_CONDITIONS = 64
"""Most conditions of an operator that are kept."""


def facts(
    document: PlatformDocument,
    scope: Scope,
    roles: Sequence[Role],
    router: RouterDeclaration | None,
    objects: Objects,
    faults: tuple[SourceFault, ...],
    ended: Sequence[str],
    now: float,
) -> PlatformFacts:
    """Everything said about one deployment at ``now`` (wall seconds); ``ended`` are its engine Pods that ended.

    What nobody could look at stays UNSET.
    """
    rule = document.facts
    return PlatformFacts(
        platform=document.name,
        managed=rule.managed,
        declared=rule.declared,
        seats=bool(document.replicas.seat),
        ready_by_reading=False,
        ordered=rule.order,
        sources=faults,
        operator=_operator(document, scope, now),
        cache=present(rule.cache, scope) if rule.cache else msgspec.UNSET,
        binding=objects.binding(rule.binding, scope),
        workloads=objects.workloads(rule.quota, roles),
        reserved_namespace=scope.holes["namespace"] in rule.reserved_namespaces
        if rule.reserved_namespaces
        else msgspec.UNSET,
        weights=objects.weights(rule.weights, scope, roles),
        router_objects=objects.router(document.router, scope, router),
        publishers=_publishers(document, scope, roles, router),
        retirement=_retirement(rule.retirement, scope),
        elastic=msgspec.UNSET if any(role.elastic for role in roles) else None,
        scaler=objects.scaler(rule.scaler),
        pool=objects.pool(rule.pool, scope),
        contract=_contract(document, scope, roles),
        endpoint=_endpoint(document, scope),
        port=paths.whole(text(rule.port, scope)),
        eviction_note=_ended(ended),
        reasons=tuple(
            ReasonFact(
                condition=each.condition,
                reason=each.reason,
                course=each.course.value,
                whose=each.whose,
                hint=each.hint,
                phase=each.in_phase,
                notice=each.notice,
            )
            for each in document.reasons
        ),
        notes=tuple(notes(document.notes, scope)),
        events=events(rule.events),
        urls=objects.urls(rule.urls),
        counts=counts(rule.counts, scope),
    )


def _ended(names: Sequence[str]) -> str:
    """A note on Pods that ended: evicted ones do, and nothing takes their place by itself."""
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"ended: {', '.join(names[:3])}{more}"


def _operator(document: PlatformDocument, scope: Scope, now: float) -> OperatorStatus | None:
    """The operator's voice; ``None`` where no object stands for the deployment, so nobody could speak."""
    if document.target.group_by:
        return None
    rule = document.status
    found = [each for each in paths.every(scope.body, rule.conditions + "[]") if isinstance(each, Mapping)]
    conditions = tuple(_condition(each) for each in found[:MAX_CONDITIONS])
    seen = paths.whole(scope.field(rule.observed_generation))
    if seen is None:
        generations = [each.observed_generation for each in conditions if each.observed_generation is not None]
        seen = max(generations) if generations else None
    return OperatorStatus(
        read_at=now,
        observed_generation=seen,
        phase=paths.as_text(scope.field(rule.phase)) or "",
        phase_message=paths.as_text(scope.field(rule.message)) or "",
        conditions=conditions,
    )


def _condition(found: Mapping[str, Any]) -> OperatorCondition:
    def said(key: str) -> str:
        return paths.as_text(found.get(key)) or ""

    return OperatorCondition(
        type=said("type"),
        status=said("status"),
        reason=said("reason"),
        message=said("message"),
        observed_generation=paths.whole(found.get("observedGeneration")),
        last_transition=moment(said("lastTransitionTime")),
    )


def _retirement(path: str | None, scope: Scope) -> Retirement | Unset | None:
    """The record of a running retirement, ``None`` when the target has none. One that cannot be read is not observed."""
    if path is None:
        return msgspec.UNSET
    found = scope.field(path)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        return msgspec.UNSET
    role = paths.as_text(found.get("roleName"))
    # the operator writes a position 0 as well, so none at all is not the first replica
    ordinal = paths.whole(found.get("replicaOrdinal"))
    state = paths.as_text(found.get("state"))
    if not role or ordinal is None or not state:
        return msgspec.UNSET
    uids = found.get("targetMemberUIDs")
    return Retirement(
        role_name=role,
        replica_ordinal=ordinal,
        state=state,
        reason=paths.as_text(found.get("reason")) or "",
        observed_generation=paths.whole(found.get("observedGeneration")),
        target_member_uids=tuple(str(uid) for uid in uids) if isinstance(uids, list) else (),
        target_workload_uid=paths.as_text(found.get("targetWorkloadUID")),
        started_at=moment(paths.as_text(found.get("startedAt"))),
        deadline=moment(paths.as_text(found.get("deadline"))),
        phase_started_at=moment(paths.as_text(found.get("phaseStartedAt"))),
        last_consumed_retry_token=paths.as_text(found.get("lastConsumedRetryToken")),
    )


def _contract(document: PlatformDocument, scope: Scope, roles: Sequence[Role]) -> RouterContract | Unset | None:
    """The contract as published; one that cannot be read is not observed."""
    path = document.facts.contract
    if path is None:
        return msgspec.UNSET
    found = scope.field(path)
    if found is None:
        return None
    decoded = decode_router(found)
    contract = decoded.contract
    if contract is None:
        return msgspec.UNSET
    metrics = contract.metrics
    names = (
        ()
        if metrics is None
        else (
            ("queuedRequests", metrics.queued_requests),
            ("runningRequests", metrics.running_requests),
            ("kvCacheUtilization", metrics.kv_cache_utilization),
        )
    )
    return RouterContract(
        name=contract.name,
        endpoint=contract.endpoint,
        pool_endpoint=contract.pool_endpoint,
        roles=tuple(
            ContractRole(
                name=each.name,
                kind=each.kind,
                selector=tuple(sorted(each.selector)),
                endpoint=each.endpoint,
                events_endpoint=each.kv_events.endpoint if each.kv_events is not None else None,
                events_replay=(each.kv_events.replay_endpoint or None) if each.kv_events is not None else None,
                selected=_selected(each.selector, roles, scope),
                withheld=_withheld(document.facts.offered, each.selector, roles, scope),
            )
            for each in contract.roles
        ),
        metrics=ContractMetrics(port=metrics.port, names=names) if metrics is not None else None,
    )


def _withheld(
    offered: Sequence[str], selector: Sequence[tuple[str, str]], roles: Sequence[Role], scope: Scope
) -> tuple[str, ...]:
    """The UIDs that a selector misses only for a label that the operator gives to Pods that it offers just now."""
    standing = [(key, value) for key, value in selector if key not in offered]
    if len(standing) == len(selector):
        return ()
    chosen = _selected(selector, roles, scope) or ()
    return tuple(uid for uid in _selected(standing, roles, scope) or () if uid not in chosen)


def _selected(selector: Sequence[tuple[str, str]], roles: Sequence[Role], scope: Scope) -> tuple[str, ...] | None:
    """The UIDs of the deployment's Pods that a published selector matches; terminating ones are going anyway."""
    labels = scope.member_labels
    if labels is None:
        return None
    found = []
    for role in roles:
        for member in role.members():
            pairs = labels.get(member.uid, ())
            if not member.terminating and all(label(pairs, key) == value for key, value in selector):
                found.append(member.uid)
    return tuple(sorted(found))


def _publishers(
    document: PlatformDocument, scope: Scope, roles: Sequence[Role], router: RouterDeclaration | None
) -> tuple[PublisherFact, ...] | Unset:
    """Whether each role's Pods carry publisher configuration, where the platform publishes that."""
    rule = document.events
    if not rule.published or router is None or (rule.known and not present(rule.known, scope)):
        return msgspec.UNSET
    return tuple(
        PublisherFact(role=role.name, publishes=present(rule.published, scope.of_role(role.name, None)))
        for role in roles
    )


def _endpoint(document: PlatformDocument, scope: Scope) -> str | Unset | None:
    rule = document.facts
    if not rule.endpoint:
        return msgspec.UNSET
    found = text(rule.endpoint, scope)
    if found:
        return found
    return None if not rule.endpoint_published or present(rule.endpoint_published, scope) else msgspec.UNSET
