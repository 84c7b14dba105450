"""The routers page: for each deployment what its routers should select, what each of them sees, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from exporters.page.protocols import Services
from exporters.page.query import checked, contains, one_of
from exporters.page.render import Built, Fragment, Renderer, Twin, element_id, path_of
from exporters.status_views import convergence_entry, view_entries
from router_contract.verdicts import Condition, DeploymentReport, Status

FILTERS = ("q", "namespace", "deployment", "converged")
MOST = 500
"""Deployments on one page."""


class RoutersPage:
    """Every deployment that declares a router."""

    def __init__(self, services: Services, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    def _found(self, query: Mapping[str, str]) -> Iterator[tuple[DeploymentReport, Condition | None]]:
        told = checked(query, FILTERS)
        wanted = one_of(told, "converged", [status.value for status in Status])
        keys = self._services.reports.keys()
        for key in keys:
            if told.get("namespace", key.namespace) != key.namespace or told.get("deployment", key.name) != key.name:
                continue
            if "q" in told and not contains(told["q"], str(key)):
                continue
            report = self._services.reports.deployment(key)
            if report is None or report.deployment.router is None:
                continue
            condition = next((each for each in report.conditions if each.type == "RouterConverged"), None)
            if wanted is None or (condition is not None and condition.status.value == wanted):
                yield report, condition

    def build(self, _: Mapping[str, str], query: Mapping[str, str]) -> Built:
        """A section for each of them."""
        told = checked(query, FILTERS)
        parts: list[Fragment] = []
        more = False
        for report, condition in self._found(told):
            more = len(parts) == MOST
            if more:
                break
            parts.append(self._section(report, condition))
        context = {"query": told, "statuses": [status.value for status in Status]}
        note = self._renderer.part(
            "note.html", "routers-note", count=len(parts), more=more, what="deployments with a router"
        )
        groups = {"note": (note,), "sections": parts}
        return Built(template="routers.html", title="Routers", context=context, groups=groups)

    def _section(self, report: DeploymentReport, condition: Condition | None) -> Fragment:
        key = report.key
        return self._renderer.part(
            "router.html", element_id("r", key.namespace, key.name), heading=3, **router_context(report, condition)
        )

    def twin(self, _: Mapping[str, str], query: Mapping[str, str]) -> Twin:
        """The same for JSON, as the status document has it."""
        items: list[dict[str, Any]] = []
        for report, condition in self._found(query):
            if len(items) == MOST:
                break
            names = _names(report)
            entry: dict[str, Any] = {"namespace": report.key.namespace, "deployment": report.key.name}
            if report.convergence is not None:
                entry["convergence"] = convergence_entry(report.convergence, condition, names)
            items.append(entry | {"routerViews": view_entries(report, names)})
        return Twin(value={"items": items})


def _names(report: DeploymentReport) -> dict[str, str]:
    return {member.uid: member.name for role in report.deployment.roles for member in role.members()}


def router_context(report: DeploymentReport, condition: Condition | None) -> dict[str, Any]:
    """What the section of one deployment's routers is made from."""
    names = _names(report)
    now = report.at.wall
    views = view_entries(report, names)
    for view in views:
        # Ages become moments: the page counts on by itself, and equal facts give an equal page.
        for entry, name in (
            (view, "ageSeconds"),
            (view, "circuitsAgeSeconds"),
            (view.get("failure", {}), "ageSeconds"),
        ):
            if name in entry:
                entry[name.replace("AgeSeconds", "At").replace("ageSeconds", "seenAt")] = now - entry.pop(name)
    found = report.convergence
    return {
        "key": report.key,
        "path": path_of("deployments", report.key.namespace, report.key.name),
        "router": report.deployment.router,
        "condition": condition,
        "convergence": found,
        "told": convergence_entry(found, condition, names) if found is not None else None,
        "views": views,
    }
