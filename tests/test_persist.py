"""The state file gives back what it was given, refuses what is newer, and names what is damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from observer.persist import VERSION, StateError, StateFile
from router_contract.judging import GroupRecord, Stored, StoredCondition
from router_contract.status import GroupState, Transition
from router_contract.targets import DeploymentKey
from router_contract.verdicts import Status

CHAT = DeploymentKey("default", "chat")
OTHER = DeploymentKey("default", "other")
STORED = Stored(
    groups=(
        GroupRecord(role="server", ordinal=0, generation="a/b", state=GroupState.ELIGIBLE, qualified_at=12.5),
        GroupRecord(role="server", ordinal=None, generation="c", state=GroupState.UNKNOWN),
    ),
    conditions=(StoredCondition(type="MetricsFresh", status=Status.TRUE, reason="Fresh", last_transition=3.0),),
    transitions=(Transition(at=1.0, what="MetricsFresh", before="Unknown", after="True", reason="Fresh"),),
)


def test_what_is_saved_is_loaded_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with StateFile(path) as state:
        assert state.load() == {}
        assert state.save({CHAT: STORED, OTHER: Stored()}) == 2
    with StateFile(path) as state:
        assert state.load() == {CHAT: STORED, OTHER: Stored()}


def test_only_what_changed_is_written_and_what_left_is_forgotten(tmp_path: Path) -> None:
    with StateFile(tmp_path / "s") as state:
        assert state.save({CHAT: STORED}) == 1
        assert state.save({CHAT: STORED}) == 0
        assert state.save({OTHER: Stored()}) == 2
        assert state.load() == {OTHER: Stored()}


def test_a_damaged_row_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with StateFile(path) as state:
        state.save({CHAT: STORED, OTHER: Stored()})
    with sqlite3.connect(path) as db:
        db.execute("UPDATE judged SET stored = '{\"groups\": 3}' WHERE name = 'other'")
    db.close()
    with StateFile(path) as state:
        assert state.load() == {CHAT: STORED}
        assert len(state.damaged) == 1
        assert "default/other" in state.damaged[0]


def test_a_newer_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    with pytest.raises(StateError, match=f"state version {VERSION + 1}; this observer reads up to {VERSION}"):
        StateFile(path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("not a database" * 100)
    with pytest.raises(StateError, match="cannot be used as the state file"):
        StateFile(path)
