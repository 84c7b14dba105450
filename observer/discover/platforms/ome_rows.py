"""The rows of an InferenceReplica's status, one for each Instance: written densely (DenseV1) or by columns (ColumnarV2).

By columns a value that many Instances share stands once beside the set of their indexes, as `0-3,5`. Both ways give the
same rows in the same order. Rows that contradict themselves are refused whole: half a table says nothing of who is left
out of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from observer.discover.platforms import loose
from observer.discover.platforms.loose import Json
from router_contract.platform_records import FailureRecord, InstanceRow, OperationRecord

DENSE = "DenseV1"
COLUMNAR = "ColumnarV2"
MAX_INSTANCES = 10_000
"""Most Instances of one component that are read."""

_SET = re.compile(r"(0|[1-9][0-9]{0,9})(-(0|[1-9][0-9]{0,9}))?(,(0|[1-9][0-9]{0,9})(-(0|[1-9][0-9]{0,9}))?)*")


class RowsError(ValueError):
    """Rows that cannot be read; the message names the key, what was found and what was wanted."""


def index_set(text: Any, where: str) -> tuple[int, ...]:
    """The indexes of a set as `0-3,5`, ascending. Raises `RowsError`; a set of more than `MAX_INSTANCES` is refused."""
    if not isinstance(text, str) or len(text) > 16 * MAX_INSTANCES or not _SET.fullmatch(text):
        raise RowsError(f"{where}: found {_shown(text)}, wanted an index set as 0-3,5")
    found: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        low, high = int(first), int(last or first)
        if high < low or (found and low <= found[-1]):
            raise RowsError(f"{where}: found {_shown(text)}, wanted ascending indexes, each once")
        if len(found) + high - low >= MAX_INSTANCES:
            raise RowsError(f"{where}: found more than {MAX_INSTANCES} indexes, wanted at most that")
        found += range(low, high + 1)
    return tuple(found)


def rows(status: Json) -> tuple[str, tuple[InstanceRow, ...]]:
    """The encoding and the rows of a status. Raises `RowsError`."""
    encoding = status.get("instanceStatusEncoding")
    if encoding is None:
        if status.get("instanceStatusColumns") is not None:
            raise RowsError("instanceStatusColumns: found columns without an encoding, wanted ColumnarV2 beside them")
        return DENSE, _dense(status.get("instanceStatuses"))
    if encoding != COLUMNAR:
        raise RowsError(f"instanceStatusEncoding: found {_shown(encoding)}, wanted {COLUMNAR} or nothing")
    columns = status.get("instanceStatusColumns")
    if not isinstance(columns, Mapping):
        raise RowsError(f"instanceStatusColumns: found {_shown(columns)}, wanted columns")
    if status.get("instanceStatuses") is not None:
        raise RowsError("instanceStatuses: found rows beside columns, wanted one of the two")
    return COLUMNAR, _columnar(columns)


def _dense(listed: Any) -> tuple[InstanceRow, ...]:
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise RowsError(f"instanceStatuses: found {_shown(listed)}, wanted a list of rows")
    if len(listed) > MAX_INSTANCES:
        raise RowsError(f"instanceStatuses: found {len(listed)} rows, wanted at most {MAX_INSTANCES}")
    made = tuple(_row(each) for each in listed)
    if len({row.index for row in made}) != len(made):
        raise RowsError("instanceStatuses: found an index twice, wanted each once")
    return made


def _row(found: Json) -> InstanceRow:
    index, phase = loose.number(found, "index"), loose.word(found, "phase")
    if index is None or not phase:
        raise RowsError(f"instanceStatuses: found {_shown(dict(found))}, wanted an index and a phase")
    plain = InstanceRow(
        index=index,
        phase=phase,
        incarnation=_signed(found.get("incarnation")),
        running_revision=loose.word(found, "runningRevision"),
        target_revision=loose.word(found, "targetRevision"),
        pods=loose.number(found, "podCount") or 0,
        serving_pods=loose.number(found, "servingPodCount") or 0,
        available_pods=loose.number(found, "availablePodCount") or 0,
        admitted=found.get("admitted") is True,
        active_ordinal=loose.number(found, "activeOrdinal") or 0,
    )
    return _with_records(plain, found)


def _with_records(row: InstanceRow, found: Json) -> InstanceRow:
    """A row with the records that are written the same both ways."""
    operation, failure = loose.part(found, "operation"), loose.part(found, "lastFailure")
    return msgspec.structs.replace(
        row,
        conditions=loose.conditions(found),
        ready_since=loose.time(found, "readySince"),
        operation=_operation(operation) if operation else None,
        last_failure=_failure(failure) if failure else None,
        announced=loose.names(found, "announced"),
    )


def _columnar(columns: Json) -> tuple[InstanceRow, ...]:
    members = index_set(columns.get("members"), "instanceStatusColumns.members")
    phases = _column(columns, "phases", members)
    without = [index for index in members if index not in phases]
    if without:
        raise RowsError(f"instanceStatusColumns.phases: found none of Instance {without[0]}, wanted one of each")
    running, target = (_column(columns, name, members) for name in ("runningRevisions", "targetRevisions"))
    lives = _column(columns, "incarnations", members)
    pods, serving, available = (
        _column(columns, name, members) for name in ("podCounts", "servingPodCounts", "availablePodCounts")
    )
    admitted, second = (_marked(columns, name, members) for name in ("admitted", "activeOrdinalOne"))
    entries = _entries(columns, members)
    made = {
        index: _with_records(
            InstanceRow(
                index=index,
                phase=str(phases[index]),
                incarnation=_signed(lives.get(index)),
                running_revision=str(running.get(index, "")),
                target_revision=str(target.get(index, "")),
                pods=int(pods.get(index, 0)),
                serving_pods=int(serving.get(index, 0)),
                available_pods=int(available.get(index, 0)),
                admitted=index in admitted,
                active_ordinal=int(index in second),
            ),
            entries.get(index, {}),
        )
        for index in members
    }
    return tuple(made[index] for index in _order(columns, members))


_TEXTS = frozenset({"phases", "runningRevisions", "targetRevisions"})


def _column(columns: Json, name: str, members: tuple[int, ...]) -> dict[int, Any]:
    """The values of one column by index. An index in two groups, or that is no member, is a contradiction."""
    known, found = set(members), dict[int, Any]()
    where = f"instanceStatusColumns.{name}"
    for group in loose.parts(columns, name):
        value = group.get("value")
        good = isinstance(value, str) and value if name in _TEXTS else _count(value)
        if not good:
            raise RowsError(
                f"{where}: found the value {_shown(value)}, wanted a {'text' if name in _TEXTS else 'count'}"
            )
        for index in index_set(group.get("indexes"), f"{where}.indexes"):
            if index not in known or index in found:
                why = "in two groups" if index in found else "that is no member"
                raise RowsError(f"{where}: found Instance {index} {why}, wanted members, each once")
            found[index] = value
    return found


def _marked(columns: Json, name: str, members: tuple[int, ...]) -> frozenset[int]:
    if columns.get(name) is None:
        return frozenset()
    found = frozenset(index_set(columns[name], f"instanceStatusColumns.{name}"))
    strange = found.difference(members)
    if strange:
        raise RowsError(f"instanceStatusColumns.{name}: found Instance {min(strange)}, wanted members")
    return found


def _entries(columns: Json, members: tuple[int, ...]) -> dict[int, Json]:
    found: dict[int, Json] = {}
    known = set(members)
    for entry in loose.parts(columns, "entries"):
        index = loose.number(entry, "index")
        if index is None or index not in known or index in found:
            raise RowsError(f"instanceStatusColumns.entries: found index {_shown(index)}, wanted members, each once")
        found[index] = entry
    return found


def _order(columns: Json, members: tuple[int, ...]) -> tuple[int, ...]:
    order = columns.get("rowOrder")
    if order is None:
        return members
    if not isinstance(order, list) or not all(type(each) is int for each in order) or sorted(order) != list(members):
        raise RowsError(f"instanceStatusColumns.rowOrder: found {_shown(order)}, wanted every member once")
    return tuple(order)


def _operation(found: Json) -> OperationRecord:
    return OperationRecord(
        type=loose.word(found, "type"),
        step=loose.word(found, "step"),
        reason=loose.word(found, "reason"),
        waiting=loose.word(found, "waiting"),
        target_revision=loose.word(found, "targetRevision"),
        started_at=loose.time(found, "startedAt"),
        last_progress_at=loose.time(found, "lastProgressAt"),
        deadline=loose.time(found, "deadline"),
        capacity_refused_at=loose.time(found, "capacityRefusedAt"),
        retries=loose.number(found, "retryCount"),
        from_node=loose.word(found, "fromNode"),
        surge_index=loose.number(found, "surgeIndex"),
    )


def _failure(found: Json) -> FailureRecord:
    return FailureRecord(
        pod=loose.word(found, "podName"),
        container=loose.word(found, "containerName"),
        reason=loose.word(found, "reason"),
        exit_code=loose.number(found, "exitCode"),
        message=loose.word(found, "message"),
        at=loose.time(found, "time"),
    )


def _count(value: Any) -> bool:
    """Whether a value may be grouped: a whole number that an int64 holds, never zero."""
    return type(value) is int and value != 0 and abs(value) <= loose.LARGEST


def _signed(value: Any) -> int:
    return value if type(value) is int and abs(value) <= loose.LARGEST else 0


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
