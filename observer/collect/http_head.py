"""The head of an HTTP/1.x answer: its status and the few headers that frame or describe its body. Pure."""

from __future__ import annotations

import functools
import re

import msgspec

MAX_HEAD = 64 << 10
"""Bytes of all heads of one answer together, interim ones and trailers included."""
START = b"HTTP/1."
_SMALL = 1024

_FIELD = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\r\n\0]*+"
_FOLD = re.compile(rb"\r?\n[ \t]++")
_HEAD = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n\0]*+)?\r?\n((?:" + _FIELD + rb"\r?\n)*+)\r?\n")
_WANTED = re.compile(
    rb"^(connection|content-(?:encoding|length|type)|location|transfer-encoding):[ \t]*+([^\r\n]*+)",
    re.IGNORECASE | re.MULTILINE,
)
TRAILER = re.compile(_FIELD)
_LENGTH = re.compile(rb"[0-9]{1,18}")


class NotHttpError(ValueError):
    """An answer that is not framed as HTTP/1.x says; the text says what was found."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a head says of its body. ``length`` in bytes, ``None`` when it is not told.

    ``chunked`` and ``length`` exclude each other; with neither the body ends with the connection. ``keeps`` says that
    the connection may be used again once the body is over. Texts are as sent, empty when absent.
    """

    status: int
    length: int | None
    chunked: bool
    keeps: bool
    encoding: str
    content_type: str
    location: str


def parse_head(head: bytes) -> Head:
    """A whole head, its empty line included. Raises `NotHttpError`.

    Programs of one kind send the same heads, for a second at least, so the last ones are remembered where they are small.

    Lines may end with a line feed alone, and a value may go on in a line that begins with white space, as old servers
    do. What leaves the body's end in doubt is refused: two lengths, a length beside chunks, other transfer encodings.
    """
    return _remembered(head) if len(head) <= _SMALL else _parsed(head)


@functools.lru_cache(256)
def _remembered(head: bytes) -> Head:
    return _parsed(head)


def _parsed(head: bytes) -> Head:
    match = _HEAD.fullmatch(head)
    if match is None:
        # Never the first line: what is taken into it was meant for a header, perhaps one that frames the body.
        first = head.find(b"\n") + 1
        match = _HEAD.fullmatch(head[:first] + _FOLD.sub(b" ", head[first:]))
        if match is None:
            raise NotHttpError(_fault(head))
    minor, status, lines = match.groups()
    found: dict[bytes, list[bytes]] = {}
    for name, value in _WANTED.findall(lines):
        found.setdefault(name.lower(), []).append(value.rstrip(b" \t"))
    length, chunked = _framing(found)
    words = {word.strip() for each in found.get(b"connection", ()) for word in each.lower().split(b",")}
    return Head(
        status=int(status),
        length=length,
        chunked=chunked,
        keeps=(minor == b"1" or b"keep-alive" in words) and b"close" not in words,
        encoding=_text(b", ".join(found.get(b"content-encoding", ()))),
        content_type=_text(found.get(b"content-type", (b"",))[0]),
        location=_text(found.get(b"location", (b"",))[0]),
    )


def _framing(found: dict[bytes, list[bytes]]) -> tuple[int | None, bool]:
    lengths, codings = found.get(b"content-length"), found.get(b"transfer-encoding")
    if lengths is not None and len(lengths) > 1:
        raise NotHttpError("it says its length twice")
    if lengths is not None and _LENGTH.fullmatch(lengths[0]) is None:
        raise NotHttpError(f"its length is {lengths[0][:20]!r}")
    if codings is None:
        return (None if lengths is None else int(lengths[0])), False
    if lengths is not None:
        raise NotHttpError("it says a length beside a transfer encoding")
    if [each.lower() for each in codings] != [b"chunked"]:
        raise NotHttpError(f"its transfer encoding is {b', '.join(codings)[:40]!r}")
    return None, True


def _fault(head: bytes) -> str:
    """What is wrong with a head: its first line that is none. No header's value is shown, it may be secret."""
    first, *lines = head.replace(b"\r\n", b"\n").split(b"\n")
    if _HEAD.fullmatch(first + b"\n\n") is None:
        return f"its first line is {first[:40]!r}"
    bad = next((each for each in lines if each and TRAILER.fullmatch(each) is None), b"")
    return f"a header line begins with {bad.split(b':')[0][:40]!r}"


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
