"""The soak: a whole observer over faulty engines and publishers for a while, with a ledger that knows the truth."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import resource
import tempfile
import time
from pathlib import Path

import msgspec
from aiohttp import web

from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.options import CanaryProvider, CanarySettings, KvEventSettings, ScrapeSettings
from observer.collect.resolve import Resolver
from observer.settings import JudgingSettings, RouterSettings, Settings, WindowSettings, load_files
from router_contract.canary import CanaryAnalysis, Source, TargetRef
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey
from tests.judge.canary.build import analysis, definition, promql
from tests.soak.disk import FullDisk, small_disk
from tests.soak.engines import MODES, Engine, Names, Publishers
from tests.soak.ledger import FILES, FILES_EACH, MEMORY_MIB, Ledger
from tests.soak.sabotage import SABOTAGES

EACH = 10
NAMED = 5
SETTINGS = Settings(
    scrape=ScrapeSettings(period=2.0, timeout=0.8, keep_alive=5.0),
    judging=JudgingSettings(period=0.5),
    routers=RouterSettings(view_period=2.0, view_timeout=0.8, view_valid=10.0),
    windows=WindowSettings(span=10.0, max=60.0, expire_after=60.0),
    kv_events=KvEventSettings(replay_timeout=1.0, silent_after=3.0, reconnect_first=0.05, reconnect_max=0.5),
)
FAULTS = (*MODES, "moved", "restart-publisher", "silent-publisher", "clock-step", "disk-full", "few-descriptors")
FAULT_SECONDS = 7.0
DISK_SECONDS = 3.0
"""Shorter, for no canary sample counts while none can be stored, and most of them must be tried."""
WARM_SECONDS = 8.0


class SteppingClock:
    """The machine's clocks; the wall clock may be set."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self.shift = 0.0

    def now(self) -> Instant:
        """This moment."""
        moment = self._system.now()
        return Instant(moment.mono, moment.wall + self.shift)


