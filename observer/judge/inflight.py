"""Requests that routers count at each member, from the views that really count them."""

from __future__ import annotations

from observer.judge.convergence import bind_row, latest_views
from router_contract.judging import DeploymentInputs, JudgePolicy
from router_contract.readings import Instant
from router_contract.router_views import ViewSource
from router_contract.targets import RoleKind


def router_inflight(inputs: DeploymentInputs, now: Instant, policy: JudgePolicy) -> dict[str, float]:
    """Requests in flight by member UID, added over the valid views; a member that no router counts at is not there.

    The worker API's load stays 0 under most policies while requests run, so there only a load above 0 is a number. One
    half of a pair is counted at while the other works, so only servers have a number at all.
    """
    servers = {role.name for role in inputs.deployment.roles if role.kind == RoleKind.SERVER}
    found: dict[str, float] = {}
    for view in latest_views(inputs).values():
        if now.mono - view.read_at.mono > policy.view_validity:
            continue
        for row in view.workers:
            if row.load is None or (row.load <= 0 and view.source is ViewSource.WORKERS_API):
                continue
            listener = bind_row(row, view, inputs)
            if listener is not None and listener.role in servers:
                found[listener.uid] = found.get(listener.uid, 0.0) + max(0.0, row.load)
    return found
