"""`.obsrec` files: what the observer saw, kept so that the same pipeline can see it again offline.

A recording is a zip of ``manifest.json`` (format version), ``events.jsonl`` (one event a line: both clocks, wall and
monotonic seconds, kind, target, body hash) and ``bodies/<sha256>``. Equal bodies are stored once. This module owns the
format in both directions; it judges nothing. Values of headers and of secret environment variables are never written.

While it is written, the events are in a journal beside it (``FILE.events``), because a zip cannot grow two members at
once. Closing folds the journal into the zip. After a crash both together are still read, up to the last whole event.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self, TypeVar

import msgspec

from observer.collect.redaction import without_secrets
from observer.collect.unfinished import ZIP_TROUBLE, UnfinishedZip, open_zip
from router_contract.judging import MembershipProof, Stored
from router_contract.kv_streams import KvStreamSummary
from router_contract.platform_facts import PlatformFacts
from router_contract.probes import MemberProbe
from router_contract.readings import FailureKind, Instant, ScrapeFailed
from router_contract.router_views import RouterView, ViewFailed
from router_contract.targets import Deployment, DeploymentKey, TargetKey

T = TypeVar("T")

FORMAT_VERSION = 1
MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_EVENT_BYTES = 16 * 1024 * 1024
MAX_MANIFEST_BYTES = 1024 * 1024


class RecordingError(Exception):
    """A recording that cannot be read; the message names the file, the entry and what was wanted."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing read: which format this is, who wrote it, when (wall seconds), and with which settings."""

    format: Literal["obsrec"] = "obsrec"
    version: int = FORMAT_VERSION
    writer: str = ""
    started: float = 0.0
    settings: dict[str, Any] = {}


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened.

    ``kind`` is ``fleet`` (body: the deployments as JSON), ``facts`` (what a platform says of one), ``body``, ``failed``,
    ``probe``, ``view``, ``kv``, ``proof``, ``stored`` (what judging knew from before a restart), ``resumed`` (the same
    where a recording begins in the middle) or ``pass`` (everything was judged at this moment).
    """

    mono: float
    wall: float
    kind: str
    target: TargetKey | None = None
    body: str = ""
    content_type: str = ""
    duration: float = 0.0
    failure: FailureKind | None = None
    detail: str = ""
    status: int | None = None
    deployment: DeploymentKey | None = None
    probe: MemberProbe | None = None
    view: RouterView | ViewFailed | None = None
    stored: Stored | None = None

    @property
    def at(self) -> Instant:
        """The moment on both clocks."""
        return Instant(self.mono, self.wall)


class Recorder:
    """Writes one recording. Use it as a context manager: closing makes it one file.

    What was written when the process is killed can be read: each body goes to the file before the event that names it.
    Raises `RecordingError` when the file exists already or cannot be made; later writes raise `OSError` as they come.
    """

    def __init__(self, path: Path, *, writer: str, started: Instant, settings: dict[str, Any] | None = None) -> None:
        self._path = path
        self._journal = journal_of(path)
        self._file = _created(path)
        try:
            self._events = _created(self._journal)
        except RecordingError:
            self._file.close()
            path.unlink()
            raise
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        self._kept: set[str] = set()
        self._encode = msgspec.json.Encoder().encode
        manifest = Manifest(writer=writer, started=started.wall, settings=without_secrets(settings or {}))
        self._zip.writestr("manifest.json", self._encode(manifest))
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def fleet(self, deployments: tuple[Deployment, ...], at: Instant) -> None:
        """The set of deployments changed."""
        shown = self._encode(without_secrets(msgspec.to_builtins(deployments)))
        self._event(Event(mono=at.mono, wall=at.wall, kind="fleet", body=self._keep(shown)))

    def body(self, target: TargetKey, body: bytes, at: Instant, duration: float, content_type: str = "") -> None:
        """A target answered."""
        kept = self._keep(body)
        self._event(
            Event(
                mono=at.mono,
                wall=at.wall,
                kind="body",
                target=target,
                body=kept,
                content_type=content_type,
                duration=duration,
            )
        )

    def failed(self, failure: ScrapeFailed) -> None:
        """A target did not answer, or not with an exposition."""
        self._event(
            Event(
                mono=failure.at.mono,
                wall=failure.at.wall,
                kind="failed",
                target=failure.target,
                duration=failure.duration_seconds,
                failure=failure.kind,
                detail=failure.detail,
                status=failure.status,
            )
        )

    def probe(self, probe: MemberProbe, at: Instant) -> None:
        """An engine's API told something."""
        self._event(Event(mono=at.mono, wall=at.wall, kind="probe", deployment=probe.deployment, probe=probe))

    def view(self, key: DeploymentKey, view: RouterView | ViewFailed, at: Instant) -> None:
        """A router's view was read, or could not be."""
        self._event(Event(mono=at.mono, wall=at.wall, kind="view", deployment=key, view=view))

    def kv(self, key: DeploymentKey, streams: tuple[KvStreamSummary, ...], at: Instant) -> None:
        """A deployment's KV-event streams are no longer what they were."""
        body = self._keep(self._encode(streams))
        self._event(Event(mono=at.mono, wall=at.wall, kind="kv", deployment=key, body=body))

    def facts(self, key: DeploymentKey, facts: PlatformFacts, at: Instant) -> None:
        """What a platform says of a deployment is no longer what it was."""
        body = self._keep(self._encode(without_secrets(msgspec.to_builtins(facts))))
        self._event(Event(mono=at.mono, wall=at.wall, kind="facts", deployment=key, body=body))

    def proof(self, key: DeploymentKey, proof: MembershipProof, at: Instant) -> None:
        """A deployment's Pods were listed uncached."""
        body = self._keep(self._encode(proof))
        self._event(Event(mono=at.mono, wall=at.wall, kind="proof", deployment=key, body=body))

    def stored(self, key: DeploymentKey, stored: Stored, at: Instant, *, running: bool = False) -> None:
        """What judging knew of a deployment before its first pass; ``running``: when this recording began."""
        kind = "resumed" if running else "stored"
        self._event(Event(mono=at.mono, wall=at.wall, kind=kind, deployment=key, stored=stored))

    def judged(self, at: Instant) -> None:
        """Everything was judged at this moment."""
        self._event(Event(mono=at.mono, wall=at.wall, kind="pass"))

    def close(self) -> None:
        """Finish the file. Closing twice is fine. Raises `RecordingError` when the disk does not take the rest."""
        if self._events.closed:
            return
        try:
            self._finish()
        except OSError as error:
            raise RecordingError(f"{self._path} cannot be finished: {error.strerror or error}") from error

    def _finish(self) -> None:
        self._events.seek(0)
        with self._zip.open("events.jsonl", "w") as member:
            while chunk := self._events.read(1 << 20):
                member.write(chunk)
        self._zip.close()
        self._file.close()
        self._events.close()
        self._journal.unlink()

    @staticmethod
    def digest(body: bytes) -> str:
        """The name of a body in a recording."""
        return hashlib.sha256(body).hexdigest()

    def _keep(self, body: bytes) -> str:
        digest = self.digest(body)
        if digest not in self._kept:
            self._kept.add(digest)
            self._zip.writestr(f"bodies/{digest}", body)
            self._file.flush()
        return digest

    def _event(self, event: Event) -> None:
        self._events.write(self._encode(event) + b"\n")
        self._events.flush()


