"""Servers that die, hang, lie and flood: each gives its own failure kind and a sentence that says what to do."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from pathlib import Path

import pytest
import uvloop

from observer.clock import SystemClock
from observer.collect.body import Body, SharedBytes
from observer.collect.failures import Failure
from observer.collect.fetch import Fetched, Fetcher
from observer.collect.options import BodyLimits
from router_contract.readings import FailureKind
from router_contract.targets import Address
from tests.collect.conftest import LIMITS
from tests.fakes import hostile
from tests.fakes.hostile import Answer, raw, reply, serving

TEXT = b"# TYPE a counter\na_total 1\n"
MIB = 1 << 20


def at(port: int, host: str = "127.0.0.1", **facts: object) -> Address:
    return Address(host=host, port=port, **facts)  # type: ignore[arg-type]  # a test's shorthand


async def fetch(fetcher: Fetcher, answer: Answer, seconds: float = 2.0) -> Fetched | Failure:
    async with serving(answer) as server:
        return await fetcher.fetch(at(server.port), seconds)


def chunked(*chunks: bytes, end: bool = True) -> bytes:
    body = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + (b"0\r\n\r\n" if end else b"")


WHOLE: dict[str, tuple[Answer, bytes]] = {
    "plain": (reply(TEXT), TEXT),
    "empty": (reply(b""), b""),
    "HTML": (reply(b"<html></html>", headers="Content-Type: text/html\r\n"), b"<html></html>"),
    "one label of 900 kB": (reply(b'a{l="' + b"x" * 900_000 + b'"} 1\n'), b'a{l="' + b"x" * 900_000 + b'"} 1\n'),
    "chunked": (raw(chunked(TEXT[:5], TEXT[5:])), TEXT),
    "no length, closed at the end": (raw(b"HTTP/1.0 200 OK\r\n\r\n" + TEXT), TEXT),
    "gzip unasked": (reply(gzip.compress(TEXT), headers="Content-Encoding: gzip\r\n"), TEXT),
    "deflate unasked": (reply(zlib.compress(TEXT), headers="Content-Encoding: Deflate\r\n"), TEXT),
    "identity said": (reply(TEXT, headers="Content-Encoding: identity\r\n"), TEXT),
}


@pytest.mark.parametrize(("answer", "body"), WHOLE.values(), ids=WHOLE.keys())
async def test_whole_bodies_arrive_as_they_are(fetcher: Fetcher, answer: Answer, body: bytes) -> None:
    outcome = await fetch(fetcher, answer)
    assert isinstance(outcome, Fetched), outcome
    assert outcome.data == body


HOSTILE: dict[str, tuple[Answer, FailureKind, str]] = {
    "length above the limit": (reply(b"", length=5 * MIB), FailureKind.TOO_LARGE, "passes 1MiB (`limits.body`)"),
    "endless": (hostile.endless, FailureKind.TOO_LARGE, "passes 1MiB"),
    "gzip bomb": (
        reply(hostile.gzip_bomb(64 * MIB), headers="Content-Encoding: gzip\r\n"),
        FailureKind.TOO_LARGE,
        "passes 1MiB",
    ),
    "length longer than the body": (
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nabc"),
        FailureKind.TRUNCATED,
        "after 3 bytes",
    ),
    "length shorter than the body": (reply(b"a_total 1234\n", length=10), FailureKind.MALFORMED, "as HTTP does"),
    "chunks without an end": (raw(chunked(TEXT, end=False)), FailureKind.TRUNCATED, f"after {len(TEXT)} bytes"),
    "half a chunk": (
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf"),
        FailureKind.TRUNCATED,
        "before the end of its answer",
    ),
    "closed without an answer": (raw(b""), FailureKind.TRUNCATED, "closed the connection without an answer"),
    "half a status line": (raw(b"HTTP/1."), FailureKind.TRUNCATED, "without an answer"),
    "a bad chunk size": (
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhalf\r\n"),
        FailureKind.MALFORMED,
        "",
    ),
    "no HTTP": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), FailureKind.MALFORMED, "does not answer as HTTP does"),
    "a header of 1 MB": (raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * MIB + b"\r\n\r\n"), FailureKind.MALFORMED, "HTTP"),
    "an encoding we never asked for": (
        reply(TEXT, headers="Content-Encoding: br\r\n"),
        FailureKind.BAD_ENCODING,
        "'br'",
    ),
    "gzip that is none": (
        reply(TEXT, headers="Content-Encoding: gzip\r\n"),
        FailureKind.BAD_ENCODING,
        "not the gzip it says",
    ),
    "gzip cut short": (
        reply(gzip.compress(TEXT)[:-9], headers="Content-Encoding: gzip\r\n"),
        FailureKind.BAD_ENCODING,
        "without its end",
    ),
    "gzip and more": (
        reply(gzip.compress(TEXT) + b"more", headers="Content-Encoding: gzip\r\n"),
        FailureKind.BAD_ENCODING,
        "after the end",
    ),
    "gzip without saying so": (reply(gzip.compress(TEXT)), FailureKind.BAD_ENCODING, "without saying so"),
    "401": (reply(status="401 Unauthorized"), FailureKind.HTTP, "set `bearerTokenFile`"),
    "403": (reply(status="403 Forbidden"), FailureKind.HTTP, "not enough"),
    "404": (reply(status="404 Not Found"), FailureKind.HTTP, "`metricsPath`"),
    "500": (reply(status="500 Oops"), FailureKind.HTTP, "see its own log"),
    "503": (reply(status="503 Busy"), FailureKind.HTTP, "not available now"),
    "204": (reply(status="204 No Content"), FailureKind.HTTP, "only 200"),
}


@pytest.mark.parametrize(("answer", "kind", "words"), HOSTILE.values(), ids=HOSTILE.keys())
async def test_each_lie_has_its_kind(fetcher: Fetcher, answer: Answer, kind: FailureKind, words: str) -> None:
    outcome = await fetch(fetcher, answer)
    assert isinstance(outcome, Failure), outcome
    assert (outcome.kind, outcome.status) == (kind, outcome.status if kind is FailureKind.HTTP else None), outcome
    assert words in outcome.detail


def test_uvloop_tells_the_same_kinds() -> None:
    """The program runs on uvloop, whose errors have other shapes."""

    async def every() -> dict[str, str]:
        found: dict[str, str] = {}
        async with Fetcher(SystemClock(), LIMITS) as fetcher:
            for name, (answer, _, _) in HOSTILE.items():
                outcome = await fetch(fetcher, answer)
                found[name] = outcome.kind if isinstance(outcome, Failure) else "read"
            refused = await fetcher.fetch(at(hostile.closed_port()), 2.0)
            found["closed"] = refused.kind if isinstance(refused, Failure) else "read"
            with hostile.full_backlog() as port:
                full = await fetcher.fetch(at(port), 0.3)
            found["full"] = full.kind if isinstance(full, Failure) else "read"
            name_less = await fetcher.fetch(at(80, host="no-such-name.invalid"), 5.0)
            found["name"] = name_less.kind if isinstance(name_less, Failure) else "read"
        return found

    wanted = {name: kind for name, (_, kind, _) in HOSTILE.items()}
    wanted |= {"closed": FailureKind.REFUSED, "full": FailureKind.TIMEOUT, "name": FailureKind.DNS}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(every()) == wanted


async def test_a_status_is_told(fetcher: Fetcher) -> None:
    outcome = await fetch(fetcher, reply(status="503 Busy"))
    assert isinstance(outcome, Failure)
    assert outcome.status == 503


SLOW: dict[str, tuple[Answer, str]] = {
    "never answers": (hostile.never, "accepted and did not answer within 300ms"),
    "a byte at a time": (hostile.dripping(0.02), "bytes and was not done within 300ms"),
}


@pytest.mark.parametrize(("answer", "words"), SLOW.values(), ids=SLOW.keys())
async def test_a_slow_server_times_out_on_time(fetcher: Fetcher, answer: Answer, words: str) -> None:
    began = asyncio.get_running_loop().time()
    outcome = await fetch(fetcher, answer, 0.3)
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.TIMEOUT
    assert words in outcome.detail
    assert asyncio.get_running_loop().time() - began < 1.5


async def test_ports_that_are_closed_mute_or_full(fetcher: Fetcher) -> None:
    refused = await fetcher.fetch(at(hostile.closed_port()), 2.0)
    assert isinstance(refused, Failure)
    assert (refused.kind, "nothing listens" in refused.detail) == (FailureKind.REFUSED, True)
    with hostile.mute() as port:
        hung = await fetcher.fetch(at(port), 0.3)
    assert isinstance(hung, Failure)
    assert (hung.kind, "accepted and did not answer" in hung.detail) == (FailureKind.TIMEOUT, True)
    with hostile.full_backlog() as port:
        full = await fetcher.fetch(at(port), 0.3)
    assert isinstance(full, Failure)
    assert (full.kind, "no connection" in full.detail) == (FailureKind.TIMEOUT, True)


async def test_a_name_that_does_not_exist(fetcher: Fetcher) -> None:
    outcome = await fetcher.fetch(at(80, host="no-such-name.invalid"), 5.0)
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.DNS
    assert "no-such-name.invalid" in outcome.detail


async def test_ipv6_is_read(fetcher: Fetcher) -> None:
    async with serving(reply(TEXT), host="::1") as server:
        outcome = await fetcher.fetch(at(server.port, host="::1"), 2.0)
    assert isinstance(outcome, Fetched)
    assert server.heads[0].split(b"\r\n")[1] == f"Host: [::1]:{server.port}".encode()


async def test_a_redirect_is_never_followed_and_no_token_leaves(fetcher: Fetcher, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    async with serving(reply(TEXT)) as elsewhere:
        location = f"Location: http://127.0.0.1:{elsewhere.port}/metrics?key=s3cret\r\n"
        for status in ("301 a", "302 b", "303 c", "307 d", "308 e"):
            async with serving(reply(status=status, headers=location)) as server:
                outcome = await fetcher.fetch(at(server.port, bearer_token_file=str(token)), 2.0)
                assert isinstance(outcome, Failure)
                assert (outcome.kind, outcome.status) == (FailureKind.REDIRECT, int(status[:3]))
                assert "s3cret" not in outcome.detail
                assert b"Authorization: Bearer s3cret" in server.heads[0]
        assert elsewhere.connections == 0


async def test_the_request_is_plain_and_keeps_its_connection(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{hostile.closed_port()}")
    async with serving(reply(TEXT, headers="Set-Cookie: a=b\r\n")) as server:
        for _ in range(3):
            assert isinstance(await fetcher.fetch(at(server.port, headers=(("X-Team", "a"),)), 2.0), Fetched)
    assert server.connections == 1
    lines = server.heads[-1].decode().split("\r\n")
    assert lines[0] == "GET /metrics HTTP/1.1"
    assert "Accept-Encoding: identity" in lines
    assert "X-Team: a" in lines
    assert not any(line.startswith("Cookie") for line in lines)


async def test_a_token_is_read_again_when_its_file_changes(fetcher: Fetcher, tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with serving(reply(TEXT)) as server:
        address = at(server.port, bearer_token_file=str(token))
        missing = await fetcher.fetch(address, 2.0)
        assert isinstance(missing, Failure)
        assert "nothing was sent" in missing.detail
        assert server.connections == 0
        for text in ("one", "other"):
            token.write_text(text)
            assert isinstance(await fetcher.fetch(address, 2.0), Fetched)
    assert [head.split(b"Bearer ")[1].split(b"\r\n")[0] for head in server.heads] == [b"one", b"other"]


@pytest.mark.parametrize("content", [b"", b"a\nb", b"\xff", b"x" * 70_000], ids=["empty", "lines", "bytes", "long"])
async def test_a_token_that_cannot_be_sent_is_not(fetcher: Fetcher, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    outcome = await fetcher.fetch(at(1, bearer_token_file=str(tmp_path / "token")), 2.0)
    assert isinstance(outcome, Failure)
    assert "cannot be used" in outcome.detail


async def test_a_body_longer_than_it_says_does_not_spoil_the_next_read(fetcher: Fetcher) -> None:
    lies = reply(TEXT + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse", length=len(TEXT))
    async with serving(lies) as server:
        outcomes = [await fetcher.fetch(at(server.port), 2.0) for _ in range(3)]
    assert [each.data if isinstance(each, Fetched) else each.kind for each in outcomes] == [TEXT] * 3


async def test_large_bodies_share_a_pool_and_small_ones_never_wait_for_it() -> None:
    limits = BodyLimits(body=4 * MIB, own=MIB, shared=2 * MIB)
    large = reply(b"x" * 3 * MIB)
    async with Fetcher(SystemClock(), limits) as fetcher, serving(hostile.dripping(0.01)), serving(large) as server:
        many = await asyncio.gather(*(fetcher.fetch(at(server.port), 5.0) for _ in range(6)))
        async with serving(reply(b"x" * MIB)) as small:
            assert isinstance(await fetcher.fetch(at(small.port), 5.0), Fetched)
        alone = await fetcher.fetch(at(server.port), 5.0)
    assert isinstance(alone, Fetched)
    failed = [each for each in many if isinstance(each, Failure)]
    assert len(failed) < 6
    assert all(each.kind is FailureKind.TOO_LARGE and "sharedBodies" in each.detail for each in failed)


def test_the_pool_gives_what_it_has() -> None:
    pool = SharedBytes(10)
    assert pool.take(7)
    assert not pool.take(4)
    pool.give(7)
    assert pool.left == 10


def test_a_body_beyond_its_own_allowance_needs_the_pool_and_gives_it_back() -> None:
    pool = SharedBytes(100)
    limits = BodyLimits(body=1000, own=50, shared=100)
    first, second, small = (Body(at(1), "", limits, pool) for _ in range(3))
    assert first.feed(b"x" * 120) is None
    assert pool.left == 30
    failure = second.feed(b"x" * 81)
    assert failure is not None
    assert (failure.kind, "sharedBodies" in failure.detail) == (FailureKind.TOO_LARGE, True)
    assert small.feed(b"x" * 50) is None
    for body in (first, second, small):
        body.close()
    assert pool.left == 100
