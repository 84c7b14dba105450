"""The verified line layout: a body that has the lines of an earlier one is read without being parsed again.

A layout keeps, of one body that was parsed in full, where each line stood and what it began with. A later body has the
layout when every line is proved to be what it was: wanted lines by their whole ``name{labels} `` text, comments and
blank lines by all their bytes, every other line by a window of its name that no wanted name has. Then only numbers can
differ, and they are read together. Whatever is not proved is read in full again, so a layout can be slow but never
wrong. Of a body in which only a few wanted lines begin otherwise those alone are read in full (`variants`).
"""

from __future__ import annotations

from bisect import bisect
from itertools import pairwise, repeat
from typing import Final

import numpy as np

from observer.measure.words import WORD, Floats, Indices, Texts, numbers_at, words_at

_WINDOWS_KEPT: Final = 8192
_OWN: Final = 32
_OWN_SHARE: Final = 8
"""So many wanted lines of a body may begin with a text of its own, and at most one in the second so many."""

Own = tuple[tuple[int, bytes], ...]
"""Wanted rows and what their lines begin with, by row."""

Window = tuple[int, int, int, int]
"""Where 8 bytes stand in a line, their number, the mask of those that are known, and the line's first byte."""


def _word(text: bytes) -> int:
    return int.from_bytes(text.ljust(WORD, b"\0"), "little")


