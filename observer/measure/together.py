"""The lines of many families read together, where every line is a plain one: ``name{label="value",…} number``.

Lines are checked by what they have outside of quotes, their structure, of which a body has few. A family with anything
else (escapes, timestamps, exemplars, blanks, letters beyond ASCII) is left to `rows.Rows.read`, which says the same of
plain lines.
"""

from __future__ import annotations

import re
from itertools import repeat

import msgspec

from observer.measure.rows import Rows, Structures
from observer.measure.words import parse_numbers

_WHOLE = re.compile(
    # Every quoted text is one quote here.
    rb'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([a-zA-Z_:][a-zA-Z0-9_:]*="(?:,[a-zA-Z_:][a-zA-Z0-9_:]*=")*)\})?\Z',
)
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
    lines = text.split(b"\n")
    heads, _, numbers = zip(*map(bytes.rpartition, lines, repeat(b" ")), strict=True)
    parts = b"\n".join(heads).split(b'"')
    structures = b'"'.join(parts[::2]).split(b"\n")
    # A newline between quotes is none of these, so with as many structures as lines every line has whole quoted texts.
    if not len(parts) & 1 or len(structures) != len(lines):
        return _apart(segments, known)
    names = {structure: _name(structure, known) for structure in set(structures)}
    odd = {structure for structure, name in names.items() if not name}
    if odd:
        return read_together(_without(odd, segments, structures), known)
    values = parse_numbers(b",".join(numbers), len(lines))
    if values is None:
        return _apart(segments, known)
    prefixes = (b" \n".join(heads) + b" ").split(b"\n")
    unique = len(set(prefixes)) == len(prefixes)
    found: dict[int, Rows] = {}
    start = 0
    for each in segments:
        stop = start + each.last - each.first
        rows = Rows.checked(prefixes[start:stop], values[start:stop], set(structures[start:stop]), names)
        found[each.first] = rows.placed(each.family, each.first, len(each.text) + 1, known, unique=unique)
        start = stop
    return found


def _apart(segments: list[Segment], known: Structures) -> dict[int, Rows]:
    """Each segment by itself, so that a fault costs only its own."""
    found: dict[int, Rows] = {}
    for each in segments if len(segments) > 1 else ():
        found |= read_together([each], known)
    return found


def _name(structure: bytes, known: Structures) -> str:
    """The sample name of a line of a structure; empty where the line is no plain one."""
    name = known.wholes.get(structure)
    if name is None:
        found = _WHOLE.match(structure)
        if found is None:
            return ""
        labels = found[2][:-2].split(b'=",') if found[2] else []
        if (
            len(set(labels)) < len(labels)
            or len(labels) > known.labels
            or any(map(bytes.startswith, labels, repeat(b"__")))
        ):
            return ""
        name = found[1].decode()
        if len(known.wholes) < _WHOLES_KEPT:
            known.wholes[structure] = name
    return name


def _without(odd: set[bytes], segments: list[Segment], structures: list[bytes]) -> list[Segment]:
    """The segments none of whose lines has an odd structure."""
    kept, start = [], 0
    for each in segments:
        stop = start + each.last - each.first
        if odd.isdisjoint(structures[start:stop]):
            kept.append(each)
        start = stop
    return kept
