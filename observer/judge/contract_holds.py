"""Whether `status.router` describes what is there: metric names, ports, selectors, KV-event endpoints."""

from __future__ import annotations

from collections.abc import Iterable

from observer.judge.conditions_cluster import not_observable, say
from router_contract.judging import DeploymentInputs, MemberEvidence, listeners
from router_contract.platform_facts import ContractMetrics, ContractRole, RouterContract, Unset
from router_contract.readings import FailureKind
from router_contract.status import ContractCheck
from router_contract.targets import Member, Role
from router_contract.verdicts import Condition, Status

TYPE = "RouterContractHolds"


def contract_checks(inputs: DeploymentInputs) -> tuple[ContractCheck, ...]:
    """Both sides of every line of the contract; ``holds`` is ``None`` where our side was not read."""
    contract = inputs.facts.contract
    if contract is None or isinstance(contract, Unset):
        return ()
    return tuple(_checks(inputs, contract))


def _checks(inputs: DeploymentInputs, contract: RouterContract) -> Iterable[ContractCheck]:
    declared = {role.name: role for role in contract.roles}
    for role in inputs.deployment.roles:
        entry = declared.get(role.name)
        if entry is None:
            yield ContractCheck(
                item=f"role {role.name}",
                declared="absent",
                observed="declared in the spec",
                holds=False,
                reason="SelectorMismatch",
            )
            continue
        yield _selector(inputs, role, entry)
        if contract.metrics is not None:
            yield from _metrics(inputs, role, contract.metrics)
        if entry.events_endpoint is not None:
            yield _events(inputs, role, entry)


def _serving(role: Role) -> list[Member]:
    return [member for member in role.members() if member.serves and not member.terminating]


def _selector(inputs: DeploymentInputs, role: Role, entry: ContractRole) -> ContractCheck:
    """What the published selector matches against the members that serve. Whom the operator withholds it may miss."""
    serving = {member.uid: member.name for member in _serving(role)}
    item = f"role {role.name} selector"
    text = ",".join(f"{key}={value}" for key, value in entry.selector) or "everything"
    if entry.selected is None:
        return ContractCheck(item=item, declared=text, observed="not read", holds=None)
    names = {member.uid: member.name for member in role.members()}
    stray = sorted(names.get(uid, uid) for uid in set(entry.selected) - set(serving))
    lost = sorted(name for uid, name in serving.items() if uid not in {*entry.selected, *entry.withheld})
    kept = sorted(name for uid, name in serving.items() if uid in entry.withheld)
    observed = f"{len(entry.selected)} Pods" + "".join(
        f", {what} {', '.join(found[:3])}{f' and {len(found) - 3} more' if len(found) > 3 else ''}"
        for what, found in (("not", lost), ("also", stray), ("the operator withholds", kept))
        if found
    )
    if stray or lost:
        return ContractCheck(item=item, declared=text, observed=observed, holds=False, reason="SelectorMismatch")
    # where nothing serves there is nothing to match, and where not all was listed a Pod may be missed
    holds = True if serving and inputs.deployment.complete else None
    return ContractCheck(item=item, declared=text, observed=observed, holds=holds)


def _metrics(inputs: DeploymentInputs, role: Role, metrics: ContractMetrics) -> Iterable[ContractCheck]:
    members = _serving(role)
    pairs = [(member, inputs.evidence(member.uid)) for member in members]
    yield _port(role, metrics.port, pairs)
    for purpose, name in metrics.names:
        yield _name(role, purpose, name, [evidence for _, evidence in pairs])


def _port(role: Role, port: int, pairs: list[tuple[Member, MemberEvidence]]) -> ContractCheck:
    item, declared = f"role {role.name} metrics port", str(port)
    for member, evidence in pairs:
        known = listeners(member)
        if known and port not in known:
            observed = f"{member.name} listens on {', '.join(map(str, sorted(known)))}"
            return ContractCheck(item=item, declared=declared, observed=observed, holds=False, reason="PortUnreachable")
        if evidence.failure is FailureKind.REFUSED and _failed_last(evidence):
            return ContractCheck(
                item=item, declared=declared, observed=f"{member.name} refuses", holds=False, reason="PortUnreachable"
            )
    answered = [evidence for _, evidence in pairs if evidence.answered_at is not None]
    holds = True if pairs and len(answered) == len(pairs) else None
    return ContractCheck(item=item, declared=declared, observed=f"{len(answered)} of {len(pairs)} answer", holds=holds)


def _failed_last(evidence: MemberEvidence) -> bool:
    """Whether the member answered once and its last read failed: a port never answered may still be starting."""
    return (
        evidence.answered_at is not None
        and evidence.failed_at is not None
        and evidence.failed_at.mono > evidence.answered_at.mono
    )


def _name(role: Role, purpose: str, name: str, evidence: list[MemberEvidence]) -> ContractCheck:
    item = f"role {role.name} {purpose}"
    read = [entry.families for entry in evidence if entry.families is not None]
    missing = sum(name not in families for families in read)
    if missing:
        return ContractCheck(
            item=item,
            declared=name,
            observed=f"absent on {missing} of {len(read)}",
            holds=False,
            reason="MetricNameAbsent",
        )
    holds = True if read and len(read) == len(evidence) else None
    return ContractCheck(item=item, declared=name, observed=f"seen on {len(read)} of {len(evidence)}", holds=holds)


def _events(inputs: DeploymentInputs, role: Role, entry: ContractRole) -> ContractCheck:
    item, declared = f"role {role.name} kvEvents", entry.events_endpoint or ""
    states = [inputs.evidence(member.uid).events_dialable for member in _serving(role)]
    if False in states:
        return ContractCheck(
            item=item,
            declared=declared,
            observed=f"{states.count(False)} of {len(states)} publishers cannot be dialled",
            holds=False,
            reason="EventsNotDialable",
        )
    holds = True if states and None not in states else None
    return ContractCheck(
        item=item, declared=declared, observed=f"{states.count(True)} of {len(states)} dialled", holds=holds
    )


def contract_holds(inputs: DeploymentInputs, checks: tuple[ContractCheck, ...]) -> Condition:
    """False names the first line that does not hold; Unknown while one is unread; True when all hold."""
    contract = inputs.facts.contract
    if inputs.deployment.router is None:
        return say(TYPE, Status.TRUE, "NotConfigured", "no router is declared")
    if contract is None or isinstance(contract, Unset):
        return not_observable(TYPE, "no published router contract was observed")
    broken = [check for check in checks if check.holds is False]
    if broken:
        first = broken[0]
        text = f"{first.item}: {first.declared} declared, {first.observed}"
        more = f" ({len(broken) - 1} more)" if len(broken) > 1 else ""
        return say(TYPE, Status.FALSE, first.reason, text + more)
    unread = [check for check in checks if check.holds is None]
    if unread or not checks:
        return say(
            TYPE, Status.UNKNOWN, "NotRead", f"{unread[0].item} was not read" if unread else "nothing to compare"
        )
    return say(TYPE, Status.TRUE, "Holds", f"{len(checks)} of {len(checks)} lines hold")
