"""The canary pages: every analysis in a line, and one with both sides, its evidence over time and its decision in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporters.canary_document import canary_document
from exporters.page.protocols import Services
from exporters.page.query import Column, checked, contains, headings, one_of, sort
from exporters.page.render import Built, Fragment, Renderer, Twin, element_id, path_of
from exporters.page.trail import Told, Trail, conviction, metric_of, relative_margin, results
from exporters.timestamps import rfc3339
from router_contract.canary import Metric, Step
from router_contract.canary_results import Decision, MetricResult, Verdict
from router_contract.canary_view import CanaryView
from router_contract.targets import DeploymentKey

Args = Mapping[str, str]
FILTERS = ("q", "namespace", "deployment", "verdict", "decision", "sort")
MOST_ROWS = 1_000
"""Analyses on one page; with more the page says that it does not show all."""

COLUMNS = (
    Column(name="analysis", title="Analysis", key=lambda view: (view.key.namespace, view.key.name)),
    Column(name="deployment", title="Deployment", key=lambda view: view.deployment.name),
    Column(name="revisions", title="Stable and canary", key=lambda view: view.definition.canary),
    Column(name="step", title="Step", key=lambda view: view.status.current_step if view.status else None, numeric=True),
    Column(name="verdict", title="Last sample", key=lambda view: view.verdict.value if view.status else None),
    Column(name="decision", title="Decision", key=lambda view: _decision(view) or None),
    Column(name="age", title="Sampled", key=lambda view: view.sample_age),
    Column(name="why", title="What holds or ended the step"),
)


def _decision(view: CanaryView) -> str:
    status = view.status
    return "" if status is None or status.decision is None else status.decision.value


class CanariesPage:
    """Every analysis, a row each."""

    def __init__(self, services: Services, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    def _found(self, query: Mapping[str, str]) -> tuple[list[CanaryView], dict[str, str]]:
        told = checked(query, FILTERS)
        verdict = one_of(told, "verdict", [each.value for each in Verdict])
        decision = one_of(told, "decision", [each.value for each in Decision])
        kept = [
            view
            for view in self._services.canaries.canaries()
            if told.get("namespace", view.key.namespace) == view.key.namespace
            and told.get("deployment", view.deployment.name) == view.deployment.name
            and (verdict is None or (view.status is not None and view.verdict.value == verdict))
            and (decision is None or _decision(view) == decision)
            and ("q" not in told or contains(told["q"], str(view.key), str(view.deployment), _message(view)))
        ]
        return sort(kept, COLUMNS, told.get("sort")), told

    def build(self, _: Args, query: Mapping[str, str]) -> Built:
        """The rows that pass the query."""
        found, told = self._found(query)
        rows = [self._row(view) for view in found[:MOST_ROWS]]
        what = "canary analysis" if len(rows) == 1 else "canary analyses"
        note = self._renderer.part("note.html", "canary-note", count=len(rows), more=len(found) > len(rows), what=what)
        context = {
            "headings": headings(COLUMNS, "/canary", told),
            "query": told,
            "verdicts": [each.value for each in Verdict],
            "decisions": [each.value for each in Decision],
        }
        groups = {"note": (note,), "rows": rows}
        return Built(template="canaries.html", title="Canary analyses", context=context, groups=groups)

    def _row(self, view: CanaryView) -> Fragment:
        return self._renderer.part(
            "canary_row.html",
            element_id("c", view.key.namespace, view.key.name),
            view=view,
            path=canary_path(view.key),
            deployment=path_of("deployments", view.deployment.namespace, view.deployment.name),
            sentence=_message(view),
        )

    def twin(self, _: Args, query: Mapping[str, str]) -> Twin:
        """The same analyses as the API lists them."""
        found, _told = self._found(query)
        items = [canary_document(view) for view in found[:MOST_ROWS]]
        return Twin(value={"items": items, "notShown": max(0, len(found) - MOST_ROWS)})


def canary_path(key: DeploymentKey) -> str:
    """Where the page of one analysis is."""
    return path_of("canary", key.namespace, key.name)


def _message(view: CanaryView) -> str:
    return "" if view.status is None else view.status.message


class CanaryPage:
    """One analysis."""

    def __init__(self, services: Services, renderer: Renderer, trail: Trail) -> None:
        self._services = services
        self._renderer = renderer
        self._trail = trail

    def _view(self, args: Args) -> CanaryView | None:
        return self._services.canaries.canary(DeploymentKey(args["namespace"], args["name"]))

    def build(self, args: Args, query: Mapping[str, str]) -> Built:
        """Everything known of it; 404 when there is none of this name."""
        checked(query, ())
        view = self._view(args)
        if view is None:
            gone = {"what": f"canary analysis {args['namespace']}/{args['name']}"}
            return Built(template="gone.html", title="Not observed", context=gone, status=404, live=False)
        status, definition = view.status, view.definition
        current = status.current_step if status is not None else None
        rows = [self._result(view, each) for each in results(view)]
        groups = {
            "head": (self._part("canary_head.html", "canary-head", view=view, sentence=_message(view)),),
            "sides": (self._part("canary_sides.html", "canary-sides", view=view, rows=rows),),
            "steps": (
                self._part("canary_steps.html", "canary-steps", steps=_steps(definition.steps), current=current),
            ),
            "samples": (self._part("canary_samples.html", "canary-samples", told=self._trail.told(view.key)),),
        }
        context = {
            "canary": view,
            "own_path": canary_path(view.key),
            "deployment": path_of("deployments", view.deployment.namespace, view.deployment.name),
            "gate": path_of("api", "v1", "canary", view.key.namespace, view.key.name, definition.component),
        }
        return Built(template="canary.html", title=f"Canary {view.key}", context=context, groups=groups)

    def _part(self, template: str, ident: str, **context: Any) -> Fragment:
        return self._renderer.part(template, ident, **context)

    def _result(self, view: CanaryView, result: MetricResult) -> dict[str, Any]:
        metric = metric_of(view, result.name)
        wanted = f"{result.operator} {result.threshold}" if metric is None else _wanted(metric)
        times = relative_margin(metric) is not None
        return {
            "result": result,
            "wanted": wanted,
            "times": times,
            "level": conviction(view, result.name),
            "infos": _infos(result),
        }

    def twin(self, args: Args, query: Mapping[str, str]) -> Twin:
        """The API's document, and the samples of the last hour with their numbers."""
        checked(query, ())
        view = self._view(args)
        if view is None:
            return Twin(value={"error": "there is no canary analysis of this name"}, status=404)
        samples = [_sample(each) for each in self._trail.told(view.key)]
        evidence = {
            name: {"times": past.times, "series": dict(past.series)} for name, past in self._trail.past(view.key)
        }
        return Twin(value=canary_document(view) | {"samples": samples, "evidence": evidence})

    def history(self, args: Args) -> Twin:
        """What the charts are drawn from: the charts, the times, and a number or ``null`` of each series at each time."""
        view = self._view(args)
        if view is None:
            return Twin(value={"error": "there is no canary analysis of this name"}, status=404)
        pasts = list(self._trail.past(view.key))
        times = sorted({time for _, past in pasts for time in past.times})
        series: dict[str, list[float | None]] = {}
        charts: list[list[Any]] = []
        for name, past in pasts:
            for each, numbers in past.series.items():
                by_time = dict(zip(past.times, numbers, strict=True))
                series[f"{name}/{each}"] = [by_time.get(time) for time in times]
            relative = relative_margin(metric_of(view, name)) is not None
            charts += _charts(name, past.series, relative=relative)
        return Twin(value={"charts": charts, "times": times, "series": series})


