"""The roles of a deployment, and the replicas that its Pods form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from observer.discover.platforms import paths
from observer.discover.platforms.document import LeaderRule, PlatformDocument, Replacement, RoleRule
from observer.discover.platforms.members import Listeners, MemberBuilder, container_of
from observer.discover.platforms.ranks import rank_ports, spread
from observer.discover.platforms.select import Left, fits, wanted
from observer.discover.platforms.taking import Scope, arguments, count, label, present, text
from observer.judge.parallelism import read_parallelism
from observer.kube.records import Pod
from router_contract.status import LoadBalance
from router_contract.targets import Member, Replica, Role, RoleKind, role_kind

MAX_ROLES = 64
"""Most roles of one deployment; the rest is not looked at, and said."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """One role before its Pods: its name, its rule, and its scope."""

    name: str
    rule: RoleRule
    scope: Scope
    alone: bool = False

    def takes(self, pod: Pod) -> bool:
        """Whether a Pod of the deployment is of this role."""
        if self.rule.each_label is not None and label(pod.labels, self.rule.each_label) != self.scope.item:
            return False
        if self.alone and self.rule.only:
            return True
        other = self.rule.other_labels
        return fits(pod.labels, wanted(self.rule.labels, self.scope.filled)) or (
            bool(other) and fits(pod.labels, wanted(other, self.scope.filled))
        )

    def takes_aside(self, pod: Pod) -> bool:
        """Whether a Pod belongs to the role without being a member."""
        return bool(self.rule.ancillary) and fits(pod.labels, wanted(self.rule.ancillary, self.scope.filled))


def specs(document: PlatformDocument, scope: Scope, pods: Sequence[Pod]) -> tuple[Spec, ...]:
    """Every role, by the rules in order; a name that came before is not taken again."""
    found: dict[str, Spec] = {}
    for rule in document.roles:
        for item in _items(rule, scope, pods):
            at = msgspec.structs.replace(scope, item=item)
            name = text(rule.name, at) or (item if rule.each_label is not None else "")
            if not name or name in found or len(found) >= MAX_ROLES:
                continue
            at = scope.of_role(name, item)
            if (rule.when and not present(rule.when, at)) or present(rule.unless, at):
                continue
            found[name] = Spec(name=name, rule=rule, scope=at)
            if rule.when_pods and not _has_pods(found, name, pods):
                del found[name]
    return tuple(msgspec.structs.replace(each, alone=len(found) == 1) for each in found.values())


def _items(rule: RoleRule, scope: Scope, pods: Sequence[Pod]) -> Iterable[Any]:
    if rule.each is not None:
        listed = scope.field(rule.each)
        return listed if isinstance(listed, list) else ()
    if rule.each_label is not None:
        values = {label(pod.labels, rule.each_label) for pod in pods}
        return sorted(value for value in values if value)
    return ({},)


def _has_pods(found: Mapping[str, Spec], name: str, pods: Iterable[Pod]) -> bool:
    """Whether a Pod is of this role and of none before it."""
    return any(next((each.name for each in found.values() if each.takes(pod)), "") == name for pod in pods)


class RoleBuilder:
    """Builds the roles of one deployment. What is not taken goes to ``left``."""

    def __init__(self, document: PlatformDocument, members: MemberBuilder, left: list[Left], *, complete: bool) -> None:
        self._document = document
        self._members = members
        self._left = left
        self._complete = complete
        self._listeners = Listeners(api=document.api, metrics=document.metrics, events=document.events)

    def build(self, found: Sequence[Spec], pods: Sequence[Pod]) -> tuple[Role, ...]:
        """The roles with their Pods. A Pod is of the first role that takes it."""
        own: dict[str, list[Pod]] = {spec.name: [] for spec in found}
        aside: dict[str, list[Pod]] = {spec.name: [] for spec in found}
        for pod in pods:
            spec = next((spec for spec in found if spec.takes(pod)), None)
            beside = next((spec for spec in found if spec.takes_aside(pod)), None) if spec is None else None
            if spec is not None:
                own[spec.name].append(pod)
            elif beside is not None:
                aside[beside.name].append(pod)
            else:
                self._left.append(Left(pod.name, "its labels are those of no role"))
        return tuple(self._role(spec, own[spec.name], aside[spec.name]) for spec in found)

    def _role(self, spec: Spec, pods: Sequence[Pod], aside: Sequence[Pod]) -> Role:
        rule, at = spec.rule, spec.scope
        role = self._plain(spec, pods)
        elastic = bool(rule.elastic) and present(rule.elastic, at)
        every = self._every_rank(role)
        replicas = self._collective(at, pods, aside) if elastic else self._replicas(at, pods, every=every)
        role = msgspec.structs.replace(role, elastic=elastic, load_balance_external=every, replicas=replicas)
        return spread(role, rank_ports(self._document.replicas, at))

    def _plain(self, spec: Spec, pods: Sequence[Pod]) -> Role:
        """The role without its replicas."""
        rule, at = spec.rule, spec.scope
        first = self._scopes(at, pods)[:1]
        near = first[0] if first else at
        engine = rule.engine or self._document.engine
        size = count(rule.size, at)
        return Role(
            name=spec.name,
            kind=role_kind(text(rule.kind, near) or ""),
            desired=count(rule.desired, near if rule.each_label is not None else at),
            size=1 if size is None else size,
            engine=(text(engine.software, near) or "").lower(),
            engine_version=text(engine.version, near) or None,
            command=self._command(spec, pods),
            arguments=self._arguments(spec, first),
            environment=_environment(spec),
            port_protocol=text(rule.protocol, at) or "TCP",
        )

    def _command(self, spec: Spec, pods: Sequence[Pod]) -> tuple[str, ...]:
        """The take-over of the deployed Pods: what runs decides, the spec only where nothing runs or nobody can tell."""
        written = _words(spec, spec.rule.command)
        rule = self._document.replicas.managed_when
        scopes = self._scopes(spec.scope, pods)
        if not rule or not scopes:
            return written
        managed = [present(rule, at) for at in scopes]
        if all(managed):
            return ()
        if any(managed) or written:
            return written
        return arguments(scopes[0].container) or ("(the image's own)",)

    def _arguments(self, spec: Spec, first: Sequence[Scope]) -> tuple[str, ...]:
        if spec.rule.arguments is not None:
            return _words(spec, spec.rule.arguments)
        return arguments(first[0].container) if first else ()

    def _every_rank(self, role: Role) -> bool:
        """Whether every member serves because a balancer outside addresses each rank."""
        leader = self._document.replicas.leader
        if leader is None or not leader.ranks_when_external or role.kind != RoleKind.SERVER:
            return False
        reading = read_parallelism(role, managed=self._document.facts.managed)
        return reading.load_balance is LoadBalance.EXTERNAL

    def _scopes(self, at: Scope, pods: Sequence[Pod]) -> list[Scope]:
        return [at.of_pod(pod, container_of(pod, self._document.container)) for pod in pods]

    def _replicas(self, at: Scope, pods: Sequence[Pod], *, every: bool) -> tuple[Replica, ...]:
        rule = self._document.replicas
        groups: dict[tuple[int, str], list[Member]] = {}
        leaving: dict[tuple[int, str], str] = {}
        instances: dict[tuple[int, str], str] = {}
        for scope in self._scopes(at, pods):
            pod = scope.pod
            if pod is None:
                continue
            ordinal = text(rule.ordinal, scope)
            number = paths.whole(ordinal)
            if rule.ordinal and number is None and not (rule.unnumbered and ordinal is None):
                why = "nothing numbers it: it is on no place yet" if ordinal is None else f"its ordinal is {ordinal!r}"
                self._left.append(Left(pod.name, why))
                continue
            group = text(rule.group, scope) if rule.group else None
            key = (-1, group or pod.uid) if number is None else (number, group or "")
            groups.setdefault(key, []).append(self._member(scope, every=every))
            reason = text(rule.retiring, scope)
            if reason:
                leaving.setdefault(key, reason)
            instance = text(rule.instance, scope)
            if instance:
                instances.setdefault(key, instance)
        newest = self._newest(pods)
        made = [
            msgspec.structs.replace(
                self._replica(key[0], members, newest, leaving.get(key, "")), instance=instances.get(key, "")
            )
            for key, members in groups.items()
        ]
        return tuple(
            sorted(
                made, key=lambda replica: (-1 if replica.ordinal is None else replica.ordinal, replica.members[0].name)
            )
        )

    def _replica(self, ordinal: int, members: list[Member], newest: str | None, leaving: str = "") -> Replica:
        members.sort(key=lambda member: (-1 if member.seat is None else member.seat, member.name))
        return Replica(
            ordinal=None if ordinal < 0 else ordinal,
            members=tuple(members),
            retiring=bool(leaving) if self._document.replicas.retiring else None,
            retiring_reason=leaving,
            replacing=self._replacing(members, newest),
        )

    def _member(self, scope: Scope, *, every: bool) -> Member:
        seat = _seat(text(self._document.replicas.seat, scope))
        serves = every or _leads(self._document.replicas.leader, scope, seat)
        return self._members.build(scope, self._listeners, serves=serves, seat=seat)

    def _collective(self, at: Scope, pods: Sequence[Pod], aside: Sequence[Pod]) -> tuple[Replica, ...]:
        """One group at ordinal 0: the master on seat 0 serves, the head is beside it."""
        members = [self._member(scope, every=False) for scope in self._scopes(at, pods)]
        members += [
            self._members.build(scope, self._listeners, serves=False, ancillary=True)
            for scope in self._scopes(at, aside)
        ]
        return (self._replica(0, members, None),) if members else ()

    def _newest(self, pods: Sequence[Pod]) -> str | None:
        """The revision of the Pod made last; ``None`` where no Pod says one."""
        rule = self._document.replicas
        if rule.replacement is not Replacement.REVISION:
            return None
        said = [(scope.pod.created, scope.pod.name, text(rule.revision, scope)) for scope in self._scopes(_NOWHERE, pods) if scope.pod is not None]  # fmt: skip
        known = [(created, name, revision) for created, name, revision in said if revision]
        return max(known)[2] if known else None

    def _replacing(self, members: Sequence[Member], newest: str | None) -> bool | None:
        rule = self._document.replicas.replacement
        staying = [member for member in members if not member.terminating and not member.ancillary]
        if rule is Replacement.REVISION and newest is not None:
            said = [member.revision for member in staying]
            if any(revision not in {None, newest} for revision in said):
                return True
            # a Pod that says no revision may be of an older one, and one that is not listed may be newer
            return False if self._complete and None not in said else None
        if rule is not Replacement.PODS:
            return None
        seats = [member.seat for member in staying if member.seat is not None]
        if len(seats) != len(set(seats)):
            return True
        return False if self._complete else None


_NOWHERE = Scope(body={}, holes={})


def _seat(written: str | None) -> int | None:
    """A seat; a text that is no number is a seat that cannot be: -1."""
    if written is None:
        return None
    number = paths.whole(written)
    return -1 if number is None else number


def _leads(rule: LeaderRule | None, scope: Scope, seat: int | None) -> bool:
    if rule is None:
        return True
    if rule.seat is not None and (seat or 0) != rule.seat:
        return False
    return scope.pod is not None and fits(scope.pod.labels, wanted(rule.labels, scope.filled))


def _words(spec: Spec, path: str | None) -> tuple[str, ...]:
    found = paths.first(spec.scope.item, path) if path is not None else None
    return tuple(str(word) for word in found) if isinstance(found, list) else ()


def _environment(spec: Spec) -> tuple[tuple[str, str], ...]:
    path = spec.rule.environment
    found = paths.first(spec.scope.item, path) if path is not None else None
    listed = found if isinstance(found, list) else []
    return tuple(
        (each["name"], each["value"])
        for each in listed
        if isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("value"), str)
    )
