"""One HTTP/1.x answer as its bytes arrive, parsed where they were received. No I/O here: it is told what came.

Chunks are joined in place, so that a body is copied once: when it is whole. Whatever a server sends, the memory is
bounded by the body's limits, and what leaves the end of the body in doubt is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from observer.collect.body import GZIP_MAGIC, Allowance, Body, SharedBytes
from observer.collect.buffers import USUAL, Buffers
from observer.collect.failures import (
    Failure,
    Progress,
    bad_encoding,
    classify,
    disconnected,
    http_status,
    misframed,
    not_http,
    redirected,
    too_large,
)
from observer.collect.http_head import MAX_HEAD, START, TRAILER, Head, NotHttpError, parse_head
from observer.collect.options import BodyLimits
from router_contract.targets import Address

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_LINE = 4096
"""Bytes of a line that says a chunk's size, its extensions included."""
_SMALL = 4096
_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*+(?:;[^\r\0]*+)?")
_LF, _CR = 10, 13


class Fetched(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A 200 answer, whole and decoded. ``content_type`` is as sent, empty when none was."""

    data: bytes
    content_type: str = ""


class MisframedError(ValueError):
    """A body whose chunks are not framed as HTTP says."""


class Answer:
    """Give it what arrives: `room`, then `received`, until ``outcome`` is there; `ended` when nothing more comes.

    ``begun`` says that a byte came; ``error`` is what ended the connection early; ``reusable``, once there is an outcome, that the connection may be used again.
    `close` gives back what was borrowed; call it whatever happened.
    """

    __slots__ = (
        "_address",
        "_allowance",
        "_buffer",
        "_buffers",
        "_decoder",
        "_end",
        "_filled",
        "_head",
        "_heads",
        "_left",
        "_limits",
        "_own",
        "_progress",
        "_read",
        "_refusal",
        "_scanned",
        "_shared",
        "_start",
        "_step",
        "_view",
        "begun",
        "error",
        "outcome",
        "reusable",
    )

    def __init__(
        self, address: Address, limits: BodyLimits, shared: SharedBytes, buffers: Buffers, progress: Progress
    ) -> None:
        self.outcome: Fetched | Failure | None = None
        self.begun = False
        self.error: Exception | None = None
        self.reusable = False
        self._address = address
        self._limits = limits
        self._shared = shared
        self._buffers = buffers
        self._progress = progress
        # The body is at [start, end) of the buffer, what was not looked at yet at [read, filled).
        self._buffer = buffers.scratch
        self._view = buffers.scratch_view
        self._own = False
        self._start = self._end = self._read = self._filled = 0
        self._scanned = 0
        self._heads = 0
        self._left = 0
        self._head: Head | None = None
        self._refusal: Failure | None = None
        self._decoder: Body | None = None
        self._allowance: Allowance | None = None
        # The plain function, not the bound method: that would be a cycle for the garbage collector in each answer.
        self._step: Callable[[Answer], bool] = Answer._at_start

    def room(self) -> memoryview:
        """Where the next bytes go; never empty. Nothing else may be received anywhere before they are told of."""
        return self._view[self._filled :] if self._own else self._view

    def received(self, count: int) -> None:
        """So many bytes are in the room that was given last."""
        self.begun = True
        self._filled += count
        try:
            while self.outcome is None and self._step(self):
                pass
        except NotHttpError as error:
            self.outcome = self._refusal or not_http(str(error), self._address)
        except MisframedError as error:
            self.outcome = self._refusal or misframed(str(error), self._address)
        if self.outcome is None and self._refusal is not None:
            # A status other than 200 is the outcome whatever follows; what did not come with it is not waited for.
            self.outcome = self._refusal
        elif self.outcome is None and (not self._own or len(self._buffer) - self._filled < _SMALL // 2):
            self._make_room()

    def ended(self, error: Exception | None) -> None:
        """The connection was closed, or lost by an error. An answer that has not begun has no outcome by this."""
        self.error = error
        if self.outcome is not None or not self.begun:
            return
        if self._step is Answer._until_end and error is None:
            self._finish()
        else:
            known = None if error is None else classify(error, self._progress, self._address)
            self.outcome = known or disconnected(self._progress, self._address)

    def close(self) -> None:
        """Give back the buffer and what the body drew on. Nothing may be received any more."""
        if self._own:
            self._own = False
            self._view = self._buffers.scratch_view
            self._buffers.give(self._buffer)
        if self._decoder is not None:
            self._decoder.close()
        if self._allowance is not None:
            self._allowance.close()

    def _at_start(self) -> bool:
        buffer, place = self._buffer, self._read
        while place < self._filled and buffer[place] in {_LF, _CR}:
            place += 1
        begin = bytes(self._view[place : min(place + len(START), self._filled)])
        if not START.startswith(begin):
            raise NotHttpError(f"it begins with {bytes(self._view[place : min(place + 40, self._filled)])!r}")
        self._heads, self._read = self._heads + place - self._read, place
        if self._heads > MAX_HEAD:
            raise NotHttpError("it begins with 64KiB of nothing")
        if len(begin) < len(START):
            return False
        self._step = Answer._in_head
        return True

    def _in_head(self) -> bool:
        begin = self._read
        end = _head_end(self._buffer, begin + self._scanned, self._filled)
        if self._heads + (end if end >= 0 else self._filled) - begin > MAX_HEAD:
            raise NotHttpError("its head passes 64KiB")
        if end < 0:
            self._scanned = max(0, self._filled - begin - 2)
            return False
        head = parse_head(bytes(self._view[begin:end]))
        self._heads += end - begin
        self._read, self._scanned = end, 0
        if head.status < 200 and head.status != 101:
            self._step = Answer._at_start
        else:
            self._open(head)
        return True

    def _open(self, head: Head) -> None:
        self._head, self._progress.answered = head, True
        self._start = self._end = self._read
        if head.status in REDIRECTS:
            self._refusal = redirected(head.status, head.location, self._address)
        elif head.status != 200:
            self._refusal = http_status(head.status, self._address)
        elif head.length is not None and head.length > self._limits.body:
            self.outcome = too_large(self._limits.body, self._address)
        elif head.encoding and head.encoding.lower() != "identity":
            self._decoder = Body(self._address, head.encoding, self._limits, self._shared)
        if head.status in {101, 204, 304}:
            self._left, self._step = 0, Answer._in_length
        elif head.chunked:
            self._step = Answer._at_chunk
        elif head.length is not None:
            self._left, self._step = head.length, Answer._in_length
        else:
            self._step = Answer._until_end

    def _in_length(self) -> bool:
        if not self._take_left():
            return False
        self._finish()
        return True

    def _at_chunk(self) -> bool:
        line = self._line(MAX_LINE, "the line of a chunk's size is too long")
        if line is None:
            return False
        match = _SIZE.fullmatch(line)
        if match is None:
            raise MisframedError(f"a chunk's size is {line[:20]!r}")
        self._left = int(match[1], 16)
        self._step = Answer._in_chunk if self._left else Answer._in_trailers
        return True

    def _in_chunk(self) -> bool:
        if not self._take_left():
            return False
        self._step = Answer._after_chunk
        return True

    def _after_chunk(self) -> bool:
        line = self._line(1, "a chunk is longer than it says")
        if line is None:
            return False
        if line:
            raise MisframedError("a chunk is longer than it says")
        self._step = Answer._at_chunk
        return True

    def _in_trailers(self) -> bool:
        line = self._line(MAX_LINE, "a trailer is too long")
        if line is None:
            return False
        if not line:
            self._finish()
            return True
        self._heads += len(line)
        if TRAILER.fullmatch(line) is None:
            raise MisframedError(f"a trailer is {line[:40]!r}")
        if self._heads > MAX_HEAD:
            raise NotHttpError("its head and trailers pass 64KiB")
        return True

    def _until_end(self) -> bool:
        self._take(self._filled - self._read)
        return False

    def _line(self, most: int, fault: str) -> bytes | None:
        """The next line without its end, ``None`` while it is not whole; a longer one is a fault."""
        begin = self._read
        end = self._buffer.find(b"\n", begin, min(self._filled, begin + most + 1))
        if end < 0:
            if self._filled - begin > most:
                raise MisframedError(fault)
            return None
        self._read = end + 1
        line = bytes(self._view[begin:end])
        return line[:-1] if line[-1:] == b"\r" else line

    def _take_left(self) -> bool:
        """Take what is there of the bytes that are left to come; whether that was all of them."""
        count = min(self._left, self._filled - self._read)
        self._left -= count
        self._take(count)
        return not self._left

    def _take(self, count: int) -> None:
        """The next bytes are of the body."""
        if not count:
            return
        begin, self._read = self._read, self._read + count
        self._progress.received += count
        if self._refusal is not None:
            return
        if self._decoder is not None:
            self.outcome = self._decoder.feed(bytes(self._view[begin : self._read]))
            return
        if self._end != begin:
            self._view[self._end : self._end + count] = self._view[begin : self._read]
        self._end += count
        size = self._end - self._start
        if size > self._limits.own or size > self._limits.body:
            if self._allowance is None:
                self._allowance = Allowance(self._address, self._limits, self._shared)
            self.outcome = self._allowance.grow(size)
            if self.outcome is not None:
                # At once, not when somebody comes to close it: other bodies may go on with what this one held.
                self._allowance.close()

    def _finish(self) -> None:
        """The body is whole. More bytes than an answer has are a lie about its length, unless they are another answer."""
        if self.outcome is not None:
            return
        more = bytes(self._view[self._read : min(self._filled, self._read + 64)]).lstrip(b"\r\n")
        if not more.startswith(START[: len(more)]):
            raise NotHttpError(f"{more[:20]!r} follows the end that it said")
        head = self._head
        kept = head is not None and head.keeps and head.status != 101 and self._step is not Answer._until_end
        self.reusable = kept and self._read == self._filled
        if self._refusal is not None or head is None:
            self.outcome = self._refusal
        else:
            data = self._data()
            self.outcome = data if isinstance(data, Failure) else Fetched(data=data, content_type=head.content_type)

    def _data(self) -> bytes | Failure:
        if self._decoder is not None:
            return self._decoder.finish()
        data = bytes(self._view[self._start : self._end])
        return bad_encoding("gzip without saying so", self._address) if data[:2] == GZIP_MAGIC else data

    def _make_room(self) -> None:
        """Keep the body so far and what was not looked at, without what is between; and have room for more."""
        body, rest = self._end - self._start, self._filled - self._read
        held = body + rest
        if not self._own and not held:
            self._start = self._end = self._read = self._filled = 0
            return
        old, view = self._buffer, self._view
        if not self._own or held > len(old) // 2:
            # Announced sizes are believed only up to the usual one: who lies costs no more than who does not.
            size = max(2 * _SMALL, 2 * held, min(held + self._left + 2 * _SMALL, USUAL))
            self._buffer = self._buffers.take(size)
            self._view = memoryview(self._buffer)
        self._view[:body] = view[self._start : self._end]
        self._view[body:held] = view[self._read : self._filled]
        if self._own and self._buffer is not old:
            self._buffers.give(old)
        self._own = True
        self._start, self._end, self._read, self._filled = 0, body, body, held


def _head_end(buffer: bytearray, begin: int, end: int) -> int:
    """The place after the first empty line, -1 when there is none yet."""
    usual = buffer.find(b"\n\r\n", begin, end)
    bare = buffer.find(b"\n\n", begin, end if usual < 0 else usual + 1)
    if bare >= 0:
        return bare + 2
    return usual + 3 if usual >= 0 else -1