class Provider:
    """A PromQL source that counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def query(self, _: web.Request) -> web.Response:
        self.asked += 1
        value = {"metric": {}, "value": [time.time(), "0.001"]}
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": [value]}})


class Soak:
    """One run. ``seconds`` counts from when everything was read once. ``mounts``: whether it may mount a small disk."""

    def __init__(
        self, *, targets: int = 200, streams: int = 50, seed: int = 1, sabotage: str = "", mounts: bool = False
    ) -> None:
        self.names = Names()
        self.engines = {f"d{place // EACH}-s-{place % EACH}": None for place in range(targets)}
        self.streams = streams
        self.draw = random.Random(seed)
        self.sabotage = sabotage
        self.mounts = mounts
        self.clock = SteppingClock()
        self.provider = Provider()
        self.healing: list[tuple[float, str, object]] = []

    async def run(self, seconds: float) -> Ledger:
        """Play faults until the time is over; the ledger says what was found."""
        made: dict[str, Engine] = {}
        for place, name in enumerate(self.engines):
            engine = made[name] = Engine(name)
            await engine.start()
            if place < NAMED:
                self.names.hosts[f"{name}.soak"] = engine.host
        publishers = Publishers(self.streams)
        runner = web.AppRunner(self._source(), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        settings = self._settings(runner.addresses[0][1])
        ledger = Ledger(made, settings)
        with tempfile.TemporaryDirectory(prefix="observer-soak-") as folder:
            file = Path(folder, "fleet.yaml")
            file.write_text(json.dumps(self._fleet(made, publishers)))
            disk = Path(folder, "state")
            disk.mkdir()
            with small_disk(disk, real=self.mounts), FullDisk(disk / "state.sqlite", real=self.mounts) as state:
                names = Resolver(self.clock, ttl=1.0, getaddrinfo=self.names.getaddrinfo)
                watcher = Watcher(settings, self.clock, listen="127.0.0.1:0", state=state, resolver=names)
                if self.sabotage:
                    SABOTAGES[self.sabotage](watcher)
                async with watcher:
                    await watcher.watch(load_files([file]).deployments)
                    await watcher.canaries.watch([_canary()])
                    try:
                        await self._play(watcher, made, publishers, state, ledger, seconds)
                    finally:
                        publishers.close()
                        for engine in made.values():
                            await engine.stop()
        await runner.cleanup()
        return ledger

    def _settings(self, port: int) -> Settings:
        provider = CanaryProvider(name="p", server_address=f"http://127.0.0.1:{port}")
        security = msgspec.structs.replace(SETTINGS.security, allow_cidrs=("127.0.0.0/8",))
        return msgspec.structs.replace(SETTINGS, canary=CanarySettings(providers=(provider,)), security=security)

    def _source(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/api/v1/query", self.provider.query)
        return app

    def _fleet(self, made: dict[str, Engine], publishers: Publishers) -> dict[str, object]:
        deployments = []
        every = list(made.items())
        for start in range(0, len(every), EACH):
            replicas = []
            for place, (name, engine) in enumerate(every[start : start + EACH], start):
                host = f"{name}.soak" if place < NAMED else engine.host
                revision = "1" if place % 2 else "2"
                member: dict[str, object] = {"address": f"{host}:{engine.port}", "name": name, "revision": revision}
                if place < self.streams:
                    each = publishers.publishers[place]
                    member["kvEvents"] = [{"endpoint": each.endpoint, "replayEndpoint": each.replay_endpoint}]
                replicas.append({"members": [member]})
            engine_document = {"name": "vllm", "version": "0.32.0"}
            role = {"name": "s", "engine": engine_document, "replicas": replicas}
            deployments.append({"name": f"d{start // EACH}", "roles": [role]})
        head = {"apiVersion": "observer.modeldeployment.io/v1alpha1", "kind": "Fleet"}
        return {**head, "deployments": deployments}

    async def _play(
        self,
        watcher: Watcher,
        made: dict[str, Engine],
        publishers: Publishers,
        state: FullDisk,
        ledger: Ledger,
        seconds: float,
    ) -> None:
        await asyncio.sleep(WARM_SECONDS)
        keys = [(DeploymentKey("default", name.split("-")[0]), name) for name in list(made)[: self.streams]]
        files = _files()
        memory, end = 0.0, time.monotonic() + seconds
        begun, asked, turn = time.monotonic(), self.provider.asked, 0
        while (now := time.monotonic()) < end:
            if end - now > FAULT_SECONDS + 2:
                await self._fault(FAULTS[turn % len(FAULTS)], made, publishers, state, ledger)
                turn += 1
            for _ in range(4):
                await self._heal(ledger)
                await ledger.check_state(state)
                ledger.check(watcher)
                ledger.check_blocks(watcher, publishers, keys)
                asked = self.provider.asked
                await asyncio.sleep(0.15)
                ledger.lost_samples = state.lost_samples
                ledger.check_canary(watcher, asked if self.provider.asked == asked else self.provider.asked)
            short = any(what == "descriptors" for _, what, _ in self.healing)
            if not memory and not short and now - begun > min(30.0, seconds / 3):
                memory = _memory()
        for _ in range(60):
            await self._heal(ledger, everything=True)
            await ledger.check_state(state)
            if not ledger.waiting and not state.busy:
                break
            await asyncio.sleep(0.25)
            ledger.check(watcher)
        if ledger.waiting:
            ledger.violated("not recovered", f"{len(ledger.waiting)} after 15 s: {ledger.told(watcher)}")
        if ledger.faults["disk-full"] and not state.refused:
            ledger.violated("not tried", "the disk was full and nothing was refused")
        if ledger.samples < seconds / 4:
            ledger.violated("not tried", f"only {ledger.samples} canary samples in {seconds:g} s")
        # Quiet again, as it was before the first fault: idle connections of faulty times have had their time.
        await asyncio.sleep(SETTINGS.scrape.keep_alive + 2.0)
        gc.collect()
        ledger.check_flat("memory (MiB)", memory, _memory(), MEMORY_MIB)
        ledger.check_flat("descriptors", files, _files(), FILES + FILES_EACH * len(made))

    async def _fault(
        self, kind: str, made: dict[str, Engine], publishers: Publishers, state: FullDisk, ledger: Ledger
    ) -> None:
        if kind == "disk-full" and state.busy:
            return
        until = time.monotonic() + FAULT_SECONDS
        well = [engine for place, engine in enumerate(made.values()) if engine.mode == "ok" and place >= NAMED]
        ledger.faults[kind] += 1
        if kind in MODES:
            for engine in self.draw.sample(well, min(len(well), 6)):
                await engine.become(kind)
                self.healing.append((until, "engine", engine))
        elif kind == "moved":
            name = self.draw.choice(list(self.names.hosts))
            engine = made[name.removesuffix(".soak")]
            host = "127.0.0.2" if engine.host == "127.0.0.1" else "127.0.0.1"
            self.names.hosts[name] = host
            await engine.move(host)
            ledger.waiting[engine.name] = time.monotonic()
        elif kind == "restart-publisher":
            for place in self.draw.sample(range(self.streams), min(3, self.streams)):
                publishers.restart(place)
        elif kind == "silent-publisher":
            publishers.silence(self.draw.randrange(self.streams), FAULT_SECONDS)
        elif kind == "clock-step":
            self.clock.shift = self.draw.choice((-3600.0, 0.0, 3600.0))
        elif kind == "disk-full":
            await asyncio.to_thread(state.fill)
            self.healing.append((time.monotonic() + DISK_SECONDS, "disk", state))
        elif kind == "few-descriptors" and self.sabotage != "descriptors":
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (_highest() + 3, limits[1]))
            self.healing.append((time.monotonic() + 2.0, "descriptors", limits))

    async def _heal(self, ledger: Ledger, *, everything: bool = False) -> None:
        now, left = time.monotonic(), []
        # Descriptors first: an engine that is to listen again needs one.
        for due, what, subject in sorted(self.healing, key=lambda each: each[1] != "descriptors"):
            if due > now and not everything:
                left.append((due, what, subject))
            elif isinstance(subject, Engine):
                await subject.become("ok")
                ledger.waiting[subject.name] = time.monotonic()
            elif isinstance(subject, FullDisk):
                subject.free()
            elif what == "descriptors" and isinstance(subject, tuple):
                resource.setrlimit(resource.RLIMIT_NOFILE, subject)
        self.healing = left


def _canary() -> CanaryAnalysis:
    """An analysis that asks the provider once a second and that no fault makes go back."""
    gate = analysis(promql(), interval=1.0, failure_limit=1000, min_passes=1000)
    target = TargetRef(kind="ModelDeployment", name="d0")
    return msgspec.structs.replace(
        definition(gate, ready_timeout=None),
        namespace="default",
        target=target,
        stable="1",
        canary="2",
        source=Source(provider="p"),
    )


def _memory() -> float:
    """Resident memory in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


def _files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _highest() -> int:
    return max(int(each.name) for each in Path("/proc/self/fd").iterdir())


def figure(ledger: Ledger, seconds: float, targets: int, streams: int) -> str:
    """The outcome in one line, and the first of each violation."""
    faults = ", ".join(f"{kind} {count}" for kind, count in ledger.faults.items())
    found = "; ".join(f"{rule} x{count}: {ledger.first[rule]}" for rule, count in ledger.violations.items())
    return (
        f"soak of {seconds:g} s, {targets} targets, {streams} KV streams: {sum(ledger.violations.values())} violations"
        f"{f' ({found})' if found else ''}; faults {faults}; {ledger.recoveries} recoveries, worst "
        f"{ledger.worst_recovery:.1f} s; {ledger.checks} looks at everything, {ledger.samples} canary samples; "
        f"the full disk was {ledger.disk}, {ledger.refused} writes refused, {ledger.saved_again} times saved again and read"
    )


def quiet() -> None:
    """Faults make many log lines; they are what is wanted here."""
    logging.disable(logging.CRITICAL)
