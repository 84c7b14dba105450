"""The same server asked over http and over https, which are two clients: what it is said to have done is the same."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import uvloop

from observer.clock import SystemClock
from observer.collect import connections, wire
from observer.collect.fetch import Fetched, Fetcher
from observer.collect.resolve import Resolver
from router_contract.readings import FailureKind
from router_contract.targets import Address, Tls
from tests.collect.conftest import LIMITS
from tests.fakes.authority import Authority
from tests.fakes.hostile import Answer, raw, reply, serving

TEXT = b"# TYPE a counter\na_total 1\n"
OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: 27\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"1b\r\n" + TEXT + b"\r\n"
BODY = b"x" * LIMITS.body


def reset(data: bytes) -> Answer:
    """These bytes, and then the connection is lost by an error."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: bytes) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.02)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    return answer


def pieces(*parts: bytes) -> Answer:
    """These bytes with pauses, on a connection that stays."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: bytes) -> None:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0.02)

    return answer


Told = FailureKind | int | bytes
TABLE: dict[str, tuple[Answer, Told]] = {
    "a length": (raw(OK + LENGTH + b"\r\n" + TEXT), TEXT),
    "until the end": (raw(OK + b"\r\n" + TEXT), TEXT),
    "until an error": (reset(OK + b"\r\n" + TEXT), FailureKind.TRUNCATED),
    "an error inside a length": (reset(OK + b"Content-Length: 99\r\n\r\n" + TEXT), FailureKind.TRUNCATED),
    "an end inside a length": (raw(OK + b"Content-Length: 99\r\n\r\n" + TEXT), FailureKind.TRUNCATED),
    "an error after the end": (reset(OK + LENGTH + b"\r\n" + TEXT), TEXT),
    "no last chunk": (raw(OK + CHUNKED + CHUNK), FailureKind.TRUNCATED),
    "extensions and trailers": (raw(OK + CHUNKED + b"1b;a=b\r\n" + TEXT + b"\r\n0\r\nX: y\r\n\r\n"), TEXT),
    "a size that is none at once": (raw(OK + CHUNKED + b"zz\r\n", close=False), FailureKind.MALFORMED),
    "a size that is none later": (pieces(OK + CHUNKED + CHUNK, b"zz\r\n"), FailureKind.MALFORMED),
    "a chunk longer than it says later": (pieces(OK + CHUNKED + CHUNK, b"1\r\nabc\r\n"), FailureKind.MALFORMED),
    "half a status line": (raw(b"HTTP/1."), FailureKind.TRUNCATED),
    "half a head": (raw(OK + b"Content-"), FailureKind.TRUNCATED),
    "an error inside a head": (reset(OK + b"Content-"), FailureKind.TRUNCATED),
    "only an interim answer": (raw(b"HTTP/1.1 100 Continue\r\n\r\n"), FailureKind.TRUNCATED),
    "an interim answer": (raw(b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n" + OK + LENGTH + b"\r\n" + TEXT), TEXT),
    "another protocol": (raw(b"SSH-2.0-x\r\n"), FailureKind.MALFORMED),
    "a field of 60 kB": (reply(TEXT, headers=f"X: {'x' * 60_000}\r\n"), TEXT),
    "a field of 70 kB": (reply(TEXT, headers=f"X: {'x' * 70_000}\r\n"), FailureKind.MALFORMED),
    "200 fields": (reply(TEXT, headers="".join(f"X{i}: x\r\n" for i in range(200))), TEXT),
    "a body at its limit": (reply(BODY), BODY),
    "a body above its limit": (raw(OK + b"\r\n" + BODY + b"x"), FailureKind.TOO_LARGE),
    "gzip above the limit": (
        reply(gzip.compress(BODY + b"x"), headers="Content-Encoding: gzip\r\n"),
        FailureKind.TOO_LARGE,
    ),
    "encoded twice": (
        reply(gzip.compress(TEXT), headers="Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n"),
        FailureKind.BAD_ENCODING,
    ),
    "coded on the way": (raw(OK + b"Transfer-Encoding: gzip\r\n\r\n" + TEXT), FailureKind.MALFORMED),
    "a length twice": (raw(OK + LENGTH + LENGTH + b"\r\n" + TEXT), FailureKind.MALFORMED),
    "a length beside chunks": (raw(OK + LENGTH + CHUNKED + CHUNK + b"0\r\n\r\n"), FailureKind.MALFORMED),
    "a redirect": (reply(b"", status="307 There", headers="Location: http://a/\r\n"), FailureKind.REDIRECT),
    "busy": (raw(b"HTTP/1.1 503 Busy\r\nRetry-After: 5\r\nContent-Length: 9\r\n\r\nno", close=False), 503),
    "no content": (raw(b"HTTP/1.1 204 None\r\n\r\n", close=False), 204),
    "not modified": (raw(b"HTTP/1.1 304 Not\r\nContent-Length: 30\r\n\r\n", close=False), 304),
}


class Ways:
    """An authority, and one server's certificate."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder)
        self.context = self._authority.server(self._authority.issue("good", names=("127.0.0.1", "moves")))
        self.tls = Tls(ca_file=self._authority.ca_file)

    def contexts(self) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
        """Without and with TLS."""
        return None, self.context

    def at(self, port: int, context: ssl.SSLContext | None, host: str = "127.0.0.1") -> Address:
        """Where a server is, as it is asked."""
        if context is None:
            return Address(host=host, port=port)
        return Address(scheme="https", host=host, port=port, tls=self.tls)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Ways:
    return Ways(tmp_path_factory.mktemp("ways"))


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(("answer", "told"), TABLE.values(), ids=TABLE)
def test_both_ways_say_the_same(ways: Ways, answer: Answer, told: Told, loop: object) -> None:
    async def both() -> None:
        async with Fetcher(SystemClock(), LIMITS) as fetcher:
            for context in ways.contexts():
                async with serving(answer, context) as server:
                    found = await fetcher.fetch(ways.at(server.port, context), 3.0)
                    said = found.data if isinstance(found, Fetched) else found.kind
                    status = None if isinstance(found, Fetched) else found.status
                    assert (status if isinstance(told, int) else said) == told, (context, found)
                    assert len(server.heads) == 1, "it had begun to answer: it is not asked again"

    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]  # either loop's factory
        runner.run(both())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("silent", [raw(b""), reset(b"")], ids=["an end", "an error"])
