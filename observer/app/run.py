"""The blocking entries behind the command line: ``demo``, ``serve``, ``replay``. Each runs until done or stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import uvloop

from exporters.live import Screen, changes_key, console, deployments_picture, summaries
from exporters.signals_read import document_report
from observer.app.canary_simulate import simulate
from observer.app.judging import AWAITED_READS
from observer.app.pauses import Pauses
from observer.app.replay import Outcome, replay
from observer.app.told import package_version
from observer.app.watcher import Watcher
from observer.clock import Clock, SystemClock
from observer.collect.allocator import raise_file_limit, tune_allocator
from observer.collect.recording import Recorder
from observer.discover.watch import FileWatch
from observer.persist import StateFile
from observer.settings import Configuration, SettingsError, load_analyses, load_files
from observer.simulate.control import control_listener
from observer.simulate.fleet import SimulatedFleet
from observer.simulate.kv_fleet import publishing
from router_contract.targets import Deployment, DeploymentKey
from router_contract.verdicts import DeploymentReport, TargetState

T = TypeVar("T")

OBSERVER_PORT = 9480
SIMULATOR_PORT = 9481
"""Where the demo is when nobody else is there: the command line asks the first one by itself."""
_TABLE_PERIOD = 1.0
_JUDGED_SECONDS = 2.5
"""How long after its last awaited read everything is surely judged: two passes of the demo and a reserve."""
_log = logging.getLogger(__name__)


def run_demo(
    *, scenario: str | None = None, once: bool = False, duration: float | None = None, listen: str | None = None
) -> None:
    """A simulated fleet on loopback and the observer on it. ``once`` prints one table when every target was read."""
    run_blocking(_demo(scenario, once=once, duration=duration, listen=listen))


def run_serve(
    files: Sequence[Path], *, listen: str | None = None, record: Path | None = None, state: Path | None = None
) -> None:
    """Watch what files name until stopped; ``state`` is the file of what a restart must not lose.

    Raises `SettingsError`, `ListenError`, `RecordingError` or `StateError` before anything begins.
    """
    configuration = load_files(files)
    run_blocking(_serve(files, configuration, listen, record, state))


def run_replay(file: Path, *, speed: float = 0.0) -> Outcome:
    """What a recording comes to in the same pipeline, at ``speed`` times its own pace (0: without waiting)."""
    return run_blocking(_replay(file, speed))


def run_canary_simulation(recording: Path, definitions: Sequence[Path]) -> list[dict[str, Any]]:
    """What analyses of files would have decided over a recording. Raises `SettingsError` or `RecordingError`."""
    return asyncio.run(simulate(recording, load_analyses(definitions)))


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end on a loop of its own, with what a process of ours needs set up."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    tune_allocator()
    raise_file_limit()
    return uvloop.run(work)


@asynccontextmanager
async def until_stopped() -> AsyncIterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set, so that everything ends in order."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _waited(stop: asyncio.Event, seconds: float) -> bool:
    """Whether the stop came within some seconds."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True


@asynccontextmanager
async def _following(
    files: Sequence[Path],
    configuration: Configuration,
    clock: Clock,
    *,
    listen: str | None,
    recorder: Recorder | None = None,
    state: StateFile | None = None,
) -> AsyncIterator[Watcher]:
    """A watcher of what files name, that follows the files while they change."""
    settings = configuration.settings
    async with Watcher(settings, clock, listen=listen, recorder=recorder, state=state) as watcher:
        await watcher.watch(configuration.deployments)
        await watcher.canaries.watch(configuration.canaries)

        async def changed(new: Configuration) -> None:
            if new.settings != settings:
                _log.warning("settings changed: they take effect at the next start; the targets are followed now")
            await watcher.watch(new.deployments)
            await watcher.canaries.watch(new.canaries)

        watch = FileWatch(
            files,
            load=load_files,
            invalid=SettingsError,
            apply=changed,
            clock=clock,
            period=settings.files.watch_period,
        )
        watcher.supervise("follow the configuration files", watch.run)
        watcher.supervise("keep collections short", Pauses(clock, watcher.tally).run)
        yield watcher


def describe_watch(deployments: Iterable[Deployment]) -> str:
    """One line about what is watched."""
    found: list[DeploymentKey] = []
    targets = 0
    for deployment in deployments:
        found.append(deployment.key)
        targets += sum(1 for _ in deployment.targets())
    return f"{_count(len(found), 'deployment')}, {_count(targets, 'target')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


