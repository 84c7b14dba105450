"""The frame of every dashboard: its variables, links, identity, and its text as committed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
    Row,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    Panel,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.look import SOURCE
from dashboards.queries import CLUSTER_IS, DEPLOYMENT_IS, NAMESPACE, ROLE_IS

Part = tuple[str, Sequence[Builder[Panel]]]
"""A heading and the panels under it."""
TAGS: Final = ["observer", "llm"]
WIDTH: Final = 24
ANY: Final = ".*"
"""What All means: also series that do not have the label."""


def _asked(name: str, label: str, query: str, text: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(label)
        .description(text)
        .datasource(SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def _chosen(name: str, label: str, query: str, text: str) -> QueryVariable:
    """A variable of which several values, or all, can be chosen."""
    everything = VariableOption(text="All", value=["$__all"], selected=True)
    return _asked(name, label, query, text).multi(True).include_all(True).all_value(ANY).current(everything)


def _called(name: str, own: str, metric: str) -> QueryVariable:
    """A hidden variable: what our label is called in this store, found by asking."""
    renamed = f"exported_{own}"

    def found(selector: str, word: str) -> str:
        return f'label_replace(group({metric}{{{CLUSTER_IS}, {selector}}}), "called", "{word}", "", "")'

    there, missing = found(f'{renamed}!=""', renamed), found(f'{renamed}=""', own)
    query = f"query_result({there} or {missing})"
    text = f"What our label {own} is called here: Prometheus renames it where honorLabels is not set."
    return _asked(name, name, query, text).regex('/called="([^"]+)"/').hide(VariableHide.HIDE_VARIABLE)


def variables(*, roles: bool = False, pods: bool = False) -> list[Builder[Any]]:
    """Data source, cluster, namespace and deployment, chained on the info metric; roles and Pods on the endpoints'."""
    info, endpoint = "modeldeployment_info", "modeldeployment_endpoint_info"
    found: list[Builder[Any]] = [
        DatasourceVariable("datasource").label("Data source").type("prometheus"),
        _chosen("cluster", "Cluster", f"label_values({info}, cluster)", "Empty where no cluster label is attached."),
        _called("ns_label", "namespace", info),
        _called("pod_label", "pod", endpoint),
        _chosen(
            "namespace",
            "Namespace",
            f"label_values({info}{{{CLUSTER_IS}}}, {NAMESPACE})",
            "Of the deployments observed.",
        ),
        _chosen(
            "deployment",
            "Deployment",
            f'label_values({info}{{{CLUSTER_IS}, {NAMESPACE}=~"$namespace"}}, deployment)',
            "Deployments in the chosen namespaces.",
        ),
    ]
    if roles or pods:
        query = f"label_values({endpoint}{{{DEPLOYMENT_IS}}}, role)"
        found.append(_chosen("role", "Role", query, "Roles of the chosen deployments."))
    if pods:
        query = f"label_values({endpoint}{{{ROLE_IS}}}, $pod_label)"
        found.append(_chosen("pod", "Pod", query, "Engine Pods of the chosen roles."))
    return found


def objective(name: str, label: str, metric: str) -> Builder[Any]:
    """A threshold that is a bucket bound, so that the share below it is exact."""
    query = f"label_values({metric}_bucket{{{DEPLOYMENT_IS}}}, le)"
    text = "A bucket bound of the histogram, in seconds: only there is the share of requests below it exact."
    preset = VariableOption(text="1.0", value="1.0", selected=True)
    return _asked(name, label, query, text).sort(VariableSort.NUMERICAL_ASC).current(preset)


def links() -> list[Builder[Any]]:
    """The other dashboards with the same choice and time."""
    return [
        DashboardLink("Observer dashboards")
        .type(DashboardLinkType.DASHBOARDS)
        .tags(TAGS)
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    ]


def place(panels: list[dict[str, Any]]) -> None:
    """Number the panels and lay them out from left to right in lines; a heading begins a line."""
    left = top = tallest = 0
    for number, panel in enumerate(panels, 1):
        width, height = panel["gridPos"]["w"], panel["gridPos"]["h"]
        if left and (left + width > WIDTH or panel["type"] == "row"):
            left, top, tallest = 0, top + tallest, 0
        panel["id"] = number
        panel["gridPos"] = {"x": left, "y": top, "w": width, "h": height}
        left, tallest = left + width, max(tallest, height)


def dashboard(
    uid: str, title: str, text: str, parts: Sequence[Part], asked: Sequence[Builder[Any]], span: str = "now-1h"
) -> str:
    """A whole dashboard as the JSON text that is committed."""
    made = (
        Dashboard(title)
        .uid(uid)
        .description(text)
        .tags(TAGS)
        .variables(list(asked))
        .links(links())
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time(span, "now")
        .refresh("30s")
        .timezone("browser")
    )
    for heading, panels in parts:
        made = made.with_row(Row(heading))
        for panel in panels:
            made = made.with_panel(panel)
    document = json.loads(JSONEncoder(sort_keys=True).encode(made.build()))
    place(document["panels"])
    for variable in document["templating"]["list"]:
        for unused in ("auto", "auto_count", "auto_min"):
            variable.pop(unused, None)
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
