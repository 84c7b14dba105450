"""Pods whose data-parallel ranks listen on ports of their own: each rank is a member by itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from observer.discover.platforms import paths
from observer.discover.platforms.document import ReplicaRule
from observer.discover.platforms.taking import Scope
from router_contract.targets import Address, Member, Role, rank_uid

MAX_RANKS = 64
"""Most ranks of one Pod; further ports are not looked at."""


def rank_ports(rule: ReplicaRule, scope: Scope) -> tuple[int, ...]:
    """The ports of a Pod's ranks in order; nothing where a Pod is one member: fewer than two ports, or one that is none."""
    if rule.ranks is None:
        return ()
    ports = [paths.whole(each) for each in paths.every(scope.body, rule.ranks, scope.holes)[:MAX_RANKS]]
    known = tuple(port for port in ports if port is not None and 1 <= port <= 65535)
    return known if len(known) == len(ports) == len(set(known)) > 1 else ()


def rank_name(pod: str, rank: int) -> str:
    """What a rank is called, as llm-d's own endpoints are."""
    return f"{pod}-rank-{rank}"


def by_rank(member: Member, ports: Sequence[int]) -> tuple[Member, ...]:
    """One member for each rank of a Pod; the Pod's only one where its ranks have no ports of their own."""
    if not ports:
        return (member,)
    return tuple(
        msgspec.structs.replace(
            member,
            uid=rank_uid(member.uid, rank),
            name=rank_name(member.name, rank),
            rank=rank,
            metrics=_at(member.metrics, port),
            api=_at(member.api, port),
            ports=(port,),
        )
        for rank, port in enumerate(ports)
    )


def spread(role: Role, ports: Sequence[int]) -> Role:
    """A role whose members are ranks; its size, and what its Pods say of it, count ranks too."""
    if not ports:
        return role
    replicas = tuple(
        msgspec.structs.replace(
            replica, members=tuple(rank for member in replica.members for rank in _counted(member, ports))
        )
        for replica in role.replicas
    )
    return msgspec.structs.replace(role, size=role.size * len(ports), replicas=replicas)


def _counted(member: Member, ports: Sequence[int]) -> tuple[Member, ...]:
    total = member.declared_total
    if total is not None and total > 0:
        member = msgspec.structs.replace(member, declared_total=total * len(ports))
    return by_rank(member, ports)


def _at(address: Address | None, port: int) -> Address | None:
    return None if address is None else msgspec.structs.replace(address, port=port)
