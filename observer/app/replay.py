"""A recording through the same pipeline, offline: the recorded moments are the clock, so the verdicts are the same."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path

import msgspec

from exporters.self_metrics import SelfMetrics
from observer.app.judging import Judging
from observer.app.watcher import limits_of, package_version, policy_of
from observer.collect.recording import Event, Recording
from observer.settings import Settings
from observer.store import Store
from router_contract.readings import Instant, ScrapeFailed
from router_contract.targets import Target, TargetKey
from router_contract.verdicts import DeploymentReport


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


class Replay:
    """Feeds events to a store of its own and judges at the recorded pace."""

    def __init__(self, recording: Recording, settings: Settings) -> None:
        self._recording = recording
        self._period = settings.judging.period
        self.clock = RecordedClock()
        tally = SelfMetrics(package_version(), platform.python_version())
        self.store = Store(self.clock, policy_of(settings), limits_of(settings), tally)
        self.judging = Judging(self.store, settings)
        self._targets: dict[TargetKey, Target] = {}
        self._next_pass: float | None = None
        self.events = 0

    def take(self, event: Event) -> None:
        """One event, after the judging passes that were due before it."""
        self._judge_until(event.mono)
        self.clock.moment = event.at
        self.events += 1
        if event.kind == "fleet":
            deployments = self._recording.deployments(event)
            self.store.set_deployments(deployments)
            self._targets = {target.key: target for each in deployments for target in each.targets()}
            return
        target = self._targets.get(event.target) if event.target is not None else None
        if target is None:
            return
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

    def _judge_until(self, mono: float) -> None:
        """Judge once a period of recorded time, as the observer did."""
        if self._next_pass is None:
            self._next_pass = mono + self._period
            return
        while self._next_pass <= mono:
            moment = self.clock.moment
            self.clock.moment = Instant(self._next_pass, moment.wall + (self._next_pass - moment.mono))
            self.judging.judge_all(self.clock.moment)
            self._next_pass += self._period

    def reports(self) -> tuple[DeploymentReport, ...]:
        """Every deployment at the last recorded moment."""
        keys = self.store.keys()
        found = (self.store.report(key, self.clock.now(), _not_due) for key in keys)
        return tuple(self.judging.add_verdicts(report) for report in found if report is not None)


def _not_due(_key: TargetKey) -> tuple[float | None, bool]:
    """Nothing is read any more in a recording."""
    return None, False


async def replay(file: Path, speed: float, stop: asyncio.Event, settings: Settings | None = None) -> Outcome:
    """Replay a file. Raises `RecordingError`. With ``speed`` above 0 it waits as the recording did, that many times faster."""
    with Recording(file) as recording:
        player = Replay(recording, settings or Settings())
        before: float | None = None
        for event in recording.events():
            pause = 0.0 if before is None or not speed else max(0.0, event.mono - before) / speed
            before = event.mono
            await asyncio.sleep(pause)
            if stop.is_set():
                break
            player.take(event)
        seconds = 0.0 if before is None else player.clock.now().wall - recording.manifest.started
        note = f"{file}: {player.events} events over {seconds:.0f} s, written by observer {recording.manifest.writer}"
        return Outcome(player.reports(), note)
