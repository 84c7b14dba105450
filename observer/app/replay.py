"""A recording through the same pipeline, offline: the recorded moments are the clock, so the verdicts are the same."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path
from typing import Any

import msgspec

from exporters.document import metrics_document
from exporters.self_metrics import SelfMetrics
from exporters.status import explain_document, status_document
from exporters.summaries import deployment_summary
from observer.app.judging import Judging
from observer.app.kv import KvJudging
from observer.app.told import limits_of, package_version, policy_of
from observer.collect.recording import Event, Recording, RecordingError
from observer.settings import Settings
from observer.store import Store
from router_contract.judging import Stored
from router_contract.kv_streams import KvStreamSummary
from router_contract.platform_facts import PlatformFacts
from router_contract.probes import MemberProbe
from router_contract.readings import Instant, ScrapeFailed
from router_contract.router_views import RouterView, ViewFailed
from router_contract.targets import Deployment, DeploymentKey, Target, TargetKey
from router_contract.verdicts import Condition, DeploymentReport


class RecordedClock:
    """Tells the moment of the event that is being replayed."""

    def __init__(self) -> None:
        self.moment = Instant(0.0, 0.0)

    def now(self) -> Instant:
        """The recorded moment."""
        return self.moment


class Outcome(msgspec.Struct, frozen=True):
    """What a recording came to at its end: the reports, and one line about the recording."""

    reports: tuple[DeploymentReport, ...]
    note: str

    def summaries(self) -> list[dict[str, Any]]:
        """Each deployment in short, as ``/api/v1/deployments`` lists it."""
        return [msgspec.to_builtins(deployment_summary(report)) for report in self.reports]

    def documents(self) -> list[dict[str, Any]]:
        """The three documents of each deployment as the API gives them; for one that there is not, why."""
        return [
            {
                "namespace": report.key.namespace,
                "name": report.key.name,
                "status": msgspec.to_builtins(status_document(report, report.key)),
                "explain": msgspec.to_builtins(explain_document(report, report.key, history=True)),
                "metrics": msgspec.to_builtins(metrics_document(report)),
            }
            for report in self.reports
        ]


class Replay:
    """Feeds events to a store of its own and judges at the recorded moments, by the recorded settings.

    ``settings`` replace the recorded ones. Raises `RecordingError` for recorded settings that are none.
    """

    def __init__(self, recording: Recording, settings: Settings | None = None) -> None:
        self._recording = recording
        self.settings = settings = settings or _settings_of(recording)
        self.clock = RecordedClock()
        tally = SelfMetrics(package_version(), platform.python_version())
        self.store = Store(self.clock, policy_of(settings), limits_of(settings), tally)
        self.judging = Judging(self.store, settings, self._kv_conditions, lambda key: self._streams.get(key, ()))
        self._kv = KvJudging(self.store, settings, self.judging.ready_replicas)
        self._streams: dict[DeploymentKey, tuple[KvStreamSummary, ...]] = {}
        self._facts: dict[DeploymentKey, PlatformFacts] = {}
        self._targets: dict[TargetKey, Target] = {}
        self.events = 0

    def take(self, event: Event) -> None:
        """One event. Bodies bear the moment at which their read began, so the clock never goes back to it."""
        self.clock.moment = max(self.clock.moment, event.at)
        self.events += 1
        match event:
            case Event(kind="fleet"):
                deployments = self._recording.deployments(event)
                self.store.set_deployments(deployments, event.at)
                self._targets = {target.key: target for each in deployments for target in each.targets()}
            case Event(kind="pass"):
                self.judging.judge_all(event.at)
            case Event(kind="probe", probe=MemberProbe() as probe):
                self.judging.on_probe(probe)
                if probe.version is not None:
                    self.store.tell_version(probe.deployment, probe.uid, probe.version.version)
            case Event(kind="view", deployment=DeploymentKey() as key, view=RouterView() | ViewFailed() as view):
                self.judging.on_view(key, view)
            case Event(kind="kv", deployment=DeploymentKey() as key):
                self._streams[key] = self._recording.streams(event)
            case Event(kind="facts", deployment=DeploymentKey() as key):
                self._facts[key] = self._recording.facts(event)
                self.judging.set_facts(self._facts)
            case Event(kind="proof", deployment=DeploymentKey() as key):
                self.judging.on_proof(key, self._recording.proof(event))
            case Event(kind="stored" | "resumed", deployment=DeploymentKey() as key, stored=Stored() as stored):
                self.judging.load(key, stored, restarted=event.kind == "stored")
            case Event(target=TargetKey() as of) if of in self._targets:
                self._take_read(self._targets[of], event)

    def _kv_conditions(self, deployment: Deployment, now: Instant) -> tuple[Condition, ...]:
        return self._kv.conditions(deployment, self._streams.get(deployment.key, ()), now)

    def _take_read(self, target: Target, event: Event) -> None:
        if event.kind == "body":
            body = self._recording.body(event)
            self.store.on_body(target, body, event.content_type, event.at, event.duration)
        elif event.kind == "failed" and event.failure is not None:
            failure = ScrapeFailed(
                target=target.key,
                at=event.at,
                kind=event.failure,
                detail=event.detail,
                status=event.status,
                duration_seconds=event.duration,
            )
            self.store.on_failure(target, failure)

    def end(self) -> None:
        """Judge once at the end where the recording has no judging pass of its own."""
        if self.judging.last_pass is None:
            self.judging.judge_all(self.clock.now())

    def reports(self) -> tuple[DeploymentReport, ...]:
        """Every deployment at the last recorded moment."""
        keys = self.store.keys()
        found = (self.store.report(key, self.clock.now(), _not_due) for key in keys)
        return tuple(self.judging.add_verdicts(report) for report in found if report is not None)


def _settings_of(recording: Recording) -> Settings:
    try:
        return msgspec.convert(recording.manifest.settings, Settings)
    except msgspec.ValidationError as error:
        raise RecordingError(f"the recorded settings cannot be used: {error}") from error


def _not_due(_key: TargetKey) -> tuple[float | None, bool]:
    """Nothing is read any more in a recording."""
    return None, False


async def replay(file: Path, speed: float, stop: asyncio.Event, settings: Settings | None = None) -> Outcome:
    """Replay a file. Raises `RecordingError`. With ``speed`` above 0 it waits as the recording did, that many times faster."""
    with Recording(file) as recording:
        player = Replay(recording, settings)
        before: float | None = None
        for event in recording.events():
            pause = 0.0 if before is None or not speed else max(0.0, event.mono - before) / speed
            before = event.mono
            await asyncio.sleep(pause)
            if stop.is_set():
                break
            player.take(event)
        player.end()
        seconds = 0.0 if before is None else player.clock.now().wall - recording.manifest.started
        what = f"unfinished: {player.events} events recovered" if recording.unfinished else f"{player.events} events"
        note = f"{file}: {what} over {seconds:.0f} s, written by observer {recording.manifest.writer}"
        return Outcome(player.reports(), note)