def test_silence_is_asked_again_only_on_a_kept_connection(ways: Ways, silent: Answer, loop: object) -> None:
    async def both() -> None:
        for context in ways.contexts():
            said = [reply(TEXT), silent, reply(TEXT), silent, silent, silent]

            async def answer(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes, said: list[Answer] = said
            ) -> None:
                await said.pop(0)(reader, writer, head)

            async with serving(answer, context) as server, Fetcher(SystemClock(), LIMITS) as fetcher:
                address = ways.at(server.port, context)
                asked = []
                for _ in range(4):
                    found = await fetcher.fetch(address, 3.0)
                    asked.append((isinstance(found, Fetched), len(server.heads)))
                assert asked == [(True, 1), (True, 3), (False, 5), (False, 6)], context

    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]  # either loop's factory
        runner.run(both())


@contextlib.asynccontextmanager
async def naming(found: dict[str, list[str]]) -> AsyncIterator[Fetcher]:
    """A fetcher for which names are what ``found`` says at the moment."""

    def look_up(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        kinds = [(socket.AF_INET6 if ":" in address else socket.AF_INET, address) for address in found[host]]
        return [
            (kind, socket.SOCK_STREAM, 6, "", (address, 0, 0, 0) if kind is socket.AF_INET6 else (address, 0))
            for kind, address in kinds
        ]

    clock = SystemClock()
    async with Fetcher(clock, LIMITS, resolver=Resolver(clock, ttl=0.0, keep=0.0, getaddrinfo=look_up)) as fetcher:
        yield fetcher


async def test_of_addresses_that_fail_in_different_ways_the_most_telling_is_said(ways: Ways) -> None:
    async with serving(reply(TEXT)) as server, naming({"two": ["224.0.0.1", "127.0.0.3"]}) as fetcher:
        for context in ways.contexts():
            found = await fetcher.fetch(ways.at(server.port, context, "two"), 3.0)
            assert not isinstance(found, Fetched)
            assert (found.kind, "nothing listens there" in found.detail) == (FailureKind.REFUSED, True), found


async def test_a_kept_connection_does_not_outlive_what_its_name_was(
    ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connections, wire):
        monkeypatch.setattr(module, "LONGEST_USE", 0.3)
    for context in ways.contexts():
        found = {"moves": ["127.0.0.1"]}
        async with (
            serving(reply(b"old 1\n"), context) as old,
            serving(reply(b"new 1\n"), context, host="127.0.0.2", port=old.port) as new,
            naming(found) as fetcher,
        ):
            address = ways.at(old.port, context, "moves")
            for _ in range(2):
                first = await fetcher.fetch(address, 3.0)
                assert isinstance(first, Fetched)
                assert first.data == b"old 1\n"
            assert old.connections == 1
            found["moves"] = ["127.0.0.2"]
            async with asyncio.timeout(5):
                while not new.heads:
                    for asked in (address, ways.at(old.port, context)):
                        assert isinstance(await fetcher.fetch(asked, 3.0), Fetched)
                    await asyncio.sleep(0.05)
            assert old.connections == 2, "a connection to an address, which is nobody else's, goes on"


async def test_a_header_that_a_user_gives_takes_the_place_of_ours_in_any_case_of_its_letters(ways: Ways) -> None:
    for context in ways.contexts():
        async with serving(reply(TEXT), context) as server, Fetcher(SystemClock(), LIMITS) as fetcher:
            address = msgspec.structs.replace(ways.at(server.port, context), headers=(("accept", "a/b"),))
            assert isinstance(await fetcher.fetch(address, 3.0), Fetched)
            accepted = [line for line in server.heads[0].lower().split(b"\r\n") if line.startswith(b"accept:")]
            assert accepted == [b"accept: a/b"]
