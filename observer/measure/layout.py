"""The verified line layout: a body that has the lines of an earlier one is read without being parsed again.

A layout keeps, of one body that was parsed in full, where each line stood and what it began with. A later body has the
layout when every line is proved to be what it was: wanted lines by their whole ``name{labels} `` text, comments and
blank lines by all their bytes, every other line by a window of its name that no wanted name has. Then only numbers can
differ, and they are read by one JSON call. Whatever is not proved is read in full again, so a layout can be slow but
never wrong.
"""

from __future__ import annotations

from bisect import bisect
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
_WINDOW: Final = 8
_LONGEST_NUMBER: Final = 64
_WINDOWS_KEPT: Final = 8192
_IN_OTHER_JSON: Final = (b"u", b"s", b'"')
_LEADS = np.ones(256, dtype=np.bool_)
_LEADS[[ord(char) for char in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:"]] = False


def line_starts(body: bytes) -> Indices:
    """The offset of each line of a body that ends in a newline, and the body's length as the last element."""
    newlines = np.flatnonzero(np.frombuffer(body, np.uint8) == ord("\n"))
    starts = np.zeros(len(newlines) + 1, np.int64)
    np.add(newlines, 1, out=starts[1:])
    return starts


def special_lines(body: bytes, starts: Indices) -> list[int]:
    """The lines that do not begin with a letter of a metric name: comments, blank lines, quoted names."""
    special: list[int] = np.flatnonzero(_LEADS[np.frombuffer(body, np.uint8)[starts[:-1]]]).tolist()
    return special


def parse_numbers(joined: bytes, count: int) -> Floats | None:
    """``count`` numbers with commas between them; ``None`` where only `lines.parse_line` can tell what stands there."""
    # JSON has more than numbers. Of true, false, null and strings each has one of these; lists and objects fail below.
    if not any(map(joined.__contains__, _IN_OTHER_JSON)):
        try:
            values = orjson.loads(b"[" + joined + b"]")
            return np.fromiter(values, np.float64, count) if len(values) == count else None
        except (ValueError, TypeError, OverflowError):
            pass
    if b"_" in joined:
        return None
    try:
        numbers = list(map(float, joined.split(b",")))
    except ValueError:
        return None
    return np.array(numbers) if len(numbers) == count else None


Window = tuple[int, int, int, int]
"""Where 8 bytes stand in a line, their number, the mask of those that are known, and the line's first byte."""


def _word(text: bytes) -> int:
    return int.from_bytes(text.ljust(_WINDOW, b"\0"), "little")


class Wanted:
    """Wanted family names, prepared to prove that a line belongs to none of them."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = sorted(name.encode() for name in names)
        self._any = tuple(self.names)
        self.shortest = min(map(len, self.names), default=_WINDOW)
        self._at: dict[int, tuple[frozenset[bytes], tuple[bytes, ...]]] = {}
        self._windows: dict[bytes, Window | None] = {}

    def touches(self, name: bytes) -> bool:
        """Whether a wanted name begins with ``name`` or ``name`` with a wanted one, so that prefixes prove nothing."""
        place = bisect(self.names, name)
        follows = self.names[place : place + 1]
        return name.startswith(self._any) or bool(follows and follows[0].startswith(name))

    def window(self, text: bytes) -> Window | None:
        """8 bytes of ``text`` that stand at that place in no wanted name, or ``None`` when there are none.

        ``text`` is what a line is known to begin with; a line with these bytes there cannot begin with a wanted name.
        """
        if text not in self._windows:
            if len(self._windows) >= _WINDOWS_KEPT:
                self._windows.clear()
            self._windows[text] = self._find_window(text)
        return self._windows[text]

    def _find_window(self, text: bytes) -> Window | None:
        place = bisect(self.names, text)
        common = max((_common(text, other) for other in self.names[max(place - 1, 0) : place + 1]), default=0)
        for offset in (max(0, common - _WINDOW + 1), common, 0):
            window = text[offset : offset + _WINDOW]
            if offset < self.shortest and self._differs(window, offset):
                return offset, _word(window), _word(b"\xff" * len(window)), text[0]
        return None

    def _differs(self, window: bytes, offset: int) -> bool:
        if offset not in self._at:
            parts = [name[offset : offset + _WINDOW] for name in self.names]
            whole = frozenset(part for part in parts if len(part) == _WINDOW)
            self._at[offset] = whole, tuple(part for part in parts if len(part) < _WINDOW)
        whole, short = self._at[offset]
        if len(window) < _WINDOW and any(part.startswith(window) for part in whole):
            return False
        return window not in whole and not any(part.startswith(window) or window.startswith(part) for part in short)


def _common(one: bytes, other: bytes) -> int:
    """The length of the common beginning."""
    size = min(len(one), len(other))
    differ = int.from_bytes(one[:size], "big") ^ int.from_bytes(other[:size], "big")
    return size - (differ.bit_length() + 7) // 8


class Layout:
    """What the lines of one body begin with. Built once, shared by every target whose bodies have it.

    ``special`` are the comment and blank lines with their places. What a later body is compared with is made when the
    first one with as many lines comes: many a body never has a second. ``nbytes`` are the bytes that it keeps alive,
    roughly and rather too many.
    """

    def __init__(
        self,
        lines: int,
        special: list[tuple[int, bytes]],
        runs: list[tuple[int, int]],
        prefixes: list[bytes],
        gaps: list[tuple[int, int, bytes]],
        wanted: Wanted,
    ) -> None:
        self.lines = lines
        self.rows = len(prefixes)
        self._raw: tuple[list[tuple[int, bytes]], list[tuple[int, int, bytes]], Wanted] | None = special, gaps, wanted
        self._edges = np.array([edge for run in runs for edge in run], np.int64)
        self._prefixes = prefixes
        self._removed = len(b"".join(prefixes))
        apart = lines - len(prefixes)
        size = self._removed + len(b"".join([text for _, text in special]))
        self.nbytes = size + 41 * (len(prefixes) + len(special)) + 33 * apart + 8 * (len(special) + len(self._edges))

    def _prepare(self, special: list[tuple[int, bytes]], gaps: list[tuple[int, int, bytes]], wanted: Wanted) -> None:
        """Make what bodies are compared with."""
        fixed = [(index, text + b"\n") for index, text in special]
        proved: list[tuple[int, int, Window]] = []
        for first, last, text in gaps:
            window = wanted.window(text)
            if window is None:
                fixed += [(index, text) for index in range(first, last)]
            else:
                proved.append((first, last, window))
        if len(fixed) > len(special):
            fixed.sort()
        self._set_windows(proved)
        self._fixed = np.array([index for index, _ in fixed], np.int64)
        self._texts = tuple(text for _, text in fixed)
        self._raw = None

    def _set_windows(self, proved: list[tuple[int, int, Window]]) -> None:
        lengths = np.array([last - first for first, last, _ in proved], np.int64)
        begins = np.array([first for first, _, _ in proved], np.int64) - np.cumsum(lengths) + lengths
        self._checked = np.repeat(begins, lengths) + np.arange(lengths.sum())
        self._offsets = np.repeat(np.array([window[0] for _, _, window in proved], np.int64), lengths)
        self._words = np.repeat(np.array([window[1] for _, _, window in proved], np.uint64), lengths)
        self._masks = np.repeat(np.array([window[2] for _, _, window in proved], np.uint64), lengths)
        self._first = np.repeat(np.array([window[3] for _, _, window in proved], np.uint8), lengths)

    def read(self, body: bytes, starts: Indices, family_bytes: int, line_bytes: int) -> Floats | None:
        """The values of all wanted rows, float64 in file order, or ``None`` when the body is not proved to fit."""
        if len(starts) != self.lines + 1:
            return None
        if self._raw is not None:
            self._prepare(*self._raw)
        if not self._same_names(body, starts):
            return None
        if int((starts[1:] - starts[:-1]).max(initial=0)) > line_bytes:
            return None
        if not all(map(body.startswith, self._texts, starts[self._fixed].tolist())):
            return None
        edges: list[int] = starts[self._edges].tolist()
        found: list[bytes] = []
        size = 0
        for first, last in zip(edges[::2], edges[1::2], strict=True):
            if last - first > family_bytes:
                return None
            size += last - first
            found += body[first : last - 1].split(b"\n")
        # The lines lost exactly the bytes of all prefixes, so none of them kept its own: each prefix was there.
        joined = b",".join(map(bytes.removeprefix, found, self._prefixes))
        if len(joined) + 1 != size - self._removed and self.rows:
            return None
        return parse_numbers(joined, self.rows) if len(joined) <= self.rows * _LONGEST_NUMBER else None

    def _same_names(self, body: bytes, starts: Indices) -> bool:
        """Whether every unwanted sample line still begins with its first byte and has its window."""
        if not len(self._checked):
            return True
        lines = starts[self._checked]
        places = lines + self._offsets
        if int(places.max()) + _WINDOW > len(body):
            body += b"\0" * _WINDOW
        words = np.ndarray((len(body) - _WINDOW + 1,), np.dtype("<u8"), body, strides=(1,))
        return bool(
            np.array_equal(words[places] & self._masks, self._words)
            and np.array_equal(np.frombuffer(body, np.uint8)[lines], self._first)
        )
