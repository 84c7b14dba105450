"""Pushing over OTLP joined to the rest: once in a period the rows of every family, taken in small steps on the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from exporters.encoding import UNRENDERABLE, in_words
from exporters.family import Family, signals_of, totals_of
from exporters.otlp_options import OtlpPlan, OtlpSettings, plan
from exporters.otlp_rows import GEN_AI_SIGNALS, Taken, take, take_gen_ai
from exporters.protocols import Prepare, ReportSource, at_once
from exporters.self_metrics import SelfMetrics
from exporters.signals_read import NO_SIGNALS
from exporters.snapshot import snapshot
from observer.clock import Clock
from router_contract.verdicts import DeploymentReport

if TYPE_CHECKING:
    from exporters.otlp_send import OtlpTally, Sender

LONGEST_STEP = 0.02
"""For how long taking rows may keep the event loop from everything else, in seconds."""
_log = logging.getLogger(__name__)


def otlp_part(
    settings: OtlpSettings,
    environ: Mapping[str, str],
    families: Sequence[Family],
    source: ReportSource,
    tally: SelfMetrics,
    clock: Clock,
    version: str,
    prepare: Prepare = at_once,
) -> OtlpPart | None:
    """What pushes, or ``None`` when nothing is to be pushed. Raises `OtlpError` for what the environment says wrongly.

    ``prepare`` works a report out in small steps. OpenTelemetry is imported only when something is pushed.
    """
    wanted = plan(settings, environ)
    return None if wanted is None else OtlpPart(wanted, families, source, tally, clock, version, prepare)


class OtlpPart:
    """Takes and pushes; `run` is a supervised child."""

    def __init__(
        self,
        wanted: OtlpPlan,
        families: Sequence[Family],
        source: ReportSource,
        tally: SelfMetrics,
        clock: Clock,
        version: str,
        prepare: Prepare = at_once,
    ) -> None:
        from exporters.otlp_send import OtlpTally, exporter  # noqa: PLC0415 - only where something is pushed

        self.plan = wanted
        self._families = tuple(families)
        self._source = source
        self._signals = signals_of(families)
        self._totals = totals_of(families) | (GEN_AI_SIGNALS if wanted.gen_ai_names else NO_SIGNALS)
        self._prepare = prepare
        self._own = tally
        self._clock = clock
        self._version = version
        self._began = clock.now().wall
        self._left_out: dict[str, str] = {}
        self._tally: OtlpTally = OtlpTally(tally.registry, wanted.protocol)
        exporter(wanted).shutdown()  # what the environment says wrongly is told before anything begins

    async def run(self) -> None:
        """Push once in each period until cancelled."""
        sender = self._sender()
        sender.open()
        try:
            while True:
                await asyncio.sleep(self.plan.period)
                await self.push(sender)
        finally:
            # A push that hangs is waited for a moment, and not on the loop.
            await asyncio.to_thread(sender.close)

    def _sender(self) -> Sender:
        from exporters.otlp_data import Converter, resource  # noqa: PLC0415 - only where something is pushed
        from exporters.otlp_send import Sender, exporter  # noqa: PLC0415 - only where something is pushed

        converter = Converter(resource(self._version), self._version, self._began)
        return Sender(exporter(self.plan), converter, self._tally, self._own.registry, lambda: self._clock.now().mono)

    async def push(self, sender: Sender) -> None:
        """Take the rows of this moment and hand them over."""
        at = self._clock.now().wall
        sender.offer(await self.take(), at)

    async def take(self) -> list[Taken]:
        """Every family's rows now; the loop is let go after each `LONGEST_STEP`."""
        worked = self._clock.now().mono
        reports: list[DeploymentReport] = []
        for key in self._source.keys():  # noqa: SIM118 - a source is no mapping
            for _ in self._prepare(key, self._signals):
                worked = await self._breathe(worked)
            try:
                report = self._source.deployment(key, self._signals, self._totals)
            except UNRENDERABLE as error:
                self._leave_out(str(key), error)
                continue
            if report is not None:
                reports.append(report)
            worked = await self._breathe(worked)
        shot = snapshot(reports, self._source.targets())
        taken: list[Taken] = []
        for each in take(self._families, shot, self._leave_out):
            taken.append(each)
            worked = await self._breathe(worked)
        if self.plan.gen_ai_names:
            taken += take_gen_ai(shot)
        return taken

    async def _breathe(self, worked: float) -> float:
        if self._clock.now().mono - worked <= LONGEST_STEP:
            return worked
        await asyncio.sleep(0)
        return self._clock.now().mono

    def _leave_out(self, name: str, error: Exception | None) -> None:
        why = "the limit on series is reached" if error is None else in_words(error)
        self._tally.left_out()
        if self._left_out.get(name) != why:
            self._left_out[name] = why
            _log.warning("%s is left out of what is pushed over OTLP: %s", name, why)
