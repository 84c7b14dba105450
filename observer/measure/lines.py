"""The syntax of one exposition line: samples with labels, escapes, timestamps and exemplars, and metadata comments.

It reads both Prometheus text (0.0.4, 1.0.0) and OpenMetrics lines. A fault is a `LineError` that names what was found;
the caller knows the line's number and the family it costs.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec


class ProblemKind(StrEnum):
    """What can be wrong with one family of a body that is otherwise readable. The kinds in `INFORMS` only inform."""

    MALFORMED = "Malformed"
    TRUNCATED = "Truncated"
    BAD_ENCODING = "BadEncoding"
    INTERLEAVED = "Interleaved"
    UNEQUAL_DUPLICATES = "UnequalDuplicates"
    TOO_LARGE = "TooLarge"
    TORN = "Torn"
    OUT_OF_RANGE = "OutOfRange"
    WRONG_TYPE = "WrongType"
    UNEQUAL_COPIES = "UnequalCopies"
    MODEL_NOT_FOUND = "ModelNotFound"

    DUPLICATES_FOLDED = "DuplicatesFolded"
    TYPE_MISSING = "TypeMissing"
    TYPE_UNKNOWN = "TypeUnknown"
    TYPE_UNEXPECTED = "TypeUnexpected"
    NO_FINAL_NEWLINE = "NoFinalNewline"


INFORMS = frozenset(
    {
        ProblemKind.DUPLICATES_FOLDED,
        ProblemKind.TYPE_MISSING,
        ProblemKind.TYPE_UNKNOWN,
        ProblemKind.TYPE_UNEXPECTED,
        ProblemKind.NO_FINAL_NEWLINE,
        ProblemKind.UNEQUAL_COPIES,
        ProblemKind.MODEL_NOT_FOUND,
    }
)
"""Kinds that cost nothing: the family is read all the same."""


class LineError(ValueError):
    """One line that cannot be read: its kind and what was found. ``index`` counts lines from 0 in the body."""

    def __init__(self, kind: ProblemKind, detail: str, index: int = 0) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.index = index


class Line(msgspec.Struct, frozen=True):
    """One sample line. ``end`` is the length of its ``name{labels}`` text; ``timestamp`` is as written, no unit."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    timestamp: float | None
    end: int


