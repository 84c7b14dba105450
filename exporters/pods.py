"""Which Pods of a deployment are expected to serve, which are skipped and why, and which are not there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from exporters.expectations import Place, is_pair
from router_contract.catalog import UnknownSoftware, lookup
from router_contract.documents import REASONS, SKIPPED, Coverage, Missing, SkipCode, Skipped
from router_contract.readings import MissingCode
from router_contract.targets import Component, Deployment, Member, Role
from router_contract.verdicts import DeploymentReport, TargetReport, TargetState
from router_contract.vocabulary import Vocabulary

ROUTER_SCOPE = "router"


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A Pod that is expected to serve. ``target`` is ``None`` while nothing was scheduled to read it."""

    name: str
    uid: str = ""
    scope: str
    place: Place
    table: Vocabulary | None
    version: str | None
    arguments: tuple[str, ...] = ()
    stores: bool = False
    has_address: bool = True
    target: TargetReport | None = None


class Roster(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody: expected Pods by name, skipped Pods, what is missing of whole roles, and roles parked at zero."""

    pods: tuple[Pod, ...]
    skipped: tuple[Skipped, ...]
    missing: tuple[Missing, ...]
    parked: tuple[tuple[str, Place], ...]
    absent: int

    def first(self, pods: int) -> Roster:
        """The same with the first Pods only; the others stay expected, unread, and one entry says so."""
        left = len(self.pods) - pods
        cut = Missing(
            pod="",
            source="pod-discovery",
            code=MissingCode.TOO_MANY_PODS.value,
            reason=f"the first {pods} of {len(self.pods)} Pods by name are in this document: limits.podsPerDocument",
        )
        return msgspec.structs.replace(
            self, pods=self.pods[:pods], missing=(*self.missing, cut), absent=self.absent + left
        )

    def coverage(self) -> Coverage:
        """Expected, read, failed and skipped Pods; a Pod that was not read yet is neither read nor failed."""
        return self.covered([pod.target.status.state if pod.target else None for pod in self.pods])

    def covered(self, states: Sequence[TargetState | None]) -> Coverage:
        """`coverage` where each Pod's target stands as ``states`` say, ``None`` without one."""
        failed = states.count(TargetState.FAILING) + states.count(TargetState.SHED)
        # A Pod without an address has no target, so it is none of these.
        failed += sum([not pod.has_address for pod in self.pods]) if None in states else 0
        return Coverage(
            expected=len(self.pods) + self.absent,
            read=states.count(TargetState.UP),
            failed=failed,
            skipped=len(self.skipped),
        )


def missing(pod: str, source: str, code: MissingCode, detail: str = "", *, name: str = "") -> Missing:
    """An entry of ``missing[]`` with its sentence; ``name`` is the value's, empty where it is of a whole Pod or role."""
    reason = REASONS[code].text(detail)
    return Missing(pod=pod, source=source, code=code.value, reason=reason, name=name or msgspec.UNSET)


def skip_code(member: Member) -> SkipCode | None:
    """Why a member is not expected to serve now, ``None`` when it is."""
    if not member.serves:
        return SkipCode.FOLLOWER
    if member.terminating:
        return SkipCode.TERMINATING
    return None if member.started else SkipCode.NOT_STARTED


class _Group(msgspec.Struct, frozen=True):
    """One role's or the router's members, sorted; ``present`` counts those that serve or would, if started or kept."""

    pods: list[Pod]
    skipped: list[Skipped]
    missing: list[Missing]
    present: int
    absent: int


def _table(component: Component, name: str) -> Vocabulary | None:
    try:
        return lookup(component, name)
    except UnknownSoftware:
        return None


def roster(report: DeploymentReport) -> Roster:
    """Sort a deployment's members."""
    deployment = report.deployment
    groups = {role.name: _engine_group(report, role) for role in deployment.roles}
    parked = tuple(
        (f"engine/{role.name}", _engine_place(deployment, role))
        for role in deployment.roles
        if role.desired == 0 and groups[role.name].present == 0 and deployment.complete
    )
    every = [*groups.values(), *_router_group(report)]
    unlisted = [] if deployment.complete else [missing("", "pod-discovery", MissingCode.LIST_FAILED)]
    return Roster(
        pods=tuple(sorted((pod for group in every for pod in group.pods), key=lambda pod: pod.name)),
        skipped=tuple(sorted((entry for group in every for entry in group.skipped), key=lambda entry: entry.pod)),
        missing=(*(entry for group in every for entry in group.missing), *unlisted),
        parked=parked,
        absent=sum(group.absent for group in every),
    )


def _engine_place(deployment: Deployment, role: Role) -> Place:
    table = _table(Component.ENGINE, role.engine)
    return Place(
        software=table.name if table else role.engine,
        kind=role.kind,
        pair=is_pair(deployment),
        endpoint_type=deployment.endpoint_type,
    )


def _engine_group(report: DeploymentReport, role: Role) -> _Group:
    pattern = Pod(
        name="",
        scope=f"engine/{role.name}",
        place=_engine_place(report.deployment, role),
        table=_table(Component.ENGINE, role.engine),
        version=role.engine_version,
        arguments=(*role.command, *role.arguments),
        stores=bool(report.deployment.stores),
    )
    return _group(report, Component.ENGINE, tuple(role.members()), pattern, _wanted(role), role.desired)


def _router_group(report: DeploymentReport) -> list[_Group]:
    router = report.deployment.router
    if router is None:
        return []
    table = _table(Component.ROUTER, router.software)
    place = Place(
        software=table.name if table else router.software,
        pair=is_pair(report.deployment),
        endpoint_type=report.deployment.endpoint_type,
    )
    pattern = Pod(name="", scope=ROUTER_SCOPE, place=place, table=table, version=router.version)
    return [_group(report, Component.ROUTER, router.members, pattern, router.desired, router.desired)]


def _group(
    report: DeploymentReport,
    component: Component,
    members: tuple[Member, ...],
    pattern: Pod,
    wanted: int | None,
    desired: int | None,
) -> _Group:
    targets = {t.status.key.member_uid: t for t in report.targets if t.status.component is component}
    pods: list[Pod] = []
    skipped: list[Skipped] = []
    for member in members:
        code = skip_code(member)
        if code is not None:
            skipped.append(Skipped(pod=member.name, code=code.value, reason=member.skipped_reason or SKIPPED[code]))
        else:
            pods.append(_pod(pattern, member, targets.get(member.uid)))
    present = sum(member.serves for member in members)
    lack = _lack(pattern.scope, present, wanted, desired)
    return _Group(pods, skipped, lack, present, max((wanted or 0) - present, 0))


def _pod(pattern: Pod, member: Member, target: TargetReport | None) -> Pod:
    return msgspec.structs.replace(
        pattern,
        name=member.name,
        uid=member.uid,
        target=target,
        has_address=member.metrics is not None or target is not None,
        version=(target.status.version if target else None) or pattern.version,
    )


def seen(pod: Pod, target: TargetReport) -> Pod:
    """A Pod of a roster that was made without targets, with its own."""
    return msgspec.structs.replace(pod, target=target, has_address=True, version=target.status.version or pod.version)


def _wanted(role: Role) -> int | None:
    """How many members that serve a role should have; ``None`` when nobody says how many replicas."""
    if role.desired is None:
        return None
    if role.elastic:
        return min(role.desired, 1)
    serving = [sum(member.serves for member in replica.members) for replica in role.replicas if replica.members]
    follows = any(not member.serves for member in role.members())
    each = max(serving, default=0) if follows else max(role.size, 1)
    return role.desired * max(each, 1)


def _lack(scope: str, present: int, wanted: int | None, desired: int | None) -> list[Missing]:
    if present == 0 and desired != 0:
        detail = "and how many there should be is not known" if desired is None else f"{desired} desired"
        return [missing("", scope, MissingCode.NO_OWNED_POD, detail)]
    if wanted is not None and present < wanted:
        return [missing("", scope, MissingCode.PODS_MISSING, f"{present} of {wanted}")]
    return []
