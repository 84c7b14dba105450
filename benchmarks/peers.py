"""Whole-process CPU for each megabyte scraped: the observer beside vmagent and Prometheus, all reading the same targets.

    python -m benchmarks.peers [--targets N] [--windows N] [--seconds S]

All three scrape the same server at the same time every 5 s, plain bodies of about 192 kB: the observer as `observer serve`
runs it (its probes of the engines' APIs, judging, page and windows included), vmagent with every series, writing to a sink
that discards, Prometheus with the series that the observer reads. In every other window `/metrics` of the observer is
asked for as well, so that all windows and quantiles are computed and written; those windows are judged.

The peers are not the same job: they also store or forward every sample. They are Debian's packages
(`apt-get install prometheus victoria-metrics`); one that is not installed is said and its ratio not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.kv_pipeline import free_ports
from benchmarks.measuring import Report, spread
from benchmarks.processes import ROOT, Servers, cpu_of, ended, fleet, load, resident_of, settings, write
from observer.measure.planner import wanted_families
from router_contract.catalog import TABLES
from router_contract.targets import Component

PERIOD = 5
ASKED_PERIOD = 15.0
WARM_SECONDS = 20.0
SERVERS = 2
LIMIT = 0.70
AGENTS = {"observer": "modeldeployment-observer", "vmagent": "vm_promscrape", "prometheus": "Prometheus"}


class Sink(asyncio.Protocol):
    """Takes what vmagent writes and forgets it."""

    def __init__(self) -> None:
        self._left = 0
        self._head = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        while data:
            if self._left:
                taken = min(self._left, len(data))
                self._left -= taken
                data = data[taken:]
            else:
                head, end, data = (self._head + data).partition(b"\r\n\r\n")
                if not end:
                    self._head = head
                    return
                self._head = b""
                lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                self._left = int(lengths[0].split(b":")[1]) if lengths else 0
            if not self._left and self._transport is not None:
                self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


@contextlib.contextmanager
def sink(port: int) -> Iterator[None]:
    """A `Sink` at a loopback port, in a thread."""
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    ready = threading.Event()

    async def run() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        stop.append((loop, over))
        async with await loop.create_server(Sink, "127.0.0.1", port):
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: uvloop.run(run()))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        loop, over = stop[0]
        loop.call_soon_threadsafe(over.set)
        thread.join()


def kept_series() -> str:
    """A pattern of the sample names that the observer reads of vLLM."""
    families = sorted(wanted_families(TABLES[Component.ENGINE]["vllm"], "0.32.0"))
    return f"({'|'.join(families)})(_bucket|_sum|_count)?"


def scrape_config(ports: list[int], *, keep: bool) -> dict[str, object]:
    """What Prometheus and vmagent read (JSON is YAML)."""
    job: dict[str, object] = {
        "job_name": "engines",
        "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
    }
    if keep:
        job["metric_relabel_configs"] = [
            {"source_labels": ["__name__"], "regex": kept_series(), "action": "keep"},
        ]
    return {
        "global": {"scrape_interval": f"{PERIOD}s", "scrape_timeout": f"{PERIOD - 1}s"},
        "scrape_configs": [job],
    }


def commands(folder: Path, ports: list[int], free: list[int]) -> dict[str, list[str]]:
    """How each of them is started; only those that are installed."""
    fleet_file = write(folder, "fleet.yaml", fleet(ports))
    settings_file = write(folder, "settings.yaml", settings(scrape={"period": f"{PERIOD}s"}))
    every = write(folder, "vmagent.yaml", scrape_config(ports, keep=False))
    keep = write(folder, "prometheus.yaml", scrape_config(ports, keep=True))
    listen = f"127.0.0.1:{free[0]}"
    ours = [sys.executable, "-m", "observer", "serve", "--listen", listen]
    found = {"observer": [*ours, "--config", str(fleet_file), "--config", str(settings_file)]}
    if (vmagent := shutil.which("vmagent")) is not None:
        found["vmagent"] = [
            vmagent,
            f"-promscrape.config={every}",
            f"-remoteWrite.url=http://127.0.0.1:{free[1]}/",
            f"-remoteWrite.tmpDataPath={folder / 'vmagent'}",
            f"-httpListenAddr=127.0.0.1:{free[2]}",
        ]
    if (prometheus := shutil.which("prometheus")) is not None:
        found["prometheus"] = [
            prometheus,
            f"--config.file={keep}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{free[3]}",
        ]
    return found


class Window(NamedTuple):
    """One window: CPU milliseconds for each megabyte scraped, by program, and whether `/metrics` was asked for."""

    asked: bool
    cost: dict[str, float]


def ask(url: str) -> int:
    """Bytes of `/metrics`."""
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310 - a loopback URL of our own
        return len(answer.read())


def measure(servers: Servers, pids: dict[str, int], url: str, *, asked: bool, seconds: float) -> Window:
    """All programs over the same seconds."""
    before = {name: cpu_of(pid) for name, pid in pids.items()}
    sent = servers.asked()["bytes"]
    begun = time.monotonic()
    while (left := begun + seconds - time.monotonic()) > 0:
        if asked:
            ask(url)
            left = max(0.0, begun + seconds - time.monotonic())
        time.sleep(min(left, ASKED_PERIOD) if asked else left)
    moved = servers.asked()["bytes"] - sent
    used = {name: cpu_of(pid) - before[name] for name, pid in pids.items()}
    return Window(asked, {name: used[name] * 1e3 / (moved[AGENTS[name]] / 1e6) for name in pids if moved[AGENTS[name]]})


def run(targets: int, windows: int, seconds: float) -> tuple[list[Window], dict[str, float], dict[str, Counter[str]]]:
    """The windows, the memory of each program at the end (MB), and what the servers were asked."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="observer-peers-")))
        servers = stack.enter_context(Servers(targets, SERVERS))
        free = free_ports(4)
        stack.enter_context(sink(free[1]))
        pids = {}
        for name, command in commands(folder, servers.ports, free).items():
            child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            pids[name] = stack.enter_context(ended(child)).pid
        print(f"warming up: {', '.join(pids)}", file=sys.stderr, flush=True)
        time.sleep(WARM_SECONDS)
        found = []
        for number in range(windows):
            url = f"http://127.0.0.1:{free[0]}/metrics"
            found.append(measure(servers, pids, url, asked=number % 2 == 1, seconds=seconds))
            costs = ", ".join(f"{name} {cost:.2f}" for name, cost in found[-1].cost.items())
            print(f"window {number + 1} of {windows}: {costs} ms/MB, load {load():.1f}", file=sys.stderr, flush=True)
        memory = {name: resident_of(pid) / 1e6 for name, pid in pids.items()}
        return found, memory, servers.asked()


