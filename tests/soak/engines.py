"""Engines and publishers that go wrong on purpose, and that know the truth: what each one really served, and when."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable

from observer.simulate.kv_publisher import KvPublisher, PublisherOptions

MODES = ("kill", "hang", "slow", "lie", "half-close", "reset")
DEAD = frozenset(MODES) - {"lie"}
BLOCK = 4
LIVES = 1_000_000
"""Hashes of one life of a publisher lie in a range of their own."""


class Engine:
    """A vLLM exposition whose running requests are a serial number, so that each value tells when it was true.

    ``served`` has the moment (monotonic seconds) at which each serial was last on its way. ``since`` is when the present
    mode began.
    """

    def __init__(self, name: str, host: str = "127.0.0.1") -> None:
        self.name = name
        self.host = host
        self.port = 0
        self.mode = "ok"
        self.since = time.monotonic()
        self.serial = 0
        self.tokens = 0
        self.served: dict[int, float] = {}
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def dead(self) -> bool:
        """Whether nobody can get a whole answer from it."""
        return self.mode in DEAD

    async def start(self) -> None:
        """Listen, on the port it had."""
        for _ in range(50):
            try:
                self._server = await asyncio.start_server(self._answer, self.host, self.port)
                break
            except OSError:
                await asyncio.sleep(0.1)
        assert self._server is not None, f"{self.name} cannot listen on {self.host}:{self.port}"
        # Telling the port costs a descriptor, of which there may be none.
        self.port = self.port or self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """No longer listen; connections end."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def become(self, mode: str) -> None:
        """Go wrong in some way, or become well again (``ok``): then as another process, with counters from zero."""
        if mode == "kill":
            await self.stop()
        elif mode == "ok":
            if self._server is None:
                self.tokens = 0
                await self.start()
            for writer in list(self._writers) if self.mode in {"hang", "slow"} else ():
                writer.transport.abort()
        self.mode, self.since = mode, time.monotonic()

    async def move(self, host: str) -> None:
        """Serve on another address, same port."""
        await self.stop()
        self.host = host
        await self.start()
        self.since = time.monotonic()

    def _body(self) -> bytes:
        self.serial += 1
        self.tokens += 7
        self.served[self.serial] = time.monotonic()
        self.served.pop(self.serial - 500, None)
        running: object = self.serial
        tokens, buckets = self.tokens, (1, 2, 3)
        if self.mode == "lie":
            running, tokens, buckets = "NaN", -5, (3, 2, 1)
        lines = [
            "# TYPE vllm:num_requests_running gauge",
            f"vllm:num_requests_running {running}",
            "# TYPE vllm:prompt_tokens_total counter",
            f"vllm:prompt_tokens_total {tokens}",
            "# TYPE vllm:time_to_first_token_seconds histogram",
            *(
                f'vllm:time_to_first_token_seconds_bucket{{le="{bound}"}} {count}'
                for bound, count in zip(("0.1", "1.0", "+Inf"), buckets, strict=True)
            ),
            f"vllm:time_to_first_token_seconds_count {buckets[-1]}",
            "vllm:time_to_first_token_seconds_sum 1",
        ]
        return ("\n".join(lines) + "\n").encode()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(
            OSError, RuntimeError, asyncio.IncompleteReadError, asyncio.CancelledError, asyncio.LimitOverrunError
        ):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if not await self._one(head.split(b" ", 2)[1], reader, writer):
                    break
        self._writers.discard(writer)
        writer.close()

    async def _one(self, path: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection is over."""
        if self.mode == "hang":
            await reader.read()
            return False
        if self.mode == "reset":
            writer.transport.abort()
            return False
        if path == b"/metrics":
            whole = self.mode in {"ok", "lie"}
            body = self._body() if whole else b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"
        else:
            body = b'{"object":"list","data":[{"id":"m"}]}' if path == b"/v1/models" else b"{}"
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        if self.mode == "slow":
            for byte in answer + body:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.1)
            return False
        writer.write(answer)
        if self.mode == "half-close":
            writer.write(body[: len(body) // 2])
            writer.write_eof()
            return False
        writer.write(body)
        await writer.drain()
        return True


class Publishers:
    """Many KV-event publishers in one thread. Each block's hash tells in which life it was stored."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.publishers = [KvPublisher(PublisherOptions(buffer_steps=200), time.time) for _ in range(count)]
        self.lives = [0] * count
        self.next = [1] * count
        self.restarted = [0.0] * count
        self.silent_until = [0.0] * count
        for each in self.publishers:
            each.start()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def hash_of(self, place: int, number: int, life: int | None = None) -> int:
        """The hash of a block of a life."""
        return (place + 1) * 1000 * LIVES + (self.lives[place] if life is None else life) * LIVES + number

    def _serve(self) -> None:
        beat = 0
        while not self._stop.wait(0.02):
            beat += 1
            with self._lock:
                for place, each in enumerate(self.publishers):
                    each.pump()
                    if (beat + place) % 25 == 0 and time.monotonic() >= self.silent_until[place]:
                        number = self.next[place]
                        parent = self.hash_of(place, number - 1) if number > 1 else None
                        each.stored([self.hash_of(place, number)], parent, list(range(BLOCK)), BLOCK)
                        self.next[place] = number + 1

    def do(self, place: int, job: Callable[[KvPublisher], None]) -> None:
        """Run something on one of them between two rounds of the thread."""
        with self._lock:
            job(self.publishers[place])

    def restart(self, place: int) -> None:
        """Another life at the same address; nothing of the former is held."""
        with self._lock:
            self.publishers[place].stop()
            self.publishers[place].start()
            self.lives[place] += 1
            self.next[place] = 1
            self.restarted[place] = time.monotonic()

    def silence(self, place: int, seconds: float) -> None:
        """Publish nothing for a while."""
        self.silent_until[place] = time.monotonic() + seconds

    def close(self) -> None:
        """End the thread and the sockets."""
        self._stop.set()
        self._thread.join()
        for each in self.publishers:
            each.close()


class Names:
    """Names that only the soak knows, with addresses that may change."""

    def __init__(self) -> None:
        self.hosts: dict[str, str] = {}

    def getaddrinfo(self, host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        """As `socket.getaddrinfo`, for these names and for addresses."""
        address = self.hosts.get(host, host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 0))]
