"""The sample lines of one family turned into rows: values and the ``name{labels} `` text before each of them.

Most lines of a body share few structures (name and label names), so a structure is checked once and remembered.
Everything unusual goes through `lines.parse_line`. Plain lines of many families are read by `together`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from observer.measure.lines import LineError, ProblemKind, parse_key, parse_line, shown
from observer.measure.words import Floats, parse_numbers

_STRUCTURE = re.compile(
    rb"[a-zA-Z_:][a-zA-Z0-9_:]*\{[a-zA-Z_:][a-zA-Z0-9_:]*=(?:\",[a-zA-Z_:][a-zA-Z0-9_:]*=)*\Z",
)
_STRUCTURES_KEPT = 4096
_NO_VALUES: Floats = np.zeros(0)


class Block(msgspec.Struct):
    """A family's lines as they were last checked: what each begins with, and what that told.

    ``removed`` are the bytes of all prefixes, counted when they are needed; then not -1.
    """

    prefixes: list[bytes]
    names: set[str]
    structures: set[bytes]
    unique: bool
    removed: int = -1


class Structures:
    """Structures already checked, to the sample name. Bounded; shared by the reads of one reader.

    ``names`` have them as ``name{a=",b=``, ``wholes`` as ``name{a=",b="}`` (see `together`).
    """

    def __init__(self, labels: int, line_bytes: int, label_value: int) -> None:
        self.labels = labels
        self.line_bytes = line_bytes
        self.label_value = label_value
        self.names: dict[bytes, str] = {}
        self.wholes: dict[bytes, str] = {}
        self.blocks: dict[str, Block] = {}

    def learn(self, structure: bytes, line: bytes, name: str) -> None:
        """Remember a structure that one line was read with, if any label values would fit it as well."""
        if len(self.names) < _STRUCTURES_KEPT and b"\\" not in line and _STRUCTURE.match(structure):
            self.names[structure] = name

    def learn_wholes(self, names: Mapping[bytes, str]) -> None:
        """Remember structures of lines that were read together, so that it does not matter which way taught them."""
        for whole, name in names.items():
            structure = whole.removesuffix(b'"} ')
            if len(self.names) < _STRUCTURES_KEPT and len(structure) < len(whole):
                self.names[structure] = name


class Rows:
    """Rows of one family as they are collected, in file order.

    ``prefixes[i] + text`` was line i; ``stamps`` is as long as ``values`` once any line has a timestamp.
    ``runs`` are ``(first, last + 1)`` line indices. ``folded`` counts equal duplicates that were dropped.
    """

    def __init__(self) -> None:
        self.prefixes: list[bytes] = []
        self.values: Floats = _NO_VALUES
        self.stamps: list[float | None] = []
        self.lines: Sequence[int] = []
        self.runs: list[tuple[int, int]] = []
        self.names: set[str] = set()
        self.structures: set[bytes] = set()
        self.bytes = 0
        self.folded = 0
        self.unique = False

    @classmethod
    def repeated(cls, family: str, first: int, last: int, text: bytes, known: Structures) -> Rows | None:
        """The rows of lines ``first`` to ``last - 1``, if each begins as it did when it was last checked (see `layout`).

        ``text`` are the lines without their last newline.
        """
        block = known.blocks.get(family)
        if block is None or len(block.prefixes) != last - first:
            return None
        if block.removed < 0:
            block.removed = sum(map(len, block.prefixes))
        joined = b",".join(map(bytes.removeprefix, text.split(b"\n"), block.prefixes))
        if len(joined) != len(text) - block.removed:
            return None
        values = parse_numbers(joined, last - first)
        if values is None:
            return None
        rows = cls()
        rows.values, rows.bytes = values, len(text) + 1
        rows.prefixes, rows.names, rows.structures = block.prefixes, block.names, block.structures
        rows.unique = block.unique
        return rows._placed(last - first, first)

    @classmethod
    def read(cls, family: str, lines: list[bytes], first: int, known: Structures) -> Rows:
        """The rows of a family's consecutive lines, of which the first has index ``first``. Raises `LineError`."""
        rows = cls()
        text = b"\n".join(lines)
        rows.bytes = len(text) + 1
        if rows.bytes > known.line_bytes and max(map(len, lines)) > known.line_bytes:
            raise LineError(ProblemKind.TOO_LARGE, f"a line of more than {known.line_bytes} bytes", first)
        if not text.isascii():
            cls._check_encoding(lines, first)
        try:
            structures, texts = rows._check(lines, first, known, plain=b"\\" not in text)
            rows.structures.update(structures)
            rows.values, rows.stamps = _values(lines, texts, first)
        except LineError as error:
            raise _first_fault(lines, first, error) from None
        return rows.placed(family, first, rows.bytes, known, unique=len(set(rows.prefixes)) == len(rows.prefixes))

    @classmethod
    def head(cls, line: bytes, known: Structures) -> bytes:
        """What one line begins with before its number, checked as `read` checks it. Raises `LineError`."""
        rows = cls()
        rows.bytes = len(line) + 1
        if not line.isascii():
            cls._check_encoding([line], 0)
        rows._check([line], 0, known, plain=b"\\" not in line)
        return rows.prefixes[0]

    @classmethod
    def checked(cls, prefixes: list[bytes], values: Floats, structures: set[bytes], names: Mapping[bytes, str]) -> Rows:
        """The rows of lines that were checked already; ``names`` has the name of each structure."""
        rows = cls()
        rows.prefixes, rows.values, rows.structures = prefixes, values, structures
        rows.names = set(map(names.__getitem__, structures))
        return rows

    def placed(self, family: str, first: int, size: int, known: Structures, *, unique: bool) -> Rows:
        """Say where the lines stand and remember them as the family's block. ``unique``: none begins as another."""
        self.bytes = size
        self.unique = unique and len(self.structures) == len(self.names)
        known.blocks[family] = Block(self.prefixes, self.names, self.structures, self.unique)
        return self._placed(len(self.prefixes), first)

    def _placed(self, count: int, first: int) -> Rows:
        self.lines = range(first, first + count)
        self.runs = [(first, first + count)]
        return self

    def _check(
        self, lines: list[bytes], first: int, known: Structures, *, plain: bool
    ) -> tuple[list[bytes], list[bytes]]:
        """Check the heads of lines; fill names and prefixes. Gives each line's structure and its text after that."""
        structures: list[bytes] = []
        texts: list[bytes] = []
        names, prefixes = known.names, self.prefixes
        for index, line in enumerate(lines):
            parts = line.split(b'"')
            tail = parts[-1]
            structure = b'"'.join(parts[:-1:2])
            # An even number of quotes, none of them escaped, and nothing between the labels and one blank.
            if plain and structure in names and tail[:2] == b"} " and len(parts) & 1:
                prefix = line[: len(line) - len(tail) + 2]
                self.names.add(names[structure])
            else:
                name, prefix = self._unusual(line, structure, first + index, known)
                # Only what begins as the lines that the structure stands for may count as one of them: the same series can
                # be written otherwise, and is found by that there are more structures than names.
                same = structure in names and prefix.endswith(b'"} ') and b"\\" not in prefix
                structure = structure if same else prefix
                self.names.add(name)
            prefixes.append(prefix)
            texts.append(line[len(prefix) :])
            structures.append(structure)
        if self.bytes > known.label_value:
            self._check_label_values(prefixes, first, known.label_value)
        return structures, texts

    def extend(self, more: Rows) -> None:
        """Add the rows of a later segment of the same family."""
        if self.stamps or more.stamps:
            self.stamps = (self.stamps or [None] * len(self.values)) + (more.stamps or [None] * len(more.values))
        self.prefixes = [*self.prefixes, *more.prefixes]
        self.values = np.concatenate((self.values, more.values))
        self.lines = [*self.lines, *more.lines]
        self.runs = [*self.runs, *more.runs]
        self.names = self.names | more.names
        self.structures = self.structures | more.structures
        self.bytes += more.bytes
        self.unique = False

    @staticmethod
    def _unusual(line: bytes, structure: bytes, index: int, known: Structures) -> tuple[str, bytes]:
        """Name and prefix of a line read with the full grammar (which also checks its timestamp and exemplar)."""
        try:
            found = parse_line(line)
        except LineError as error:
            error.index = index
            raise
        if len(found.labels) > known.labels:
            raise LineError(ProblemKind.TOO_LARGE, f"{len(found.labels)} labels, at most {known.labels}", index)
        known.learn(structure, line, found.name)
        # Behind braces a number may follow at once (``a{}12``): only a blank is no part of it.
        blank = line[found.end : found.end + 1]
        return found.name, line[: found.end + (blank == b" " or (blank == b"\t" and not found.labels))]

    @staticmethod
    def _check_label_values(prefixes: list[bytes], first: int, most: int) -> None:
        for index, prefix in enumerate(prefixes):
            for label, text in parse_key(prefix)[1] if len(prefix) > most else ():
                size = len(text.encode())
                if size > most:
                    detail = f"label {label[:80]!r} has {size} bytes, at most {most}"
                    raise LineError(ProblemKind.TOO_LARGE, detail, first + index)

    @staticmethod
    def _check_encoding(lines: list[bytes], first: int) -> None:
        for index, line in enumerate(lines):
            if not line.isascii():
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    raise LineError(ProblemKind.BAD_ENCODING, f"not UTF-8: {shown(line)}", first + index) from error

    def _is_unique(self) -> bool:
        """Whether no series can be there twice: no line begins as another, and no name has two orders of labels."""
        return len(set(self.prefixes)) == len(self.prefixes) and len(self.structures) == len(self.names)

    def fold(self) -> None:
        """Drop equal duplicates and count them. Raises `LineError` for a series that is there with two values."""
        if self.unique or self._is_unique():
            return
        seen: dict[tuple[object, ...], float] = {}
        kept: list[int] = []
        for row, prefix in enumerate(self.prefixes):
            name, labels, _ = parse_key(prefix)
            key, value = (name, *sorted(labels)), float(self.values[row])
            before = seen.setdefault(key, value)
            if len(seen) > len(kept):
                kept.append(row)
            elif before != value and not (math.isnan(before) and math.isnan(value)):
                detail = f"{shown(prefix)} is there as {before:g} and as {value:g}"
                raise LineError(ProblemKind.UNEQUAL_DUPLICATES, detail, self.lines[row])
        self.folded = len(self.prefixes) - len(kept)
        if self.folded:
            self.prefixes = [self.prefixes[row] for row in kept]
            self.values = self.values[kept]
            self.stamps = [self.stamps[row] for row in kept] if self.stamps else []


def _first_fault(lines: list[bytes], first: int, error: LineError) -> LineError:
    """The first fault of lines with this one: which is met first depends on the structures that are known by then."""
    for index, line in enumerate(lines[: error.index - first]):
        try:
            parse_line(line)
        except LineError as found:
            found.index = first + index
            return found
    return error


def _values(lines: list[bytes], texts: Sequence[bytes], first: int) -> tuple[Floats, list[float | None]]:
    """The values of lines, and their timestamps (empty when none has one)."""
    try:
        if b"_" in b" ".join(texts):
            raise ValueError
        return np.array(list(map(float, texts))), []
    except ValueError:
        pass
    values: list[float] = []
    stamps: list[float | None] = []
    for index, line in enumerate(lines):
        try:
            found = parse_line(line)
        except LineError as error:
            error.index = first + index
            raise
        values.append(found.value)
        stamps.append(found.timestamp)
    return np.array(values), stamps if any(stamp is not None for stamp in stamps) else []
