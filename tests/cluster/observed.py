"""An observer of a real cluster in a process of its own, and the simulated deployment it watches there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from observer.clock import SystemClock
from observer.simulate.fleet import SimulatedFleet
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import OURS, Operated, define
from tests.whole.world import small_fleet

KIND = Path(__file__).with_name("modeldeployments.yaml")
SETTINGS = """\
apiVersion: observer.modeldeployment.io/v1alpha1
kind: Settings
scrape: {period: 0.5s, timeout: 0.4s}
routers: {viewPeriod: 0.5s, viewTimeout: 0.4s, viewValid: 5s}
judging: {period: 0.2s}
windows: {span: 10s}
http: {listen: "127.0.0.1:0"}
security: {allowCIDRs: [127.0.0.0/8]}
kubernetes:
  identity: observer-test
  watch: {namespaces: [NAMESPACE]}
  status: {interval: 0.5s, dwellToTrue: 0s, dwellFromTrue: 0s, startSpread: 0s, orphanAfter: 1s, rate: 50}
"""


class Process:
    """``observer serve --kubernetes`` as a user would run it; its words go to a file."""

    def __init__(self, folder: Path, kubeconfig: str, namespace: str, settings: str = SETTINGS) -> None:
        self._config = folder / f"settings-{namespace}.yaml"
        self._config.write_text(settings.replace("NAMESPACE", namespace))
        self._kubeconfig = kubeconfig
        self._log = folder / f"observer-{namespace}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "observer", "serve", "--kubernetes", "--kubeconfig", self._kubeconfig]
        with self._log.open("ab") as out:
            self._mark = out.tell()
            self._process = subprocess.Popen(
                [*command, "--config", str(self._config)], stdout=out, stderr=out, env={**os.environ, "COLUMNS": "200"}
            )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """Where it answers, empty until it says so."""
        found = re.search(r"answering at\s+(http://\S+)", self.said)
        return found.group(1) if found else ""

    @property
    def said(self) -> str:
        """What it printed since it was started last."""
        with self._log.open("rb") as log:
            log.seek(self._mark)
            return log.read().decode(errors="replace")

    def ask(self, path: str) -> tuple[int, str]:
        """The status and body of one GET, status 0 when nothing answers."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.url + path, timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, ValueError):
            return 0, ""

    def counted(self, metric: str) -> dict[str, float]:
        """The samples of one of its own counters, by labels as written."""
        found = re.findall(rf"^{metric}(\{{[^}}]*\}})? (\S+)$", self.ask("/metrics")[1], re.MULTILINE)
        return {labels: float(value) for labels, value in found}

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class Observed:
    """A deployment in a cluster, and who observes it."""

    def __init__(self, cluster: ControlPlane, fleet: SimulatedFleet, operated: Operated, process: Process) -> None:
        self.cluster = cluster
        self.fleet = fleet
        self.operated = operated
        self.process = process

    async def until(self, true: Callable[[], Any], what: str, seconds: float = 30.0) -> float:
        """Wait until something asked of the cluster holds. The seconds that took."""
        begun = time.monotonic()
        last: Any = None
        while time.monotonic() - begun < seconds:
            assert self.process.running, f"the observer ended: {self.process.said[-3000:]}"
            # A control plane that is down answers nothing; that is part of what is tested.
            with contextlib.suppress(OSError):
                last = await asyncio.to_thread(true)
                if last:
                    return time.monotonic() - begun
            await asyncio.sleep(0.1)
        raise AssertionError(f"{what}: still {last!r} after {seconds:g} s\n{self.process.said[-3000:]}")

    async def settled(self, seconds: float = 40.0) -> float:
        """Wait until everything serves, as stored in the cluster."""
        return await self.until(
            lambda: (
                self.operated.status.get("summary", {}).get("serving") == "2"
                and self.operated.status["summary"]["eligible"] == "2"
                and self.operated.status["phase"] == "Ready"
            ),
            "it serves",
            seconds,
        )

    async def breaks(self) -> None:
        """The first engine's process ends, and its kubelet says so."""
        engine = self.operated.simulated.replicas[0].engine
        await engine.die()
        await asyncio.to_thread(self.operated.pod_says, engine.name, ready=False)

    async def heals(self) -> None:
        """The first engine is back, and its kubelet says so."""
        engine = self.operated.simulated.replicas[0].engine
        await engine.start()
        await asyncio.to_thread(self.operated.pod_says, engine.name, ready=True)

    async def kubectl(self, *arguments: str) -> str:
        return await asyncio.to_thread(lambda: self.cluster.kubectl("-n", self.operated.namespace, *arguments))


@contextlib.asynccontextmanager
async def observed(cluster: ControlPlane, namespace: str, *, dead: bool = False) -> AsyncIterator[Observed]:
    """A simulated deployment with its objects in a namespace of its own, and an observer of that namespace.

    ``dead``: no engine answers when the observer begins.
    """
    define(cluster, KIND)
    define(cluster, OURS)
    cluster.namespace(namespace)
    process = Process(cluster.folder, cluster.admin, namespace)
    async with SimulatedFleet(small_fleet(), clock=SystemClock()) as fleet:
        (simulated,) = fleet.deployments.values()
        operated = Operated(cluster, namespace, simulated)
        await asyncio.to_thread(operated.create)
        for replica in simulated.replicas if dead else ():
            await replica.engine.die()
            await asyncio.to_thread(operated.pod_says, replica.engine.name, ready=False)
        process.start()
        try:
            yield Observed(cluster, fleet, operated, process)
        finally:
            await asyncio.to_thread(process.stop)
