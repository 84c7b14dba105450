"""One running observer: collectors, store, judges and the listener, joined; `Watcher` starts and stops them in order."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from aiohttp import web
from prometheus_client import ProcessCollector

from exporters.api import Api
from exporters.canary import CanaryApi
from exporters.canary_families import canary_families
from exporters.families import FAMILIES
from exporters.kept_documents import KeptDocuments
from exporters.kv import KvApi
from exporters.kv_families import kv_families
from exporters.limits import LimitsApi, limit_families
from exporters.openapi import OpenApi
from exporters.own_costs import OwnCostApi, own_cost_families
from exporters.prometheus import Renderer
from exporters.self_metrics import SelfMetrics
from exporters.server import Server
from exporters.top import TopApi
from observer.app.budget import budget
from observer.app.bundle import BundleApi, LastLines, World
from observer.app.canary import Canaries
from observer.app.canary_keeping import FileKeeper
from observer.app.doctor import DoctorApi
from observer.app.judging import Judging
from observer.app.kv import KvJudging, KvPart
from observer.app.limits import LimitBook, file_limit
from observer.app.looking import make_looking
from observer.app.otlp import OtlpPart, otlp_part
from observer.app.own_costs import OwnCosts
from observer.app.page import Bodies, Trial, make_page
from observer.app.parts import Reading, make_probe, make_views
from observer.app.pauses import relieve
from observer.app.platform_part import PlatformPart
from observer.app.source import Source
from observer.app.tape import Tape
from observer.app.told import limits_of, listen_of, package_version, policy_of
from observer.clock import Clock
from observer.collect.api_probe import engine_members
from observer.collect.fetch import Fetched, Fetcher
from observer.collect.recording import Recorder
from observer.collect.resolve import Resolver
from observer.collect.router_view import router_members
from observer.collect.scrape import TargetPool
from observer.persist import StateError, StateFile
from observer.settings import Settings
from observer.store import Store
from observer.supervise import Supervisor
from router_contract.judging import Stored
from router_contract.kv_streams import KvStreamSummary
from router_contract.limit_readings import LimitReading
from router_contract.platform_facts import PlatformFacts
from router_contract.probes import MemberProbe
from router_contract.readings import Instant, ScrapeFailed
from router_contract.router_views import RouterView, ViewFailed
from router_contract.targets import Component, Deployment, DeploymentKey, Target, TargetKey
from router_contract.verdicts import Condition

_log = logging.getLogger(__name__)

LONGEST_WORK = 0.01
"""For how long judging may keep the event loop from everything else, in seconds; one deployment is judged in one go."""
JUDGING_SHARE = 0.2
"""The part of a processor that judging may take: after a pass that took long, the next one comes later."""
LONGEST_REST = 5.0
"""The longest rest between passes for that, in seconds, where the period asks for none longer."""
LAG_PERIOD = 0.5
"""How often the event loop's lag is measured, in seconds."""


