"""The API keeps what its own description says: every route is in it, and a run of schemathesis finds no difference."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import orjson

from exporters.openapi import OPERATIONS, openapi_document
from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.simulate.fleet import SimulatedFleet
from tests.whole.world import SETTINGS, Asking, asking, deployments_of, small_fleet

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
EXAMPLES = 12
SECONDS = 75


async def test_every_route_of_the_api_is_described_and_every_description_is_a_route() -> None:
    async with Watcher(SETTINGS, SystemClock(), listen="127.0.0.1:0") as watcher:
        pages = {(route.method.lower(), route.path) for route in watcher.page.routes()}
        routes = {(route.method.lower(), route.path) for route in watcher._routes()} - pages
    assert {(each.method, each.path) for each in OPERATIONS} == routes
    names = [verb["operationId"] for path in openapi_document("1")["paths"].values() for verb in path.values()]
    assert len(set(names)) == len(names)


async def test_schemathesis_finds_no_answer_that_the_description_does_not_allow(tmp_path: Path) -> None:
    async with (
        SimulatedFleet(small_fleet()) as fleet,
        asking(Watcher(SETTINGS, SystemClock(), listen="127.0.0.1:0")) as asked,
    ):
        await asked.watcher.watch(deployments_of(fleet, tmp_path))
        await asked.ready()
        code, text = await tried(asked, tmp_path)
    assert code == 0, text[-6000:]
    figure = re.search(r"\d+ generated[^\n]*", text)
    assert figure is not None, text[-2000:]
    print(f"figure: schemathesis: {len(OPERATIONS)} operations, {figure[0]}")


async def tried(asked: Asking, folder: Path) -> tuple[int, str]:
    schemathesis = Path(sys.executable).parent / "schemathesis"
    document = await asked.get("/api/v1/openapi.json")
    names = {"namespace": ["demo", "none"], "name": ["chat", "none"], "component": ["server", "none"]}
    for operation in (verb for path in document["paths"].values() for verb in path.values()):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                parameter["schema"] = {"type": "string", "enum": names[parameter["name"]]}
            if parameter["name"] == "seconds":
                parameter["schema"]["maximum"] = 0.01  # a bundle listens for as long as it is asked to
    file = folder / "openapi.json"
    file.write_bytes(orjson.dumps(document))
    process = await asyncio.create_subprocess_exec(
        str(schemathesis),
        "run",
        str(file),
        f"--url={asked.watcher.url}",
        f"--checks={','.join(CHECKS)}",
        f"--max-examples={EXAMPLES}",
        "--phases=examples,coverage,fuzzing",
        "--seed=1",
        "--no-color",
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return process.returncode or 0, out.decode()
