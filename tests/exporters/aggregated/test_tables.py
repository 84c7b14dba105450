"""Cells of the group's Tables: what is not known is no number, and a part is no sum."""

from __future__ import annotations

from typing import Any

import pytest

from exporters.aggregated.objects import listed_metrics, no_labels, observed
from exporters.aggregated.resources import METRICS_KIND, OBSERVED_KIND
from exporters.aggregated.tables import table
from router_contract.verdicts import DeploymentReport, TargetState
from tests.exporters.judged import judged
from tests.exporters.reports import Pods, counter, gauge, report


def cells(value: dict[str, Any], kind: str) -> dict[str, str]:
    made = table([value], kind, "v1", "None", {})
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=True))


def routers(*states: TargetState) -> DeploymentReport:
    pods = Pods("gate", "Router", "sglang_gateway")
    for number, state in enumerate(states):
        values = (counter("router-requests", 60.0),) if state is TargetState.UP else ()
        pods = pods.pod(f"gate-{number}", *values, state=state)
    made: DeploymentReport = report(Pods().pod("chat-0", gauge("requests-running", 1.0)), pods)
    return made


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        ((TargetState.UP, TargetState.UP), "2"),
        ((TargetState.UP, TargetState.FAILING), "1+?"),
        ((TargetState.FAILING, TargetState.FAILING), "-"),
    ],
    ids=["both", "one of two", "none"],
)
def test_requests_of_a_router_that_was_not_read_are_no_zero(states: tuple[TargetState, ...], wanted: str) -> None:
    found = listed_metrics(routers(*states), no_labels)
    assert cells(found, METRICS_KIND)["Requests/s"] == wanted


def test_the_age_is_that_of_the_oldest_value_shown_latencies_of_roles_too() -> None:
    found = listed_metrics(report(Pods().pod("chat-0", gauge("requests-running", 1.0))), no_labels)
    entry = {"name": "ttft", "value": 0.5, "ageSeconds": 42.0}
    assert cells(found | {"roles": [{"role": "server", "latency": [entry]}]}, METRICS_KIND)["Value Age"] == "42s"


@pytest.mark.parametrize("odd", [{"a": 1}, [1], 3, True, {}])
def test_a_field_of_another_shape_than_ours_is_printed_and_never_a_fault(odd: Any) -> None:
    found = observed(judged(), no_labels)
    found = found | {"status": found["status"] | {"phase": odd}}
    assert cells(found, OBSERVED_KIND)["Phase"] == str(odd)
