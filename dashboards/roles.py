"""Dashboard 2: roles, replicas and ranks of the chosen deployments: who may get traffic, who works, who stands still."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.frame import dashboard, variables
from dashboards.look import NEVER, NO_TRAFFIC, YES_NO, lines, rows, spread, states
from dashboards.overview import ITL, TTFT, hit_ratio
from dashboards.queries import (
    BY_POD,
    BY_RANK,
    BY_ROLE,
    POD,
    POD_IS,
    RANK,
    ROLE,
    ROLE_IS,
    WINDOW,
    Query,
    age,
    best,
    holds,
    mean,
    quantile,
    rate,
    ratio,
)

UID = "observer-roles"
QUEUE = "modeldeployment_queue_time_seconds"
WHOLE = "modeldeployment_request_duration_seconds"
ONE_POD = f"{{{{{POD}}}}}"
RUNNING = best(BY_RANK, f"modeldeployment_requests_running{{{POD_IS}}}")
WAITING = best(BY_RANK, f"modeldeployment_requests_waiting{{{POD_IS}}}")
USAGE = best(BY_RANK, f"modeldeployment_kv_cache_usage_ratio{{{POD_IS}}}")
STALL = best(BY_RANK, f"modeldeployment_endpoint_stall_seconds{{{POD_IS}}}")
ELIGIBLE = best(BY_POD, f"modeldeployment_endpoint_eligible{{{POD_IS}}}")
OUTPUT = f"modeldeployment_output_tokens_total{{{POD_IS}}}"
FINISHED = f"modeldeployment_requests_finished_total{{{POD_IS}}}"
LAST = f"modeldeployment_endpoint_last_success_timestamp_seconds{{{POD_IS}}}"


def _replicas(state: str) -> str:
    return best(BY_ROLE, f'modeldeployment_replicas{{{ROLE_IS}, state="{state}"}}')


def _roles() -> list[Builder[Panel]]:
    return [
        rows(
            "Roles",
            "modeldeployment_replicas by state, and what the role does. An empty cell is not known, never 0.",
            *(Query(_replicas(state), column=state) for state in ("desired", "observed", "ready", "eligible")),
            Query(rate(BY_ROLE, f"modeldeployment_requests_finished_total{{{ROLE_IS}}}"), column="requests", unit="reqps"),
            Query(rate(BY_ROLE, f"modeldeployment_output_tokens_total{{{ROLE_IS}}}"), column="output tokens/s"),
            Query(quantile(0.95, BY_ROLE, TTFT, ROLE_IS), column="first token p95", unit="s"),
            Query(mean(BY_ROLE, QUEUE, ROLE_IS), column="mean queue time", unit="s"),
            height=7,
        ),
        rows(
            "Endpoints",
            "One row an engine Pod: modeldeployment_endpoint_info with eligibility, traffic and the age of its last good answer.",
            Query(best(f"{BY_POD}, node, engine, engine_version", f"modeldeployment_endpoint_info{{{POD_IS}}}")),
            Query(ELIGIBLE, column="eligible"),
            Query(rate(BY_POD, FINISHED), column="requests", unit="reqps"),
            Query(rate(BY_POD, OUTPUT), column="output tokens/s"),
            Query(age(BY_POD, f'modeldeployment_endpoint_last_success_timestamp_seconds{{{POD_IS}, source="metrics"}}'), column="last good answer", unit="s"),
            Query(best(BY_POD, f"modeldeployment_engine_resets_total{{{POD_IS}}}"), column="restarts seen"),
            texts={"eligible": YES_NO},
        ),
        rows(
            "Ranks",
            "One row a data-parallel rank, where an engine names ranks: work, KV cache, and for how long it has had work without progress.",
            Query(RUNNING, column="running"),
            Query(WAITING, column="waiting"),
            Query(USAGE, column="KV cache", unit="percentunit"),
            Query(STALL, column="no progress for", unit="s"),
            Query(hit_ratio(BY_RANK, POD_IS), column="prefix hits", unit="percentunit"),
        ),
    ]  # fmt: skip


def _eligibility() -> list[Builder[Panel]]:
    held = holds(BY_POD, "reason", "modeldeployment_endpoint_ineligible_reason", POD_IS)
    # Groups are named by their first Pod, which need not be one that serves: the Pod variable does not choose here.
    groups = holds(f"{BY_ROLE}, ordinal, {POD}", "state", "modeldeployment_group_state", ROLE_IS)
    return [
        states("Eligible", "modeldeployment_endpoint_eligible: may it get traffic. No series while that is not known.", Query(ELIGIBLE, ONE_POD), texts=YES_NO),
        states("Group states", "modeldeployment_group_state: the state that holds each serving group.", Query(groups, f"{ONE_POD} {{{{state}}}}")),
        states("Why not eligible", "modeldeployment_endpoint_ineligible_reason: the criterion that took the eligibility.", Query(held, f"{ONE_POD} {{{{reason}}}}"), nothing="nothing lost its eligibility"),
        lines("Replicas", "modeldeployment_replicas: a line that is missing is a number that is not known.", *(Query(_replicas(state), f"{ROLE} {state}") for state in ("desired", "observed", "ready", "eligible"))),
    ]  # fmt: skip


def _load() -> list[Builder[Panel]]:
    uneven = ratio(f"max by ({BY_ROLE}) ({RUNNING})", f"avg by ({BY_ROLE}) ({RUNNING})")
    return [
        lines("Requests running", "modeldeployment_requests_running by Pod and rank.", Query(RUNNING, RANK), width=8),
        lines("Requests waiting", "modeldeployment_requests_waiting by Pod and rank.", Query(WAITING, RANK), width=8),
        lines("KV cache in use", "modeldeployment_kv_cache_usage_ratio by Pod and rank.", Query(USAGE, RANK), unit="percentunit", most=1.0, width=8),
        lines("Load spread", "modeldeployment_requests_running: the busiest rank of a role against the mean of its ranks; 1 is even. Nothing while the role is idle.", Query(uneven, ROLE), nothing=NO_TRAFFIC, width=8),
        lines("No progress for", "modeldeployment_endpoint_stall_seconds: time with work and without progress; no series while progress is not known.", Query(STALL, RANK), unit="s", width=8),
        lines("Preemptions", "modeldeployment_preemptions_total: requests that lost their KV blocks to others, per second.", Query(rate(BY_POD, f"modeldeployment_preemptions_total{{{POD_IS}}}"), ONE_POD), unit="ops", width=8),
        lines("Output tokens per second", "modeldeployment_output_tokens_total by Pod.", Query(rate(BY_POD, OUTPUT), ONE_POD), nothing=NO_TRAFFIC),
        lines("Requests finished by reason", "modeldeployment_requests_finished_total by the engine's reason.", Query(rate(f"{BY_ROLE}, reason", FINISHED), f"{ROLE} {{{{reason}}}}"), unit="reqps", stacked=True, nothing=NO_TRAFFIC),
    ]  # fmt: skip


def _latency() -> list[Builder[Panel]]:
    def three(title: str, name: str) -> Builder[Panel]:
        found = (
            Query(quantile(share, BY_ROLE, name, ROLE_IS), f"{ROLE} p{share * 100:.0f}") for share in (0.5, 0.95, 0.99)
        )
        text = f"{name}: engines of a role merged on their common bucket bounds."
        return lines(
            title, text, *found, Query(mean(BY_ROLE, name, ROLE_IS), f"{ROLE} mean"), unit="s", nothing=NO_TRAFFIC
        )

    return [
        three("Time to first token", TTFT),
        three("Inter-token latency", ITL),
        three("Queue time", QUEUE),
        three("Request duration", WHOLE),
        spread("Time to first token, all requests", f"{TTFT}: requests per second by bucket.", Query(f"sum by (le) (rate({TTFT}_bucket{{{ROLE_IS}}}[{WINDOW}]))"), width=24),
    ]  # fmt: skip


def _reading() -> list[Builder[Panel]]:
    mismatch = best(f"{BY_ROLE}, signal", f"modeldeployment_bucket_mismatch{{{ROLE_IS}}}")
    return [
        lines("Age of the last good answer", "modeldeployment_endpoint_last_success_timestamp_seconds of engines.", Query(age(f"{BY_POD}, source", LAST), f"{ONE_POD} {{{{source}}}}"), unit="s", width=8),
        lines("Engine restarts seen", "modeldeployment_engine_resets_total: restarts of an engine's counters since the observer reads it.", Query(best(BY_POD, f"modeldeployment_engine_resets_total{{{POD_IS}}}"), ONE_POD), width=8),
        states("Histograms that cannot be merged", "modeldeployment_bucket_mismatch: engines of one role that share no bucket bound.", Query(mismatch, f"{ROLE} {{{{signal}}}}"), nothing=NEVER, width=8),
    ]  # fmt: skip


def build() -> str:
    """The dashboard's JSON."""
    return dashboard(
        UID,
        "Observer / Roles and replicas",
        "Roles, replicas and ranks of the chosen deployments, with what may get traffic and why not.",
        [
            ("Roles, endpoints, ranks", _roles()),
            ("Eligibility", _eligibility()),
            ("Load", _load()),
            ("Latency by role", _latency()),
            ("Reading", _reading()),
        ],
        variables(pods=True),
    )
