"""What one deployment is judged by in a pass, held fast while the pass rests between deployments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from observer.fleet import Record
from router_contract.judging import MembershipProof
from router_contract.kv_streams import KvStreamSummary
from router_contract.platform_facts import PlatformFacts
from router_contract.probes import MemberProbe
from router_contract.router_views import RouterView, ViewFailed
from router_contract.targets import Component, Deployment, DeploymentKey, Member, TargetKey
from router_contract.verdicts import Condition


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What one deployment is judged by in a pass, as it was when the pass began.

    ``records`` are those of all targets, ``probes`` the last of each of its members by UID.
    """

    deployment: Deployment
    facts: PlatformFacts
    views: tuple[RouterView | ViewFailed, ...]
    proof: MembershipProof | None
    extra: tuple[Condition, ...]
    streams: tuple[KvStreamSummary, ...]
    records: Mapping[TargetKey, Record]
    probes: Mapping[str, MemberProbe]


def members_of(deployment: Deployment) -> Iterator[Member]:
    """The members of every role, those that leave included."""
    for role in deployment.roles:
        yield from role.members()


def key_of(deployment: DeploymentKey, member: Member, component: Component) -> TargetKey:
    """The key of what is read of a member."""
    return TargetKey(deployment, member.uid, component, member.metrics.port if member.metrics is not None else 0)