async def _serve(
    files: Sequence[Path], configuration: Configuration, listen: str | None, record: Path | None, state: Path | None
) -> None:
    clock = SystemClock()
    out = console(stderr=True)
    with ExitStack() as stack:
        recorder = None
        if record is not None:
            recorder = stack.enter_context(
                Recorder(
                    record,
                    writer=package_version(),
                    started=clock.now(),
                    settings=msgspec.to_builtins(configuration.settings),
                )
            )
        kept = stack.enter_context(StateFile(state)) if state is not None else None
        async with (
            until_stopped() as stop,
            _following(files, configuration, clock, listen=listen, recorder=recorder, state=kept) as watcher,
        ):
            for notice in (*configuration.notices, *(kept.damaged if kept is not None else ())):
                out.print(f"notice: {notice}")
            if kept is None:
                out.print("notice: qualification times and transitions end with this process; --state FILE keeps them")
            out.print(f"watching {describe_watch(configuration.deployments)}; answering at {watcher.url}")
            await stop.wait()
    if record is not None:
        out.print(f"recorded into {record}")


async def _demo(scenario: str | None, *, once: bool, duration: float | None, listen: str | None) -> None:
    clock = SystemClock()
    console(stderr=True).print("starting the simulated fleet …")
    async with (
        until_stopped() as stop,
        SimulatedFleet(clock=clock, hooks=publishing(clock)) as simulated,
        _control(simulated) as control,
    ):
        if scenario is not None:
            await simulated.apply(scenario)
        with tempfile.TemporaryDirectory(prefix="observer-demo-") as folder:
            file = Path(folder, "fleet.yaml")
            simulated.write_document(file)
            async with _following(
                [file], load_files([file]), clock, listen=listen or f"127.0.0.1:{_wished(OBSERVER_PORT)}"
            ) as watcher:
                watcher.supervise("describe the simulated fleet", lambda: _describe(simulated, file))
                note = _demo_note(watcher.url, control, file)
                await _show(watcher, stop, note, once=once, seconds=duration)


def _wished(port: int) -> int:
    """The port where nobody has it, so that what the README says can be typed as it is; else 0, any free one."""
    with socket.socket() as held:
        try:
            held.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


@asynccontextmanager
async def _control(simulated: SimulatedFleet) -> AsyncIterator[str]:
    """The simulator's own API, at the address given."""
    listener = control_listener(simulated, port=_wished(SIMULATOR_PORT))
    await listener.start()
    try:
        yield listener.url
    finally:
        await listener.close()


async def _show(watcher: Watcher, stop: asyncio.Event, note: str, *, once: bool, seconds: float | None) -> None:
    """The table: once when everything was read, or until stopped or the time is over."""
    target = console()
    if once:
        if await _first_reads(watcher, stop):
            target.print(deployments_picture(summaries(_reports(watcher)), target, note))
        return
    with Screen(target) as screen:
        left = seconds
        while left is None or left > 0:
            items = summaries(_reports(watcher))
            screen.show(deployments_picture(items, target, note), key=changes_key(items))
            if await _waited(stop, _TABLE_PERIOD if left is None else min(left, _TABLE_PERIOD)):
                return
            left = None if left is None else left - _TABLE_PERIOD


def _demo_note(url: str, control: str, file: Path) -> str:
    server = "" if url.endswith(f":{OBSERVER_PORT}") else f"OBSERVER_SERVER={url} "
    return "\n".join(
        (
            f"page      {url}/",
            f"observer  {url}/api/v1/deployments",
            f"metrics   {url}/metrics",
            f"fleet     {file} (what `observer serve --config` would be given)",
            f"ask       {server}observer explain chat -n demo (or get, status, metrics, targets, kv)",
            f"change    curl -X POST {control}/simulate/scenarios/engine-down (steady undoes it; all: {control}/simulate/scenarios)",
        )
    )


async def _describe(simulated: SimulatedFleet, file: Path) -> None:
    """Keep the fleet file true while scenarios add and remove members."""
    written = simulated.documents()
    while True:
        await asyncio.sleep(_TABLE_PERIOD)
        documents = simulated.documents()
        if documents != written:
            simulated.write_document(file)
            written = documents


async def _first_reads(watcher: Watcher, stop: asyncio.Event) -> bool:
    """Whether every target was read as often as verdicts want, or failed so often, and judged, before somebody stopped us.

    Once all were read, each further read is asked for at once.
    """
    asked = 0
    while not await _waited(stop, 0.2):
        reads = [status.reads for status in watcher.source.targets() if status.state is not TargetState.SHED]
        least = min(reads, default=AWAITED_READS)
        if least >= AWAITED_READS:
            return not await _waited(stop, _JUDGED_SECONDS)
        if least > asked:
            asked = least
            for key in watcher.source.keys():  # noqa: SIM118 - a source is no mapping
                await watcher.source.refresh(key)
    return False


def _reports(watcher: Watcher) -> list[DeploymentReport]:
    keys = watcher.source.keys()
    found = (document_report(watcher.source, key) for key in keys)
    return [report for report in found if report is not None]


async def _replay(file: Path, speed: float) -> Outcome:
    async with until_stopped() as stop:
        return await replay(file, speed, stop)
