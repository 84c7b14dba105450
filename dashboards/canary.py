"""Dashboard 5: canary analyses: both sides with their samples, the verdicts, the decisions."""

from __future__ import annotations

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.frame import dashboard, variables
from dashboards.look import GREEN, GREY, RED, STATUS, Text, lines, rows, states
from dashboards.overview import condition_value
from dashboards.queries import BY_DEPLOYMENT, DEPLOYMENT, DEPLOYMENT_IS, Query, age, best, holds, rate

UID = "observer-canary"
NOTHING = "no canary is analysed, or not known"
BY_ANALYSIS = f"{BY_DEPLOYMENT}, name"
BY_METRIC = f"{BY_ANALYSIS}, metric"
ANALYSIS = "{{name}}"
METRIC = "{{name}} {{metric}}"
PASSED: dict[str, Text] = {"1": ("Passed", GREEN), "0": ("Failed", RED)}
VERDICTS: dict[str, Text] = {"1": ("Passed", GREEN), "0": ("Failed", RED), "-1": ("Inconclusive", GREY)}


def _side(name: str, side: str) -> str:
    return best(BY_METRIC, f'modeldeployment_canary_metric_{name}{{{DEPLOYMENT_IS}, side="{side}"}}')


def _verdict(word: str) -> str:
    return best(BY_METRIC, f'modeldeployment_canary_metric_verdict{{{DEPLOYMENT_IS}, verdict="{word}"}}')


def _of(name: str) -> str:
    return best(BY_ANALYSIS, f"modeldeployment_canary_{name}{{{DEPLOYMENT_IS}}}")


def _now() -> list[Builder[Panel]]:
    condition = f'modeldeployment_status_condition{{{DEPLOYMENT_IS}, condition="CanaryAnalysis"}}'
    phase = holds(BY_ANALYSIS, "phase", "modeldeployment_canary_phase", DEPLOYMENT_IS)
    decision = holds(BY_ANALYSIS, "decision, reason", "modeldeployment_canary_decision", DEPLOYMENT_IS)
    return [
        rows(
            "Analyses",
            "modeldeployment_canary_step and its failed checks. An empty verdict is inconclusive or stale, never a pass.",
            Query(_of("step"), column="step, from 0"),
            Query(_of("failed_checks"), column="failed checks"),
            Query(_of("failure_limit"), column="of at most"),
            Query(_of("verdict"), column="last sample"),
            Query(age(BY_ANALYSIS, f"modeldeployment_canary_last_conclusive_timestamp_seconds{{{DEPLOYMENT_IS}}}"), column="last conclusive, ago", unit="s"),
            texts={"last sample": PASSED},
            nothing="not known",
            height=6,
        ),
        rows(
            "Metrics, both sides",
            "modeldeployment_canary_metric_value and _samples. An empty cell is not measured, never 0.",
            Query(_side("value", "stable"), column="stable"),
            Query(_side("value", "canary"), column="canary"),
            Query(f"{_side('value', 'canary')} - {_side('value', 'stable')}", column="difference"),
            Query(_side("samples", "stable"), column="samples stable"),
            Query(_side("samples", "canary"), column="samples canary"),
            Query(best(BY_METRIC, f"modeldeployment_canary_metric_threshold{{{DEPLOYMENT_IS}}}"), column="threshold"),
            Query(f"{_verdict('Passed')} - {_verdict('Inconclusive')}", column="verdict"),
            texts={"verdict": VERDICTS},
            nothing="not measured",
            height=8,
        ),
        states("Analysis", "modeldeployment_status_condition CanaryAnalysis.", Query(condition_value(condition), DEPLOYMENT), texts=STATUS, nothing=NOTHING),
        states("Phase", "modeldeployment_canary_phase: the phase that holds.", Query(phase, f"{ANALYSIS} {{{{phase}}}}"), nothing=NOTHING),
        states("Decision", "modeldeployment_canary_decision: what the rollout should do, and why.", Query(decision, f"{ANALYSIS} {{{{decision}}}} {{{{reason}}}}"), nothing=NOTHING, width=24),
    ]  # fmt: skip


def _over_time() -> list[Builder[Panel]]:
    def both(name: str) -> list[Query]:
        return [Query(_side(name, side), f"{METRIC} {side}") for side in ("stable", "canary")]

    evidence = best(BY_METRIC, f"modeldeployment_canary_metric_evidence_log{{{DEPLOYMENT_IS}}}")
    decisions = rate(f"{BY_ANALYSIS}, decision, reason", f"modeldeployment_canary_decisions_total{{{DEPLOYMENT_IS}}}")
    return [
        lines("Values", "modeldeployment_canary_metric_value of both sides, each in its metric's unit.", *both("value"), least=None, nothing=NOTHING),
        lines("Samples", "modeldeployment_canary_metric_samples of both sides.", *both("samples"), nothing=NOTHING),
        lines("Requests that the canary got", "modeldeployment_canary_request_share: measured since the step began.", Query(_of("request_share"), ANALYSIS), unit="percentunit", most=1.0, nothing=NOTHING),
        lines("Traffic that was programmed", "modeldeployment_canary_traffic_weight: what the controller says.", Query(_of("traffic_weight"), ANALYSIS), unit="percentunit", most=1.0, nothing="nobody tells a weight"),
        lines("Evidence against the canary", "modeldeployment_canary_metric_evidence_log: its natural logarithm; 3.0 convicts one metric at 5 %.", Query(evidence, METRIC), least=None, nothing=NOTHING),
        states("Verdict by metric", "modeldeployment_canary_metric_verdict.", Query(f"{_verdict('Passed')} - {_verdict('Inconclusive')}", METRIC), texts=VERDICTS, nothing=NOTHING),
        lines("Decisions by reason", "modeldeployment_canary_decisions_total per second. The observer decides nothing itself: it says so.", Query(decisions, f"{ANALYSIS} {{{{decision}}}} {{{{reason}}}}"), unit="ops", nothing=NOTHING),
    ]  # fmt: skip


def build() -> str:
    """The dashboard's JSON."""
    return dashboard(
        UID,
        "Observer / Canary analysis",
        "Stable and canary side by side with their samples, and what was decided for which reason.",
        [("Now", _now()), ("Over time", _over_time())],
        variables(),
    )
