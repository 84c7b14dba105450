"""Whom a canary analysis compares: the Pods of each revision, how a metric is measured, what stable counted before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Final

import msgspec

from observer.fleet import Record
from observer.judge.canary.attribution import PodFact, attribute
from observer.measure.canary_cells import Counted, Number, by_label
from router_contract.canary import CanaryAnalysis, MeasuredBy, NativeMetric
from router_contract.canary_inputs import CountWindow, Mix
from router_contract.readings import Histogram
from router_contract.targets import Deployment, Member, RoleKind

ROUTER: Final = "router"
RevisionEndpoints = Mapping[str, AbstractSet[str]]
"""The Pod UIDs behind each revision's own Service."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What stable counted for one metric in the step before, for a step in which it has no Pods, and to begin from."""

    measure: NativeMetric
    stable: str
    window: CountWindow
    mix: Mix


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How a metric is measured: by whom, by which signals; ``unavailable`` says why it cannot be."""

    by: MeasuredBy
    signal: str
    total: str | None = None
    unavailable: str = ""


class Sides:
    """The Pods of an analysis's component at one moment, by revision."""

    def __init__(
        self, definition: CanaryAnalysis, deployment: Deployment | None, endpoints: RevisionEndpoints | None = None
    ) -> None:
        self.definition = definition
        self.deployment = deployment
        found = [] if deployment is None else list(_members(deployment, definition.component))
        self.members = {member.name: member for member in found}
        facts = [
            PodFact(uid=each.uid, name=each.name, revision=each.revision, leads=each.serves)
            for each in found
            if not each.ancillary
        ]
        told = attribute(facts, definition.canary, definition.stable, endpoints)
        self.canary, self.stable = told.canary, told.stable
        self.unattributed = tuple(name for name, _ in told.unattributed)

    @cached_property
    def restarted_at(self) -> float | None:
        """The newest start of a canary Pod that a platform told."""
        times = [self.members[name].started_at for name in self.canary]
        return max((time for time in times if time is not None), default=None)

    @cached_property
    def mixed_pairing(self) -> bool:
        """Whether prefill and decode both run both revisions, so that one request may cross them."""
        pair = {RoleKind.PREFILL, RoleKind.DECODE}
        roles = [] if self.deployment is None else [role for role in self.deployment.roles if role.kind in pair]
        both = {self.definition.canary, self.definition.stable}
        return {role.kind for role in roles} == pair and all(
            both <= {member.revision for member in role.members()} for role in roles
        )


def _members(deployment: Deployment, component: str) -> Iterable[Member]:
    if component == ROUTER:
        yield from deployment.router.members if deployment.router is not None else ()
        return
    for role in deployment.roles:
        yield from role.members()


def authority(member: Member) -> str:
    """The ``host:port`` of a member's API."""
    return member.api.authority if member.api is not None else ""


def plain(worker: str) -> str:
    """The ``host:port`` of a worker's address, without scheme, rank and path."""
    return (
        worker.partition("://")[2].partition("/")[0].partition("@")[0] if "://" in worker else worker.partition("@")[0]
    )


def counted_of(record: Record, measure: NativeMetric, way: Way, label: str) -> dict[str, Counted]:
    """One record's totals of a metric, by a label's value."""
    if record.chain.totals is None:
        return {}
    first = by_label(record.chain.totals, way.signal, measure.where, label)
    whole: Mapping[str, Number] = {} if way.total is None else by_label(record.chain.totals, way.total, (), label)
    found = {}
    for name in first.keys() | whole.keys():
        value, total = first.get(name), whole.get(name)
        found[name] = Counted(
            events=value if isinstance(value, float) else None,
            total=total if isinstance(total, float) else None,
            histogram=value if isinstance(value, Histogram) else None,
        )
    return found
