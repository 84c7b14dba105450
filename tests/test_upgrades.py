"""What outlives a process carries its version: older is read, newer is refused in a sentence that says what to do."""

from __future__ import annotations

import sqlite3
import zipfile
from pathlib import Path

import msgspec
import pytest

from observer.collect.recording import FORMAT_VERSION, Recorder, Recording, RecordingError
from observer.persist import VERSION, StateError, StateFile
from observer.settings import Settings, SettingsError, check_files, load_files
from router_contract.judging import Stored
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey

AT = Instant(1.0, 1.8e9)


def settings_file(folder: Path, version: str, more: str = "") -> Path:
    file = folder / "settings.yaml"
    file.write_text(f"apiVersion: observer.modeldeployment.io/{version}\nkind: Settings\n{more}")
    return file


def test_settings_of_this_release_are_read_and_of_another_refused(tmp_path: Path) -> None:
    assert load_files([settings_file(tmp_path, "v1alpha1", "scrape: {period: 7s}\n")]).settings.scrape.period == 7.0
    with pytest.raises(SettingsError) as refused:
        load_files([settings_file(tmp_path, "v9", "scrape: {somethingNew: 1}\n")])
    (fault,) = refused.value.faults
    assert "v1alpha1" in str(fault)
    assert "another release" in str(fault)
    assert len(check_files([settings_file(tmp_path, "v9")])) == 1, "its other keys are not called wrong"


def test_recorded_settings_come_back_as_they_were() -> None:
    """A recording keeps settings as plain values; every section must survive that, or no recording can be replayed."""
    assert msgspec.convert(msgspec.to_builtins(Settings()), Settings) == Settings()


def recording(path: Path, version: int, **more: object) -> Path:
    with Recorder(path, writer="0.0.1", started=AT) as recorder:
        recorder.judged(AT)
    with zipfile.ZipFile(path) as before:
        members = {name: before.read(name) for name in before.namelist()}
    manifest = msgspec.json.decode(members["manifest.json"]) | {"version": version, **more}
    with zipfile.ZipFile(path, "w") as after:
        for name, data in {**members, "manifest.json": msgspec.json.encode(manifest)}.items():
            after.writestr(name, data)
    return path


@pytest.mark.parametrize("version", [0, FORMAT_VERSION])
def test_older_recordings_are_read_and_what_they_do_not_know_is_ignored(tmp_path: Path, version: int) -> None:
    with Recording(recording(tmp_path / "r.obsrec", version, later="a field of a later patch release")) as read:
        assert [event.kind for event in read.events()] == ["pass"]


def test_a_newer_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=f"reads up to {FORMAT_VERSION}: use a newer one"):
        Recording(recording(tmp_path / "r.obsrec", FORMAT_VERSION + 1))


def state_of(path: Path, version: int) -> Path:
    with StateFile(path) as state:
        state.save({DeploymentKey("ns", "d"): Stored()})
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {version}")
    database.close()
    return path


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_older_state_is_read(tmp_path: Path, version: int) -> None:
    with StateFile(state_of(tmp_path / "s.sqlite", version)) as state:
        assert state.load() == {DeploymentKey("ns", "d"): Stored()}


def test_newer_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=f"reads up to {VERSION}: use a newer one"):
        StateFile(state_of(tmp_path / "s.sqlite", VERSION + 1))
