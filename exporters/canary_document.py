"""A canary analysis as JSON: the status document for people and tools, and the short answer of the gate.

Only finite numbers or null. A verdict is one of three words; what is stale, of another revision or of another step is
Inconclusive and says why.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from exporters.timestamps import rfc3339
from router_contract.canary_results import Decision, MetricResult, Reason, Verdict
from router_contract.canary_view import FINAL, CanaryView

GATE_METRICS: Final = 10
_SHOWN: Final = ("name", "verdict", "reason", "value", "threshold", "operator", "message")


def canary_document(view: CanaryView) -> dict[str, Any]:
    """Everything known of one analysis. ``status`` has OME's fields with its meaning, then ours."""
    definition, status = view.definition, view.status
    found: dict[str, Any] = {
        "apiVersion": "observer.modeldeployment.io/v1alpha1",
        "kind": "CanaryAnalysis",
        "metadata": {"namespace": definition.namespace, "name": definition.name},
        "spec": {
            "targetRef": {"kind": definition.target.kind, "name": definition.target.name},
            "component": definition.component,
            "stable": {"revision": definition.stable},
            "canary": {"revision": definition.canary},
            "steps": len(definition.steps),
        },
        "status": None if status is None else _finite(msgspec.to_builtins(status)),
        "stale": view.stale,
        "sampleAgeSeconds": _rounded(view.sample_age),
        "lookAgeSeconds": None if view.looked is None else _rounded(view.now.mono - view.looked.mono),
        "stallsAt": None if view.stalls_at is None else rfc3339(view.stalls_at),
        "traffic": {
            "canaryShare": None if view.share is None else round(view.share, 4),
            "programmedWeight": None if status is None else status.observed_weight,
        },
        "warnings": list(view.warnings),
        "problems": list(view.problems),
    }
    return found


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate's client wants the answer to be about; ``None``: it does not care. ``max_age`` in seconds."""

    revision: str | None = None
    step: int | None = None
    max_age: float | None = None


def gate_document(view: CanaryView, asked: Asked) -> dict[str, Any] | None:
    """The answer of the gate; ``None`` before the first look."""
    status = view.status
    if status is None or status.decision is None or status.reason is None:
        return None
    verdict, decision, reason, message = view.verdict, status.decision, str(status.reason), status.message
    doubt = _doubt(view, asked)
    current = status.current_step or 0
    if doubt:
        verdict, decision, reason, message = Verdict.INCONCLUSIVE, Decision.HOLD, doubt[0], doubt[1]
    elif asked.step is not None and asked.step < current and decision not in FINAL:
        verdict, decision, reason = Verdict.PASSED, Decision.ADVANCE, str(Reason.STEP_PASSED)
        message = f"Step {asked.step + 1} was passed; step {current + 1} is judged now."
    results = (*status.metric_results, *status.dry_run_results)
    return {
        "verdict": str(verdict),
        "decision": str(decision),
        "reason": reason,
        "message": message[:1024],
        "revision": status.canary_revision,
        "step": current,
        "sampleID": status.sample_id,
        "sampledAt": None if view.sampled_at is None else rfc3339(view.sampled_at),
        "ageSeconds": _rounded(view.sample_age),
        "stale": view.stale,
        "metrics": [_metric(each) for each in results[:GATE_METRICS]],
    }


def _doubt(view: CanaryView, asked: Asked) -> tuple[str, str] | None:
    """Why the answer cannot be about what was asked, if it cannot."""
    status = view.status
    if status is None:
        return None
    current = status.current_step or 0
    if asked.revision is not None and asked.revision != status.canary_revision:
        return "RevisionMismatch", f"The canary is revision {status.canary_revision}, not the one asked about."
    if view.stale:
        return "Stale", "The newest answer is too old to say anything of now."
    if asked.step is not None and asked.step > current:
        return "StepMismatch", f"Step {current + 1} is judged now, an earlier one than was asked about."
    age = view.sample_age
    if asked.max_age is not None and status.decision not in FINAL and (age is None or age > asked.max_age):
        return "TooOld", f"No sample of the last {asked.max_age:g} s."
    return None


def _metric(result: MetricResult) -> dict[str, Any]:
    plain = msgspec.to_builtins(result)
    short = {name: plain.get(name, "") for name in _SHOWN} | {"estimate": plain.get("estimate")}
    short["message"] = result.message[:200]
    return {name: _finite(value) for name, value in short.items()}


def _finite(value: Any) -> Any:
    """Plain values with null in place of numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
