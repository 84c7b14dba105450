"""What the routers select, bound to the members that exist now, against what is eligible.

A row that is selected and cannot be bound makes the answer Unknown; a view that is missing, stale or indeterminate does
too. Only a complete, fresh, identity-bound and agreeing set of views is Confirmed, and only that carries a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from router_contract.judging import DeploymentInputs, JudgePolicy
from router_contract.readings import Instant
from router_contract.router_views import RouterView, ViewFailed, ViewSource, WorkerRow
from router_contract.status import Serving, ServingState
from router_contract.targets import Member, Role


class Listener(msgspec.Struct, frozen=True, order=True):
    """An endpoint: one member and one port of it. Virtual data-parallel rows of one listener are one endpoint."""

    uid: str
    port: int
    role: str


class Selection(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The routers' views put together. ``valid`` says that every required view is usable.

    ``selected`` and ``refused`` may overlap only when views conflict. ``fault`` is the sentence behind Unknown.
    """

    state: ServingState
    fault: str = ""
    valid: bool = False
    expected: int = 0
    usable: int = 0
    selected: frozenset[Listener] = frozenset()
    refused: frozenset[Listener] = frozenset()
    conflicts: tuple[str, ...] = ()

    @cached_property
    def listed(self) -> frozenset[str]:
        """The members that some view names, when the views are valid."""
        return frozenset(item.uid for item in self.selected | self.refused) if self.valid else frozenset()


class _Bound(msgspec.Struct, kw_only=True):
    selected: set[Listener]
    refused: set[Listener]
    fault: str = ""


def read_selection(inputs: DeploymentInputs, now: Instant, policy: JudgePolicy) -> Selection:
    """Bind and aggregate the views, in the order in which each fault outranks the next."""
    router = inputs.deployment.router
    if router is None:
        return Selection(state=ServingState.NOT_CONFIGURED)
    views = latest_views(inputs)
    failures = {item.pod_uid: item for item in inputs.views if isinstance(item, ViewFailed)}
    expected = max(router.desired or 0, sum(not member.terminating for member in router.members))
    fault = _missing(inputs, views, failures, now, policy)
    required = [views[member.uid] for member in router.members if member.uid in views]
    usable = 0
    total = _Bound(selected=set(), refused=set())
    for view in required:
        bound = bind(view, inputs)
        fault = fault or bound.fault
        usable += not bound.fault and now.mono - view.read_at.mono <= policy.view_validity
        total.selected |= bound.selected
        total.refused |= bound.refused
    if fault:
        return Selection(state=ServingState.UNKNOWN, fault=fault, expected=expected, usable=usable)
    conflicts = _conflicts(inputs, total)
    return Selection(
        state=ServingState.NOT_CONVERGED if conflicts else ServingState.CONFIRMED,
        fault=conflicts[0] if conflicts else "",
        valid=True,
        expected=expected,
        usable=usable,
        selected=frozenset(total.selected),
        refused=frozenset(total.refused),
        conflicts=conflicts,
    )


def latest_views(inputs: DeploymentInputs) -> dict[str, RouterView]:
    """The newest good view of each router Pod, by its UID."""
    views: dict[str, RouterView] = {}
    for item in inputs.views:
        if isinstance(item, RouterView) and (
            item.pod_uid not in views or item.read_at.mono >= views[item.pod_uid].read_at.mono
        ):
            views[item.pod_uid] = item
    return views


def _missing(
    inputs: DeploymentInputs,
    views: Mapping[str, RouterView],
    failures: Mapping[str, ViewFailed],
    now: Instant,
    policy: JudgePolicy,
) -> str:
    """Why a required view is not there, or nothing. A terminating router Pod with an address still selects."""
    router = inputs.deployment.router
    if router is None or not inputs.deployment.complete:
        return "the list of router Pods failed"
    live = [member for member in router.members if not member.terminating]
    if router.desired is not None and len(live) < router.desired:
        return f"{len(live)} of {router.desired} router Pods exist"
    if not router.members:
        return "no router Pod was observed"
    for member in router.members:
        if member.host is None and not member.terminating:
            return f"router {member.name} has no address"
        view, failure = views.get(member.uid), failures.get(member.uid)
        why = f": {failure.kind} {failure.detail}".rstrip() if failure else ""
        if view is None:
            if member.host is not None:
                return f"router {member.name} has no view{why}"
        elif now.mono - view.read_at.mono > policy.view_validity:
            return f"the view of router {member.name} is {now.mono - view.read_at.mono:.0f} s old{why}"
    return ""


def bind(view: RouterView, inputs: DeploymentInputs) -> _Bound:
    """A view's rows as listeners of current members. Selected and unbound, or undecided, makes the view unusable."""
    bound = _Bound(selected=set(), refused=set())
    for row in view.workers:
        listener = bind_row(row, view, inputs)
        if listener is None:
            if row.in_selection is not False:
                does = f"{'selects' if row.in_selection else 'may select'} {row.label}"
                bound.fault = bound.fault or f"router {view.router} {does}, {_why_unbound(row, view, inputs)}"
            elif row.recent_dispatch:
                does = f"sent to {row.label} lately"
                bound.fault = bound.fault or f"router {view.router} {does}, {_why_unbound(row, view, inputs)}"
        elif row.in_selection is None:
            bound.fault = bound.fault or f"router {view.router} does not tell whether it selects {row.label}"
        elif row.in_selection:
            bound.selected.add(listener)
        else:
            bound.refused.add(listener)
    return bound


