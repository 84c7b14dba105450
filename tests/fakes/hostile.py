"""Small raw servers on loopback that answer as real ones never should. Each is a real socket; none outlives its block."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]


class Server:
    """Where a server listens and the request heads that it saw."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heads: list[bytes] = []
        self.connections = 0


@contextlib.asynccontextmanager
async def serving(
    answer: Answer, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", greeting: bytes = b"", port: int = 0
) -> AsyncIterator[Server]:
    """A server that reads request heads and lets ``answer`` reply to each, on one connection after another.

    ``greeting`` is sent as soon as a connection is there, before anything is read.
    """
    writers: set[asyncio.StreamWriter] = set()
    seen = Server(0)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        seen.connections += 1
        writer.write(greeting)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                seen.heads.append(head)
                await answer(reader, writer, head)
        writers.discard(writer)
        writer.close()

    server = await asyncio.start_server(connected, host, port, ssl=tls)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for writer in list(writers):
            writer.transport.abort()
        await server.wait_closed()
        await asyncio.sleep(0)


def reply(body: bytes = b"", *, status: str = "200 OK", headers: str = "", length: int | None = None) -> Answer:
    """A plain answer; ``length`` lies about the body's."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body) if length is None else length}\r\n{headers}\r\n".encode()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: bytes) -> None:
        writer.write(head + body)
        await writer.drain()

    return answer


def raw(data: bytes, *, close: bool = True) -> Answer:
    """Exactly these bytes, then the end of the connection."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: bytes) -> None:
        writer.write(data)
        await writer.drain()
        if close:
            writer.close()

    return answer


async def never(_: asyncio.StreamReader, __: asyncio.StreamWriter, ___: bytes) -> None:
    """Accepts the request and says nothing."""
    await asyncio.Event().wait()


async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: bytes) -> None:
    """A body without an end, as fast as it is taken."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    while not writer.is_closing():
        writer.write(chunk)
        await writer.drain()


def dripping(pause: float) -> Answer:
    """A body of one byte at a time."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: bytes) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(pause)

    return answer


def gzip_bomb(size: int) -> bytes:
    """Compressed bytes that become ``size`` zeros."""
    return gzip.compress(b"\0" * size, 9)


@contextlib.contextmanager
def full_backlog() -> contextlib.AbstractContextManager[int]:  # type: ignore[misc]  # a generator, as the decorator makes it
    """A port whose queue of connections is full and never taken from: further ones hang while connecting."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@contextlib.contextmanager
def mute() -> contextlib.AbstractContextManager[int]:  # type: ignore[misc]  # a generator, as the decorator makes it
    """A port that completes connections (the kernel does) and never answers, because nobody accepts them."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        yield listener.getsockname()[1]


def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
