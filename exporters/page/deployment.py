"""The page of one deployment: the explanation first, then the tree, conditions beside the operator's word, the past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from exporters.document import metrics_document
from exporters.page.canaries import canary_path
from exporters.page.protocols import Services
from exporters.page.query import checked
from exporters.page.render import Built, Fragment, Renderer, Twin, path_of
from exporters.page.routers import router_context
from exporters.page.rows import row
from exporters.page.tree import tree
from exporters.status import explain_document, status_document
from exporters.summaries import target_summary
from router_contract.documents import Missing, ModelDeploymentMetrics, Unavailable
from router_contract.status import Finding
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport

Args = Mapping[str, str]
MOST_MISSING = 200
_BLIND = "NotObservable"
"""The reason of a condition that nothing here can observe."""


def key_of(args: Args) -> DeploymentKey:
    """The deployment that a path names."""
    return DeploymentKey(args["namespace"], args["name"])


class DeploymentPage:
    """One deployment."""

    def __init__(self, services: Services, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    def build(self, args: Args, query: Mapping[str, str]) -> Built:
        """Everything known of it; 404 when it is not observed."""
        checked(query, ())
        key = key_of(args)
        report = self._services.reports.deployment(key)
        if report is None:
            gone = {"what": f"deployment {key}"}
            return Built(template="gone.html", title="Not observed", context=gone, status=404, live=False)
        told = {"report": report, "findings": _findings(report), "blind": _blind(report)}
        groups: dict[str, list[Fragment]] = {
            "head": [self._part("head.html", "dep-head", report=report, row=row(report))],
            "explanation": [self._part("explanation.html", "dep-explanation", **told)],
            "tree": tree(report, self._renderer),
            "conditions": [self._part("conditions.html", "dep-conditions", report=report, rows=_conditions(report))],
            "routers": [self._routers(report)],
            "records": [self._part("records.html", "dep-records", report=report, records=report.records)],
            "canary": [self._canaries(key)],
            "transitions": [self._part("transitions.html", "dep-transitions", transitions=report.transitions[::-1])],
            "missing": [self._missing(report)],
        }
        context = {"key": key, "own_path": path_of("deployments", key.namespace, key.name)}
        return Built(template="deployment.html", title=str(key), context=context, groups=groups)

    def _part(self, template: str, ident: str, **context: Any) -> Fragment:
        return self._renderer.part(template, ident, **context)

    def _routers(self, report: DeploymentReport) -> Fragment:
        if report.deployment.router is None:
            return self._part("no_router.html", "dep-routers")
        condition = next((each for each in report.conditions if each.type == "RouterConverged"), None)
        return self._part("router.html", "dep-routers", heading=0, **router_context(report, condition))

    def _canaries(self, key: DeploymentKey) -> Fragment:
        views = [(view, canary_path(view.key)) for view in self._services.canaries.canaries() if view.deployment == key]
        return self._part("canary_links.html", "dep-canary", views=views)

    def _missing(self, report: DeploymentReport) -> Fragment:
        made = metrics_document(report)
        gaps: Iterable[Missing] = ()
        why = made.message if isinstance(made, Unavailable) else ""
        if isinstance(made, ModelDeploymentMetrics) and made.missing:
            gaps = made.missing
        kept = list(gaps)
        return self._part(
            "missing.html", "dep-missing", gaps=kept[:MOST_MISSING], more=max(0, len(kept) - MOST_MISSING), why=why
        )

    def twin(self, args: Args, query: Mapping[str, str]) -> Twin:
        """The documents that the page is made from: status, explanation, metrics, targets."""
        checked(query, ())
        key = key_of(args)
        report = self._services.reports.deployment(key)
        if report is None:
            return Twin(value={"error": f"no deployment {key} is observed"}, status=404)
        documents = {
            "status": status_document(report, key),
            "explanation": explain_document(report, key, history=True),
            "metrics": metrics_document(report),
        }
        value = {name: _document(found) for name, found in documents.items()}
        return Twin(value=value | {"targets": [target_summary(target.status) for target in report.targets]})

    def history(self, args: Args) -> Twin:
        """The last hour's numbers; ``null`` is not known."""
        key = key_of(args)
        known = self._services.reports.keys()
        if key not in known:
            return Twin(value={"error": f"no deployment {key} is observed"}, status=404)
        past = self._services.history.past(key, self._services.kv.now())
        return Twin(value={"times": past.times, "series": dict(past.series)})


def _document(found: Any) -> Any:
    return {"unavailable": found.message} if isinstance(found, Unavailable) else msgspec.to_builtins(found)


def _findings(report: DeploymentReport) -> list[dict[str, Any]]:
    """The findings of the explanation in its order; ages become moments, so that the page counts on by itself."""
    told = report.explanation
    if told is None:
        return []
    named = [("main", each) for each in (told.main,) if each is not None]
    named += [("also", each) for each in told.others]
    named += [("not known", each) for each in told.unknown if each.reason != _BLIND]
    named += [("notice", each) for each in told.notices]
    return [{"place": place, "finding": each, "seen_at": _seen(each, report.at.wall)} for place, each in named]


def _blind(report: DeploymentReport) -> list[str]:
    """What cannot be observed from here at all: named in one line, as the command line does; its reasons are below."""
    told = report.explanation
    return [] if told is None else [each.type for each in told.unknown if each.reason == _BLIND]


def _seen(finding: Finding, now: float) -> float | None:
    return None if finding.age_seconds is None else now - finding.age_seconds


def _conditions(report: DeploymentReport) -> list[dict[str, Any]]:
    """Our conditions in order, each with the operator's word; then what only the operator has."""
    voices = {voice.type: voice for voice in report.operator}
    known = [{"type": each.type, "ours": each, "voice": voices.pop(each.type, None)} for each in report.conditions]
    found = known + [{"type": kind, "ours": None, "voice": voice} for kind, voice in voices.items()]
    for entry in found:
        voice: Any = entry["voice"]
        age = voice.age_seconds if voice is not None else None
        entry["voice_at"] = None if age is None else report.at.wall - age
    return found
