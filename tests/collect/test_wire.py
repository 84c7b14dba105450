"""Connections of our own client: kept, asked again when they died idle, closed when they cannot be trusted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

import pytest
import uvloop

from observer.clock import SystemClock
from observer.collect.fetch import Fetched, Fetcher
from router_contract.readings import FailureKind
from router_contract.targets import Address
from tests.collect.conftest import LIMITS
from tests.fakes import hostile
from tests.fakes.hostile import Answer, raw, reply, serving

TEXT = b"a_total 1\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n"


def at(port: int, **facts: object) -> Address:
    return Address(host="127.0.0.1", port=port, **facts)  # type: ignore[arg-type]  # a test's shorthand


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


async def read(fetcher: Fetcher, port: int, seconds: float = 2.0) -> bytes | FailureKind:
    outcome = await fetcher.fetch(at(port), seconds)
    return outcome.data if isinstance(outcome, Fetched) else outcome.kind


@contextlib.asynccontextmanager
async def fetching(**options: float) -> AsyncIterator[Fetcher]:
    async with Fetcher(SystemClock(), LIMITS, **options) as fetcher:  # type: ignore[arg-type]  # a test's shorthand
        yield fetcher


def in_turn(*answers: Answer) -> Answer:
    """Each request, over all connections, gets the next answer; the last one stays."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(reader, writer, head)

    return answer


async def test_one_connection_serves_many_reads_and_two_at_once_need_two() -> None:
    async with serving(reply(TEXT)) as server, fetching() as fetcher:
        assert [await read(fetcher, server.port) for _ in range(3)] == [TEXT] * 3
        assert (server.connections, fetcher.open_connections) == (1, 1)
        assert await asyncio.gather(*(read(fetcher, server.port) for _ in range(2))) == [TEXT] * 2
        assert await asyncio.gather(*(read(fetcher, server.port) for _ in range(2))) == [TEXT] * 2
        assert (server.connections, fetcher.open_connections) == (2, 2)


async def test_of_several_idle_connections_to_one_place_any_may_go() -> None:
    async with serving(reply(TEXT)) as server, fetching(reads=3) as fetcher:
        for open_now in (1, 2, 3):
            assert await asyncio.gather(*(read(fetcher, server.port) for _ in range(open_now))) == [TEXT] * open_now
        async with serving(reply(TEXT)) as other:
            assert await read(fetcher, other.port) == TEXT
            assert (fetcher.open_connections, fetcher.closed_idle) == (3, 1)
            assert await asyncio.gather(*(read(fetcher, server.port) for _ in range(2))) == [TEXT] * 2
            assert server.connections == 3, "the two that are left, used last, are used again"


async def test_a_kept_connection_that_died_is_no_failure_of_the_target() -> None:
    async with serving(in_turn(reply(TEXT), raw(b""), reply(TEXT))) as server, fetching() as fetcher:
        assert [await read(fetcher, server.port) for _ in range(2)] == [TEXT] * 2
        assert (server.connections, len(server.heads)) == (2, 3)


async def test_a_request_is_sent_again_only_once_and_only_after_silence() -> None:
    async with serving(in_turn(reply(TEXT), raw(b""))) as server, fetching() as fetcher:
        assert [await read(fetcher, server.port) for _ in range(2)] == [TEXT, FailureKind.TRUNCATED]
        assert len(server.heads) == 3
        assert await read(fetcher, server.port) == FailureKind.TRUNCATED
        assert len(server.heads) == 4, "a new connection is not tried twice"
    async with serving(in_turn(reply(TEXT), raw(b"HTTP/1"))) as server, fetching() as fetcher:
        assert [await read(fetcher, server.port) for _ in range(2)] == [TEXT, FailureKind.TRUNCATED]
        assert len(server.heads) == 2, "it had begun to answer"


CLOSED_AFTER: dict[str, Answer] = {
    "close is said": raw(OK + b"Connection: close\r\n\r\n" + TEXT, close=False),
    "HTTP/1.0": raw(b"HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\n" + TEXT, close=False),
    "another answer follows": raw(OK + b"\r\n" + TEXT + OK + b"\r\nfalse!!!!\n", close=False),
}


