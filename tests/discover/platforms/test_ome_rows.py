"""Rows of an InferenceReplica: the same whichever way they are written, and refused when they contradict themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.discover.platforms.ome_rows import COLUMNAR, DENSE, MAX_INSTANCES, RowsError, index_set, rows

Json = dict[str, Any]
TIME = "2026-11-01T00:10:00Z"

SETS = {
    "0": (0,),
    "0-3,5": (0, 1, 2, 3, 5),
    "7-7": (7,),
    "0,1,2": (0, 1, 2),
    "10-12,100": (10, 11, 12, 100),
}


@pytest.mark.parametrize("text", SETS, ids=str)
def test_an_index_set(text: str) -> None:
    assert index_set(text, "x") == SETS[text]


@pytest.mark.parametrize(
    "text",
    ["", "a", "-1", "0-", "01", "1,,2", "3-1", "0,0", "0-3,2", "5,1", " 1", "0-3, 5", None, 5, ["0"], "1\n"],
    ids=repr,
)
def test_what_is_no_index_set(text: object) -> None:
    with pytest.raises(RowsError, match="wanted"):
        index_set(text, "members")


def test_a_set_without_end_is_refused_before_it_is_made() -> None:
    with pytest.raises(RowsError, match=f"more than {MAX_INSTANCES}"):
        index_set("0-9999999999", "members")
    assert len(index_set(f"0-{MAX_INSTANCES - 1}", "members")) == MAX_INSTANCES


OPERATIONS = st.fixed_dictionaries(
    {
        "id": st.just("a"),
        "type": st.sampled_from(["Create", "Update", "Restart", "Migrate", "Delete"]),
        "step": st.sampled_from(["Drain", "WaitReady"]),
        "startedAt": st.just(TIME),
    },
    optional={"waiting": st.just("QuotaExceeded"), "retryCount": st.integers(1, 3), "deadline": st.none()},
)
FAILURES = st.fixed_dictionaries(
    {"podName": st.just("p")},
    optional={"reason": st.sampled_from(["OOMKilled", "Error"]), "exitCode": st.integers(0, 255)},
)
ROWS = st.fixed_dictionaries(
    {"phase": st.sampled_from(["Pending", "Creating", "Ready", "Updating", "Failed", "SomethingNew"])},
    optional={
        "incarnation": st.integers(-2, 3).filter(bool),
        "runningRevision": st.sampled_from(["a", "b"]),
        "targetRevision": st.sampled_from(["b", "c"]),
        "podCount": st.integers(1, 3),
        "servingPodCount": st.integers(1, 3),
        "availablePodCount": st.integers(1, 3),
        "admitted": st.just(True),
        "activeOrdinal": st.just(1),
        "readySince": st.just(TIME),
        "operation": OPERATIONS,
        "lastFailure": FAILURES,
        "conditions": st.just([{"type": "Drained", "status": "True", "reason": "x"}]),
        "announced": st.just(["one"]),
    },
)
TABLES = st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True).flatmap(
    lambda indexes: st.tuples(*(ROWS.map(lambda row, at=index: {"index": at, **row}) for index in indexes)).map(list)
)
GROUPED = {
    "phase": "phases",
    "runningRevision": "runningRevisions",
    "targetRevision": "targetRevisions",
    "incarnation": "incarnations",
    "podCount": "podCounts",
    "servingPodCount": "servingPodCounts",
    "availablePodCount": "availablePodCounts",
}


def written(indexes: list[int]) -> str:
    """The shortest set of indexes."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def columnar(table: list[Json]) -> Json:
    """The same rows by columns, as the published shape has them."""
    order = [row["index"] for row in table]
    columns: Json = {"members": written(order)}
    if order != sorted(order):
        columns["rowOrder"] = order
    for key, column in GROUPED.items():
        groups: dict[Any, list[int]] = {}
        for row in table:
            if key in row:
                groups.setdefault(row[key], []).append(row["index"])
        if groups:
            columns[column] = [{"value": value, "indexes": written(held)} for value, held in groups.items()]
    for key, column in (("admitted", "admitted"), ("activeOrdinal", "activeOrdinalOne")):
        marked = [row["index"] for row in table if row.get(key)]
        if marked:
            columns[column] = written(marked)
    records = ("conditions", "readySince", "operation", "lastFailure", "announced")
    entries = [
        {"index": row["index"], **{key: row[key] for key in records if key in row}}
        for row in sorted(table, key=lambda row: row["index"])
        if any(key in row for key in records)
    ]
    if entries:
        columns["entries"] = entries
    return {"instanceStatusEncoding": COLUMNAR, "instanceStatusColumns": columns}


