"""Why routers do not select a member, and which of them do: the facts of their own rows, for people."""

from __future__ import annotations

from observer.judge.convergence import bind_row, latest_views
from router_contract.judging import DeploymentInputs
from router_contract.router_views import Circuit, RouterView, WorkerRow


def why_not_selected(inputs: DeploymentInputs, uid: str) -> str:
    """What each router says of a member that it does not select: ``circuit open at r-0, not listed at r-1``.

    Empty where no view says anything; a router that selects it says nothing here.
    """
    routers: dict[str, list[str]] = {}
    for view in latest_views(inputs).values():
        reason = _reason(inputs, view, uid)
        if reason:
            routers.setdefault(reason, []).append(view.router)
    return ", ".join(f"{reason} at {', '.join(sorted(names))}" for reason, names in sorted(routers.items()))


def selected_by(inputs: DeploymentInputs, uid: str) -> str:
    """The routers that select a member, by name."""
    names = [
        view.router
        for view in latest_views(inputs).values()
        if any(row.in_selection for row in _rows(inputs, view, uid))
    ]
    return ", ".join(sorted(names))


def _reason(inputs: DeploymentInputs, view: RouterView, uid: str) -> str:
    rows = _rows(inputs, view, uid)
    if any(row.in_selection for row in rows):
        return ""
    return _refusal(rows[0]) if rows else "not listed"


def _rows(inputs: DeploymentInputs, view: RouterView, uid: str) -> list[WorkerRow]:
    bound = ((row, bind_row(row, view, inputs)) for row in view.workers)
    return [row for row, listener in bound if listener is not None and listener.uid == uid]


def _refusal(row: WorkerRow) -> str:
    """The strongest fact of a row that is not selected; a row may tell none."""
    if not row.registered:
        return "not registered"
    if row.healthy is False:
        return "unhealthy"
    if row.circuit is Circuit.OPEN:
        return "circuit open"
    return "not in selection"
