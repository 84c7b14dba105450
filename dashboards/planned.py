"""Families that dashboards and rules name and that no exporter has yet: their shape as agreed, so that both sides meet.

A test fails as soon as one of them exists: then its row here goes, and its panels are proven by the real thing.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Planned(NamedTuple):
    """One family to come: type, labels with example values, and who waits for it."""

    type: str
    labels: dict[str, tuple[str, ...]]
    waits: str


_DEPLOYMENT: Final = {"namespace": ("demo",), "deployment": ("chat",)}
_METRIC: Final = {**_DEPLOYMENT, "metric": ("ttft-p95",)}
_SIDES: Final = {**_METRIC, "side": ("stable", "canary")}

PLANNED: Final[dict[str, Planned]] = {
    "modeldeployment_canary_phase": Planned("gauge", {**_DEPLOYMENT, "phase": ("Analysing",)}, "canary analysis"),
    "modeldeployment_canary_metric_value": Planned("gauge", _SIDES, "canary analysis"),
    "modeldeployment_canary_metric_samples": Planned("gauge", _SIDES, "canary analysis"),
    "modeldeployment_canary_metric_verdict": Planned(
        "gauge", {**_METRIC, "verdict": ("Passed", "Inconclusive", "Failed")}, "canary analysis"
    ),
    "modeldeployment_canary_decisions_total": Planned(
        "counter", {**_DEPLOYMENT, "decision": ("Hold",), "reason": ("InsufficientSamples",)}, "canary analysis"
    ),
}
