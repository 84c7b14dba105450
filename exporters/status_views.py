"""What routers see, for the status document: each router Pod's own view, and what all of them together come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from exporters.timestamps import rfc3339
from router_contract.readings import Instant
from router_contract.router_views import RouterView, ViewFailed, WorkerRow
from router_contract.status import Convergence, ServingState
from router_contract.targets import host_key
from router_contract.verdicts import Condition, DeploymentReport

Json = dict[str, Any]


def view_entries(report: DeploymentReport, names: Mapping[str, str]) -> list[Json]:
    """One entry for each router Pod: its last view with its age, and its last failure if it failed since.

    ``names`` are the engine members by UID. A router Pod that was never asked has an entry without either.
    """
    router = report.deployment.router
    pods = {member.uid: member.name for member in router.members} if router is not None else {}
    entries: dict[str, Json] = {uid: {"router": name, "podUID": uid} for uid, name in pods.items()}
    hosts = _hosts(report, names)
    for item in report.views:
        entry = entries.setdefault(item.pod_uid, {"router": item.router, "podUID": item.pod_uid})
        entry |= _view(item, report.at, hosts) if isinstance(item, RouterView) else {"failure": _failure(item, report)}
    return list(entries.values())


def _hosts(report: DeploymentReport, names: Mapping[str, str]) -> dict[tuple[str, int | None], str]:
    """Pod names by the addresses that a worker's URL can name; one that stays goes before one that leaves."""
    found: dict[tuple[str, int | None], str] = {}
    members = [member for role in report.deployment.roles for member in role.members() if member.host is not None]
    for member in sorted(members, key=lambda each: not each.terminating):
        ports = {*member.ports, *(a.port for a in (member.api, member.metrics) if a is not None)}
        found |= {(host_key(member.host or ""), port): names[member.uid] for port in ports}
    return found


def _view(view: RouterView, now: Instant, hosts: Mapping[tuple[str, int | None], str]) -> Json:
    return {
        **({"bootID": view.boot_id} if view.boot_id is not None else {}),
        "source": view.source.value,
        "readAt": rfc3339(view.read_at.wall),
        "ageSeconds": _age(view.read_at, now),
        **({"circuitsAgeSeconds": _age(view.circuits_read_at, now)} if view.circuits_read_at is not None else {}),
        "workers": [_worker(row, hosts) for row in view.workers],
        "passedOver": [{"source": source, "why": why} for source, why in view.passed_over],
        **({"problems": list(view.problems)} if view.problems else {}),
    }


def _worker(row: WorkerRow, hosts: Mapping[tuple[str, int | None], str]) -> Json:
    """One worker as its router tells of it; null is what the source does not tell. ``pod`` is who is at its address."""
    pod = row.endpoint or hosts.get((host_key(row.host), row.dialled))
    found: Json = {"url": row.url or row.endpoint, **({"pod": pod} if pod else {})}
    if row.rank is not None:
        found["rank"] = row.rank
    if row.role:
        found["role"] = row.role
    return found | {
        "registered": row.registered,
        "healthy": row.healthy,
        "circuit": row.circuit.value,
        "inSelection": row.in_selection,
        "load": row.load,
    }


def _failure(item: ViewFailed, report: DeploymentReport) -> Json:
    found: Json = {"at": rfc3339(item.at.wall), "ageSeconds": _age(item.at, report.at), "kind": item.kind}
    return found | ({"detail": item.detail} if item.detail else {})


def _age(at: Instant, now: Instant) -> float:
    return round(max(0.0, now.mono - at.mono), 3)


def convergence_entry(found: Convergence, condition: Condition | None, names: Mapping[str, str]) -> Json:
    """What routers select against what is eligible.

    ``seen`` is null while the views are not valid; ``missing`` and ``extra`` are null unless the views confirm.
    """
    serving: Json = {"state": found.serving.state.value}
    if found.serving.value is not None:
        serving["value"] = found.serving.value
    if found.serving.reason:
        serving["reason"] = found.serving.reason
    made: Json = {"serving": serving}
    if condition is not None:
        made |= {"status": condition.status.value, "reason": condition.reason, "message": condition.message}
    if found.since is not None:
        made["since"] = rfc3339(found.since)
    if found.serving.state is ServingState.NOT_CONFIGURED:
        return made

    def people(uids: Iterable[str]) -> list[Json]:
        return [{"name": names[uid], "uid": uid} if uid in names else {"uid": uid} for uid in uids]

    confirmed = found.serving.state is ServingState.CONFIRMED
    return made | {
        "viewsExpected": found.views_expected,
        "viewsUsable": found.views_usable,
        "wanted": people(found.wanted),
        "seen": people(found.selected) if found.valid else None,
        "refused": people(found.refused) if found.valid else None,
        "missing": people(found.missing) if confirmed else None,
        "extra": people(found.extra) if confirmed else None,
        "conflicts": list(found.conflicts),
    }
