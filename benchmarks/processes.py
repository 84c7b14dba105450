"""What the whole-process benchmarks share: the servers of the load, what /proc tells, and documents for the observer."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

ROOT = Path(__file__).resolve().parent.parent
ARTIFACTS = ROOT / "artifacts"
API_VERSION = "observer.modeldeployment.io/v1alpha1"
_TICKS = os.sysconf("SC_CLK_TCK")
_END_SECONDS = 20.0


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used, user and system, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_of(pid: int) -> int:
    """Bytes of memory that a process has resident."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def load() -> float:
    """How many processes wanted a core in the last minute: other work on the machine shows here."""
    return os.getloadavg()[0]


def module(name: str, *arguments: str, stderr: int | None = None) -> subprocess.Popen[str]:
    """A child of ours that talks over its standard input and output."""
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, bufsize=1
    )


def line_of(process: subprocess.Popen[Any]) -> dict[str, Any]:
    """The next JSON line that a child prints. `RuntimeError` when it ended instead."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args} ended with {process.wait()} instead of answering")
    found: dict[str, Any] = json.loads(line)
    return found


@contextlib.contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """End a child whatever happens: asked first, killed when it stays."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Servers:
    """A context: processes that answer as ``targets`` engines together (`benchmarks.target_server`)."""

    def __init__(self, targets: int, processes: int, body: int | None = None) -> None:
        self._shares = [targets // processes + (number < targets % processes) for number in range(processes)]
        self._body = () if body is None else ("--body", str(body))
        self._children: list[subprocess.Popen[str]] = []
        self._stack = contextlib.ExitStack()
        self.ports: list[int] = []
        self.bytes = 0

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for share in self._shares:
                child = module("benchmarks.target_server", "--targets", str(share), *self._body)
                self._children.append(stack.enter_context(ended(child)))
            for child in self._children:
                told = line_of(child)
                self.ports += told["ports"]
                self.bytes = told["bytes"]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def cpu(self) -> float:
        """CPU seconds of all of them."""
        return sum(cpu_of(child.pid) for child in self._children)

    def asked(self) -> dict[str, Counter[str]]:
        """What was asked so far by whom: expositions (``asked``), their ``bytes``, those that accept ``gzip``."""
        found: dict[str, Counter[str]] = {"asked": Counter(), "bytes": Counter(), "gzip": Counter()}
        for child in self._children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
            told = line_of(child)
            for name, counted in found.items():
                counted.update(told[name])
        return found


def fleet(ports: list[int], *, each: int = 50, name: str = "scale", events: Sequence[str] = ()) -> dict[str, Any]:
    """A ``Fleet`` document of deployments with ``each`` engines at these loopback ports.

    The first engines publish KV events at ``events``, one each.
    """
    replicas: list[dict[str, Any]] = [
        {"ordinal": number % each, "members": [{"name": f"engine-{number}", "address": f"127.0.0.1:{port}"}]}
        for number, port in enumerate(ports)
    ]
    for endpoint, replica in zip(events, replicas, strict=False):
        replica["members"][0]["kvEvents"] = [{"endpoint": endpoint, "rank": 0, "topic": ""}]
    deployments = [
        {
            "namespace": name,
            "name": f"{name}-{start // each}",
            "model": "tiny",
            "engine": {"name": "vllm", "version": "0.32.0"},
            "roles": [{"name": "server", "replicas": replicas[start : start + each]}],
        }
        for start in range(0, len(ports), each)
    ]
    return {"apiVersion": API_VERSION, "kind": "Fleet", "deployments": deployments}


def settings(**sections: Any) -> dict[str, Any]:
    """A ``Settings`` document with these sections."""
    return {"apiVersion": API_VERSION, "kind": "Settings", **sections}


def write(folder: Path, name: str, document: dict[str, Any]) -> Path:
    """A document as a file (JSON is YAML)."""
    file = folder / name
    file.write_bytes(orjson.dumps(document))
    return file