class Watcher:
    """An async context: while it is open, the deployments last given to `watch` are observed and served."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        listen: str | None = None,
        recorder: Recorder | None = None,
        state: StateFile | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._tape, self._lines, self._state = Tape(recorder), LastLines(), state
        self.tally = SelfMetrics(package_version(), platform.python_version())
        ProcessCollector(registry=self.tally.registry)
        self.store = Store(clock, policy_of(settings), limits_of(settings), self.tally)
        self.kv = KvPart(self.store, clock, settings)
        self.canaries = Canaries(self.store, clock, settings, None if state is None else FileKeeper(state))
        self.judging = Judging(self.store, settings, self._extra_conditions, lambda key: self._kv_seen.get(key, ()))
        self.platform = PlatformPart(self.judging, clock, self._record)
        self._kv_judging = KvJudging(self.store, settings, self.judging.ready_replicas)
        self._kv_seen: dict[DeploymentKey, tuple[KvStreamSummary, ...]] = {}
        for key, stored in state.load().items() if state is not None else ():
            self.recall(key, stored)
        self._supervisor = Supervisor(clock)
        self._budget = budget(settings, file_limit())
        keep, reads = settings.scrape.keep_alive, self._budget.reads
        self._fetcher = Fetcher(clock, settings.body_limits, keep_alive=keep, reads=reads, resolver=resolver)
        self._pool = TargetPool(
            fetcher=self._fetcher,
            sink=self,
            clock=clock,
            supervisor=self._supervisor,
            settings=settings.scrape,
            max_targets=self._budget.targets,
        )
        reading = Reading(self._fetcher, clock, self._supervisor, settings, self._budget.targets)
        self._probe = make_probe(reading, self.on_probe)
        self._views = make_views(reading, self.on_view, self.judging)
        self.source = Source(self.store, self._pool, self.judging, clock, settings)
        self.looking = make_looking(clock, self._fetcher, settings.security.allow_cidrs)
        self._bodies = Bodies(clock)
        self.page = make_page(
            self.source,
            self.kv,
            self.canaries,
            self._pool,
            self._bodies,
            Trial(clock, policy_of(settings), limits_of(settings)),
            version=package_version(),
            watchers=self._budget.watchers,
        )
        self._own = OwnCosts(self.store, self.kv, self._fetcher, lambda: self._bodies.nbytes, lambda: clock.now().mono)
        about = (*limit_families(self), *own_cost_families(self._own))
        self._families = (*FAMILIES, *kv_families(self.kv), *canary_families(self.canaries), *about)
        self._otlp = self._make_otlp()
        self.server = Server(self._routes(), listen_of(settings, listen, self._budget), self.tally)
        self._book = LimitBook(
            settings,
            self._budget,
            reads=self.source,
            indexes=self.kv,
            viewers=self.page.events,
            fetcher=self._fetcher,
            pool=self._pool,
            server=self.server,
        )
        self._stack = AsyncExitStack()
        self._unsaved, self._told = "", asyncio.Event()
        self._overruns: dict[TargetKey, int] = {}

    def _make_otlp(self) -> OtlpPart | None:
        told = (self._families, self.source, self.tally, self._clock, package_version())
        return otlp_part(self._settings.otlp, os.environ, *told, self.source.prepare_many)

    def recall(self, key: DeploymentKey, stored: Stored) -> None:
        """What judging remembered of a deployment before a restart or a change of owner; before it is watched."""
        self._record(lambda to: to.stored(key, stored, self._clock.now()))
        self.judging.load(key, stored)

    def _routes(self) -> list[web.AbstractRouteDef]:
        pods, failed = self._settings.limits.pods_per_document, self.tally.render_failed
        self.documents = KeptDocuments(self.source, pods)
        renderer = Renderer(self._families, self.tally.registry)
        api = Api(self.source, renderer, pods=pods, failed=failed, looks=self.looking, documents=self.documents)
        api.prepare = self.source.prepare_many
        doctor = DoctorApi(self.store.deployments, self._fetcher, self._clock)
        top = TopApi(self.source, self.tally.render_failed)
        own = OwnCostApi(self._own, self.tally.registry)
        about = (OpenApi(package_version()), LimitsApi(self), own, BundleApi(self._world()), doctor)
        apis = (*about, api, top, KvApi(self.kv), CanaryApi(self.canaries), self.page)
        return [route for each in apis for route in each.routes()]

    def _world(self) -> World:
        knows = (self.source, self, self.store.deployments, self.judging, self.kv.kv_streams, self._bodies.kept)
        return World(*knows, self._tape, self._lines, self._settings, self._clock)

    def limits(self) -> tuple[LimitReading, ...]:
        """What is used of every limit."""
        return self._book.limits()

    @property
    def url(self) -> str:
        """Where the listener is."""
        return self.server.url

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.enter_context(self._lines)
            await stack.enter_async_context(self._fetcher)
            # The listener closes after the supervised children have ended, so that probes answer until the last moment.
            await self.server.start()
            stack.push_async_callback(self.server.stop)
            stack.callback(self.page.close)
            stack.callback(self._save_last)
            await stack.enter_async_context(self.kv.collector)
            stack.callback(self.kv.close)
            await stack.enter_async_context(self._supervisor)
            self._supervisor.start("follow KV events", self.kv.collector.run)
            self._supervisor.start("measure the loop's lag", self._measure_lag)
            self._supervisor.start("look at limits", self._book.run)
            self._supervisor.start("judge", self._judge)
            self._supervisor.start("judge canaries", self.canaries.run)
            self._supervisor.start("keep pages live", self.page.run)
            if self._otlp is not None:
                self._supervisor.start("push over OTLP", self._otlp.run)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def watch(
        self, deployments: Iterable[Deployment], facts: Mapping[DeploymentKey, PlatformFacts] | None = None
    ) -> None:
        """Observe exactly these from now on. On return no read of a target that left is under way.

        ``facts`` are what platforms say of them; of a deployment without any, nothing beyond what a file says.
        """
        found, now = tuple(deployments), self._clock.now()
        self.platform.facts(facts or {})
        self._record(lambda to: to.fleet(found, now))
        self.store.set_deployments(found, now)
        self._overruns = {key: n for key, n in self._overruns.items() if self.store.record(key) is not None}
        self._bodies.retain(frozenset(target.key for each in found for target in each.targets()))
        self._kv_seen = {each.key: self._kv_seen[each.key] for each in found if each.key in self._kv_seen}
        self.source.watching_since = self.source.watching_since or now
        self._told.set()
        await self._pool.sync(target for deployment in found for target in deployment.targets())
        await self._probe.sync(engine_members(found))
        await self._views.sync(router_members(found))
        self.kv.sync()
        self.source.loaded = True

    def on_body(self, target: Target, body: Fetched, at: Instant, duration_seconds: float) -> None:
        """A target answered."""
        self._record(lambda to: to.body(target.key, body.data, at, duration_seconds, body.content_type))
        self._count_overruns(target)
        before = self.store.resets(target.key)
        self.store.on_body(target, body.data, body.content_type, at, duration_seconds)
        record = self.store.record(target.key)
        understood = record is not None and not record.consecutive
        self._bodies.saw(target.key, body.data, body.content_type, at, understood=understood)
        if target.component is Component.ENGINE and self.store.resets(target.key) > before:
            self._probe.restarted(target.key.deployment, target.key.member_uid)
            self.kv.restarted(target.key.deployment, target.key.member_uid)

    def on_failure(self, target: Target, failure: ScrapeFailed) -> None:
        """A target did not answer."""
        self._record(lambda to: to.failed(failure))
        self._count_overruns(target)
        self.store.on_failure(target, failure)

    def _count_overruns(self, target: Target) -> None:
        """Slots that earlier reads of this target ran over, each counted once."""
        schedule = self._pool.schedule(target.key)
        seen = self._overruns.get(target.key, 0)
        if schedule is not None and schedule.overruns > seen:
            self._overruns[target.key] = schedule.overruns
            self.tally.overran(target.component, schedule.overruns - seen)

    def on_probe(self, probe: MemberProbe) -> None:
        """An engine's API told something: its version decides which names are read."""
        self._record(lambda to: to.probe(probe, self._clock.now()))
        self.judging.on_probe(probe)
        self.kv.on_probe(probe)
        if probe.version is not None:
            self.store.tell_version(probe.deployment, probe.uid, probe.version.version)

    def _extra_conditions(self, deployment: Deployment, now: Instant) -> tuple[Condition, ...]:
        """What KV events and canaries prove at a judging pass; a recording keeps what the streams were when they changed."""
        streams = self.kv.kv_streams(deployment.key)
        if self._kv_seen.get(deployment.key) != streams:
            self._kv_seen[deployment.key] = streams
            self._record(lambda to: to.kv(deployment.key, streams, now))
        return self._kv_judging.conditions(deployment, streams, now) + self.canaries.conditions(deployment, now)

    def on_view(self, key: DeploymentKey, view: RouterView | ViewFailed) -> None:
        """A router's view was read, or could not be."""
        self._record(lambda to: to.view(key, view, self._clock.now()))
        self.judging.on_view(key, view)

    def _record(self, write: Callable[[Recorder], None]) -> None:
        self._tape.write(write)

    @property
    def supervisor(self) -> Supervisor:
        """For parts that start and stop tasks of their own."""
        return self._supervisor

    def supervise(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Keep one more task running for as long as the observer runs."""
        self._supervisor.start(name, run)

    async def _measure_lag(self) -> None:
        while True:
            due = self._clock.now().mono + LAG_PERIOD
            await asyncio.sleep(LAG_PERIOD)
            self.tally.lagged(max(0.0, self._clock.now().mono - due))

    async def _judge(self) -> None:
        # A pass over a list that nobody has told yet would forget everything that is stored.
        await self._told.wait()
        while True:
            worked = await self._pass(self._clock.now())
            if self._state is not None:
                await self._save(self._state)
            rest = min(worked * (1 / JUDGING_SHARE - 1), LONGEST_REST)
            await asyncio.sleep(max(self._settings.judging.period, rest))

    async def _pass(self, now: Instant) -> float:
        """One judging pass; how many seconds of work it was, its rests aside."""
        begun = self._clock.now().mono
        steps = self.judging.steps(now)
        # After it: what a pass was the first to see of KV streams is recorded by then, and a replay judges with it.
        self._record(lambda to: to.judged(now))
        worked = 0.0
        for _ in steps:
            spell = self._clock.now().mono - begun
            if spell > LONGEST_WORK:
                worked += spell
                await asyncio.sleep(0)
                relieve()
                begun = self._clock.now().mono
        return worked + self._clock.now().mono - begun

    def _save_last(self) -> None:
        """What the last pass found, once nothing runs any more."""
        if self._state is not None and self._told.is_set():
            try:
                self._state.save(self.judging.stored())
            except StateError as error:
                _log.error("%s", error)

    async def _save(self, state: StateFile) -> None:
        """Keep what a restart must not lose. A disk that is full is said once and tried again at the next pass."""
        try:
            await asyncio.to_thread(state.save, self.judging.stored())
        except StateError as error:
            if str(error) != self._unsaved:
                _log.error("%s", error)
            self._unsaved = str(error)
        else:
            self._unsaved = ""
