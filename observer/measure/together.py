"""The lines of many families read together, where every line is a plain one: ``name{label="value",…} number``.

Lines are checked by what they have outside of quotes, their structure, of which a body has few. A family with anything
else (escapes, timestamps, exemplars, blanks, letters beyond ASCII) is left to `rows.Rows.read`, which says the same of
plain lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat

import msgspec

from observer.measure.rows import Rows, Structures
from observer.measure.words import parse_numbers

_LABELS = re.compile(
    # Every quoted text is one quote here, and one blank stands at the end.
    rb'\{([a-zA-Z_:][a-zA-Z0-9_:]*="(?:,[a-zA-Z_:][a-zA-Z0-9_:]*=")*)\} ',
)
_IN_NAMES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:"
_WHOLES_KEPT = 4096


class Segment(msgspec.Struct, frozen=True, gc=False):
    """Consecutive lines ``first`` to ``last - 1`` under the metadata of one family, and their bytes, last newline out."""

    family: str
    first: int
    last: int
    text: bytes


def read_together(segments: list[Segment], known: Structures) -> dict[int, Rows]:
    """The rows of all segments that have only plain lines, by their first line, each as `Rows.read` gives them.

    No line is longer than a line or a label's value may be; the caller looks for that.
    """
    text = b"\n".join([each.text for each in segments])
    if b"\\" in text or not text.isascii():
        plain = [each for each in segments if b"\\" not in each.text and each.text.isascii()]
        return read_together(plain, known)
    if not text:
        return {}
    count = sum([each.last - each.first for each in segments])
    prefixes, numbers = _cut(text, count)
    parts = b"\n".join(prefixes).split(b'"')
    structures = b'"'.join(parts[::2]).split(b"\n")
    # A newline between quotes is none of these, so with as many structures as lines every line has whole quoted texts.
    if not len(parts) & 1 or len(structures) != count:
        return _apart(segments, known)
    names, odd = _names(set(structures), known)
    if odd:
        return read_together(_without(odd, segments, structures), known)
    values = parse_numbers(b",".join(numbers), count)
    if values is None:
        return _apart(segments, known)
    known.learn_wholes(names)
    unique = len(set(prefixes)) == count
    found: dict[int, Rows] = {}
    start = 0
    for each in segments:
        stop = start + each.last - each.first
        rows = Rows.checked(prefixes[start:stop], values[start:stop], set(structures[start:stop]), names)
        found[each.first] = rows.placed(each.family, each.first, len(each.text) + 1, known, unique=unique)
        start = stop
    return found


def _cut(text: bytes, count: int) -> tuple[list[bytes], Sequence[bytes]]:
    """What each of ``count`` lines begins with, up to its last blank, and what stands behind that.

    Whether there is such a blank is for the caller to see: there may be less of both.
    """
    # As many blanks as lines: one in each line, or there are beginnings that do not end in a blank outside of quotes.
    pieces = text.replace(b" ", b" \n").split(b"\n")
    if len(pieces) == 2 * count:
        return pieces[::2], pieces[1::2]
    heads, blanks, numbers = zip(*map(bytes.rpartition, text.split(b"\n"), repeat(b" ")), strict=True)
    return list(map(bytes.__add__, heads, blanks)), numbers


def _apart(segments: list[Segment], known: Structures) -> dict[int, Rows]:
    """Each segment by itself, so that a fault costs only its own."""
    found: dict[int, Rows] = {}
    for each in segments if len(segments) > 1 else ():
        found |= read_together([each], known)
    return found


def _names(structures: set[bytes], known: Structures) -> tuple[dict[bytes, str], set[bytes]]:
    """The sample name of the lines of each structure, and the structures that no plain line has (then not all names)."""
    names = {structure: known.wholes[structure] for structure in structures & known.wholes.keys()}
    fresh = structures - names.keys()
    # A bare name ends in the blank before its number. That lines begin with a letter was seen before.
    cut = {each: each.partition(b"{")[0].removesuffix(b" ") for each in fresh}
    fits = {rest: _fit(rest, known.labels) for rest in {each[len(name) :] for each, name in cut.items()}}
    if not all(fits.values()) or not all(cut.values()) or b"".join(cut.values()).translate(None, _IN_NAMES):
        return names, {
            each
            for each, name in cut.items()
            if not fits[each[len(name) :]] or not name or name.translate(None, _IN_NAMES)
        }
    new = {each: name.decode() for each, name in cut.items()}
    if len(known.wholes) + len(new) <= _WHOLES_KEPT:
        known.wholes.update(new)
    return names | new, set()


def _fit(text: bytes, most: int) -> bool:
    """Whether a structure may go on like this behind its name."""
    found = _LABELS.fullmatch(text)
    if found is None:
        return text == b" "
    labels = found[1][:-2].split(b'=",')
    return len(set(labels)) == len(labels) <= most and not any(map(bytes.startswith, labels, repeat(b"__")))


def _without(odd: set[bytes], segments: list[Segment], structures: list[bytes]) -> list[Segment]:
    """The segments none of whose lines has an odd structure."""
    kept, start = [], 0
    for each in segments:
        stop = start + each.last - each.first
        if odd.isdisjoint(structures[start:stop]):
            kept.append(each)
        start = stop
    return kept
