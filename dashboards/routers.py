"""Dashboard 3: what routers select against what the cluster has, and how long it takes them to follow."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.frame import dashboard, variables
from dashboards.look import NEVER, NO_TRAFFIC, ORANGE, RED, YES_NO, lines, spread, states, steps, tile
from dashboards.queries import (
    BY_DEPLOYMENT,
    BY_POD,
    BY_ROLE,
    DEPLOYMENT,
    DEPLOYMENT_IS,
    POD,
    WINDOW,
    Query,
    age,
    best,
    quantile,
    rate,
)

UID = "observer-routers"
CONVERGED = best(f"{BY_DEPLOYMENT}, router", f"modeldeployment_router_converged{{{DEPLOYMENT_IS}}}")
TOOK = "modeldeployment_router_convergence_seconds"
ROUTER = f"{DEPLOYMENT} {{{{router}}}}"


def _endpoints(state: str) -> str:
    return best(f"{BY_DEPLOYMENT}, router", f'modeldeployment_router_endpoints{{{DEPLOYMENT_IS}, state="{state}"}}')


def _reasons(conditions: str) -> str:
    selector = f'modeldeployment_status_condition{{{DEPLOYMENT_IS}, condition=~"{conditions}", reason!=""}} == 1'
    return best(f"{BY_DEPLOYMENT}, condition, status, reason", selector)


def _now() -> list[Builder[Panel]]:
    judged = f'modeldeployment_status_condition{{{DEPLOYMENT_IS}, condition="RouterConverged"}}'
    routed = f"count({best(BY_DEPLOYMENT, judged)})"
    return [
        tile("Deployments judged", "modeldeployment_status_condition RouterConverged.", Query(routed), width=4),
        tile("Converged", "modeldeployment_router_converged: routers that select exactly the eligible endpoints.", Query(f"sum({CONVERGED})"), width=4),
        tile("Not converged", "modeldeployment_router_converged: known to select something else.", Query(f"sum(1 - {CONVERGED})"), colours=steps((1, RED)), width=4),
        tile("Endpoints that no router selects", "modeldeployment_router_endpoints, state missing: eligible and without traffic.", Query(f"sum({_endpoints('missing')})"), colours=steps((1, ORANGE)), width=4),
        tile("Endpoints selected and not eligible", "modeldeployment_router_endpoints, state extra: traffic may go to something gone.", Query(f"sum({_endpoints('extra')})"), colours=steps((1, RED)), width=4),
        tile("Time to converge, p95 of the last day", f"{TOOK} over a day.", Query(f"histogram_quantile(0.95, sum by (le) (increase({TOOK}_bucket{{{DEPLOYMENT_IS}}}[1d])))"), unit="s", nothing="no change in a day, or not known", width=4),
    ]  # fmt: skip


def _views() -> list[Builder[Panel]]:
    return [
        lines("Endpoints", "modeldeployment_router_endpoints: wanted, seen in selection, missing, extra. A line that is missing is a number that is not known.", *(Query(_endpoints(state), f"{ROUTER} {state}") for state in ("wanted", "seen", "missing", "extra"))),
        states("Converged over time", "modeldeployment_router_converged; nothing while views are lost or eligibility is not known.", Query(CONVERGED, ROUTER), texts=YES_NO),
        states("Findings by reason", "modeldeployment_status_condition RouterConverged: the reason that holds.", Query(_reasons("RouterConverged"), f"{DEPLOYMENT} {{{{status}}}} {{{{reason}}}}")),
        states("Router contract and readiness", "modeldeployment_status_condition RouterContractHolds and RouterReady: the reason that holds.", Query(_reasons("RouterContractHolds|RouterReady"), f"{DEPLOYMENT} {{{{condition}}}} {{{{status}}}} {{{{reason}}}}")),
    ]  # fmt: skip


def _following() -> list[Builder[Panel]]:
    buckets = f"sum by (le) (increase({TOOK}_bucket{{{DEPLOYMENT_IS}}}[{WINDOW}]))"
    changes = f"sum by ({BY_DEPLOYMENT}) (increase({TOOK}_count{{{DEPLOYMENT_IS}}}[{WINDOW}]))"
    return [
        spread("Time to converge", f"{TOOK}: changes of the eligible set by how long every router took to select exactly it.", Query(buckets), width=8),
        lines("Time to converge, p95", f"{TOOK} over the window.", Query(quantile(0.95, BY_DEPLOYMENT, TOOK, DEPLOYMENT_IS), DEPLOYMENT), unit="s", nothing="no change in the window, or not known", width=8),
        lines("Changes followed", f"{TOOK}: changes of the eligible set that every router has followed.", Query(changes, DEPLOYMENT), nothing=NEVER, width=8),
    ]  # fmt: skip


def _traffic() -> list[Builder[Panel]]:
    by_pod = rate(BY_POD, f"modeldeployment_requests_finished_total{{{DEPLOYMENT_IS}}}")
    by_role = rate(BY_ROLE, f"modeldeployment_requests_finished_total{{{DEPLOYMENT_IS}}}")
    share = f"{by_pod} / on ({BY_ROLE}) group_left () ({by_role} > 0)"
    last = f'modeldeployment_endpoint_last_success_timestamp_seconds{{{DEPLOYMENT_IS}, source="router"}}'
    return [
        lines("Share of a role's requests by Pod", "modeldeployment_requests_finished_total: where traffic really went.", Query(share, f"{{{{{POD}}}}}"), unit="percentunit", most=1.0, nothing=NO_TRAFFIC),
        lines("Age of router metrics", "modeldeployment_endpoint_last_success_timestamp_seconds of routers.", Query(age(BY_POD, last), f"{{{{{POD}}}}}"), unit="s"),
    ]  # fmt: skip


def build() -> str:
    """The dashboard's JSON."""
    return dashboard(
        UID,
        "Observer / Router convergence",
        "Whether routers select exactly the endpoints that may get traffic, since when not, and how fast they follow.",
        [("Now", _now()), ("What routers see", _views()), ("Following changes", _following()), ("Traffic", _traffic())],
        variables(),
    )
