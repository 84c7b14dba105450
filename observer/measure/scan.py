"""One full pass over the lines of a body: which line belongs to which wanted family, and what is wrong with each.

A family is one block: its metadata, then its samples, with nothing of another family between. Lines of families that
nobody wants are recognised by their names and not looked at any further.
"""

from __future__ import annotations

import re
from itertools import repeat

import msgspec

from observer.measure.layout import Wanted
from observer.measure.lines import NAME, LineError, ProblemKind, parse_header, parse_key, parse_line, shown
from observer.measure.rows import Rows, Structures
from observer.measure.shape import Limits
from observer.measure.words import Indices, special_lines
from router_contract.readings import Problem

_SUFFIXES = {
    "counter": ("", "_total", "_created"),
    "gauge": ("",),
    "histogram": ("", "_bucket", "_sum", "_count", "_created"),
    "summary": ("", "_sum", "_count", "_created"),
    "gaugehistogram": ("_bucket", "_gcount", "_gsum"),
    "info": ("", "_info"),
    "stateset": ("",),
    "untyped": ("",),
    "unknown": ("",),
}
_DECLARED = re.compile(
    # Both lines of one family, whole, as most programs write them: what does not match is read line by line.
    rb"^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) [^\n]*\n# TYPE \1 ([a-z]+)$",
    re.MULTILINE,
)
_UNDECLARED = ("", "_bucket", "_sum", "_count", "_created")
_BASES = ("_bucket", "_sum", "_count", "_created", "_total", "_info", "_gcount", "_gsum")


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
    """

    special: list[bytes]
    headings: list[Heading | None]
    types: dict[str, str]
    faults: tuple[tuple[str, str, int], ...]
    samples: frozenset[int]
    ended: bool


class Memory:
    """What the passes of one reader remember: checked structures, and the outline of the last body. Bounded."""

    def __init__(self, wanted: frozenset[str], limits: Limits) -> None:
        self.wanted = wanted
        self.limits = limits
        self.names = Wanted(wanted)
        self.structures = Structures(limits.labels, limits.line_bytes, limits.label_value)
        self._last: Outline | None = None

    def outline(self, special: list[bytes]) -> Outline:
        """The outline of a body's special lines; programs repeat the same ones in every body."""
        if self._last is None or self._last.special != special:
            self._last = self._read_outline(special)
        return self._last

    def _read_outline(self, special: list[bytes]) -> Outline:
        """The outline of new special lines. Nearly every body has a HELP and a TYPE line of each family, no others."""
        found = _DECLARED.findall(b"\n".join(special))
        types = {name.decode(): kind.decode() for name, kind in found}
        if 2 * len(found) != len(special) or len(types) != len(found):
            return self._read_each(special)
        pairs = map(self._heading, types)
        headings: list[Heading | None] = [heading for heading in pairs for _ in range(2)]
        return Outline(special=special, headings=headings, types=types, faults=(), samples=frozenset(), ended=False)

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
                last = self._heading(family)
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

    def _heading(self, family: str) -> Heading:
        name = family.encode()
        wanted = family in self.wanted
        apart = not wanted and not self.names.touches(name)
        return Heading(family, wanted, name if apart else name + b"{")


