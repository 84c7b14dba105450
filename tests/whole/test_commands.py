"""The commands as a user runs them: processes of their own, that end when told to and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from observer.collect.recording import Recording
from observer.persist import StateFile
from tests.fakes.hostile import Server, reply, serving
from tests.fleets import body
from tests.whole.test_files import SETTINGS, fleet_of

SECONDS = 40.0


class Ran:
    """A command that has ended, and whether it left a process behind."""

    def __init__(self, code: int, out: str, err: str, *, alone: bool) -> None:
        self.code, self.out, self.err, self.alone = code, out, err, alone


class Running:
    """A command that runs, in a process group of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""

    async def said_until(self, pattern: str) -> re.Match[str]:
        """Wait until its standard error has said something."""
        assert self.process.stderr is not None
        async with asyncio.timeout(SECONDS):
            while (found := re.search(pattern, self.said)) is None:
                chunk = await self.process.stderr.read(4096)
                assert chunk, f"ended before it said {pattern!r}: {self.said}"
                self.said += chunk.decode()
        return found

    async def ended(self) -> Ran:
        async with asyncio.timeout(SECONDS):
            out, err = await self.process.communicate()
        try:
            os.killpg(self.process.pid, 0)
            alone = False
        except ProcessLookupError:
            alone = True
        return Ran(self.process.returncode or 0, out.decode(), self.said + err.decode(), alone=alone)


@asynccontextmanager
async def started(*arguments: str, **environment: str) -> AsyncIterator[Running]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "observer",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "160", **environment},
        start_new_session=True,
    )
    try:
        yield Running(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def run(*arguments: str, **environment: str) -> Ran:
    async with started(*arguments, **environment) as running:
        return await running.ended()


def scraped(engine: Server) -> int:
    """How often its metrics were asked for; its API is asked too."""
    return sum(b"GET /metrics" in head for head in engine.heads)


async def test_serve_answers_records_and_ends_on_a_signal(tmp_path: Path) -> None:
    recording, state = tmp_path / "a.obsrec", tmp_path / "state"
    async with serving(reply(body())) as engine:
        (tmp_path / "settings.yaml").write_text(SETTINGS)
        (tmp_path / "fleet.yaml").write_text(fleet_of(engine))
        options = ("--record", str(recording), "--state", str(state), "--listen", "127.0.0.1:0")
        async with started(
            "serve", "--config", str(tmp_path / "settings.yaml"), "-c", str(tmp_path / "fleet.yaml"), *options
        ) as running:
            url = (await running.said_until(r"answering at (http://\S+)"))[1]
            while scraped(engine) < 4:
                await asyncio.sleep(0.05)
            got, document, listed = await asyncio.gather(
                run("get", "-A", OBSERVER_SERVER=url),
                run("metrics", "chat", "-n", "demo", "-o", "json", OBSERVER_SERVER=url),
                run("targets", "-A", "-o", "json", OBSERVER_SERVER=url),
            )
            running.process.send_signal(signal.SIGTERM)
            ran = await running.ended()
    assert (ran.code, ran.alone) == (0, True), ran.err
    assert "Traceback" not in ran.err
    assert (got.code, "chat" in got.out) == (0, True), got.err
    assert document.code == 0, document.err
    assert orjson.loads(document.out)["metadata"]["name"] == "chat"
    (target,) = orjson.loads(listed.out)["items"]
    assert (target["state"], target["port"]) == ("Up", engine.port)
    with Recording(recording) as kept:
        kinds = {event.kind for event in kept.events()}
    assert kinds >= {"fleet", "body", "pass"}
    with StateFile(state) as stored:
        assert [key.name for key in stored.load()] == ["chat"]
    replayed = await run("replay", str(recording))
    assert (replayed.code, replayed.alone) == (0, True), replayed.err
    assert "chat" in replayed.out
    assert f"{recording}: " in " ".join(replayed.out.split())


async def test_record_is_a_run_that_keeps_what_it_reads(tmp_path: Path) -> None:
    recording = tmp_path / "b.obsrec"
    async with serving(reply(body())) as engine:
        (tmp_path / "settings.yaml").write_text(SETTINGS)
        (tmp_path / "fleet.yaml").write_text(fleet_of(engine))
        async with started("record", str(recording), "-c", str(tmp_path), "--listen", "127.0.0.1:0") as running:
            await running.said_until("answering at")
            while scraped(engine) < 4:
                await asyncio.sleep(0.05)
            running.process.send_signal(signal.SIGINT)
            ran = await running.ended()
    assert (ran.code, ran.alone, "Traceback" in ran.err) == (0, True, False), ran.err
    with Recording(recording) as kept:
        assert any(event.kind == "body" for event in kept.events())


async def test_demo_once_shows_the_fleet_and_ends() -> None:
    ran = await run("demo", "--once")
    assert (ran.code, ran.alone) == (0, True), ran.err
    assert "Traceback" not in ran.err
    for name in ("chat", "reason", "long-context", "vision"):
        assert name in ran.out


async def test_a_demo_that_runs_ends_on_a_signal() -> None:
    async with started("demo") as running:
        assert running.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            shown = await running.process.stdout.readline()
        running.process.send_signal(signal.SIGTERM)
        ran = await running.ended()
    assert shown
    assert (ran.code, ran.alone, "Traceback" in ran.err) == (0, True, False), ran.err


async def test_what_is_wrong_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(
        "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: Fleet\ndeployments: []\n"
    )
    file = str(tmp_path / "fleet.yaml")
    odd, missing, lost = await asyncio.gather(
        run("serve", "-c", file, "--listen", "nowhere"),
        run("replay", str(tmp_path / "none.obsrec")),
        run("get", "--server", "http://127.0.0.1:1"),
    )
    assert (odd.code, "'nowhere': want host:port" in odd.err) == (1, True), odd.err
    assert (missing.code, "is not a recording" in missing.err) == (1, True), missing.err
    assert lost.code == 3
    assert not any("Traceback" in each.err for each in (odd, missing, lost))