@settings(deadline=None)
@given(TABLES)
def test_both_ways_give_the_same_rows(table: list[Json]) -> None:
    dense, by_columns = rows({"instanceStatuses": table}), rows(columnar(table))
    assert (dense[0], by_columns[0]) == (DENSE, COLUMNAR)
    assert dense[1] == by_columns[1]
    assert [row.index for row in dense[1]] == [row["index"] for row in table]


def columns(**changes: Any) -> Json:
    base = {"members": "0-2", "phases": [{"value": "Ready", "indexes": "0-1"}, {"value": "Updating", "indexes": "2"}]}
    return {"instanceStatusEncoding": COLUMNAR, "instanceStatusColumns": {**base, **changes}}


def test_rows_by_columns_with_their_defaults() -> None:
    _, found = rows(columns(podCounts=[{"value": 2, "indexes": "0,2"}], admitted="1"))
    assert [(row.phase, row.pods, row.admitted, row.incarnation) for row in found] == [
        ("Ready", 2, False, 0), ("Ready", 0, True, 0), ("Updating", 2, False, 0),
    ]  # fmt: skip


REFUSED = {
    "an encoding of the future": ({"instanceStatusEncoding": "ColumnarV3"}, "wanted ColumnarV2"),
    "columns without a word of it": ({"instanceStatusColumns": {}}, "wanted ColumnarV2 beside"),
    "an encoding without columns": ({"instanceStatusEncoding": COLUMNAR}, "wanted columns"),
    "both": ({**columns(), "instanceStatuses": []}, "wanted one of the two"),
    "no members": (columns(members=None), "members: found None"),
    "a member without a phase": (columns(phases=[{"value": "Ready", "indexes": "0-1"}]), "found none of Instance 2"),
    "a member of two phases": (
        columns(phases=[{"value": "Ready", "indexes": "0-2"}, {"value": "Failed", "indexes": "2"}]),
        "Instance 2 in two groups",
    ),
    "a stranger in a group": (columns(podCounts=[{"value": 1, "indexes": "9"}]), "Instance 9 that is no member"),
    "a zero that is grouped": (columns(podCounts=[{"value": 0, "indexes": "0"}]), "wanted a count"),
    "an empty revision that is grouped": (columns(runningRevisions=[{"value": "", "indexes": "0"}]), "wanted a text"),
    "a stranger admitted": (columns(admitted="7"), "admitted: found Instance 7"),
    "an entry of a stranger": (columns(entries=[{"index": 7}]), "entries: found index 7"),
    "two entries of one": (columns(entries=[{"index": 1}, {"index": 1}]), "entries: found index 1"),
    "an order that leaves one out": (columns(rowOrder=[0, 1]), "rowOrder"),
    "a dense row without a phase": ({"instanceStatuses": [{"index": 0}]}, "wanted an index and a phase"),
    "an index twice": ({"instanceStatuses": [{"index": 0, "phase": "Ready"}] * 2}, "found an index twice"),
    "rows that are no list": ({"instanceStatuses": "x"}, "wanted a list of rows"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_contradicts_itself_is_refused_whole(case: str) -> None:
    status, message = REFUSED[case]
    with pytest.raises(RowsError) as error:
        rows(status)
    assert message in str(error.value)


def test_no_rows_at_all() -> None:
    assert rows({}) == (DENSE, ())
