"""One full pass over the lines of a body: which line belongs to which wanted family, and what is wrong with each.

A family is one block: its metadata, then its samples, with nothing of another family between. Lines of families that
nobody wants are recognised by their names and not looked at any further.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from observer.measure.lines import NAME, LineError, ProblemKind, parse_key, parse_line, shown
from observer.measure.outline import Heading, Memory
from observer.measure.rows import Rows
from observer.measure.together import Segment, read_together
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
_UNDECLARED = ("", "_bucket", "_sum", "_count", "_created")
_BASES = ("_bucket", "_sum", "_count", "_created", "_total", "_info", "_gcount", "_gsum")


class Scan:
    """One pass. After `run`: ``rows`` of each wanted family with samples, ``types``, ``broken``, ``notes``.

    ``gaps`` are the lines of no wanted family, as ``(first, last + 1, what they begin with)``.
    """

    def __init__(self, body: bytes, starts: Indices, memory: Memory) -> None:
        self.body = body
        self.starts = starts
        self.count = len(starts) - 1
        special = special_lines(body, starts)
        self.special: list[int] = special.tolist()
        self._begins: list[int] = starts[special].tolist()
        self._ends: list[int] = starts[special + 1].tolist()
        self.memory = memory
        self.outline = memory.outline(
            [body[begin : end - 1] for begin, end in zip(self._begins, self._ends, strict=True)]
        )
        self.types = self.outline.types
        self.rows: dict[str, Rows] = {}
        self.broken: dict[str, Problem] = {}
        self.notes: list[Problem] = []
        self.samples = self.count - len(self.special) + len(self.outline.samples)
        self.truncated = False
        self.gaps: list[tuple[int, int, bytes]] = []
        self._read: dict[int, Rows] = {}
        self._heading: Heading | None = None
        self._owner: str | None = None

    @cached_property
    def lines(self) -> list[bytes]:
        """Every line of the body, without its newline. Most bodies are read without them."""
        return self.body.split(b"\n")[:-1]

    def line(self, index: int) -> bytes:
        """One line without its newline."""
        return self.body[self.starts[index] : self.starts[index + 1] - 1]

    def run(self, *, closed: bool) -> None:
        """Walk the body: metadata is known (a sample's family can depend on a later TYPE line), now every line.

        ``closed`` says that the body's last newline is its own.
        """
        for family, what, place in self.outline.faults:
            self._break(family, ProblemKind.MALFORMED, what, self.special[place])
        self._read = self._read_plain()
        if not (closed and self._walk_plain()):
            self._walk()
        if not closed:
            self._check_end()
        for family, rows in self.rows.items():
            self._compare_names(family, rows)
            self._finish(family, rows)

    def _walk(self) -> None:
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
        if cursor < self.count:
            self._segment(cursor, self.count)

    def _walk_plain(self) -> bool:
        """The same for a body of families that each have two lines of metadata, then samples of their own and no others.

        False, and nothing done, for any other body.
        """
        special = self.special
        if not self.outline.pairs or special[0] or special[1::2] != [index + 1 for index in special[::2]]:
            return False
        lasts = [*special[2::2], self.count]
        begins, stops = self._ends[1::2], [*self._begins[2::2], len(self.body)]
        rows: dict[str, Rows] = {}
        gaps: list[tuple[int, int, bytes]] = []
        for heading, index, last, begin, stop in zip(
            self.outline.pairs, special[1::2], lasts, begins, stops, strict=True
        ):
            first = index + 1
            if first == last:
                continue
            if not heading.wanted:
                text = heading.passed
                if self.body.count(b"\n" + text, begin - 1, stop - 1) != last - first:
                    # A name that has to end may also do so without labels.
                    text = heading.passed.removesuffix(b"{") + b" "
                    if self.body.count(b"\n" + text, begin - 1, stop - 1) != last - first:
                        return False
                gaps.append((first, last, text))
                continue
            read = self._read.get(first)
            if read is None or not self._are_of(heading.family, read.names):
                return False
            rows[heading.family] = read
        self.rows, self.gaps = rows, gaps
        return True

    def _segment(self, first: int, last: int) -> None:
        """Lines that begin with a name, with no metadata between them. Most segments are of the current family."""
        heading = self._heading
        if heading is not None:
            if heading.wanted:
                if self._take(heading.family, first, last):
                    return
            elif self._all_begin(first, last, heading.passed):
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

    def _read_plain(self) -> dict[int, Rows]:
        """The rows of segments of wanted families, by their first line: those that are as they were, those that are plain.

        What is not among them is read line by line.
        """
        limits, known = self.memory.limits, self.memory.structures
        lengths = self.starts[1:] - self.starts[:-1]
        most = min(limits.line_bytes, limits.label_value)
        long = np.flatnonzero(lengths > most).tolist() if int(lengths.max(initial=0)) > most else []
        found: dict[int, Rows] = {}
        fresh: list[Segment] = []
        for family, first, last, begin, stop in self._wanted_segments():
            if last - first > limits.family_series or (long and any(first <= index < last for index in long)):
                continue
            text = self.body[begin : stop - 1]
            rows = Rows.repeated(family, first, last, text, known)
            if rows is None:
                fresh.append(Segment(family, first, last, text))
            else:
                found[first] = rows
        return found | read_together(fresh, known)

    def _wanted_segments(self) -> Iterator[tuple[str, int, int, int, int]]:
        """What stands between two special lines under a wanted family's metadata.

        The family, the first line, the last + 1, and where they begin and end in the body.
        """
        heading: Heading | None = None
        afters = [*self.special[1:], self.count]
        stops = [*self._begins[1:], len(self.body)]
        for index, here, after, begin, stop in zip(
            self.special, self.outline.headings, afters, self._ends, stops, strict=bool(self.special)
        ):
            heading = here or heading
            if heading is not None and heading.wanted and begin < stop:
                yield heading.family, index + 1, after, begin, stop

    def _all_begin(self, first: int, last: int, text: bytes) -> bool:
        begin, end = int(self.starts[first]), int(self.starts[last]) - 1
        return self.body.startswith(text, begin) and self.body.count(b"\n" + text, begin, end) == last - first - 1

    def _owner_at(self, index: int) -> str | None:
        """The wanted family of the sample line at an index: by its name, else that in whose block it stands.

        Whose line without a readable name is cannot be told, and a family that lacks one of its lines must not look whole.
        """
        line = self.line(index)
        found = NAME.match(line, len(line) - len(line.lstrip()))
        if found is not None:
            return self._family_of(found[0].decode())
        try:
            return self._family_of(parse_key(line)[0])
        except LineError:
            return self._heading.family if self._heading is not None and self._heading.wanted else None

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
        return self._are_of(family, {name})

    def _are_of(self, family: str, names: set[str]) -> bool:
        """Whether these are sample names of a family of its type."""
        suffixes = _SUFFIXES.get(self.types.get(family, ""), _UNDECLARED)
        return names <= {family + suffix for suffix in suffixes}

    def _take(self, family: str, first: int, last: int) -> bool:
        """Take a segment as samples of one family; False, and nothing taken, where a closer look is needed."""
        if last - first > self.memory.limits.family_series:
            return False
        try:
            rows = self._read.get(first) or Rows.read(family, self.lines[first:last], first, self.memory.structures)
        except LineError:
            return False
        if not self._are_of(family, rows.names):
            return False
        self._append(family, rows, first)
        return True

    def _give(self, family: str | None, first: int, last: int) -> None:
        """Lines whose family is known go there, or break it."""
        if family is None:
            self.gaps += [(index, index + 1, _known_text(self.line(index))) for index in range(first, last)]
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

    def _compare_names(self, family: str, rows: Rows) -> None:
        """Break families of which one has samples with the name of the other: two blocks of one name, two writers."""
        for other in rows.names:
            if other != family and other in self.rows and other in self.rows[other].names:
                for each in (family, other):
                    detail = f"samples named {other} stand under {family} and under {other}"
                    self._break(each, ProblemKind.INTERLEAVED, detail, self.rows[each].runs[0][0])

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
        index = self.count - 1
        line = self.line(index)
        comment = line.lstrip()[:1] == b"#"
        owner = None if comment else self._owner_at(index)
        open_family = self._heading.family if self._heading is not None else None
        if comment:
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
