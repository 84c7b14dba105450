"""A bundle for whoever helps: a short recording that `observer replay` opens, with states, logs and versions, redacted.

It begins with what is known (deployments, what judging remembers, streams, the last bodies that were not understood)
and then keeps what is read in the next seconds, so that every target that answers, and every failure, is in it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import platform
import tempfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterable
from importlib.metadata import distributions
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
from aiohttp import web

from exporters.encoding import encode
from exporters.limits import LimitSource, limits_document
from exporters.signals_read import NO_SIGNALS
from exporters.status import explain_document, status_document
from exporters.statuses import failure
from observer.app.judging import Judging
from observer.app.secrets import known_secrets
from observer.app.tape import Tape
from observer.app.told import package_version
from observer.clock import Clock
from observer.collect.recording import Recorder
from observer.collect.redaction import Redaction
from observer.settings import Settings
from router_contract.kv_streams import KvStreamSummary
from router_contract.readings import Instant
from router_contract.targets import Deployment, DeploymentKey, Target, TargetKey
from router_contract.verdicts import DeploymentReport, TargetStatus

BUNDLE_PATH = "/api/v1/bundle"
LINES = 2000
LONGEST_LINE = 2000
MOST_SECONDS = 20.0


class LastLines(logging.Handler):
    """The last lines of the log, for bundles. Redaction is whoever's who hands them out."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        self._lines: deque[str] = deque(maxlen=LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._lines.append(self.format(record)[:LONGEST_LINE])

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger().removeHandler(self)

    def text(self) -> str:
        """All that is kept."""
        return "\n".join(self._lines) + "\n"


class Known(Protocol):
    """What is known now, as the application's source tells it."""

    def keys(self) -> tuple[DeploymentKey, ...]:
        """Every deployment."""
        ...

    def deployment(
        self, key: DeploymentKey, signals: frozenset[str] | None = None, totals: frozenset[str] = frozenset()
    ) -> DeploymentReport | None:
        """One report."""
        ...

    def targets(self) -> tuple[TargetStatus, ...]:
        """How every target stands."""
        ...


class Kept(Protocol):
    """A body that was kept."""

    @property
    def at(self) -> Instant:
        """When it was read."""
        ...

    @property
    def text(self) -> str:
        """Its text."""
        ...

    @property
    def content_type(self) -> str:
        """As it was sent."""
        ...


class World(msgspec.Struct, frozen=True):
    """Where a bundle takes everything from."""

    source: Known
    limits: LimitSource
    deployments: Callable[[], tuple[Deployment, ...]]
    judging: Judging
    streams: Callable[[DeploymentKey], tuple[KvStreamSummary, ...]]
    body: Callable[[TargetKey], Kept | None]
    tape: Tape
    lines: LastLines
    settings: Settings
    clock: Clock


