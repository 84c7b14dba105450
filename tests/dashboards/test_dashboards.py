"""What every committed dashboard keeps: it is what is generated, portable, described, and names only what exists."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from dashboards.generate import differing
from tests.dashboards.documents import PLAIN, Panel, base, documents, fill, labels_of_families, panels, selectors

UIDS = ["observer-canary", "observer-kv", "observer-overview", "observer-roles", "observer-routers", "observer-self"]
ATTACHED = {"cluster", "instance"}
"""Labels that a scraper attaches."""


def test_generating_anew_changes_no_byte():
    assert differing() == []


def test_there_are_six_with_short_stable_names():
    found = documents()
    assert sorted(found) == UIDS
    for uid, document in found.items():
        assert document["uid"] == uid
        assert len(uid) <= 40
        assert {"observer", "llm"} <= set(document["tags"])
        assert document["links"][0]["includeVars"]
        assert document["links"][0]["keepTime"]
    page = (Path(__file__).parents[2] / "docs" / "dashboards.md").read_text("utf-8")
    assert re.findall(r"^\| `(observer-\w+)`", page, re.MULTILINE) == [
        *("observer-overview", "observer-roles", "observer-routers"),
        *("observer-kv", "observer-canary", "observer-self"),
    ]
    names = [panel.name for panel in panels()]
    assert len(set(names)) == len(names), "panels are told apart by name"


@pytest.mark.parametrize("uid", UIDS)
def test_variables_are_chained_on_the_info_metrics(uid):
    variables = {variable["name"]: variable for variable in documents()[uid]["templating"]["list"]}
    order = list(variables)
    assert order[:6] == ["datasource", "cluster", "ns_label", "pod_label", "namespace", "deployment"]
    assert variables["datasource"]["type"] == "datasource"
    for name, variable in variables.items():
        if name == "datasource":
            continue
        assert variable["datasource"]["uid"] == "${datasource}"
        assert variable["refresh"] == 2, "values follow the time range"
        for other in order[order.index(name) :]:
            assert f'"${other}"' not in variable["query"], f"{name} is asked before {other} is chosen"
    for name in ("cluster", "namespace", "deployment"):
        assert "modeldeployment_info" in variables[name]["query"]
        assert variables[name]["multi"]
        assert variables[name]["allValue"] == ".*"
    for name in {"role", "pod"} & set(order):
        assert "modeldeployment_endpoint_info" in variables[name]["query"]
    assert '"$deployment"' not in variables["deployment"]["query"]


@pytest.mark.parametrize("uid", UIDS)
def test_panels_fill_the_grid_and_none_lies_on_another(uid):
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in documents()[uid]["panels"]]
    assert ids == sorted(set(ids))
    for panel in documents()[uid]["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = set(
            itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])),
        )
        assert not taken & cells, panel["title"]
        taken |= cells


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel.name)
def test_a_panel_says_what_it_shows_in_which_unit_and_what_nothing_means(panel: Panel):
    document = panel.document
    assert document["title"]
    assert document["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert all(target["datasource"]["uid"] == "${datasource}" for target in document["targets"])
    assert len({target["refId"] for target in document["targets"]}) == len(document["targets"])
    assert document["fieldConfig"]["defaults"]["noValue"].strip(), "what no value means"
    if document["type"] == "table":
        assert all(
            any(item["id"] == "noValue" for item in override["properties"])
            for override in document["fieldConfig"]["overrides"]
        )
    if document["type"] in {"stat", "timeseries"}:
        assert document["fieldConfig"]["defaults"]["unit"]
    if document["type"] == "timeseries":
        assert document["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False, "a gap stays a gap"
    named = {word.strip(".,:;") for word in document["description"].split()}
    used = {base(series) for query in panel.queries for series, _ in selectors(fill(query, PLAIN))}
    assert document["type"] == "table" or named & used, "the description names a metric of the panel"


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel.name)
def test_a_panel_names_only_series_and_labels_that_exist(panel: Panel):
    known = labels_of_families()
    for query in panel.queries:
        for series, labels in selectors(fill(query, PLAIN)):
            assert base(series) in known, f"{series} is exposed by nothing"
            extra = labels - known[base(series)] - ATTACHED
            assert not extra, f"{series} has no label {', '.join(sorted(extra))}"


def test_a_wrong_name_would_be_seen():
    assert base("modeldeployment_nothing") not in labels_of_families()
    assert "le" in labels_of_families()[base("modeldeployment_queue_time_seconds_bucket")]


def test_families_that_no_panel_shows_are_few_and_named(capsys):
    used = {
        base(series) for panel in panels() for query in panel.queries for series, _ in selectors(fill(query, PLAIN))
    }
    everything = {name for name in labels_of_families() if not name.startswith("process_")}
    unused = sorted(everything - used)
    with capsys.disabled():
        print(f"\nfigure: {len(everything & used)} of {len(everything)} families on a panel; on none: {', '.join(unused) or '-'}")  # fmt: skip
    assert len(unused) <= 3
