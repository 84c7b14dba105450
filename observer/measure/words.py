"""A body's bytes looked at many at a time: where its lines begin, which texts stand there, which whole numbers.

numpy reads the bytes behind each of many places as words of 8 bytes. All of it is exact: what words cannot tell is left
to the caller or read as text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
WORD: Final = 8
_WIDTHS: Final = range(16, 257, 16)
_LONG_COSTS: Final = 450  # one long text is compared in the time of so many bytes of short ones
_LONGEST_NUMBER: Final = 64
_IN_OTHER_JSON: Final = (b"u", b"s", b'"')
_MINUS_ZERO = re.compile(rb"-0(?![0-9.eE])")
_LEADS = np.ones(256, dtype=np.bool_)
_LEADS[[ord(char) for char in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:"]] = False

# Of a word with one byte that is 1: which byte that is, in the topmost byte of the product.
_PLACE: Final = np.uint64(0x0001020304050607)
_TOP: Final = np.uint64(56)
_ONE: Final = np.uint64(1)
# Eight ASCII digits of a word, the first in its lowest byte: pairs, then fours, then all in two products.
_DIGITS: Final = np.uint64(0x3030303030303030)
_PAST_NINE: Final = np.uint64(0x7676767676767676)
_HIGH_BITS: Final = np.uint64(0x8080808080808080)
_TEN: Final = np.uint64(10)
_ONE_BYTE: Final = np.uint64(8)
_TWO_BYTES: Final = np.uint64(16)
_FOUR_BYTES: Final = np.uint64(32)
_SIX_BYTES: Final = np.uint64(48)
_PAIRS: Final = np.uint64(0x000000FF000000FF)
_FIRST: Final = np.uint64(0x000F424000000064)
_SECOND: Final = np.uint64(0x0000271000000001)
_POINT_ZERO: Final = np.uint64(0x302E)
# The last n bytes of a word; nothing for what is shorter than one digit or longer than eight.
_LAST: Final = np.array([0, *((1 << 64) - (1 << 64 - 8 * count) for count in range(1, 9)), 0], np.uint64)


def line_starts(body: bytes) -> Indices:
    """The offset of each line of a body that ends in a newline, and the body's length as the last element."""
    size = len(body)
    newlines = np.empty(-(-size // WORD) * WORD, np.bool_)
    np.equal(np.frombuffer(body, np.uint8), ord("\n"), out=newlines[:size])
    newlines[size:] = False
    # Most words have no newline and nearly all others one, so few words are looked at any further.
    words = newlines.view("<u8")
    ends = words.astype(np.bool_).nonzero()[0]
    found = words[ends]
    if np.count_nonzero(found & (found - _ONE)):
        ends = newlines.nonzero()[0]
    else:
        found *= _PLACE
        found >>= _TOP
        ends <<= 3
        ends += found.view(np.int64)
    starts = np.empty(len(ends) + 1, np.int64)
    starts[0] = 0
    np.add(ends, 1, out=starts[1:])
    return starts


def special_lines(body: bytes, starts: Indices) -> Indices:
    """The lines that do not begin with a letter of a metric name: comments, blank lines, quoted names."""
    return np.flatnonzero(_LEADS[np.frombuffer(body, np.uint8)[starts[:-1]]])


def words_at(body: bytes, places: Indices, width: int = WORD) -> Words:
    """The ``width`` bytes (a multiple of 8) behind each place, as words in the order of the places; zeros past the end.

    Places are not below 0.
    """
    beyond = int(places.max()) + width - len(body) if len(places) else 0
    if beyond > 0:  # a last line may be shorter than the place that is looked at in it
        body += b"\0" * beyond
    whole = np.ndarray((max(len(body) - width + 1, 0),), np.dtype(f"V{width}"), body, strides=(1,))
    return whole[places].view("<u8")


class Texts:
    """Texts that lines are to begin with, ``(line, text)``: proved for all of them at once.

    Most are compared as words, up to a width at which that pays; the few longer ones one by one.
    """

    def __init__(self, texts: list[tuple[int, bytes]]) -> None:
        lengths = sorted(len(text) for _, text in texts)
        width = min(_WIDTHS, key=lambda width: _cost(lengths, width))
        short = [(line, text) for line, text in texts if len(text) <= width]
        self._width = width
        self._lines = np.array([line for line, _ in short], np.int64)
        self._words = np.frombuffer(b"".join([text.ljust(width, b"\0") for _, text in short]), "<u8")
        self._lengths = np.array([len(text) for _, text in short], np.int64)
        self._known = _first_bytes(width)
        long = [(line, text) for line, text in texts if len(text) > width]
        self._long = tuple(text for _, text in long)
        self._long_lines = np.array([line for line, _ in long], np.int64)
        self.nbytes = 2 * self._lines.nbytes + self._words.nbytes + sum(41 + len(text) for text in self._long)

    def fallen(self, body: bytes, starts: Indices) -> list[int]:
        """The lines that do not begin with their text, in no order; ``starts`` are the beginnings of the body's lines."""
        found = words_at(body, starts[self._lines], self._width)
        found ^= self._words
        found &= self._known[self._lengths].view("<u8")
        long = zip(self._long, starts[self._long_lines].tolist(), strict=True)
        others = [place for place, (text, start) in enumerate(long) if not body.startswith(text, start)]
        lines: list[int] = self._long_lines[others].tolist() if others else []
        if np.count_nonzero(found):
            lines += self._lines[found.reshape(-1, self._width // WORD).any(axis=1)].tolist()
        return lines


@cache
def _first_bytes(width: int) -> npt.NDArray[np.void]:
    """For each length up to a width, what is 1 in that many bytes and 0 in the others."""
    known = np.arange(width) < np.arange(width + 1).reshape(-1, 1)
    return (known * np.uint8(255)).view(f"V{width}").reshape(-1)


def _cost(lengths: list[int], width: int) -> int:
    short = bisect_right(lengths, width)
    return short * width + (len(lengths) - short) * _LONG_COSTS


def parse_numbers(joined: bytes, count: int) -> Floats | None:
    """``count`` numbers with commas between them; ``None`` where only `lines.parse_line` can tell what stands there."""
    # JSON has more than numbers. Of true, false, null and strings each has one of these; lists and objects fail below.
    # And its -0 is the integer 0.
    if not any(map(joined.__contains__, _IN_OTHER_JSON)) and not (b"-0" in joined and _MINUS_ZERO.search(joined)):
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


def numbers_at(body: bytes, begins: Indices, ends: Indices) -> Floats | None:
    """The numbers that stand from each of ``begins`` to each of ``ends`` (rising), as `parse_numbers` reads them.

    ``None`` where a text is none, or where they are so long that they are something else.
    """
    if not len(begins) or int(ends[0]) < 2 * WORD:
        return _texts_at(body, begins, ends)
    pairs = words_at(body, ends - 2 * WORD, 2 * WORD).reshape(-1, 2)
    digits = pairs[:, 1].copy()
    counts = ends - begins
    # Programs write counts as 12 or as 12.0.
    pointed = (digits >> _SIX_BYTES) == _POINT_ZERO
    shifted = digits << _TWO_BYTES
    shifted |= pairs[:, 0] >> _SIX_BYTES
    np.copyto(digits, shifted, where=pointed)
    counts -= pointed.view(np.int8) << 1
    digits ^= _DIGITS
    known = _LAST.take(counts, mode="clip")
    digits &= known
    odd = ((digits + _PAST_NINE) | digits) & _HIGH_BITS
    odd |= known == 0
    values = _whole_numbers(digits)
    others = np.flatnonzero(odd)
    if len(others):
        read = _texts_at(body, begins[others], ends[others])
        if read is None:
            return None
        values[others] = read
    return values


def _whole_numbers(digits: Words) -> Floats:
    """The numbers of words of eight digits (0 to 9, not their characters), the first digit in the lowest byte."""
    digits = digits * _TEN + (digits >> _ONE_BYTE)
    last = (digits >> _TWO_BYTES) & _PAIRS
    digits &= _PAIRS
    digits *= _FIRST
    last *= _SECOND
    digits += last
    digits >>= _FOUR_BYTES
    return digits.astype(np.float64)


def _texts_at(body: bytes, begins: Indices, ends: Indices) -> Floats | None:
    texts = [body[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    joined = b",".join(texts)
    return parse_numbers(joined, len(texts)) if len(joined) <= len(texts) * _LONGEST_NUMBER else None
