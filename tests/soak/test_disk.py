"""The full disk of the soak refuses, and its look at the file after recovery can find fault with it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from observer.persist import StateError
from router_contract.judging import Stored
from router_contract.targets import DeploymentKey
from tests.soak import disk
from tests.soak.disk import FullDisk

SAVED = {DeploymentKey("default", "chat"): Stored()}


def test_a_full_disk_refuses_and_is_saved_again_after_recovery(tmp_path: Path) -> None:
    with FullDisk(tmp_path / "s", real=False) as state:
        state.fill()
        with pytest.raises(StateError, match="full"):
            state.save(SAVED)
        assert (state.refused, state.busy, state.recovered()) == (1, True, None)
        state.free()
        assert state.recovered() is None
        state.save(SAVED)
        assert state.recovered() == ""
        assert not state.busy


def test_no_save_after_recovery_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "SAVED_WITHIN", -1.0)
    with FullDisk(tmp_path / "s", real=False) as state:
        state.save(SAVED)
        state.fill()
        state.free()
        assert "nothing was saved" in str(state.recovered())


def test_a_file_without_what_was_saved_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with FullDisk(path, real=False) as state:
        state.fill()
        state.free()
        state.save(SAVED)
        with sqlite3.connect(path) as other:
            other.execute("DELETE FROM judged")
        other.close()
        assert "not what was saved last" in str(state.recovered())
