"""Answers over HTTP as our own client parses them: any bytes, in any pieces, and the end of the connection."""

from __future__ import annotations

from collections.abc import Iterator

from observer.collect.answer import Answer, Fetched
from observer.collect.body import SharedBytes
from observer.collect.buffers import Buffers
from observer.collect.failures import Failure, Progress
from observer.collect.options import BodyLimits
from router_contract.targets import Address

_ADDRESS = Address(host="engine", port=8000)
_LIMITS = BodyLimits(body=1 << 16, own=1 << 10, shared=1 << 17)


def http_answers(data: bytes) -> None:
    """The first byte says how large the pieces are; the same body comes out as when all came at once."""
    if not data:
        return
    whole = _told(data[1:], len(data))
    pieces = _told(data[1:], data[0] + 1)
    # A lie about a length may be seen or not, as its bytes come; a body that both ways give is the same.
    if isinstance(whole, Fetched) and isinstance(pieces, Fetched):
        assert whole == pieces
    if isinstance(whole, Failure):
        assert len(whole.detail) < 1000


def _told(data: bytes, size: int) -> Fetched | Failure | None:
    shared = SharedBytes(_LIMITS.shared)
    answer = Answer(_ADDRESS, _LIMITS, shared, Buffers(), Progress())
    for begin in range(0, len(data), size):
        if answer.outcome is not None:
            break
        piece = data[begin : begin + size]
        while piece and answer.outcome is None:
            room = answer.room()
            assert room
            count = min(len(room), len(piece))
            room[:count] = piece[:count]
            piece = piece[count:]
            answer.received(count)
    if answer.outcome is None:
        answer.ended(None)
    assert answer.outcome is not None or not data
    if isinstance(answer.outcome, Fetched):
        assert len(answer.outcome.data) <= _LIMITS.body
    answer.close()
    assert shared.left == shared.total
    return answer.outcome


def seeds() -> Iterator[bytes]:
    """Answers of each framing."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    yield b"\x05" + head + b"Content-Length: 4\r\n\r\na 1\n"
    yield b"\xff" + head + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\na \r\n2\r\n1\n\r\n0\r\nA: b\r\n\r\n"
    yield b"\x00" + b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"Connection: close\r\n\r\na 1\n"
    yield b"\x07" + b"HTTP/1.0 404 Not Found\nContent-Length: 2\n\nno"
    yield b"\x10" + head + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"