def tell(report: Report, windows: list[Window], memory: dict[str, float]) -> None:
    """Costs and ratios."""
    for asked in (False, True):
        chosen = [window.cost for window in windows if window.asked is asked]
        what = "with /metrics" if asked else "serving only"
        for name, resident in memory.items():
            costs = [cost[name] for cost in chosen if name in cost]
            if costs:
                mid = statistics.median(costs)
                figure = f"{spread(costs, 1.0)} ms of CPU a MB, {resident:.0f} MB resident"
                report.line(f"{name}, {what}", figure, mid)
        for peer in ("vmagent", "prometheus"):
            ratios = [cost["observer"] / cost[peer] for cost in chosen if peer in cost and "observer" in cost]
            if not ratios:
                report.line(f"of {peer}, {what}", f"{peer} is not installed: not compared", 0.0)
                continue
            mid = statistics.median(ratios)
            limit = LIMIT if asked else None
            report.line(f"of {peer}, {what}", f"{spread(ratios, 1.0)} of its CPU a MB", mid, limit, at_least=False)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--targets", type=int, default=200)
    options.add_argument("--windows", type=int, default=8, help="of both kinds together (at least 4)")
    options.add_argument("--seconds", type=float, default=30.0, help="of one window")
    chosen = options.parse_args()
    windows, memory, asked = run(chosen.targets, max(chosen.windows, 4), chosen.seconds)
    report = Report("peers", "aiohttp", "uvloop")
    tell(report, windows, memory)
    for name in memory:
        reads, gzip = asked["asked"][AGENTS[name]], asked["gzip"][AGENTS[name]]
        limit = 0.0 if name == "observer" else None
        figure = f"{gzip} of {reads} reads accept a compressed answer"
        report.line(f"compression asked of the engines, {name}", figure, float(gzip), limit, at_least=False)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