class Scan:
    """One pass. After `run`: ``rows`` of each wanted family with samples, ``types``, ``broken``, ``notes``.

    ``gaps`` are the lines of no wanted family, as ``(first, last + 1, what they begin with)``.
    """

    def __init__(self, body: bytes, starts: Indices, memory: Memory) -> None:
        self.lines = body.split(b"\n")
        self.lines.pop()
        self.special = special_lines(body, starts)
        self.memory = memory
        self.outline = memory.outline([self.lines[index] for index in self.special])
        self.types = self.outline.types
        self.rows: dict[str, Rows] = {}
        self.broken: dict[str, Problem] = {}
        self.notes: list[Problem] = []
        self.samples = len(self.lines) - len(self.special) + len(self.outline.samples)
        self.truncated = False
        self.gaps: list[tuple[int, int, bytes]] = []
        self._heading: Heading | None = None
        self._owner: str | None = None

    def run(self, *, closed: bool) -> None:
        """Walk the body: metadata is known (a sample's family can depend on a later TYPE line), now every line.

        ``closed`` says that the body's last newline is its own.
        """
        for family, what, place in self.outline.faults:
            self._break(family, ProblemKind.MALFORMED, what, self.special[place])
        cursor = 0
        for place, (index, heading) in enumerate(zip(self.special, self.outline.headings, strict=True)):
            if cursor < index:
                self._segment(cursor, index)
            cursor = index + 1
            if heading is not None:
                self._heading = heading
                self._owner = heading.family if heading.wanted else None
                if heading.wanted and heading.family in self.rows:
                    self._break(heading.family, ProblemKind.INTERLEAVED, "declared again after its samples", index)
            elif place in self.outline.samples:
                self._give(self._owner_at(index), index, cursor)
        if cursor < len(self.lines):
            self._segment(cursor, len(self.lines))
        if not closed:
            self._check_end()
        for family, rows in self.rows.items():
            self._finish(family, rows)

    def _segment(self, first: int, last: int) -> None:
        """Lines that begin with a name, with no metadata between them. Most segments are of the current family."""
        block, heading = self.lines[first:last], self._heading
        if heading is not None:
            if heading.wanted:
                if self._take(heading.family, first, block):
                    return
            elif all(map(bytes.startswith, block, repeat(heading.passed))):
                self.gaps.append((first, last, heading.passed))
                self._owner = None
                return
        start, owner = first, self._owner_at(first)
        for index in range(first + 1, last):
            following = self._owner_at(index)
            if following != owner:
                self._give(owner, start, index)
                start, owner = index, following
        self._give(owner, start, last)

    def _owner_at(self, index: int) -> str | None:
        """The wanted family of the sample line at an index, as far as its name can be read."""
        line = self.lines[index]
        found = NAME.match(line, len(line) - len(line.lstrip()))
        if found is not None:
            return self._family_of(found[0].decode())
        try:
            return self._family_of(parse_key(line)[0])
        except LineError:
            return None

    def _family_of(self, name: str) -> str | None:
        """The wanted family a sample name belongs to, ``None`` for any other."""
        wanted, heading = self.memory.wanted, self._heading
        if heading is not None and heading.wanted and self._allows(heading.family, name):
            return heading.family
        if name in wanted or name in self.types:
            return name if name in wanted else None
        for suffix in _BASES:
            base = name.removesuffix(suffix)
            if base != name and base in wanted and self._allows(base, name):
                return base
        return None

    def _allows(self, family: str, name: str) -> bool:
        suffixes = _SUFFIXES.get(self.types.get(family, ""), _UNDECLARED)
        return name.startswith(family) and name[len(family) :] in suffixes

    def _take(self, family: str, first: int, block: list[bytes]) -> bool:
        """Take a segment as samples of one family; False, and nothing taken, where a closer look is needed."""
        if len(block) > self.memory.limits.family_series:
            return False
        try:
            rows = Rows.read(family, block, first, self.memory.structures)
        except LineError:
            return False
        if not all(self._allows(family, name) for name in rows.names):
            return False
        self._append(family, rows, first)
        return True

    def _give(self, family: str | None, first: int, last: int) -> None:
        """Lines whose family is known go there, or break it."""
        if family is None:
            self.gaps += [(index, index + 1, _known_text(self.lines[index])) for index in range(first, last)]
            self._owner = None
            return
        try:
            if last - first > self.memory.limits.family_series:
                # An explosion is not read to be counted.
                detail = f"{last - first} series, at most {self.memory.limits.family_series}"
                raise LineError(ProblemKind.TOO_LARGE, detail, first)
            rows = Rows.read(family, self.lines[first:last], first, self.memory.structures)
        except LineError as error:
            rows = Rows()
            self._break(family, error.kind, error.detail, error.index)
        self._append(family, rows, first)

    def _append(self, family: str, rows: Rows, first: int) -> None:
        if family in self.rows and self._owner != family:
            self._break(family, ProblemKind.INTERLEAVED, "samples in two places of the body", first)
        self._owner = family
        if family in self.rows:
            self.rows[family].extend(rows)
        else:
            self.rows[family] = rows

    def _break(self, family: str, kind: ProblemKind, detail: str, index: int) -> None:
        if family in self.memory.wanted:
            self.broken.setdefault(family, Problem(family=family, kind=kind, detail=detail, line=index + 1))

    def _finish(self, family: str, rows: Rows) -> None:
        limits, line = self.memory.limits, rows.runs[0][0] if rows.runs else 0
        if rows.bytes > limits.family_bytes:
            self._break(family, ProblemKind.TOO_LARGE, f"{rows.bytes} bytes, at most {limits.family_bytes}", line)
        if len(rows.values) > limits.family_series:
            detail = f"{len(rows.values)} series, at most {limits.family_series}"
            self._break(family, ProblemKind.TOO_LARGE, detail, line)
        if family in self.broken:
            return
        try:
            rows.fold()
        except LineError as error:
            self._break(family, error.kind, error.detail, error.index)
            return
        kind = self.types.get(family, "")
        if rows.folded:
            self._note(family, ProblemKind.DUPLICATES_FOLDED, f"{rows.folded} equal duplicate lines", line)
        if not kind:
            self._note(family, ProblemKind.TYPE_MISSING, "no TYPE line", line)
        elif kind not in _SUFFIXES:
            self._note(family, ProblemKind.TYPE_UNKNOWN, f"type {kind!r} is in no format", line)

    def _note(self, family: str, kind: ProblemKind, detail: str, index: int) -> None:
        self.notes.append(Problem(family=family, kind=kind, detail=detail, line=index + 1))

    def _check_end(self) -> None:
        """Look at a last line without a newline: it may be whole, or the body was cut inside it.

        Only the end of OpenMetrics and a readable line that nobody wants can be taken for whole. A comment has no number
        to lose, so it costs the family that it names and leaves the one before it, whose lines all ended, as it is.
        """
        index = len(self.lines) - 1
        line = self.lines[index]
        owner = self._owner_at(index)
        open_family = self._heading.family if self._heading is not None else None
        if line.lstrip()[:1] == b"#":
            self.truncated = line.rstrip() != b"# EOF"
            heading = self.outline.headings[-1]
            open_family = heading.family if heading is not None else None
            detail = f"the body ends inside {shown(line)}"
        else:
            try:
                parse_line(line)
                # A number may go on after the cut.
                self.truncated = owner in self.memory.wanted
                detail = "the last line has no newline" + (", so its number may be cut" if self.truncated else "")
            except LineError as error:
                self.truncated = True
                detail = f"the body ends inside a line: {error.detail}"
        if not self.truncated:
            self._note("", ProblemKind.NO_FINAL_NEWLINE, detail, index)
            return
        # What was cut off may belong to the family that stands open as well as to the one the half line names.
        for family in {open_family, owner} & self.memory.wanted:
            problem = Problem(family=str(family), kind=ProblemKind.TRUNCATED, detail=detail, line=index + 1)
            self.broken[str(family)] = problem


def _known_text(line: bytes) -> bytes:
    """A sample line's name with the character after it, which together say that the name ends there."""
    found = NAME.match(line)
    return line[: found.end() + 1] if found and found.end() < len(line) else line + b"\n"
