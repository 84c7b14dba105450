"""What ten thousand Pods cost: a process of its own follows them, served in pages by a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube import pods_server

LIMIT_MB = 70
FOLLOWER = """
import asyncio, json, sys
from observer.clock import SystemClock
from observer.kube.client import ApiClient
from observer.kube.credentials import LoadedCredentials
from observer.kube.informer import Informer
from observer.kube.records import watched_pods

def rss():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024

async def main():
    credentials = await LoadedCredentials.load(sys.argv[1])
    async with ApiClient(credentials, SystemClock()) as client:
        idle = rss()
        informer = Informer(client, watched_pods(), SystemClock(), on_change=lambda _: None, chance=lambda: 0.5)
        task = asyncio.create_task(informer.run())
        begun = SystemClock().now().mono
        await informer.synced()
        took = SystemClock().now().mono - begun
        listed = rss()
        relists = []
        for _ in range(2):
            assert (await informer._list()).ok
            relists.append(rss())
        task.cancel()
        print(json.dumps({"pods": len(informer), "idle": idle, "listed": listed, "relists": relists, "seconds": took}))

asyncio.run(main())
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """A kubeconfig for the server of Pods."""
    process = subprocess.Popen([sys.executable, pods_server.__file__, "10000"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        config: dict[str, Any] = {
            "current-context": "t",
            "contexts": [{"name": "t", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": process.stdout.readline().strip()}}],
        }
        path = tmp_path / "config"
        path.write_text(json.dumps(config))
        yield str(path)
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def test_ten_thousand_pods_cost_at_most_70_mb_above_the_idle_process(served: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWER, served], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    assert found["pods"] == 10_000
    assert max(found["listed"], *found["relists"]) - found["idle"] <= LIMIT_MB, found