class BundleApi:
    """The route. One bundle is made at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._turn = asyncio.Lock()

    def routes(self) -> list[web.AbstractRouteDef]:
        """Its one path."""
        return [web.get(BUNDLE_PATH, self.bundle)]

    async def bundle(self, request: web.Request) -> web.Response:
        """A bundle of the next ``?seconds=`` (two periods unless told): the file, or as base64 where JSON is wanted."""
        settings = self._world.settings
        longest = min(MOST_SECONDS, 0.6 * settings.http.request_timeout)
        told = request.query.get("seconds", "")
        seconds = min(longest, 2 * settings.scrape.period + settings.scrape.timeout) if not told else _seconds(told)
        if seconds is None or seconds > longest:
            return failure(400, f"seconds is {told[:40]!r}; want a number from 0 to {longest:g}")
        if self._turn.locked():
            return failure(429, "a bundle is being made; try again", headers={"Retry-After": "10"})
        async with self._turn:
            with tempfile.TemporaryDirectory(prefix="observer-bundle-") as folder:
                data = await made(self._world, Path(folder), seconds)
        if "application/json" in request.headers.get("Accept", ""):
            return web.Response(
                body=encode({"base64": base64.b64encode(data).decode()}), content_type="application/json"
            )
        headers = {"Content-Disposition": 'attachment; filename="observer.obsrec"'}
        return web.Response(body=data, content_type="application/zip", headers=headers)


def _seconds(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0.0 <= found <= MOST_SECONDS else None


async def made(world: World, folder: Path, seconds: float) -> bytes:
    """The bytes of a bundle. Files are in ``folder`` meanwhile."""
    redaction = Redaction(known_secrets(world.settings, world.deployments()))
    raw, done = folder / "raw.obsrec", folder / "observer.obsrec"
    with _begun(world, raw) as recorder:
        world.tape.add(recorder)
        try:
            await asyncio.sleep(seconds)
        finally:
            world.tape.remove(recorder)
        recorder.judged(world.clock.now())
    extras = _extras(world)
    await asyncio.to_thread(_redacted, raw, done, extras, redaction)
    return await asyncio.to_thread(done.read_bytes)


def _begun(world: World, path: Path) -> Recorder:
    """A recorder that knows what the observer knows."""
    now, settings = world.clock.now(), msgspec.to_builtins(world.settings)
    recorder = Recorder(path, writer=package_version(), started=now, settings=settings)
    deployments = world.deployments()
    recorder.fleet(deployments, now)
    for key, stored in world.judging.stored().items():
        recorder.stored(key, stored, now, running=True)
    for key, facts in world.judging.facts().items():
        recorder.facts(key, facts, now)
    for deployment in deployments:
        recorder.kv(deployment.key, world.streams(deployment.key), now)
        for view in world.judging.views(deployment.key):
            recorder.view(deployment.key, view, now)
    for probe in world.judging.probes():
        recorder.probe(probe, now)
    for target in _targets(deployments):
        kept = world.body(target.key)
        if kept is not None:
            recorder.body(target.key, kept.text.encode(), kept.at, 0.0, kept.content_type)
    return recorder


def _targets(deployments: Iterable[Deployment]) -> Iterable[Target]:
    for deployment in deployments:
        yield from deployment.targets()


def _extras(world: World) -> dict[str, bytes]:
    """What people read beside the recording."""
    states = []
    for key in world.source.keys():  # noqa: SIM118 - a source is no mapping
        report = world.source.deployment(key, NO_SIGNALS)
        if report is not None:
            states.append(
                {"status": status_document(report, key), "explain": explain_document(report, key, history=True)}
            )
    versions: dict[str, Any] = {
        "observer": package_version(),
        "python": platform.python_version(),
        "machine": platform.platform(),
        "packages": {each.metadata["Name"]: each.version for each in distributions()},
    }
    return {
        "states.json": encode(msgspec.to_builtins(states, str_keys=True)),
        "limits.json": encode(limits_document(world.limits.limits())),
        "versions.json": encode(versions),
        "log.txt": world.lines.text().encode("utf-8", "replace"),
    }


def _redacted(raw: Path, done: Path, extras: dict[str, bytes], redaction: Redaction) -> None:
    """The recording again with every member redacted; bodies get the names of what they are now."""
    with zipfile.ZipFile(raw) as before, zipfile.ZipFile(done, "w", zipfile.ZIP_DEFLATED) as after:
        renamed: dict[bytes, bytes] = {}
        for name in before.namelist():
            if name.startswith("bodies/"):
                old, data = name.removeprefix("bodies/"), redaction.data(before.read(name))
                renamed[old.encode()] = Recorder.digest(data).encode()
                if f"bodies/{Recorder.digest(data)}" not in after.namelist():
                    after.writestr(f"bodies/{Recorder.digest(data)}", data)
        after.writestr("manifest.json", redaction.data(before.read("manifest.json")))
        with before.open("events.jsonl") as lines, after.open("events.jsonl", "w") as out:
            for line in lines:
                out.write(_with_new_body(redaction.data(line), renamed))
        for name, data in extras.items():
            after.writestr(name, redaction.data(data))


def _with_new_body(line: bytes, renamed: dict[bytes, bytes]) -> bytes:
    head, found, rest = line.partition(b'"body":"')
    return head + found + renamed.get(rest[:64], rest[:64]) + rest[64:] if found else line
