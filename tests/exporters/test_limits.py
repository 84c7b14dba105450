"""What the listener holds against: floods of connections, clients that send or take nothing, large bodies, viewers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from exporters.limits import LimitsApi, limits_document
from exporters.listening import Listen, ListenError, ServerTls
from exporters.server import Server
from router_contract.limit_readings import LimitReading, LimitState
from tests.fakes.authority import Authority

READINGS = (
    LimitReading(name="a", limit=10, use=1),
    LimitReading(name="b", limit=10, use=8, high_water=9),
    LimitReading(name="c", limit=10, use=10, reached=3),
    LimitReading(name="d", limit=10),
    LimitReading(name="e", limit=10, reached=2),
    LimitReading(name="f", limit=None, use=5),
)


class Fixed:
    def limits(self) -> tuple[LimitReading, ...]:
        return READINGS


async def big(_: web.Request) -> web.Response:
    return web.Response(body=b"x" * (8 << 20))


async def small(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def take(request: web.Request) -> web.Response:
    return web.Response(text=str(len(await request.read())))


@contextlib.asynccontextmanager
async def serving(**options: object) -> AsyncIterator[Server]:
    routes = [web.get("/big", big), web.get("/small", small), web.post("/take", take), web.get("/livez", small)]
    routes += LimitsApi(Fixed()).routes()
    server = Server(routes, Listen(port=0, stop_seconds=0.2, **options))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def port(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


async def connect(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port(server))


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str = "/small") -> bytes:
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


async def test_past_the_bound_the_longest_idle_client_makes_room() -> None:
    async with serving(connections=8) as server:
        clients = [await connect(server) for _ in range(8)]
        for client in clients:
            await ask(*client)
        await ask(*clients[0])  # the first is now the one that was idle for the shortest time
        late = await connect(server)
        assert b"200 OK" in await ask(*late)
        assert await clients[1][0].read() == b"", "the second was idle longest"
        assert b"200 OK" in await ask(*clients[0])
        assert (server.connections.closed_idle, server.connections.used) == (1, 8)
        assert server.connections.high_water == 8
        for _, writer in (*clients, late):
            writer.close()


async def test_a_flood_of_silent_connections_keeps_nobody_out() -> None:
    async with serving(connections=16) as server, contextlib.AsyncExitStack() as stack:
        for _ in range(200):
            _, writer = await connect(server)
            stack.callback(writer.close)
        assert server.connections.used <= 16
        async with aiohttp.ClientSession(server.url) as session, session.get("/livez") as answer:
            assert answer.status == 200
        assert server.connections.reached >= 184


async def test_a_client_that_takes_nothing_loses_its_connection() -> None:
    async with serving(answer_seconds=0.3) as server:
        reader, writer = await connect(server)
        writer.write(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        reader._transport.pause_reading()
        async with asyncio.timeout(5):
            while server.connections.used:
                await asyncio.sleep(0.02)
        writer.close()


async def test_a_client_that_sends_its_body_for_ever_is_answered_with_a_timeout() -> None:
    async with serving(answer_seconds=0.3) as server:
        reader, writer = await connect(server)
        writer.write(b"POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")
        assert b" 504 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        writer.close()


async def test_half_a_request_is_not_waited_for() -> None:
    async with serving(keep_alive_seconds=0.3) as server:
        reader, writer = await connect(server)
        writer.write(b"GET /small HTTP/1.1\r\nHost: loc")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


async def test_a_large_request_body_is_refused() -> None:
    async with serving(body_bytes=1000) as server, aiohttp.ClientSession(server.url) as session:
        async with session.post("/take", data=b"x" * 900) as answer:
            assert (answer.status, await answer.text()) == (200, "900")
        async with session.post("/take", data=b"x" * 5000) as answer:
            assert answer.status == 413


def test_the_nearest_limit_comes_first_and_what_is_not_measured_is_not_zero() -> None:
    document = limits_document(READINGS)
    assert document["state"] == "Reached"
    assert [item["name"] for item in document["items"]] == ["c", "e", "b", "a", "d", "f"]
    states = {item["name"]: (item["state"], item["ratio"], item["use"]) for item in document["items"]}
    assert states == {
        "a": ("Ok", 0.1, 1),
        "b": ("Near", 0.8, 8),
        "c": ("Reached", 1.0, 10),
        "d": ("Unknown", None, None),
        "e": ("Reached", None, None),
        "f": ("Unlimited", None, 5),
    }
    assert LimitReading(name="z", limit=10, use=0).state is LimitState.OK


async def test_the_limits_are_answered_past_every_bound() -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    async def waits(_: web.Request) -> web.Response:
        started.set()
        await gate.wait()
        return web.Response(text="done")

    server = Server([web.get("/wait", waits), *LimitsApi(Fixed()).routes()], Listen(port=0, in_flight=1))
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            waiting = asyncio.create_task(session.get("/wait"))
            await started.wait()
            async with session.get("/api/v1/limits") as answer:
                assert answer.status == 200
            async with session.get("/wait") as answer:
                assert answer.status == 429
            gate.set()
            (await waiting).release()
    finally:
        await server.stop()
    assert server.turned_away == 1


async def test_https_takes_the_certificate_of_a_client_or_nothing(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "other")
    cert, key = authority.issue("us", names=("127.0.0.1", "localhost"))
    mine, theirs = authority.issue("client", names=("client",)), stranger.issue("client2", names=("client",))
    tls = ServerTls(cert_file=cert, key_file=key, client_ca_file=authority.ca_file)
    # Guarded by certificates, so any interface would be allowed; the test stays on loopback.
    async with serving(tls=tls) as server:

        async def status(path: str, pair: tuple[str, str] | None) -> int | str:
            context = ssl.create_default_context(cafile=authority.ca_file)
            if pair is not None:
                context.load_cert_chain(*pair)
            try:
                async with (
                    aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
                    session.get(server.url + path) as answer,
                ):
                    return answer.status
            except (aiohttp.ClientError, OSError):
                return "refused"

        assert await status("/small", mine) == 200
        assert await status("/small", None) == 401
        assert await status("/livez", None) == 200, "probes have no certificate"
        assert await status("/small", theirs) == "refused"
    with pytest.raises(ListenError, match="cannot serve HTTPS with"):
        ServerTls(cert_file=key, key_file=cert).context()
    assert Listen(host="0.0.0.0", tls=tls).guarded
    with pytest.raises(ListenError, match="without a token"):
        Server([], Listen(host="0.0.0.0", tls=ServerTls(cert_file=cert, key_file=key)))
