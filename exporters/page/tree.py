"""One deployment as a tree: roles, replicas, members, ranks, each value with its age and where it was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from exporters.page.render import Fragment, Renderer, element_id
from exporters.page.shown import UNIT_FORMATS
from exporters.page.targets import target_path, why_missing
from router_contract.readings import SignalValue, State
from router_contract.signals import SIGNALS
from router_contract.status import GroupState, GroupVerdict, LegState, MemberVerdict, RoleStatus
from router_contract.targets import Component, Member, Role
from router_contract.verdicts import DeploymentReport, TargetReport

MOST_REPLICAS = 256
"""Replicas of one deployment that the page shows; the JSON has all."""

KEY_SIGNALS: tuple[tuple[str, str, str], ...] = (
    ("requests-running", "Running", "level"),
    ("requests-waiting", "Waiting", "level"),
    ("kv-cache-usage", "KV cache in use", "level"),
    ("generation-tokens", "Generated tokens", "rate"),
    ("prompt-tokens", "Prompt tokens", "rate"),
    ("time-to-first-token", "First token, mean", "mean"),
    ("inter-token-latency", "Between tokens, mean", "mean"),
)
"""What a member shows in the tree: the signal, its heading, and whether its level, rate or mean is shown."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One value of one rank, or why there is none."""

    value: float | None
    format: str
    why: str = ""
    stale: bool = False


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One signal of a member: a cell for each rank, when it was read and under which name."""

    title: str
    cells: tuple[Cell, ...]
    observed_at: float | None
    source: str


class MemberNode(msgspec.Struct, frozen=True, kw_only=True):
    """One member: its verdict, its target if it has one, its ranks and their values."""

    verdict: MemberVerdict
    member: Member | None
    target: TargetReport | None
    path: str
    ranks: tuple[str, ...]
    lines: tuple[Line, ...]
    stalls: tuple[tuple[str, float], ...]


def why_not(group: GroupVerdict) -> str:
    """One sentence why a replica may get no traffic; empty for one that may."""
    if group.state is GroupState.ELIGIBLE:
        return ""
    for state in (LegState.FAILED, LegState.UNKNOWN):
        leg = next((leg for leg in group.legs if leg.state is state), None)
        if leg is not None:
            said = leg.why or group.message
            verb = "failed" if state is LegState.FAILED else "is not known"
            return f"{leg.name.value} {verb}" + (f": {said}" if said else "")
    return group.message or group.reason


def tree(report: DeploymentReport, renderer: Renderer) -> list[Fragment]:
    """The fragments of the tree, in order: each role's heading and its replicas."""
    members = {member.uid: member for role in report.deployment.roles for member in role.members()}
    targets = {
        target.status.key.member_uid: target for target in report.targets if target.status.component is Component.ENGINE
    }
    declared = {role.name: role for role in report.deployment.roles}
    parts: list[Fragment] = []
    left = MOST_REPLICAS
    for status in report.role_status:
        hidden = max(0, len(status.groups) - left)
        parts.append(_role(status, declared.get(status.name), hidden, renderer))
        for group in status.groups[: max(0, left)]:
            left -= 1
            nodes = [_node(each, members, targets, report) for each in group.members]
            ident = element_id("g", group.role, str(group.ordinal), group.generation)
            parts.append(renderer.part("replica.html", ident, group=group, nodes=nodes, why=why_not(group)))
    if not report.judged:
        parts += [
            renderer.part("role_unjudged.html", element_id("role", role.name), role=role) for role in declared.values()
        ]
    return parts


def _role(status: RoleStatus, role: Role | None, hidden: int, renderer: Renderer) -> Fragment:
    return renderer.part("role.html", element_id("role", status.name), role=status, declared=role, hidden=hidden)


def _node(
    verdict: MemberVerdict,
    members: Mapping[str, Member],
    targets: Mapping[str, TargetReport],
    report: DeploymentReport,
) -> MemberNode:
    target = targets.get(verdict.uid)
    ranks = _ranks(target)
    return MemberNode(
        verdict=verdict,
        member=members.get(verdict.uid),
        target=target,
        path=target_path(target.status.key) if target is not None else "",
        ranks=ranks,
        lines=tuple(_lines(target, ranks)) if target is not None else (),
        stalls=tuple(
            (stall.rank, stall.seconds) for stall in report.stalls if stall.uid == verdict.uid and stall.seconds
        ),
    )


def _rank(value: SignalValue) -> str:
    return dict(value.labels).get("rank", "")


def _ranks(target: TargetReport | None) -> tuple[str, ...]:
    """The data-parallel ranks that the key signals name, in number order; one without a name where there is none."""
    if target is None:
        return ()
    shown = {signal for signal, _, _ in KEY_SIGNALS}
    found = {_rank(value) for value in target.values if value.signal in shown} - {""}
    return tuple(sorted(found, key=lambda rank: (len(rank), rank))) or ("",)


def _lines(target: TargetReport, ranks: Sequence[str]) -> Iterator[Line]:
    for signal, title, what in KEY_SIGNALS:
        values = target.of(signal)
        if not values:
            continue
        by_rank = {_rank(value): value for value in values}
        cells = tuple(_cell(by_rank.get(rank) or by_rank.get(""), signal, what) for rank in ranks)
        read = [value.observed_at for value in values if value.observed_at is not None]
        yield Line(title=title, cells=cells, observed_at=min(read, default=None), source=values[0].source)


def _cell(value: SignalValue | None, signal: str, what: str) -> Cell:
    unit = "rate" if what == "rate" else UNIT_FORMATS.get(SIGNALS[signal].unit, "number")
    if value is None:
        return Cell(value=None, format=unit, why="this rank did not tell it")
    stale = value.state is State.STALE
    if what == "level" or value.missing is not None:
        return Cell(value=value.value, format=unit, why=why_missing(value.missing), stale=stale)
    if value.window is None:
        return Cell(value=None, format=unit, why=why_missing(value.window_missing))
    found: Any = value.window.per_second if what == "rate" else value.window.mean
    return Cell(value=found, format=unit, why="nothing was observed in the window", stale=stale)
