"""A platform's records in the status document, on the terminal and on the page: null and a dash are not known, never 0."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console, Group

from exporters.observation import observation_fields
from exporters.page.render import Renderer
from exporters.platform_records import record_fields, still
from exporters.status import status_fields
from exporters.status_tables import status
from exporters.timestamps import rfc3339
from router_contract.operator_condition import OperatorCondition
from router_contract.platform_records import (
    CanaryHold,
    CanaryMetric,
    CanaryRunRecord,
    ComponentRecord,
    FailureRecord,
    HoldRecord,
    HomeRecord,
    HomeState,
    InstanceRow,
    OperationRecord,
    PlacementRecord,
    PlatformRecords,
    RetryRecord,
    ScalerRecord,
)
from tests.exporters.judged import judged

AT = 1793491800.0
TIME = rfc3339(AT)
ENGINE = ComponentRecord(
    name="engine",
    mode="OMENative",
    contract=True,
    objects=("chat-engine",),
    encoding="ColumnarV2",
    phases=(("Ready", 1), ("Updating", 1)),
    instances=(
        InstanceRow(
            index=1,
            phase="Updating",
            operation=OperationRecord(
                type="Update", step="Drain", waiting="QuotaExceeded", started_at=AT, last_progress_at=AT, surge_index=0
            ),
            last_failure=FailureRecord(pod="p", reason="OOMKilled", exit_code=137, at=AT),
        ),
    ),
    hold=HoldRecord(gate="Budget", reason="no surge left", since=AT),
    retries=(RetryRecord(target="bbb", state="Held", attempts=3),),
    conditions=(OperatorCondition(type="OperationStuck", status="True", reason="Deadline"),),
    scaler=ScalerRecord(kind="HPA", managed_by="external", why="somebody else's scaler: OME cannot read it"),
    canary=CanaryRunRecord(
        phase="Pending",
        canary="new",
        stable="old",
        steps=3,
        open=True,
        held_by=CanaryHold.CAPACITY,
        step_entered=AT,
        capacity_wait_since=AT + 60,
        weight=0,
        last_evaluation=AT,
        results=(CanaryMetric(name="errors", value="0.1", operator="LT", threshold="0.05"),),
        analysis="ome-chat-engine",
    ),
)
HOMES = PlacementRecord(
    phase="Placed",
    homes=(
        HomeRecord(name="east", state=HomeState.FRESH, admitted=2, ready=0),
        HomeRecord(name="west", state=HomeState.STALE, since=AT, admitted=3, draining=True),
    ),
)
RECORDS = PlatformRecords(components=(ENGINE,), placement=HOMES)


def test_the_document_has_null_where_a_count_is_not_known() -> None:
    found = record_fields(RECORDS)
    (engine,) = found["components"]
    scaler = engine["autoscaler"]
    assert (scaler["currentReplicas"], scaler["desiredReplicas"]) == (None, None)
    assert engine["operations"] == [
        {"instance": 1, "type": "Update", "step": "Drain", "waiting": "QuotaExceeded", "startedAt": TIME,
         "lastProgressAt": TIME, "surgeInstance": 0, "retries": None},
    ]  # fmt: skip
    assert engine["failures"][0]["exitCode"] == 137
    assert engine["rolloutHold"] == {"gate": "Budget", "reason": "no surge left", "since": TIME}
    run = engine["canaryRun"]
    assert (run["step"], run["steps"], run["trafficWeight"], run["heldBy"]) == (0, 3, 0, "Capacity"), (
        "a zero is a value"
    )
    assert run["failedChecks"] is None
    assert run["stepEnteredTime"] == TIME != run["capacityWaitSince"]
    placed = found["placement"]
    assert placed["totals"] == {"homes": 2, "homesKnown": 1, "admitted": 5, "ready": None}
    assert placed["homes"][1] == {
        "name": "west", "state": "Stale", "since": TIME, "admitted": 3, "ready": None, "draining": True,
    }  # fmt: skip


def test_a_platform_without_records_adds_nothing() -> None:
    assert record_fields(PlatformRecords()) == {}
    assert not {"components", "placement"} & set(status_fields(judged()))


def test_what_is_stored_does_not_tick() -> None:
    made = judged(records=RECORDS)
    stored = observation_fields(made)
    (engine,) = stored["components"]
    assert "lastProgressAt" not in engine["operations"][0]
    assert not {"lastEvaluationTime", "results"} & set(engine["canaryRun"])
    assert engine["canaryRun"]["capacityWaitSince"]
    assert stored["placement"]["homes"][0]["ready"] == 0
    assert still(stored["components"]) == stored["components"]


def terminal(records: PlatformRecords) -> str:
    document = {
        "metadata": {"namespace": "ns", "name": "chat"},
        "timestamp": rfc3339(AT + 120),
        "status": status_fields(judged(records=records)),
    }
    out = StringIO()
    Console(file=out, width=200, no_color=True).print(Group(*status(document, width=200)))
    return out.getvalue()


SEEN = {
    "the component and what holds it": r"engine +OMENative +1 Ready, 1 Updating +HPA +- +- +Budget: no surge left",
    "the operation": r"engine/1 +Update +Drain +QuotaExceeded +2m",
    "the failure": r"engine/1 +OOMKilled +2m.* +137 +p",
    "the run, waiting since later than its step began": r"engine +Pending +1 of 3 +Capacity +60",
    "the totals": r"homes known 1 of 2, admitted 5, ready -",
    "a home that is read": r"east +- +Fresh +2 +0",
    "a home that is not": r"west +- +Stale +2m.* +3 +- +yes",
}


@pytest.mark.parametrize("case", SEEN, ids=str)
def test_the_terminal_shows(case: str) -> None:
    shown = terminal(RECORDS)
    assert re.search(SEEN[case], shown), shown


def test_the_terminal_shows_nothing_of_no_records() -> None:
    assert "COMPONENT" not in terminal(PlatformRecords())


def page(records: PlatformRecords) -> str:
    report = judged(records=records)
    return str(Renderer({}, "1").part("records.html", "x", report=report, records=records).html)


def test_the_page_shows_them() -> None:
    shown = page(RECORDS)
    for words in (
        "waits: QuotaExceeded", "<strong>Budget</strong> no surge left", "1 of 2 homes are read now", "draining",
        "which is no part of the soak", "Ours of the same run is ome-chat-engine", "with exit code 137",
        "somebody else&#39;s scaler",
    ):  # fmt: skip
        assert words in shown, words
    assert "no records of this deployment" in page(PlatformRecords())


def test_a_hostile_name_is_text_on_the_page() -> None:
    shown = page(PlatformRecords(placement=PlacementRecord(homes=(HomeRecord(name="<script>"),))))
    assert "<script>" not in shown