@pytest.mark.parametrize("answer", CLOSED_AFTER.values(), ids=CLOSED_AFTER)
async def test_a_connection_is_not_used_again(answer: Answer) -> None:
    async with serving(answer) as server, fetching() as fetcher:
        assert [await read(fetcher, server.port) for _ in range(2)] == [TEXT] * 2
        assert server.connections == 2
        await until(lambda: fetcher.open_connections == 0)


async def test_bytes_that_nobody_asked_for_end_a_kept_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        await reply(TEXT)(reader, writer, head)
        await asyncio.sleep(0.02)
        writer.write(OK + b"\r\nfalse!!!!\n")

    async with serving(answer) as server, fetching() as fetcher:
        assert await read(fetcher, server.port) == TEXT
        await until(lambda: fetcher.open_connections == 0)
        assert await read(fetcher, server.port) == TEXT


async def test_an_answer_before_the_request_is_taken_at_its_word_or_refused() -> None:
    async with serving(hostile.never, greeting=b"220 mail ESMTP\r\n") as server, fetching() as fetcher:
        assert await read(fetcher, server.port) == FailureKind.MALFORMED


@contextlib.contextmanager
def eager(greeting: bytes, connections: int) -> Iterator[int]:
    """A port whose server speaks as soon as it is connected to, in a thread: before the client can ask."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        listener.settimeout(10)

        def serve() -> None:
            for _ in range(connections):
                connection, _ = listener.accept()
                stack.enter_context(connection).sendall(greeting)

        thread = threading.Thread(target=serve)
        thread.start()
        stack.callback(thread.join)
        yield listener.getsockname()[1]


async def test_what_came_before_it_was_asked_is_its_answer() -> None:
    cases: tuple[tuple[bytes, bytes | FailureKind], ...] = (
        (b"SSH-2.0-OpenSSH_9.2\r\n", FailureKind.MALFORMED),
        (b"HTTP/1.1 408 Too Slow\r\nContent-Length: 0\r\n\r\n", FailureKind.HTTP),
        (OK + b"\r\n" + TEXT, TEXT),
    )
    for greeting, told in cases:
        with eager(greeting, 12) as port:
            async with fetching() as fetcher:
                for _ in range(12):
                    assert await read(fetcher, port) == told
                    await fetcher._wire.close()  # what is kept is used again: here each read is to have its own


async def test_an_interim_answer_is_passed_over() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: bytes) -> None:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(0.02)
        writer.write(OK + b"\r\n" + TEXT)

    async with serving(answer) as server, fetching() as fetcher:
        assert [await read(fetcher, server.port) for _ in range(2)] == [TEXT] * 2
        assert server.connections == 1


async def test_a_page_beside_a_status_does_not_cost_the_connection() -> None:
    async with serving(reply(b"no such thing", status="404 Not Found")) as server, fetching() as fetcher:
        assert [await read(fetcher, server.port) for _ in range(3)] == [FailureKind.HTTP] * 3
        assert server.connections == 1


def slowly(data: bytes, pause: float) -> Answer:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: bytes) -> None:
        for each in data:
            writer.write(bytes([each]))
            await asyncio.sleep(pause)

    return answer


async def test_a_slow_loris_has_its_time_and_no_more() -> None:
    async with serving(slowly(OK + b"\r\n" + TEXT, 0.0)) as server, fetching() as fetcher:
        assert await read(fetcher, server.port) == TEXT
    async with serving(slowly(OK + b"A: b\r\n" * 9000, 0.001)) as server, fetching() as fetcher:
        outcome = await fetcher.fetch(at(server.port), 0.3)
        assert not isinstance(outcome, Fetched)
        assert (outcome.kind, "did not answer within 300ms" in outcome.detail) == (FailureKind.TIMEOUT, True)
        await until(lambda: fetcher.open_connections == 0)


async def test_idle_connections_are_closed_after_their_time() -> None:
    async with serving(reply(TEXT)) as one, serving(reply(TEXT)) as two, fetching(keep_alive=0.1) as fetcher:
        for server in (one, two):
            assert await read(fetcher, server.port) == TEXT
        assert fetcher.open_connections == 2
        await until(lambda: fetcher.open_connections == 0, 2.0)
        assert await read(fetcher, one.port) == TEXT
        assert one.connections == 2


async def test_idle_connections_make_room_for_both_kinds_the_oldest_first() -> None:
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(reply(TEXT))) for _ in range(4)]
        through_library = at(servers[3].port, path="/./metrics")
        fetcher = await stack.enter_async_context(fetching(reads=2))
        assert await read(fetcher, servers[0].port) == TEXT
        assert isinstance(await fetcher.fetch(through_library, 2.0), Fetched)
        assert (fetcher.open_connections, fetcher.closed_idle) == (2, 0)
        assert await read(fetcher, servers[1].port) == TEXT
        assert fetcher.closed_idle == 1
        assert await read(fetcher, servers[2].port) == TEXT
        assert fetcher.closed_idle == 2, "the library's, now the oldest"
        assert await read(fetcher, servers[1].port) == TEXT
        assert servers[1].connections == 1
        assert isinstance(await fetcher.fetch(through_library, 2.0), Fetched)
        assert await read(fetcher, servers[2].port) == TEXT
        assert (servers[2].connections, fetcher.closed_idle) == (2, 4)


async def test_a_read_that_is_given_up_closes_its_connection() -> None:
    async with serving(hostile.never) as server, fetching() as fetcher:
        asked = asyncio.ensure_future(fetcher.fetch(at(server.port), 30.0))
        await until(lambda: len(server.heads) == 1)
        asked.cancel()
        await asyncio.wait([asked])
        assert asked.cancelled()
        await until(lambda: fetcher.open_connections == 0)
        assert fetcher.slots.used == 0


async def test_a_name_with_several_addresses_is_reached_over_the_one_that_answers() -> None:
    async with serving(reply(TEXT)) as server, fetching() as fetcher:
        outcome = await fetcher.fetch(Address(host="localhost", port=server.port), 5.0)
        assert isinstance(outcome, Fetched)
        assert server.heads[0].split(b"\r\n")[1] == f"Host: localhost:{server.port}".encode()


async def test_a_header_that_would_end_its_line_is_never_sent() -> None:
    async with serving(reply(TEXT)) as server, fetching() as fetcher:
        with pytest.raises(ValueError, match="injection"):
            await fetcher.fetch(at(server.port, headers=(("X-Team", "a\r\nHost: b"),)), 2.0)
        assert server.heads == []


SCENES = (
    test_of_several_idle_connections_to_one_place_any_may_go,
    test_one_connection_serves_many_reads_and_two_at_once_need_two,
    test_a_kept_connection_that_died_is_no_failure_of_the_target,
    test_a_request_is_sent_again_only_once_and_only_after_silence,
    test_bytes_that_nobody_asked_for_end_a_kept_connection,
    test_an_answer_before_the_request_is_taken_at_its_word_or_refused,
    test_what_came_before_it_was_asked_is_its_answer,
    test_an_interim_answer_is_passed_over,
    test_a_page_beside_a_status_does_not_cost_the_connection,
    test_a_slow_loris_has_its_time_and_no_more,
    test_idle_connections_are_closed_after_their_time,
    test_idle_connections_make_room_for_both_kinds_the_oldest_first,
    test_a_read_that_is_given_up_closes_its_connection,
    test_a_name_with_several_addresses_is_reached_over_the_one_that_answers,
    test_a_header_that_would_end_its_line_is_never_sent,
)


@pytest.mark.parametrize("scene", SCENES, ids=[scene.__name__[5:] for scene in SCENES])
def test_the_same_on_the_loop_that_serves(scene: Callable[[], Coroutine[None, None, None]]) -> None:
    """The program runs on uvloop, whose transports end and tell of errors otherwise."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())
