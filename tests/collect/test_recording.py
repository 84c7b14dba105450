"""What goes into a recording comes out again, and a damaged or newer one is refused in a sentence."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from observer.collect.recording import Recorder, Recording, RecordingError, journal_of
from router_contract.judging import Stored, StoredCondition
from router_contract.probes import MemberProbe, ProbeFailed, VersionTold
from router_contract.readings import FailureKind, Instant, ScrapeFailed
from router_contract.router_views import Circuit, RouterView, ViewFailed, ViewSource, WorkerRow
from router_contract.targets import Address, Component, Deployment, DeploymentKey, Member, Replica, Role, TargetKey
from router_contract.verdicts import Status

KEY = DeploymentKey("default", "chat")
TARGET = TargetKey(KEY, "static:1", Component.ENGINE, 8000)
DEPLOYMENT = Deployment(
    key=KEY,
    uid="static:d",
    model="tiny",
    roles=(
        Role(
            name="server",
            engine="vllm",
            replicas=(
                Replica(
                    ordinal=0,
                    members=(Member(uid="static:1", name="a", metrics=Address(host="::1", port=8000)),),
                ),
            ),
        ),
    ),
)


def write(path: Path) -> None:
    with Recorder(path, writer="test", started=Instant(1.0, 100.0)) as recorder:
        recorder.fleet((DEPLOYMENT,), Instant(1.0, 100.0))
        recorder.body(TARGET, b"a 1\n", Instant(2.0, 101.0), 0.01)
        recorder.body(TARGET, b"a 1\n", Instant(3.0, 102.0), 0.02)
        recorder.failed(
            ScrapeFailed(target=TARGET, at=Instant(4.0, 103.0), kind=FailureKind.HTTP, detail="503", status=503)
        )


def test_everything_comes_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.obsrec"
    write(path)
    with Recording(path) as recording:
        events = list(recording.events())
        assert [event.kind for event in events] == ["fleet", "body", "body", "failed"]
        assert recording.deployments(events[0]) == (DEPLOYMENT,)
        assert [recording.body(event) for event in events[1:3]] == [b"a 1\n", b"a 1\n"]
        assert events[1].body == events[2].body
        assert events[2].at == Instant(3.0, 102.0)
        assert (events[3].failure, events[3].status, events[3].target) == (FailureKind.HTTP, 503, TARGET)
    with zipfile.ZipFile(path) as archive:
        assert len([name for name in archive.namelist() if name.startswith("bodies/")]) == 2


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.obsrec"
    path.write_text("mine")
    with pytest.raises(RecordingError, match="exists already"):
        Recorder(path, writer="test", started=Instant(0, 0))
    assert path.read_text() == "mine"


def tampered(path: Path, **changes: bytes | None) -> Path:
    write(path.with_suffix(".good"))
    with zipfile.ZipFile(path.with_suffix(".good")) as source, zipfile.ZipFile(path, "w") as out:
        for name in source.namelist():
            kind = "body" if name.startswith("bodies/") else name.split(".")[0]
            content = changes.get(kind, source.read(name))
            if content is not None:
                out.writestr(name, content)
    return path


def read_all(path: Path) -> None:
    with Recording(path) as recording:
        for event in recording.events():
            if event.body:
                recording.body(event)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"manifest": json.dumps({"format": "obsrec", "version": 2}).encode()},
            "format 2; this observer reads up to 1",
        ),
        ({"manifest": b"{}x"}, "is not a recording"),
        ({"manifest": None}, "is not a recording"),
        ({"events": None}, "events.jsonl cannot be read"),
        ({"events": b'{"kind": 3}\n'}, "events.jsonl cannot be read"),
        ({"body": b"other"}, "is damaged"),
        ({"body": None}, "cannot be read"),
    ],
    ids=["newer", "manifest-damaged", "no-manifest", "no-events", "event-damaged", "body-changed", "body-missing"],
)
def test_a_damaged_or_newer_recording_is_refused(
    tmp_path: Path, changes: dict[str, bytes | None], message: str
) -> None:
    path = tampered(tmp_path / "b.obsrec", **changes)
    with pytest.raises(RecordingError, match=message):
        read_all(path)


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.obsrec"
    path.write_bytes(b"not a zip")
    with pytest.raises(RecordingError, match="is not a recording"):
        Recording(path)


PROBE = MemberProbe(
    deployment=KEY,
    uid="static:1",
    member="a",
    software="vllm",
    version=VersionTold(at=Instant(4.5, 103.5), path="/version", version="0.32.0"),
    health_failed=ProbeFailed(at=Instant(4.5, 103.5), path="/health", kind=FailureKind.TIMEOUT, detail="slow"),
)
ROWS = (WorkerRow(url="http://h:1", host="h", port=1, circuit=Circuit.OPEN, in_selection=False, load=0.1),)
VIEW = RouterView(
    router="r", pod_uid="static:2", read_at=Instant(5.0, 104.0), source=ViewSource.WORKERS_API, workers=ROWS
)
LOST = ViewFailed(router="r", pod_uid="static:2", at=Instant(6.0, 105.0), kind="Timeout", detail="slow")
STORED = Stored(conditions=(StoredCondition(type="MetricsFresh", status=Status.TRUE, last_transition=3.0),))


def test_what_judging_was_told_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.obsrec"
    settings = {"scrape": {"period": 2.0}}
    with Recorder(path, writer="test", started=Instant(1.0, 100.0), settings=settings) as recorder:
        recorder.stored(KEY, STORED, Instant(1.0, 100.0))
        recorder.probe(PROBE, Instant(5.0, 104.0))
        recorder.view(KEY, VIEW, Instant(5.5, 104.5))
        recorder.view(KEY, LOST, Instant(6.5, 105.5))
        recorder.judged(Instant(7.0, 106.0))
    with Recording(path) as recording:
        stored, probe, view, lost, judged = recording.events()
        assert recording.manifest.settings == settings
    assert (stored.kind, stored.deployment, stored.stored) == ("stored", KEY, STORED)
    assert (probe.kind, probe.deployment, probe.probe, probe.at) == ("probe", KEY, PROBE, Instant(5.0, 104.0))
    assert [(each.kind, each.deployment, each.view) for each in (view, lost)] == [
        ("view", KEY, VIEW),
        ("view", KEY, LOST),
    ]
    assert (judged.kind, judged.at) == ("pass", Instant(7.0, 106.0))


def test_no_value_that_may_be_secret_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.obsrec"
    address = Address(host="h", port=1, headers=(("X-Key", "s3cret"),), bearer_token_file="/run/token")
    member = Member(uid="static:1", name="a", metrics=address, api=address)
    environment = (("HF_TOKEN", "s3cret"), ("VLLM_API_KEY", "s3cret"), ("VLLM_USE_V1", "1"))
    role = Role(name="server", environment=environment, replicas=(Replica(members=(member,)),))
    with Recorder(path, writer="test", started=Instant(1.0, 100.0)) as recorder:
        recorder.fleet((Deployment(key=KEY, uid="d", roles=(role,)),), Instant(1.0, 100.0))
    with Recording(path) as recording:
        (event,) = recording.events()
        assert b"s3cret" not in recording.body(event)
        ((found,),) = [each.roles for each in recording.deployments(event)]
    assert dict(found.environment) == {"HF_TOKEN": "hidden", "VLLM_API_KEY": "hidden", "VLLM_USE_V1": "1"}
    shown = next(found.members()).metrics
    assert shown is not None
    assert (shown.headers, shown.bearer_token_file) == ((("X-Key", "hidden"),), "/run/token")


def test_a_disk_that_does_not_take_the_end_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "a.obsrec", writer="test", started=Instant(1.0, 100.0))

    def full() -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(recorder, "_finish", full)
        with pytest.raises(RecordingError, match="cannot be finished: No space left on device"):
            recorder.close()
    recorder.close()


def killed(path: Path, *, cut_zip: int = 0, cut_journal: int = 0) -> Path:
    """What is on the disk when a recorder is killed: copies of both files while it is open, perhaps cut short."""
    alive = path.with_suffix(".alive")
    with Recorder(alive, writer="test", started=Instant(1.0, 100.0)) as recorder:
        recorder.fleet((DEPLOYMENT,), Instant(1.0, 100.0))
        recorder.body(TARGET, b"a 1\n", Instant(2.0, 101.0), 0.01)
        recorder.body(TARGET, b"a 2\n", Instant(3.0, 102.0), 0.02)
        for source, target, cut in (
            (alive, path, cut_zip),
            (journal_of(alive), journal_of(path), cut_journal),
        ):
            content = source.read_bytes()
            target.write_bytes(content[: len(content) - cut])
    return path


@pytest.mark.parametrize(
    ("cut", "kinds"),
    [
        ({}, ["fleet", "body", "body"]),
        ({"cut_journal": 5}, ["fleet", "body"]),
        ({"cut_zip": 2}, ["fleet", "body"]),
    ],
    ids=["all-written", "half-an-event", "half-a-body"],
)
def test_a_recording_whose_recorder_was_killed_is_read(tmp_path: Path, cut: dict[str, int], kinds: list[str]) -> None:
    with Recording(killed(tmp_path / "a.obsrec", **cut)) as recording:
        assert recording.unfinished
        assert recording.manifest.writer == "test"
        events = list(recording.events())
        assert [event.kind for event in events] == kinds
        assert recording.deployments(events[0]) == (DEPLOYMENT,)
        assert recording.body(events[1]) == b"a 1\n"


def test_a_finished_recording_leaves_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "a.obsrec"
    write(path)
    assert not journal_of(path).exists()
    with Recording(path) as recording:
        assert not recording.unfinished


def test_an_unfinished_recording_without_its_journal_says_so(tmp_path: Path) -> None:
    path = killed(tmp_path / "a.obsrec")
    journal_of(path).unlink()
    with pytest.raises(RecordingError, match=r"was not finished.*a\.obsrec\.events"):
        Recording(path)


def test_a_journal_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.obsrec"
    journal_of(path).write_text("events of a recording that was killed")
    with pytest.raises(RecordingError, match=r"a\.obsrec\.events exists already"):
        Recorder(path, writer="test", started=Instant(0, 0))
    assert not path.exists()


def test_a_damaged_body_of_an_unfinished_recording_is_refused(tmp_path: Path) -> None:
    path = killed(tmp_path / "a.obsrec")
    copy = tmp_path / "b.obsrec"
    content = path.read_bytes()
    at = content.rindex(b"PK\x03\x04") + 30 + len("bodies/") + 64
    copy.write_bytes(content[:at] + bytes(byte ^ 0xFF for byte in content[at:]))
    shutil.copy(journal_of(path), journal_of(copy))
    with Recording(copy) as recording:
        *_, last = recording.events()
        with pytest.raises(RecordingError, match="cannot be read"):
            recording.body(last)