class Wanted:
    """Wanted family names, prepared to prove that a line belongs to none of them."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = sorted(name.encode() for name in names)
        self._any = tuple(self.names)
        self.shortest = min(map(len, self.names), default=WORD)
        self._at: dict[int, tuple[frozenset[bytes], tuple[bytes, ...]]] = {}
        self._windows: dict[bytes, Window | None] = {}

    def near(self, families: list[str]) -> tuple[list[bytes], list[bool]]:
        """The names as bytes, and for each whether a wanted name begins with it or it with one: then it proves nothing."""
        names = [family.encode() for family in families]
        near = list(map(bytes.startswith, names, repeat(self._any)))
        # Seldom does any name begin a wanted one, so first they are asked together.
        others = tuple(name for name, known in zip(names, near, strict=True) if not known)
        if any(map(bytes.startswith, self.names, repeat(others))):
            near = [
                known or any(map(bytes.startswith, self.names, repeat(name)))
                for name, known in zip(names, near, strict=True)
            ]
        return names, near

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
        for offset in (max(0, common - WORD + 1), common, 0):
            window = text[offset : offset + WORD]
            if offset < self.shortest and self._differs(window, offset):
                return offset, _word(window), _word(b"\xff" * len(window)), text[0]
        return None

    def _differs(self, window: bytes, offset: int) -> bool:
        if offset not in self._at:
            parts = [name[offset : offset + WORD] for name in self.names]
            whole = frozenset(part for part in parts if len(part) == WORD)
            self._at[offset] = whole, tuple(part for part in parts if len(part) < WORD)
        whole, short = self._at[offset]
        if len(window) < WORD and any(part.startswith(window) for part in whole):
            return False
        return window not in whole and not any(part.startswith(window) or window.startswith(part) for part in short)


def _common(one: bytes, other: bytes) -> int:
    """The length of the common beginning."""
    size = min(len(one), len(other))
    differ = int.from_bytes(one[:size], "big") ^ int.from_bytes(other[:size], "big")
    return size - (differ.bit_length() + 7) // 8


class Layout:
    """What the lines of one body begin with. Built once, shared by every target whose bodies have it.

    ``special`` are the places of the comment and blank lines, and those lines. What a later body is compared with is made when the
    first one with as many lines comes: many a body never has a second. ``nbytes`` are the bytes that it keeps alive,
    roughly and rather too many.
    """

    def __init__(
        self,
        lines: int,
        special: tuple[list[int], list[bytes]],
        runs: list[tuple[int, int]],
        prefixes: list[bytes],
        gaps: list[tuple[int, int, bytes]],
        wanted: Wanted,
    ) -> None:
        self.lines = lines
        self.rows = len(prefixes)
        self.most_own = min(_OWN, self.rows // _OWN_SHARE)
        self._edges = np.array([edge for run in runs for edge in run], np.int64)
        self._raw: tuple[tuple[list[int], list[bytes]], list[bytes], list[tuple[int, int, bytes]], Wanted] | None
        self._raw = special, prefixes, gaps, wanted
        middle = len(runs) // 2
        before = sum([last - first for first, last in runs[:middle]])
        self._sample = [(runs[middle][0], prefixes[before]), (runs[-1][1] - 1, prefixes[-1])] if prefixes else []
        # Prefixes are kept by the shape, and once more as the words that lines are compared with.
        size = 3 * len(b"".join(prefixes)) + len(b"".join(special[1]))
        self.nbytes = size + 65 * len(prefixes) + 41 * len(special[0]) + 33 * (lines - len(prefixes))

    def _prepare(
        self,
        special: tuple[list[int], list[bytes]],
        prefixes: list[bytes],
        gaps: list[tuple[int, int, bytes]],
        wanted: Wanted,
    ) -> None:
        """Make what bodies are compared with."""
        self._rows = _ranges(self._edges[::2], self._edges[1::2])
        self._lengths = np.array(list(map(len, prefixes)), np.int64)
        texts = list(zip(self._rows.tolist(), prefixes, strict=True))
        proved: list[tuple[int, int, Window]] = []
        for first, last, text in gaps:
            window = wanted.window(text)
            if window is None:
                texts += [(index, text) for index in range(first, last)]
            else:
                proved.append((first, last, window))
        self._texts = Texts(texts)
        self._set_windows(proved)
        blocks = _joined(*special)
        self._blocks = tuple(text for _, text in blocks)
        self._block_lines = np.array([index for index, _ in blocks], np.int64)
        self.nbytes += self._texts.nbytes - 8 * len(prefixes) - 2 * len(b"".join(prefixes))
        self._raw = None

    def _set_windows(self, proved: list[tuple[int, int, Window]]) -> None:
        edges = np.array([(first, last) for first, last, _ in proved], np.int64).reshape(-1, 2)
        lengths = edges[:, 1] - edges[:, 0]
        self._checked = _ranges(edges[:, 0], edges[:, 1])
        self._offsets = np.repeat(np.array([window[0] for _, _, window in proved], np.int64), lengths)
        self._words = np.repeat(np.array([window[1] for _, _, window in proved], np.uint64), lengths)
        self._masks = np.repeat(np.array([window[2] for _, _, window in proved], np.uint64), lengths)
        self._first = np.repeat(np.array([window[3] for _, _, window in proved], np.uint8), lengths)

    def resembles(self, body: bytes, starts: Indices) -> bool:
        """Whether a body has as many lines and one of two wanted rows: most of those that are not proved do not."""
        if len(starts) != self.lines + 1:
            return False
        return not self._sample or any(body.startswith(text, starts[line]) for line, text in self._sample)

    def unproved(self, body: bytes, starts: Indices, family_bytes: int, line_bytes: int) -> list[int] | None:
        """The wanted rows, rising, whose lines do not begin as they did: none where the body has the layout.

        ``None`` where anything else of the body is not proved, or where they are more than `most_own`.
        """
        if len(starts) != self.lines + 1:
            return None
        if self._raw is not None:
            self._prepare(*self._raw)
        if not self._same_names(body, starts):
            return None
        if not all(map(body.startswith, self._blocks, starts[self._block_lines].tolist())):
            return None
        fallen = self._texts.fallen(body, starts)
        if len(fallen) > self.most_own:
            return None
        if int((starts[1:] - starts[:-1]).max(initial=0)) > line_bytes:
            return None
        edges = starts[self._edges]
        if int((edges[1::2] - edges[::2]).max(initial=0)) > family_bytes:
            return None
        return self._rows_at(sorted(fallen)) if fallen else fallen

    def _rows_at(self, lines: list[int]) -> list[int] | None:
        """The wanted rows that stand in these lines; ``None`` where one is of no wanted family."""
        rows = np.searchsorted(self._rows, lines)
        known = len(self._rows) and np.array_equal(self._rows.take(rows, mode="clip"), lines)
        return rows.tolist() if known else None

    def line(self, row: int) -> int:
        """The line in which a wanted row stands."""
        return self._rows.item(row)

    def numbers(self, body: bytes, starts: Indices, own: Own = ()) -> Floats | None:
        """The values of all wanted rows, float64 in file order, of a body that is proved; ``None`` where one is no number.

        ``own`` has what rows begin with that do not begin as they did.
        """
        begins = starts[self._rows] + self._lengths
        for row, text in own:
            begins[row] = starts[self._rows[row]] + len(text)
        return numbers_at(body, begins, starts[self._rows + 1] - 1)

    def _same_names(self, body: bytes, starts: Indices) -> bool:
        """Whether every unwanted sample line still begins with its first byte and has its window."""
        lines = starts[self._checked]
        words = words_at(body, lines + self._offsets)
        words &= self._masks
        return bool(
            np.array_equal(words, self._words) and np.array_equal(np.frombuffer(body, np.uint8)[lines], self._first)
        )


def _ranges(firsts: Indices, lasts: Indices) -> Indices:
    """The numbers of several ranges, ``first`` to ``last - 1`` of each, one after the other."""
    lengths = lasts - firsts
    before = np.cumsum(lengths) - lengths
    return np.repeat(firsts - before, lengths) + np.arange(lengths.sum())


def _joined(lines: list[int], texts: list[bytes]) -> list[tuple[int, bytes]]:
    """Whole lines as blocks of those that follow each other, each with its first line's place."""
    firsts = [place for place, line in enumerate(lines) if not place or lines[place - 1] != line - 1]
    edges = pairwise([*firsts, len(lines)])
    return [(lines[first], b"\n".join([*texts[first:last], b""])) for first, last in edges]


__all__ = ["Floats", "Indices", "Layout", "Own", "Wanted", "Window"]
