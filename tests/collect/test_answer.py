"""Our own parser of answers: the same outcome however the bytes are split, and no doubt about where a body ends."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.collect.answer import MAX_LINE, Answer, Fetched
from observer.collect.body import SharedBytes
from observer.collect.buffers import USUAL, Buffers
from observer.collect.failures import Failure, Progress
from observer.collect.http_head import MAX_HEAD
from observer.collect.options import BodyLimits
from router_contract.readings import FailureKind
from router_contract.targets import Address

ADDRESS = Address(host="engine", port=8000)
LIMITS = BodyLimits(body=1 << 20, own=64 << 10, shared=4 << 20)
TEXT = b"# TYPE a counter\na_total 1\n"
CLOSED = object()
"""Stands for the end of the connection."""


def told(pieces: Iterable[bytes | object], limits: BodyLimits = LIMITS) -> Answer:
    """An answer that was given these pieces, until it has an outcome; what it borrowed is given back."""
    shared, buffers, progress = SharedBytes(limits.shared), Buffers(), Progress()
    answer = Answer(ADDRESS, limits, shared, buffers, progress)
    for piece in pieces:
        if answer.outcome is not None:
            break
        if not isinstance(piece, bytes):
            answer.ended(None)
            continue
        place = 0
        while place < len(piece) and answer.outcome is None:
            room = answer.room()
            count = min(len(room), len(piece) - place)
            room[:count] = piece[place : place + count]
            place += count
            answer.received(count)
    answer.close()
    assert shared.left == limits.shared
    return answer


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(edges) if end > begin]


def chunks(*parts: bytes, extension: bytes = b"", trailers: bytes = b"", line: bytes = b"\r\n") -> bytes:
    framed = b"".join(b"%x" % len(part) + extension + line + part + line for part in parts)
    return framed + b"0" + line + trailers + line


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PACKED = gzip.compress(TEXT)
VALID: dict[str, tuple[bytes, bytes, bool]] = {
    "a length": (HEAD + b"Content-Length: 27\r\n\r\n" + TEXT, TEXT, True),
    "a length of nothing": (HEAD + b"Content-Length: 0\r\n\r\n", b"", True),
    "white space around a length": (HEAD + b"Content-Length: \t 27 \r\n\r\n" + TEXT, TEXT, True),
    "close": (HEAD + b"Content-Length: 27\r\nconnection: foo, CLOSE\r\n\r\n" + TEXT, TEXT, False),
    "1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 27\r\n\r\n" + TEXT, TEXT, False),
    "1.0 kept": (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 27\r\n\r\n" + TEXT, TEXT, True),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 27\r\n\r\n" + TEXT, TEXT, True),
    "line feeds alone": (b"HTTP/1.1 200 OK\nA: b\nContent-Length: 27\n\n" + TEXT, TEXT, True),
    "a folded value": (HEAD + b"A: b\r\n  c\r\nContent-Length: 27\r\n\r\n" + TEXT, TEXT, True),
    "empty lines before": (b"\r\n\r\n" + HEAD + b"Content-Length: 27\r\n\r\n" + TEXT, TEXT, True),
    "one chunk": (CHUNKED + chunks(TEXT), TEXT, True),
    "chunks of one": (CHUNKED + chunks(*(bytes([each]) for each in TEXT)), TEXT, True),
    "no chunk": (CHUNKED + chunks(), b"", True),
    "extensions": (CHUNKED + chunks(TEXT[:9], TEXT[9:], extension=b' ; a="b"'), TEXT, True),
    "trailers": (CHUNKED + chunks(TEXT, trailers=b"Checksum: 1\r\nB: 2\r\n"), TEXT, True),
    "chunks with line feeds": (CHUNKED + chunks(TEXT[:5], TEXT[5:], line=b"\n"), TEXT, True),
    "100 before": (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 27\r\n\r\n" + TEXT, TEXT, True),
    "hints before": (b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" * 3 + CHUNKED + chunks(TEXT), TEXT, True),
    "gzip": (HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED, TEXT, True),
    "gzip in chunks": (
        HEAD + b"Content-Encoding: GZIP\r\n" + CHUNKED[17:] + chunks(PACKED[:7], PACKED[7:]),
        TEXT,
        True,
    ),
}


@given(st.sampled_from(sorted(VALID)), st.lists(st.integers(0, 4000), max_size=8))
def test_a_valid_answer_split_anywhere_is_the_same(name: str, places: list[int]) -> None:
    data, body, kept = VALID[name]
    answer = told(cut(data, places))
    assert isinstance(answer.outcome, Fetched), answer.outcome
    assert (answer.outcome.data, answer.reusable) == (body, kept)


@pytest.mark.parametrize("name", VALID)
def test_a_valid_answer_byte_by_byte(name: str) -> None:
    data, body, kept = VALID[name]
    answer = told(bytes([each]) for each in data)
    assert isinstance(answer.outcome, Fetched), answer.outcome
    assert (answer.outcome.data, answer.reusable) == (body, kept)


@given(
    st.lists(st.binary(min_size=1, max_size=90_000).map(lambda part: b"a" + part * 5), max_size=5),
    st.lists(st.integers(0, 3 << 20), max_size=6),
    st.booleans(),
)
def test_large_bodies_are_joined_in_place(parts: list[bytes], places: list[int], framed: bool) -> None:
    body = b"".join(parts)[: 1 << 20]
    parts = [body[place : place + 70_000] for place in range(0, len(body), 70_000)]
    data = CHUNKED + chunks(*parts) if framed else HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    outcome = told(cut(data, places)).outcome
    assert isinstance(outcome, Fetched), outcome
    assert outcome.data == body


@given(st.binary(max_size=300), st.lists(st.integers(0, 400), max_size=5))
def test_a_body_that_ends_with_the_connection(body: bytes, places: list[int]) -> None:
    body = b"a" + body
    answer = told([*cut(HEAD + b"A: b\r\n\r\n" + body, places), CLOSED])
    assert isinstance(answer.outcome, Fetched)
    assert (answer.outcome.data, answer.reusable) == (body, False)


@pytest.mark.parametrize("name", VALID)
def test_a_connection_closed_early_at_any_place_gives_no_body(name: str) -> None:
    data, _, _ = VALID[name]
    for place in range(1, len(data)):
        answer = told([data[:place], CLOSED])
        assert isinstance(answer.outcome, Failure), (place, answer.outcome)
        assert answer.outcome.kind is FailureKind.TRUNCATED, (place, answer.outcome)
        assert not answer.reusable


def test_a_connection_that_ends_before_a_byte_says_nothing() -> None:
    answer = told([CLOSED])
    assert (answer.outcome, answer.begun) == (None, False)


BAD: dict[str, tuple[bytes, str]] = {
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer as HTTP does"),
    "TLS": (b"\x15\x03\x01\x00\x02\x02\x16", "does not answer as HTTP does"),
    "HTTP/2": (b"HTTP/2 200 OK\r\n\r\n", "does not answer as HTTP does"),
    "HTTP/1.2": (b"HTTP/1.2 200 OK\r\n\r\n", "first line"),
    "a status of two digits": (b"HTTP/1.1 20 OK\r\n\r\n", "first line"),
    "a status below 100": (b"HTTP/1.1 099 OK\r\n\r\n", "first line"),
    "a name with a space": (HEAD + b"Content Length: 1\r\n\r\na", "a header line begins with b'Content Length'"),
    "a space before the colon": (HEAD + b"Content-Length : 1\r\n\r\na", "a header line"),
    "a line without a colon": (HEAD + b"nothing\r\n\r\n", "b'nothing'"),
    "a carriage return in a value": (HEAD + b"A: b\rContent-Length: 1\r\n\r\na", "a header line"),
    "a first line that goes on": (HEAD + b"\tTransfer-Encoding: chunked\r\n\r\n" + chunks(TEXT), "a header line"),
    "a first line in two": (b"HTTP/1.1 200\r\n OK\r\nContent-Length: 1\r\n\r\na", "a header line"),
    "a zero byte in a value": (HEAD + b"A: b\0\r\n\r\n", "a header line"),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "length twice"),
    "two equal lengths": (HEAD + b"Content-Length: 1\r\ncontent-length: 1\r\n\r\na", "length twice"),
    "a list of lengths": (HEAD + b"Content-Length: 1, 1\r\n\r\na", "its length is"),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\na", "its length is"),
    "a length with a sign": (HEAD + b"Content-Length: +1\r\n\r\na", "its length is"),
    "an empty length": (HEAD + b"Content-Length:\r\n\r\na", "its length is"),
    "a length of 30 digits": (HEAD + b"Content-Length: " + b"1" * 30 + b"\r\n\r\na", "its length is"),
    "a length beside chunks": (HEAD + b"Content-Length: 1\r\n" + CHUNKED[17:] + chunks(b"a"), "beside"),
    "another transfer encoding": (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "transfer encoding"),
    "a head without an end": (HEAD + b"A: " + b"b" * MAX_HEAD, "its head passes"),
    "heads without an end": (b"HTTP/1.1 100 Continue\r\n\r\n" * 4000, "its head passes"),
    "empty lines without an end": (b"\r\n" * MAX_HEAD, "nothing"),
    "a chunk's size that is none": (CHUNKED + b"zz\r\n", "frames its body wrongly"),
    "a negative size": (CHUNKED + b"-1\r\n", "frames its body wrongly"),
    "a size in 0x": (CHUNKED + b"0x1\r\na\r\n", "frames its body wrongly"),
    "an empty size": (CHUNKED + b"\r\na", "frames its body wrongly"),
    "a size without an end": (CHUNKED + b"1;" + b"a" * MAX_LINE * 2, "too long"),
    "a chunk longer than it says": (CHUNKED + b"1\r\nab\r\n", "longer than it says"),
    "a trailer that is none": (CHUNKED + b"0\r\nno trailer\r\n\r\n", "a trailer is"),
    "trailers without an end": (CHUNKED + b"0\r\n" + b"A: b\r\n" * MAX_HEAD, "trailers pass"),
    "bytes after the end": (HEAD + b"Content-Length: 1\r\n\r\nabc", "follows the end"),
}


@pytest.mark.parametrize(("data", "words"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("size", [1 << 20, 997], ids=["whole", "in pieces"])
def test_what_leaves_doubt_is_malformed(data: bytes, words: str, size: int) -> None:
    answer = told([*cut(data, range(size, len(data), size)), CLOSED])
    assert isinstance(answer.outcome, Failure)
    assert answer.outcome.kind is FailureKind.MALFORMED, answer.outcome
    assert words in answer.outcome.detail
    assert not answer.reusable


def test_no_header_value_is_shown() -> None:
    outcome = told([HEAD + b"Set-Cookie : s3cret\r\n\r\n"]).outcome
    assert isinstance(outcome, Failure)
    assert "s3cret" not in outcome.detail


FURTHER: dict[str, tuple[bytes, bool]] = {
    "nothing": (b"", True),
    "an empty line": (b"\r\n", False),
    "another answer": (HEAD + b"\r\n", False),
    "the beginning of one": (b"HTT", False),
}


@pytest.mark.parametrize(("more", "kept"), FURTHER.values(), ids=FURTHER)
def test_another_answer_after_the_end_ends_only_the_connection(more: bytes, kept: bool) -> None:
    answer = told([VALID["a length"][0] + more])
    assert isinstance(answer.outcome, Fetched)
    assert (answer.outcome.data, answer.reusable) == (TEXT, kept)


STATUSES: dict[str, tuple[bytes, int, bool]] = {
    "a small page": (b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno!", 404, True),
    "no page": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, True),
    "its page in chunks": (b"HTTP/1.1 500 Oops\r\n" + CHUNKED[17:] + chunks(b"x" * 300), 500, True),
    "a page that is not there yet": (b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nno", 503, False),
    "a page badly framed": (b"HTTP/1.1 503 Busy\r\n" + CHUNKED[17:] + b"zz\r\n", 503, False),
    "a page above the limit": (b"HTTP/1.1 503 Busy\r\nContent-Length: 9999999\r\n\r\n" + b"x" * USUAL, 503, False),
    "a page until the end": (b"HTTP/1.1 401 No\r\n\r\nno", 401, False),
    "another protocol": (b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n", 101, False),
}


@pytest.mark.parametrize(("data", "status", "kept"), STATUSES.values(), ids=STATUSES)
def test_a_status_is_the_outcome_whatever_its_page(data: bytes, status: int, kept: bool) -> None:
    answer = told([data])
    assert isinstance(answer.outcome, Failure)
    assert (answer.outcome.kind, answer.outcome.status) == (FailureKind.HTTP, status)
    assert answer.reusable is kept


def test_a_body_above_its_limit_is_refused_as_soon_as_it_is_known() -> None:
    limits = BodyLimits(body=100, own=10, shared=1000)
    for data in (HEAD + b"Content-Length: 101\r\n\r\n", CHUNKED + chunks(b"x" * 101), HEAD + b"\r\n" + b"x" * 101):
        outcome = told([data], limits).outcome
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.TOO_LARGE
    assert isinstance(told([CHUNKED + chunks(b"x" * 100)], limits).outcome, Fetched)


def test_who_announces_much_and_sends_little_costs_little() -> None:
    buffers = Buffers()
    limits = BodyLimits(body=1 << 30, own=1 << 30)
    answer = Answer(ADDRESS, limits, SharedBytes(1), buffers, Progress())
    data = HEAD + b"Content-Length: 1000000000\r\n\r\na"
    answer.room()[: len(data)] = data
    answer.received(len(data))
    assert len(answer.room()) <= USUAL
    answer.close()


def test_buffers_are_used_again_and_large_ones_are_let_go() -> None:
    buffers = Buffers()
    one = buffers.take(USUAL)
    buffers.give(one)
    assert buffers.take(USUAL - 1) is one
    huge = buffers.take(2 << 20)
    buffers.give(huge)
    assert buffers.take(2 << 20) is not huge
    assert len(buffers.take(100)) == 100
