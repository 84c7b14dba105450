"""One Prometheus process of our own: a free loopback port, its own data folder, ended by its process id."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.conftest import require

SCRAPE_SECONDS = 1
START_SECONDS = 30.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


class Prometheus:
    """Asks a running Prometheus."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def get(self, path: str, **query: Any) -> Any:
        async with self._session.get(f"{self.url}/api/v1/{path}", params=query) as response:
            answer = await response.json()
        if answer["status"] != "success":
            raise AssertionError(f"{path} {query}: {answer.get('error')}")
        return answer["data"]

    async def query(self, promql: str) -> list[dict[str, Any]]:
        """The instant vector that a query gives now; a query that Prometheus refuses is an error."""
        found = (await self.get("query", query=promql))["result"]
        assert isinstance(found, list)
        return found

    async def label_values(self, selector: str, label: str) -> list[str]:
        return list(await self.get(f"label/{label}/values", **{"match[]": selector}))

    async def reload(self) -> None:
        """Read the configuration file again."""
        async with self._session.post(f"{self.url}/-/reload") as response:
            assert response.status == 200, await response.text()

    async def ready(self) -> bool:
        try:
            async with self._session.get(f"{self.url}/-/ready") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False


def job(name: str, targets: Sequence[str], *, honoured: bool) -> dict[str, Any]:
    """A scrape as an operator makes it from a ServiceMonitor: its own ``namespace`` and ``pod`` on every target."""
    labels = {"cluster": name, "namespace": "monitoring", "pod": "observer-0"}
    return {
        "job_name": name,
        "honor_labels": honoured,
        "scrape_interval": f"{SCRAPE_SECONDS}s",
        "scrape_timeout": f"{SCRAPE_SECONDS}s",
        "static_configs": [{"targets": list(targets), "labels": labels}],
    }


@asynccontextmanager
async def prometheus(
    folder: Path, jobs: Sequence[dict[str, Any]], rules: Sequence[Path] = ()
) -> AsyncIterator[Prometheus]:
    """A Prometheus that scrapes; it has ended when the context is left."""
    port, config = free_port(), folder / "prometheus.yml"
    settings = {
        "global": {"evaluation_interval": f"{SCRAPE_SECONDS}s"},
        "rule_files": [str(rule) for rule in rules],
        "scrape_configs": list(jobs),
    }
    config.write_text(json.dumps(settings), "utf-8")
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            require("prometheus", "panels are proven on a real one"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-lifecycle",
            "--log.level=error",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=log,
        )
    try:
        async with aiohttp.ClientSession() as session:
            server = Prometheus(f"http://127.0.0.1:{port}", session)
            async with asyncio.timeout(START_SECONDS):
                while not await server.ready():
                    assert process.returncode is None, (folder / "prometheus.log").read_text("utf-8")
                    await asyncio.sleep(0.1)
            yield server
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
