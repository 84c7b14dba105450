"""What the comment and blank lines of a body say together: which families are declared, and where.

Programs repeat the same ones in every body, so what was said of the last is kept.
"""

from __future__ import annotations

import re

import msgspec

from observer.measure.layout import Wanted
from observer.measure.lines import parse_header
from observer.measure.rows import Structures
from observer.measure.shape import Family, Limits

_DECLARED = re.compile(
    # Both lines of one family, whole, as most programs write them: what does not match is read line by line.
    r"^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) [^\n]*\n# TYPE \1 ([a-z]+)$",
    re.MULTILINE,
)


class Heading(msgspec.Struct, frozen=True):
    """A metadata line as the walk needs it.

    ``passed`` is what proves that a sample line is of this unwanted family: the bare name where no wanted name begins
    with it or it with a wanted one, else ``name{``.
    """

    family: str
    wanted: bool
    passed: bytes


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What all comment and blank lines of a body say together.

    ``headings`` stand beside the special lines, ``None`` for any other; ``faults`` are ``(family, what, place)``.
    ``pairs`` are the headings of families where each has a HELP and a TYPE line and there are no others, else empty.
    """

    special: list[bytes]
    headings: list[Heading | None]
    pairs: list[Heading] = msgspec.field(default_factory=list)
    types: dict[str, str]
    faults: tuple[tuple[str, str, int], ...]
    samples: frozenset[int]
    ended: bool


class Memory:
    """What the passes of one reader remember: checked structures, outline and families of the last body. Bounded."""

    def __init__(self, wanted: frozenset[str], limits: Limits) -> None:
        self.wanted = wanted
        self.limits = limits
        self.names = Wanted(wanted)
        self.structures = Structures(limits.labels, limits.line_bytes, limits.label_value)
        self.families: dict[str, Family] = {}
        self._last: Outline | None = None

    def outline(self, special: list[bytes]) -> Outline:
        """The outline of a body's special lines; programs repeat the same ones in every body."""
        if self._last is None or self._last.special != special:
            self._last = self._read_outline(special)
        return self._last

    def _read_outline(self, special: list[bytes]) -> Outline:
        """The outline of new special lines. Nearly every body has a HELP and a TYPE line of each family, no others."""
        # A character for each byte: names and types are ASCII, whatever the texts between them are.
        found = _DECLARED.findall(b"\n".join(special).decode("latin-1"))
        types: dict[str, str] = dict(found)
        if 2 * len(found) != len(special) or len(types) != len(found):
            return self._read_each(special)
        pairs = self._headings(list(types))
        headings: list[Heading | None] = [None] * len(special)
        headings[::2] = headings[1::2] = pairs
        return Outline(
            special=special,
            headings=headings,
            pairs=pairs,
            types=types,
            faults=(),
            samples=frozenset(),
            ended=False,
        )

    def _read_each(self, special: list[bytes]) -> Outline:
        headings: list[Heading | None] = []
        types: dict[str, str] = {}
        faults: list[tuple[str, str, int]] = []
        samples: set[int] = set()
        last: Heading | None = None
        ended = False
        for place, line in enumerate(special):
            text = line.strip()
            header = parse_header(text) if text[:1] == b"#" else None
            if header is None:
                headings.append(None)
                ended = text == b"# EOF" or (ended and not text)
                if text and text[:1] != b"#":
                    samples.add(place)
                continue
            keyword, family, rest = header
            if last is None or last.family != family:
                [last] = self._headings([family])
            headings.append(last)
            declared = types.setdefault(family, "")
            if keyword == b"TYPE":
                kind = rest.decode("utf-8", "replace").lower()
                types[family] = declared or kind
                if not kind or declared not in {"", kind}:
                    faults.append((family, f"TYPE is {kind!r}, before it was {declared!r}", place))
        return Outline(
            special=special,
            headings=headings,
            types=types,
            faults=tuple(faults),
            samples=frozenset(samples),
            ended=ended,
        )

    def _headings(self, families: list[str]) -> list[Heading]:
        return [
            Heading(family, family in self.wanted, name + b"{" * near)
            for family, name, near in zip(families, *self.names.near(families), strict=True)
        ]
