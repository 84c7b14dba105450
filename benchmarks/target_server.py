"""A process that answers as many vLLM engines: a listener for each on loopback, all sharing one body that grows.

    python -m benchmarks.target_server --targets N [--body BYTES]

Prints one JSON line with its ports. Each line on its standard input is answered with a JSON line of what was asked so
far: expositions, their bytes, and how many might have been compressed, by the asker's ``User-Agent`` (its first word,
without the version). It ends with its input.

It is the load of the scale runs, so it costs little: no HTTP library, one write an answer, a body rendered again every
few seconds whoever reads it. The answers are chunked, as uvicorn's are; nothing is ever compressed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import cast

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.exposition import SEED, SIZE, moved, repeated
from observer.collect.allocator import raise_file_limit, tune_allocator

RENDER_PERIOD = 4.0
VERSION = "0.32.0"
BACKLOG = 64
_END = b"\r\n\r\n"
_JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def body_of(size: int) -> bytes:
    """The recorded vLLM body with its engine repeated until it has about that many bytes."""
    seed = SEED.read_bytes()
    return repeated(seed, min(range(1, 16), key=lambda engines: abs(len(repeated(seed, engines)) - size)))


def grown(body: bytes, step: int) -> bytes:
    """The body some work later, of the same process: what says when it or a series began stays."""
    lines = zip(body.split(b"\n"), moved(body, step).split(b"\n"), strict=True)
    return b"\n".join(
        old if b"_created{" in old or old.startswith(b"process_start_time") else new for old, new in lines
    )


def asker(request: bytes) -> str:
    """The first word of ``User-Agent``, without its version."""
    place = request.lower().find(b"\r\nuser-agent:")
    if place < 0:
        return "unknown"
    said = request[place + 13 : request.index(b"\r\n", place + 2)].strip()
    return said.split(b"/")[0].split(b" ")[0].decode("ascii", "replace") or "unknown"


class Answers:
    """What is answered, the same for every target, and who asked how often."""

    def __init__(self, size: int) -> None:
        self._seed = body_of(size)
        self._step = 0
        self.asked: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.compressible: Counter[str] = Counter()
        self.render()

    def render(self) -> None:
        """Every number of the body grows."""
        self._step += 1
        body = grown(self._seed, self._step)
        self.size = len(body)
        self.exposition = b"%b%x\r\n%b\r\n0\r\n\r\n" % (_HEAD, len(body), body)

    def of(self, request: bytes) -> bytes:
        """The answer to one request."""
        path = request.split(b" ", 2)[1]
        if path == b"/metrics":
            name = asker(request)
            self.asked[name] += 1
            self.sent[name] += self.size
            self.compressible[name] += b"gzip" in request
            return self.exposition
        if path == b"/version":
            return _told({"version": VERSION})
        if path == b"/v1/models":
            return _told({"object": "list", "data": [{"id": "tiny", "object": "model", "max_model_len": 4096}]})
        if path == b"/health":
            return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def _told(document: dict[str, object]) -> bytes:
    text = json.dumps(document).encode()
    return _JSON % (len(text), text)


class Connection(asyncio.Protocol):
    """One kept connection; GET requests only, so a request ends with its headers."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._held = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are of no class of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._held += data
        while (end := self._held.find(_END)) >= 0:
            request, self._held = self._held[: end + 4], self._held[end + 4 :]
            self._transport.write(self._answers.of(request))


async def serve(targets: int, size: int) -> None:
    """Listen, tell the ports, and answer until the input ends."""
    loop = asyncio.get_running_loop()
    answers = Answers(size)
    servers = [
        await loop.create_server(lambda: Connection(answers), "127.0.0.1", 0, backlog=BACKLOG) for _ in range(targets)
    ]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    print(json.dumps({"ports": ports, "bytes": answers.size}), flush=True)
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop.add_reader(sys.stdin.fileno(), lambda: lines.put_nowait(sys.stdin.readline()))
    while True:
        try:
            async with asyncio.timeout(RENDER_PERIOD):
                line = await lines.get()
        except TimeoutError:
            answers.render()
            continue
        if not line:
            return
        print(json.dumps({"asked": answers.asked, "bytes": answers.sent, "gzip": answers.compressible}), flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--targets", type=int, default=200)
    options.add_argument("--body", type=int, default=SIZE)
    chosen = options.parse_args()
    tune_allocator()
    raise_file_limit()
    uvloop.run(serve(chosen.targets, chosen.body))
    return 0


if __name__ == "__main__":
    sys.exit(main())
