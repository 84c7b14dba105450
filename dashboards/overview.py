"""Dashboard 1: every model deployment in one row, how it stands, what it serves, how fast."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.frame import dashboard, objective, variables
from dashboards.look import NO_TRAFFIC, ORANGE, RED, STATUS, YES_NO, lines, rows, states, steps, tile
from dashboards.queries import (
    BY_DEPLOYMENT,
    BY_POD,
    BY_ROLE,
    DEPLOYMENT,
    DEPLOYMENT_IS,
    Query,
    age,
    best,
    busiest,
    holds,
    quantile,
    rate,
    ratio,
)

UID = "observer-overview"
TTFT = "modeldeployment_time_to_first_token_seconds"
ITL = "modeldeployment_inter_token_latency_seconds"
FINISHED = f"modeldeployment_requests_finished_total{{{DEPLOYMENT_IS}}}"
OUTPUT = f"modeldeployment_output_tokens_total{{{DEPLOYMENT_IS}}}"
_CHOICE = "var-namespace=${__data.fields.namespace}&var-deployment=${__data.fields.deployment}"
DETAILS = (
    "Roles and replicas of this deployment",
    f"/d/observer-roles?var-datasource=${{datasource}}&{_CHOICE}&${{__url_time_range}}",
)


def _phase(*words: str) -> str:
    phases = best(
        f"{BY_DEPLOYMENT}, phase", f'modeldeployment_status_phase{{{DEPLOYMENT_IS}, phase=~"{"|".join(words)}"}}'
    )
    return f"sum({phases})"


def _replicas(state: str) -> str:
    return best(BY_ROLE, f'modeldeployment_replicas{{{DEPLOYMENT_IS}, state="{state}"}}')


def worst(share: float, name: str) -> str:
    """The quantile of the slowest role of each deployment."""
    return f"max by ({BY_DEPLOYMENT}) ({quantile(share, BY_ROLE, name, DEPLOYMENT_IS)})"


def hit_ratio(by: str, selector: str) -> str:
    """The share of looked-up tokens that engines found in their own prefix caches."""
    hits = rate(by, f"modeldeployment_prefix_hit_tokens_total{{{selector}}}")
    return ratio(hits, rate(by, f"modeldeployment_prefix_query_tokens_total{{{selector}}}"))


AGE = age(f"{BY_POD}, port, source", f"modeldeployment_endpoint_last_success_timestamp_seconds{{{DEPLOYMENT_IS}}}")
NOT_CONVERGED = f"1 - {best(f'{BY_DEPLOYMENT}, router', f'modeldeployment_router_converged{{{DEPLOYMENT_IS}}}')}"


def _tiles() -> list[Builder[Panel]]:
    below = f'sum(rate({TTFT}_bucket{{{DEPLOYMENT_IS}, le="$ttft_objective"}}[$__rate_interval]))'
    all_of_them = f"sum(rate({TTFT}_count{{{DEPLOYMENT_IS}}}[$__rate_interval]))"
    return [
        tile("Deployments", "modeldeployment_info: deployments that are observed.", Query(f"count({best(BY_DEPLOYMENT, f'modeldeployment_info{{{DEPLOYMENT_IS}}}')})")),
        tile("Ready", "modeldeployment_status_phase: every wanted replica and the router are ready.", Query(_phase("Ready"))),
        tile("Starting or degraded", "modeldeployment_status_phase: fewer ready replicas than wanted, as a fact.", Query(_phase("Starting", "Degraded")), colours=steps((1, ORANGE))),
        tile("Phase not known", "modeldeployment_status_phase: what was seen does not decide. This is not a failure and not a pass.", Query(_phase("Unknown")), colours=steps((1, "#8e8e8e"))),
        tile("Eligible / wanted replicas", "modeldeployment_replicas: roles whose eligible replicas are not known are left out of the first number.", Query(f"sum({_replicas('eligible')})", "eligible"), Query(f"sum({_replicas('desired')})", "wanted"), width=4),
        tile("Routers not converged", "modeldeployment_router_converged: routers that do not select exactly the eligible endpoints. Routers of which that is not known are left out.", Query(f"sum({NOT_CONVERGED})"), colours=steps((1, RED))),
        tile("Oldest reading", "modeldeployment_endpoint_last_success_timestamp_seconds: the endpoint that has not answered for longest.", Query(f"max({AGE})"), unit="s", colours=steps((30, ORANGE), (300, RED))),
        tile("Requests", "modeldeployment_requests_finished_total, of the busiest role of each deployment.", Query(f"sum({busiest(BY_DEPLOYMENT, FINISHED)})"), unit="reqps", nothing=NO_TRAFFIC, width=6),
        tile("Output tokens", "modeldeployment_output_tokens_total, of the busiest role of each deployment.", Query(f"sum({busiest(BY_DEPLOYMENT, OUTPUT)})"), unit="short", nothing=NO_TRAFFIC, width=6),
        tile("Slowest first token, p95", f"{TTFT}: the slowest role of the slowest deployment.", Query(f"max({worst(0.95, TTFT)})"), unit="s", nothing=NO_TRAFFIC, width=6),
        tile("First token within $ttft_objective s", f"{TTFT}: the share of requests at or below a bucket bound.", Query(ratio(below, all_of_them)), unit="percentunit", nothing=NO_TRAFFIC, width=6),
    ]  # fmt: skip


def _table() -> Builder[Panel]:
    eligible, desired, ready = (
        f"sum by ({BY_DEPLOYMENT}) ({_replicas(state)})" for state in ("eligible", "desired", "ready")
    )
    canary = f'modeldeployment_status_condition{{{DEPLOYMENT_IS}, condition="CanaryAnalysis"}}'
    # A sum over the roles that are known would be read as one over all of them.
    known = (
        f"(count by ({BY_DEPLOYMENT}) ({_replicas('eligible')}) == count by ({BY_DEPLOYMENT}) ({_replicas('desired')}))"
    )
    return rows(
        "Each deployment",
        "One row a deployment. An empty cell is not known, never 0. A row links to the roles and replicas.",
        Query(holds(BY_DEPLOYMENT, "phase", "modeldeployment_status_phase", DEPLOYMENT_IS)),
        Query(desired, column="wanted"),
        Query(ready, column="ready"),
        Query(f"{eligible} and on ({BY_DEPLOYMENT}) {known}", column="eligible"),
        Query(busiest(BY_DEPLOYMENT, FINISHED), column="requests", unit="reqps"),
        Query(busiest(BY_DEPLOYMENT, OUTPUT), column="output tokens/s"),
        Query(worst(0.95, TTFT), column="first token p95", unit="s"),
        Query(worst(0.95, ITL), column="inter-token p95", unit="s"),
        Query(best(BY_DEPLOYMENT, f"modeldeployment_kv_cache_usage_ratio{{{DEPLOYMENT_IS}}}"), column="KV cache max", unit="percentunit"),
        Query(hit_ratio(BY_DEPLOYMENT, DEPLOYMENT_IS), column="prefix hits", unit="percentunit"),
        Query(f"max by ({BY_DEPLOYMENT}) ({AGE})", column="oldest reading", unit="s"),
        Query(best(BY_DEPLOYMENT, f"modeldeployment_router_converged{{{DEPLOYMENT_IS}}}"), column="converged"),
        Query(condition_value(canary), column="canary"),
        texts={"converged": YES_NO, "canary": STATUS},
        link=DETAILS,
    )  # fmt: skip


def condition_value(selector: str, by: str = BY_DEPLOYMENT) -> str:
    """A condition as one number: 1 True, 0 False, -1 Unknown; nothing while it was not judged."""
    inner = selector[:-1]
    true, unknown = best(by, f'{inner}, status="true"}}'), best(by, f'{inner}, status="unknown"}}')
    return f"{true} - {unknown}"


def _conditions() -> list[Builder[Panel]]:
    everything = condition_value(f"modeldeployment_status_condition{{{DEPLOYMENT_IS}}}", f"{BY_DEPLOYMENT}, condition")
    generation = best(BY_DEPLOYMENT, f"modeldeployment_metadata_generation{{{DEPLOYMENT_IS}}}")
    acted = best(BY_DEPLOYMENT, f"modeldeployment_status_observed_generation{{{DEPLOYMENT_IS}}}")
    return [
        states("Phase", "modeldeployment_status_phase: the phase that holds.", Query(holds(BY_DEPLOYMENT, "phase", "modeldeployment_status_phase", DEPLOYMENT_IS), f"{DEPLOYMENT} {{{{phase}}}}")),
        lines("Specification ahead of its operator", "modeldeployment_metadata_generation less modeldeployment_status_observed_generation: edits that the operator has not acted on. Only where a platform counts generations.", Query(f"{generation} - {acted}", DEPLOYMENT), nothing="no platform counts generations here", width=6),
        lines("Age of deployments", "modeldeployment_created_timestamp_seconds.", Query(age(BY_DEPLOYMENT, f"modeldeployment_created_timestamp_seconds{{{DEPLOYMENT_IS}}}"), DEPLOYMENT), unit="s", nothing="no platform tells when they were created", width=6),
        states("Conditions", "modeldeployment_status_condition: True, False or Unknown of each. Choose one deployment to read them.", Query(everything, f"{DEPLOYMENT} {{{{condition}}}}"), texts=STATUS, width=24, height=14),
    ]  # fmt: skip


def _traffic() -> list[Builder[Panel]]:
    return [
        lines("Requests finished", "modeldeployment_requests_finished_total of the busiest role: a request of a disaggregated deployment passes each role once.", Query(busiest(BY_DEPLOYMENT, FINISHED), DEPLOYMENT), unit="reqps", nothing=NO_TRAFFIC, width=8),
        lines("Output tokens per second", "modeldeployment_output_tokens_total of the busiest role.", Query(busiest(BY_DEPLOYMENT, OUTPUT), DEPLOYMENT), nothing=NO_TRAFFIC, width=8),
        lines("Prompt tokens per second", "modeldeployment_input_tokens_total of the busiest role.", Query(busiest(BY_DEPLOYMENT, f"modeldeployment_input_tokens_total{{{DEPLOYMENT_IS}}}"), DEPLOYMENT), nothing=NO_TRAFFIC, width=8),
        lines("Time to first token", f"{TTFT} of the slowest role.", *(Query(worst(share, TTFT), f"{DEPLOYMENT} p{share * 100:.0f}") for share in (0.5, 0.95, 0.99)), unit="s", nothing=NO_TRAFFIC),
        lines("Inter-token latency", f"{ITL} of the slowest role.", *(Query(worst(share, ITL), f"{DEPLOYMENT} p{share * 100:.0f}") for share in (0.5, 0.95, 0.99)), unit="s", nothing=NO_TRAFFIC),
    ]  # fmt: skip


def build() -> str:
    """The dashboard's JSON."""
    asked = [*variables(), objective("ttft_objective", "First token within", TTFT)]
    return dashboard(
        UID,
        "Observer / Model deployments",
        "Every model deployment: is it really serving, is what is shown fresh, and what is not known.",
        [
            ("At a glance", _tiles()),
            ("Deployments", [_table()]),
            ("Phase and conditions", _conditions()),
            ("Traffic and latency", _traffic()),
        ],
        asked,
    )
