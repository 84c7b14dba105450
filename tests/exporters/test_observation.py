"""What of the status document is stored in a cluster: within the declared schema, without what only ticks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from msgspec.structs import replace
from ruamel.yaml import YAML

from exporters.observation import LARGEST, bounded_fields, observation_fields, settled, settled_text, taken_back
from exporters.status import DEGREES, status_document
from router_contract.judging import GroupRecord, Stored, StoredCondition
from router_contract.platform_facts import ScalerFact, SourceFault
from router_contract.status import GroupState, Retirement, RetirementStatus, Serving, ServingState, Transition
from router_contract.verdicts import DeploymentReport, Status
from tests.exporters.judged import CONVERGED, EVERYTHING, LOST, UNKNOWN, WORKER, judged, role, view
from tests.exporters.reports import KEY, WALL

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import observation_crd

DEFINITION = YAML(typ="safe").load(observation_crd.FILE)
SCHEMA = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]

REPORTS = {
    "plain": judged(),
    "everything": EVERYTHING,
    "router views": judged(views=(view(WORKER), LOST)),
    "nothing known": judged(convergence=replace(CONVERGED, serving=UNKNOWN, valid=False), role_status=()),
    "no router": judged(convergence=replace(CONVERGED, serving=Serving(state=ServingState.NOT_CONFIGURED))),
    "retiring": judged(
        retirement=RetirementStatus(
            record=Retirement(
                role_name="server",
                replica_ordinal=0,
                state="Draining",
                target_member_uids=("a",),
                target_workload_uid="w",
                started_at=WALL,
                deadline=WALL + 60,
                phase_started_at=WALL,
                last_consumed_retry_token="t",
                observed_generation=3,
            ),
            phase_seconds_left=3.0,
            total_seconds_left=9.0,
            message="waits",
        )
    ),
    "scaler, sources, transitions": judged(
        scaler=ScalerFact(binding="a", decision="b"),
        sources=(SourceFault(kind="Workload", why="Forbidden", since=WALL, detail="no"),),
        transitions=(Transition(at=WALL, what="RouterReady", before="True", after="False", reason="Down"),),
    ),
}
MEMORY = Stored(
    groups=(GroupRecord(role="server", ordinal=None, generation="a/b", state=GroupState.ELIGIBLE, qualified_at=WALL),),
    conditions=(StoredCondition(type="RouterReady", status=Status.TRUE, last_transition=WALL),),
    disagreements=(("RouterReady", WALL),),
)


def undeclared(value: Any, schema: dict[str, Any], path: str = "status") -> list[str]:
    """Where a value is not what a structural schema declares; the API refuses a whole apply over one such field."""
    if value is None:
        return [] if schema.get("nullable") else [f"{path}: null"]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}
    if not isinstance(value, kinds[schema["type"]]) or (schema["type"] == "integer" and isinstance(value, bool)):
        return [f"{path}: {type(value).__name__}, not {schema['type']}"]
    if isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        rest = schema.get("additionalProperties")
        known = schema.get("properties", {})
        missing = [f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value]
        found = [
            each
            for key, item in value.items()
            for each in (
                undeclared(item, known.get(key, rest), f"{path}.{key}")
                if key in known or rest
                else [f"{path}.{key}: undeclared"]
            )
        ]
        return missing + found
    if isinstance(value, list):
        return [
            each for place, item in enumerate(value) for each in undeclared(item, schema["items"], f"{path}[{place}]")
        ]
    return []


def fields_of(report: DeploymentReport) -> dict[str, Any]:
    made: dict[str, Any] = orjson.loads(orjson.dumps(observation_fields(report)))
    return made


def test_the_definition_is_as_its_script_writes_it() -> None:
    assert observation_crd.definition() == DEFINITION
    assert observation_crd.DEGREES == DEGREES


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_every_status_is_declared(report: DeploymentReport) -> None:
    fields = fields_of(report) | {"memory": msgspec.to_builtins(MEMORY), "omitted": ["memory"]}
    assert undeclared(fields, SCHEMA) == []


def test_an_undeclared_field_would_be_seen() -> None:
    assert undeclared({"phase": "Ready", "new": 1}, SCHEMA) == ["status.new: undeclared"]
    assert undeclared({"roles": [{"kind": "Server", "desired": "2"}]}, SCHEMA) == [
        "status.roles[0].name: missing",
        "status.roles[0].desired: str, not integer",
    ]
    assert undeclared({"phase": None}, SCHEMA) == ["status.phase: null"]


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_every_field_of_the_document_is_stored_but_for_what_ticks(report: DeploymentReport) -> None:
    document = status_document(report, KEY)
    assert isinstance(document, dict)
    assert set(document["status"]) - set(observation_fields(report)) == {"conditions", "drain"}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_nothing_ticks(report: DeploymentReport) -> None:
    """The same verdict five minutes later is the same status: equal status is not written."""
    later = replace(report, at=replace(report.at, mono=report.at.mono + 300, wall=report.at.wall + 300))
    before = fields_of(report)
    assert settled(fields_of(later), before) == before


def test_the_order_in_which_a_router_lists_its_workers_is_no_news() -> None:
    other = replace(WORKER, url="http://10.0.0.2:8000", host="10.0.0.2")
    one, two = (fields_of(judged(views=(view(*rows),))) for rows in ((WORKER, other), (other, WORKER)))
    assert one == two


def test_merging_lists_are_maps_and_the_columns_are_those_promised() -> None:
    for name, key in (("conditions", "type"), ("roles", "name")):
        assert SCHEMA["properties"][name]["x-kubernetes-list-map-keys"] == [key]
    columns = DEFINITION["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [each["name"].upper() for each in columns if not each.get("priority")] == [
        "PHASE", "ROLES", "ELIGIBLE", "SERVING", "CACHE", "CANARY", "AGE",
    ]  # fmt: skip
    assert [each["name"].upper() for each in columns if each.get("priority")] == ["ENDPOINT", "MODEL"]


SUMMARIES = {
    "known": (judged(role_status=(role(eligible=1), role(eligible=2))), ("3", "1")),
    "one role is not known": (judged(role_status=(role(eligible=1), role(eligible=None))), ("Unknown", "1")),
    "observed empty": (judged(role_status=(role(eligible=0),)), ("0", "1")),
    "no role": (judged(role_status=()), ("Unknown", "1")),
    "confirmed zero": (
        judged(convergence=replace(CONVERGED, serving=Serving(state=ServingState.CONFIRMED, value=0))),
        ("1", "0"),
    ),
    "views are missing": (judged(convergence=replace(CONVERGED, serving=UNKNOWN)), ("1", "Unknown")),
    "no router": (
        judged(convergence=replace(CONVERGED, serving=Serving(state=ServingState.NOT_CONFIGURED))),
        ("1", "NotConfigured"),
    ),
}


@pytest.mark.parametrize(("report", "shown"), SUMMARIES.values(), ids=SUMMARIES)
def test_the_columns_tell_unknown_from_zero(report: DeploymentReport, shown: tuple[str, str]) -> None:
    summary = observation_fields(report)["summary"]
    assert (summary["eligible"], summary["serving"]) == shown
    assert not {"cache", "canary"} & set(summary), "nobody judged them"


TEXTS = {
    "the same": ("ready", "ready", "ready"),
    "longer": ("p0 is silent for 12.5 s", "p0 is silent for 3 s", "p0 is silent for 3 s"),
    "minutes": ("loading for 4 minutes", "loading for 3 minutes", "loading for 3 minutes"),
    "another count": ("1 of 2 answer", "2 of 2 answer", "1 of 2 answer"),
    "another Pod": ("p1 is silent for 3 s", "p0 is silent for 3 s", "p1 is silent for 3 s"),
    "nothing stored": ("ready for 3 s", "", "ready for 3 s"),
    "an identity is no duration": ("uid ab-4d", "uid ab-5d", "uid ab-4d"),
    "a time is no duration": ("since 2026-01-01T00:00:05Z", "since 2026-01-01T00:00:06Z", "since 2026-01-01T00:00:05Z"),
}


@pytest.mark.parametrize(("wanted", "stored", "kept"), TEXTS.values(), ids=TEXTS)
def test_a_text_that_differs_in_a_duration_only_is_the_stored_one(wanted: str, stored: str, kept: str) -> None:
    assert settled_text(wanted, stored) == kept


def test_what_is_too_large_is_left_out_by_name() -> None:
    fields = fields_of(EVERYTHING) | {"memory": {"text": "x" * 1000}}
    assert bounded_fields(fields) is fields
    assert bounded_fields(fields, len(orjson.dumps(fields)) - 1)["omitted"] == ["routerViews"]
    least = bounded_fields(fields, 1)
    assert "memory" in least["omitted"]
    assert "groups" not in least["roles"][0]
    assert least["phase"] == fields["phase"]
    assert undeclared(least, SCHEMA) == []


def before(eligible: int | None, serving: str) -> dict[str, Any]:
    return {"roles": [{"name": "server", "endpoints": {"eligible": eligible}}], "summary": {"serving": serving}}


@pytest.mark.parametrize(
    ("stored", "eligible", "serving", "pressing"),
    [
        ({}, 1, UNKNOWN, False),
        (before(1, "1"), 1, CONVERGED.serving, False),
        (before(2, "1"), 1, CONVERGED.serving, True),
        (before(1, "1"), None, CONVERGED.serving, True),
        (before(None, "1"), 1, CONVERGED.serving, False),
        (before(0, "1"), 1, CONVERGED.serving, False),
        (before(1, "1"), 1, UNKNOWN, True),
        (before(1, "Unknown"), 1, CONVERGED.serving, False),
    ],
    ids=["first", "same", "fewer", "not known any more", "known now", "more", "confirmation gone", "confirmed now"],
)
def test_what_is_taken_back_presses(
    stored: dict[str, Any], eligible: int | None, serving: Serving, pressing: bool
) -> None:
    report = judged(role_status=(role(eligible=eligible),), convergence=replace(CONVERGED, serving=serving))
    assert taken_back(observation_fields(report), stored) is pressing


@pytest.mark.parametrize("where", ["operator", "phaseMessage", "transitions", "memory", "components", "sources"])
def test_no_text_of_others_makes_a_status_too_large(where: str) -> None:
    """An operator may write a megabyte into a condition: the status is stored all the same, and says what is cut."""
    text = "é" * 600_000
    more: Any = text if where == "phaseMessage" else [{"message": text}] * 3
    made = bounded_fields({**fields_of(EVERYTHING), where: {"transitions": more} if where == "memory" else more})
    assert len(orjson.dumps(made)) <= LARGEST
    assert made["omitted"]
    assert made["summary"] == fields_of(EVERYTHING)["summary"]
    assert (where == "memory") == ("memory" in made["omitted"])


def test_very_many_short_texts_are_within_the_limit_too() -> None:
    voices = [{"type": f"T{number}", "operator": {"message": "x" * 2000}} for number in range(600)]
    made = bounded_fields({**fields_of(EVERYTHING), "operator": voices})
    assert len(orjson.dumps(made)) <= LARGEST
    assert "operator" in made["omitted"]
    assert "memory" not in made["omitted"]