def journal_of(path: Path) -> Path:
    """Where the events of a recording are while it is written."""
    return path.with_name(path.name + ".events")


def _created(path: Path) -> IO[bytes]:
    """A new file to write and read. Raises `RecordingError`."""
    try:
        return path.open("x+b")
    except FileExistsError:
        raise RecordingError(f"{path} exists already; name a new file to record into") from None
    except OSError as error:
        raise RecordingError(f"{path} cannot be written: {error.strerror}") from error


class Recording:
    """Reads one recording. Bodies are checked against their hash; a damaged or newer file is refused in a sentence.

    ``unfinished`` is whether its recorder was killed (or writes still): its events then end with the last whole one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._zip = open_zip(path)
        except ZIP_TROUBLE as error:
            raise RecordingError(f"{path} is not a recording: {error}") from error
        self.unfinished = isinstance(self._zip, UnfinishedZip)
        try:
            self.manifest = self._checked()
        except RecordingError:
            self._zip.close()
            raise

    def _checked(self) -> Manifest:
        """The manifest of a recording that can be read."""
        path, journal = self._path, journal_of(self._path)
        try:
            size = self._zip.size("manifest.json")
            if size > MAX_MANIFEST_BYTES:
                raise RecordingError(f"{path} is not a recording: its manifest unpacks to {size} bytes")
            manifest = msgspec.json.decode(self._zip.read("manifest.json"), type=Manifest)
        except ZIP_TROUBLE as error:
            raise RecordingError(f"{path} is not a recording: {error}") from error
        if manifest.version > FORMAT_VERSION:
            raise RecordingError(
                f"{path} has recording format {manifest.version}; this observer reads up to {FORMAT_VERSION}: use a newer one"
            )
        if self.unfinished and not journal.exists():
            raise RecordingError(
                f"{path} was not finished: its recorder was killed, and {journal.name}, which has its events, "
                "is not beside it"
            )
        return manifest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def events(self) -> Iterator[Event]:
        """The events in the order they happened."""
        decode = msgspec.json.Decoder(Event).decode
        name = journal_of(self._path).name if self.unfinished else "events.jsonl"
        try:
            with self._event_lines() as lines:
                number = 0
                while line := lines.readline(MAX_EVENT_BYTES + 1):
                    number += 1
                    if len(line) > MAX_EVENT_BYTES:
                        raise RecordingError(f"{self._path}: event {number} is longer than {MAX_EVENT_BYTES} bytes")
                    if self.unfinished and not line.endswith(b"\n"):
                        return
                    event = decode(line)
                    if isinstance(self._zip, UnfinishedZip) and event.body and f"bodies/{event.body}" not in self._zip:
                        return
                    yield event
        except ZIP_TROUBLE as error:
            raise RecordingError(f"{self._path}: {name} cannot be read: {error}") from error

    def _event_lines(self) -> IO[bytes]:
        if isinstance(self._zip, UnfinishedZip):
            return journal_of(self._path).open("rb")
        return self._zip.open("events.jsonl")

    def body(self, event: Event) -> bytes:
        """The body of an event."""
        name = f"bodies/{event.body}"
        try:
            size = self._zip.size(name)
            if size > MAX_BODY_BYTES:
                raise RecordingError(f"{self._path}: {name} unpacks to {size} bytes, at most {MAX_BODY_BYTES} are read")
            body = self._zip.read(name)
        except ZIP_TROUBLE as error:
            raise RecordingError(f"{self._path}: {name} cannot be read: {error}") from error
        found = hashlib.sha256(body).hexdigest()
        if found != event.body:
            raise RecordingError(f"{self._path}: {name} is damaged: its content has the hash {found}")
        return body

    def deployments(self, event: Event) -> tuple[Deployment, ...]:
        """The deployments of a ``fleet`` event."""
        return self._decoded(event, tuple[Deployment, ...], "a set of deployments")

    def streams(self, event: Event) -> tuple[KvStreamSummary, ...]:
        """The streams of a ``kv`` event."""
        return self._decoded(event, tuple[KvStreamSummary, ...], "a set of streams")

    def facts(self, event: Event) -> PlatformFacts:
        """What a platform said, of a ``facts`` event."""
        return self._decoded(event, PlatformFacts, "what a platform says")

    def proof(self, event: Event) -> MembershipProof:
        """The list of a ``proof`` event."""
        return self._decoded(event, MembershipProof, "a membership proof")

    def _decoded(self, event: Event, wanted: type[T], what: str) -> T:
        try:
            return msgspec.json.decode(self.body(event), type=wanted)
        except msgspec.MsgspecError as error:
            raise RecordingError(f"{self._path}: bodies/{event.body} is not {what}: {error}") from error