def _charts(name: str, series: Mapping[str, Any], *, relative: bool) -> list[list[Any]]:
    """Two charts of a metric: its number with what it is compared with, and the evidence where any is gathered.

    The number of a relative metric is how many times stable's the canary's is; it shares no scale with stable's own.
    """
    canary, threshold = f"{name}/canary", f"{name}/threshold"
    found: list[list[Any]] = [
        [f"{name}: both sides", "", [["canary", canary], ["stable", f"{name}/stable"], ["threshold", threshold]]]
    ]
    if relative:
        found = [[f"{name}: canary", "times stable", [["canary", canary], ["at most", threshold]]]]
    if any(number is not None for number in series.get("evidence", ())):
        lines = [["against the canary", f"{name}/evidence"], ["convicts", f"{name}/level"]]
        found.append([f"{name}: evidence", "log", lines, "signed"])
    return found


def _sample(told: Told) -> dict[str, Any]:
    return {
        "sampledAt": rfc3339(told.at.wall),
        "sampleID": told.sample,
        "step": told.step,
        "verdict": told.verdict,
        "decision": told.decision,
        "reason": told.reason,
        "message": told.message,
        "metrics": [{"name": name, "verdict": verdict, "reason": reason} for name, verdict, reason in told.metrics],
    }


def _steps(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    """Each step in words."""
    return [{"traffic": step.traffic, "gate": _gate(step)} for step in steps]


def _gate(step: Step) -> str:
    said = []
    if step.analysis is not None:
        metrics = ", ".join(
            f"{each.name} {_wanted(each)}{'' if each.required else ' (dry run)'}" for each in step.analysis.metrics
        )
        said.append(f"{metrics}; a sample every {step.analysis.interval:g} s, {step.analysis.failure_limit} may fail")
    if step.pause is not None:
        said.append("waits for a promote" if step.pause.seconds is None else f"stays at least {step.pause.seconds:g} s")
    return "; ".join(said)


def _wanted(metric: Metric) -> str:
    """What a metric is compared with."""
    margin = relative_margin(metric)
    return f"{metric.operator} {metric.threshold}" if margin is None else f"at most {margin:g} times stable"


def _infos(result: MetricResult) -> list[str]:
    """What else is to be known of a metric, in sentences."""
    found = list(result.infos)
    if result.measured_by is not None:
        found.append(f"measured by the {result.measured_by.value}")
    if result.need is not None:
        wait = result.enough_in_seconds
        soon = "" if wait is None or wait <= 0 else f", there in {wait:.0f} s at this rate"
        found.append(f"a pass wants {result.need} samples{soon}")
    for count, what in (
        (result.missing_count, f"of {result.expected_pods} Pods were not read: {', '.join(result.missing_pods)}"),
        (len(result.warming_pods), f"Pods are warming up: {', '.join(result.warming_pods)}"),
        (len(result.unattributed_pods), f"Pods have no known revision: {', '.join(result.unattributed_pods)}"),
        (result.dropped_series, "series were not finite"),
    ):
        if count:
            found.append(f"{count} {what}")
    if result.lossy:
        found.append("a restart lost some of the counts")
    if result.baseline:
        found.append(f"baseline: {result.baseline}")
    return found