_NAME = rb"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_QUOTED = rb'"(?:[^"\\]|\\.)*+"'
_BLANK = rb"[ \t]*+"
NAME = re.compile(_NAME)
_LABEL = re.compile(
    _BLANK + rb"(" + _NAME + rb"|" + _QUOTED + rb")" + _BLANK + rb"(?:=" + _BLANK + rb"(" + _QUOTED + rb"))?" + _BLANK
)
_HEADER = re.compile(
    rb"#[ \t]++(TYPE|HELP|UNIT)[ \t]++(" + _NAME + rb"|" + _QUOTED + rb")(?:[ \t]++(.*))?\Z", re.DOTALL
)
_SHOWN = 80


def shown(line: bytes) -> str:
    """A line as it may stand in a message: at most 80 characters, nothing unprintable."""
    text = line[:_SHOWN].decode("utf-8", "backslashreplace")
    text = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
    return f"{text!r}…" if len(line) > _SHOWN else repr(text)


def number(text: bytes) -> float:
    """A sample value. Raises ValueError for what Python reads and the formats do not have (``1_000``, empty)."""
    if b"_" in text:
        raise ValueError(text)
    return float(text)


def _unescape(quoted: bytes) -> str:
    text = quoted[1:-1].decode()
    if "\\" not in text:
        return text
    return re.sub(r'\\([\\n"])', lambda found: {"n": "\n"}.get(found[1], found[1]), text)


def parse_labels(line: bytes, position: int) -> tuple[str | None, tuple[tuple[str, str], ...], int]:
    """Labels from the ``{`` at ``position``: a quoted metric name if one stands there, the pairs, the end after ``}``.

    Raises `LineError` for bad syntax, a repeated label or a reserved one.
    """
    start, metric, pairs = position, None, {}
    position += 2 if line[position + 1 : position + 2] == b"," else 1
    while True:
        found = _LABEL.match(line, position)
        if found is not None:
            name, value = found[1], found[2]
            quoted = name.startswith(b'"')
            label = _unescape(name) if quoted else name.decode()
            if not label or (value is None and (not quoted or metric is not None)):
                raise LineError(ProblemKind.MALFORMED, f"label without a name or value in {shown(line[start:])}")
            if value is None:
                metric = label
            elif label in pairs or label.startswith("__"):
                raise LineError(ProblemKind.MALFORMED, f"label {label!r} repeated or reserved in {shown(line)}")
            else:
                pairs[label] = _unescape(value)
            position = found.end()
        while line[position : position + 1] in {b" ", b"\t"}:
            position += 1
        follows = line[position : position + 1]
        position += 1
        if follows == b"}":
            return metric, tuple(pairs.items()), position
        if follows != b"," or found is None:
            raise LineError(ProblemKind.MALFORMED, f"labels do not end in '}}' in {shown(line)}")


def parse_key(line: bytes) -> tuple[str, tuple[tuple[str, str], ...], int]:
    """The name and labels a sample line begins with, and where they end. Raises `LineError`."""
    try:
        start = len(line) - len(line.lstrip())
        found = NAME.match(line, start)
        position = start if found is None else found.end()
        while line[position : position + 1] in {b" ", b"\t"}:
            position += 1
        if line[position : position + 1] == b"{":
            quoted, labels, position = parse_labels(line, position)
            name = quoted if found is None else found[0].decode()
            if name is None or (found is not None and quoted is not None):
                raise LineError(ProblemKind.MALFORMED, f"a sample needs exactly one name, found {shown(line)}")
            return name, labels, position
        if found is None or position == found.end():
            raise LineError(ProblemKind.MALFORMED, f"not a sample line: {shown(line)}")
        return found[0].decode(), (), found.end()
    except UnicodeDecodeError as error:
        raise LineError(ProblemKind.BAD_ENCODING, f"not UTF-8: {shown(line)}") from error


def parse_line(line: bytes) -> Line:
    """One whole sample line: key, value, timestamp and exemplar, the last checked and dropped. Raises `LineError`."""
    name, labels, end = parse_key(line)
    rest, marked, exemplar = line[end:].partition(b"#")
    fields = rest.split()
    try:
        if marked:
            _check_exemplar(exemplar)
        if not 1 <= len(fields) <= 2:
            raise ValueError(rest)
        return Line(name, labels, number(fields[0]), number(fields[1]) if len(fields) > 1 else None, end)
    except ValueError as error:
        if isinstance(error, LineError):
            raise
        raise LineError(ProblemKind.MALFORMED, f"no value, or not a number, in {shown(line)}") from error


def _check_exemplar(text: bytes) -> None:
    try:
        start = text.index(b"{")
        if text[:start].strip():
            raise ValueError(text)
        _, _, end = parse_labels(text, start)
        fields = text[end:].split()
        if not 1 <= len(fields) <= 2:
            raise ValueError(text)
        for field in fields:
            number(field)
    except ValueError as error:
        raise LineError(ProblemKind.MALFORMED, f"exemplar cannot be read: {shown(text)}") from error


def parse_header(line: bytes) -> tuple[bytes, str, bytes] | None:
    """``(keyword, family, rest)`` of a TYPE, HELP or UNIT line; ``None`` for other comments and names not in UTF-8."""
    found = _HEADER.match(line)
    if found is None:
        return None
    try:
        family = _unescape(found[2]) if found[2].startswith(b'"') else found[2].decode()
    except UnicodeDecodeError:
        return None
    return found[1], family, found[3] or b""
