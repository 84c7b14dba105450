"""The state file gives back what it was given, refuses what is newer, and names what is damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace

from observer.persist import VERSION, StateError, StateFile
from router_contract.canary_results import CanaryState
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


CANARY = CanaryState(target="t", canary="b", plan="p", counted=3)


def test_a_canary_is_swapped_only_from_the_version_that_was_read(tmp_path: Path) -> None:
    with StateFile(tmp_path / "s") as one, StateFile(tmp_path / "s") as two:
        assert one.canary(CHAT) == (0, None)
        assert one.swap_canary(CHAT, 0, CANARY)
        assert not two.swap_canary(CHAT, 0, CANARY), "somebody else was first"
        assert two.canary(CHAT) == (1, CANARY)
        later = replace(CANARY, counted=4)
        assert two.swap_canary(CHAT, 1, later)
        assert not one.swap_canary(CHAT, 1, CANARY)
        assert one.canary(CHAT) == (2, later)
        one.forget_canary(CHAT)
        assert two.canary(CHAT) == (0, None)
        assert not two.swap_canary(CHAT, 2, later)


def test_a_damaged_canary_is_named_and_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with StateFile(path) as state:
        state.swap_canary(CHAT, 0, CANARY)
        with sqlite3.connect(path) as db:
            db.execute("UPDATE canary SET state = '{}'")
        db.close()
        assert state.canary(CHAT) == (1, None)
        assert state.canary(CHAT) == (1, None)
        assert len(state.damaged) == 1
        assert "default/chat" in state.damaged[0]
        assert state.swap_canary(CHAT, 1, CANARY)


def test_a_file_of_before_there_were_canaries_gets_their_table(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with StateFile(path) as state:
        state.save({CHAT: STORED})
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE canary")
        db.execute("PRAGMA user_version = 1")
    db.close()
    with StateFile(path) as state:
        assert state.load() == {CHAT: STORED}
        assert state.swap_canary(CHAT, 0, CANARY)