def bind_row(row: WorkerRow, view: RouterView, inputs: DeploymentInputs) -> Listener | None:
    """The one current member a row means, or ``None``. Identity comes from the member, never from the row's hints.

    A member first seen after the view was read cannot be what the view names, even at the same address.
    """
    port = row.port if row.port is not None else row.dialled
    named = view.source is ViewSource.SERIES
    found: Listener | None = None
    for role, member in _named(row, inputs) if named else inputs.listening(row.host, port):
        if _unfit(member, view, inputs):
            continue
        if found is not None:
            return None
        if named:
            # llm-d's series name Pods, not addresses: their serving port is it
            port = member.api.port if member.api is not None else 0
        found = Listener(member.uid, port or 0, role.name)
    return found


def _unfit(member: Member, view: RouterView, inputs: DeploymentInputs) -> str:
    """Why a member cannot be what a view names, or nothing."""
    if member.terminating:
        return "is on its way out"
    if not member.started:
        return "does not run"
    if inputs.facts.seats and (member.seat is None or member.seat < 0):
        return "claims no seat"
    first_seen = inputs.evidence(member.uid).first_seen
    if first_seen is None or first_seen.mono <= view.read_at.mono:
        return ""
    return "was first seen after the view was read"


def _why_unbound(row: WorkerRow, view: RouterView, inputs: DeploymentInputs) -> str:
    """Why a row means no current member: nobody is there, who is there cannot be it, or several may be."""
    named = view.source is ViewSource.SERIES
    candidates = _named(row, inputs) if named else inputs.listening(row.host, row.dialled)
    there = [(member.name, _unfit(member, view, inputs)) for _, member in candidates]
    if not there:
        return "which is no current member"
    fit = [name for name, why in there if not why]
    if len(fit) > 1:
        return f"which may be {fit[0]} or {fit[1]}"
    name, why = there[0]
    return f"and {name} there {why}"


def _named(row: WorkerRow, inputs: DeploymentInputs) -> list[tuple[Role, Member]]:
    """The members of the Pod that a row names: of its rank, where each rank is a member by itself."""
    rank = inputs.named(f"{row.endpoint}-rank-{row.rank}") if row.rank is not None else []
    return rank or inputs.named(row.endpoint)


def _conflicts(inputs: DeploymentInputs, bound: _Bound) -> tuple[str, ...]:
    """Sentences about each conflict: one router process under two boots, one endpoint both selected and refused."""
    boots: dict[str, set[str]] = {}
    for item in inputs.views:
        if isinstance(item, RouterView) and item.boot_id is not None:
            boots.setdefault(item.pod_uid, set()).add(item.boot_id)
    found = [
        f"router {uid} answered with {len(ids)} boot identities" for uid, ids in sorted(boots.items()) if len(ids) > 1
    ]
    both = sorted(bound.selected & bound.refused)
    names = {member.uid: member.name for role in inputs.deployment.roles for member in role.members()}
    found += [f"{names.get(item.uid, item.uid)}:{item.port} is selected and refused" for item in both]
    return tuple(found)


def serving(selection: Selection, role: Role | None = None) -> Serving:
    """The confirmation for a role, or for the deployment. An elastic collective never carries a count."""
    if role is not None and role.elastic and selection.state is not ServingState.NOT_CONFIGURED:
        return Serving(state=ServingState.UNKNOWN, reason="the elastic collective is not evaluated as one group")
    if selection.state is not ServingState.CONFIRMED:
        return Serving(state=selection.state, reason=selection.fault)
    chosen = [item for item in selection.selected if role is None or item.role == role.name]
    return Serving(state=ServingState.CONFIRMED, value=len(chosen))


def uids(listeners_: Iterable[Listener]) -> tuple[str, ...]:
    """The members of some listeners, sorted and unique."""
    return tuple(sorted({item.uid for item in listeners_}))


def view_needs_proof(inputs: DeploymentInputs, now: Instant, policy: JudgePolicy) -> bool:
    """Whether a view is about to be lost, so that the proof can be there when it is: a failure or two missed rounds."""
    router = inputs.deployment.router
    if router is None:
        return False
    return any(_shaky(member.uid, inputs.views, now, policy) for member in router.members if not member.terminating)


def _shaky(uid: str, views: Sequence[RouterView | ViewFailed], now: Instant, policy: JudgePolicy) -> bool:
    read = max(
        (item.read_at.mono for item in views if isinstance(item, RouterView) and item.pod_uid == uid), default=None
    )
    return read is None or now.mono - read > policy.view_validity * 2 / 3
