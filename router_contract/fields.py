"""Strict reading of plain documents (mappings, lists, texts, numbers), collecting every fault with its field.

Each method returns the value, or a harmless stand-in after it recorded a fault; whoever reads discards what was built
when there are faults.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""How a number is written. Python's own reading is laxer: it takes `1_000`, spaces, `nan` and other alphabets' digits."""
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST: Final = 30 * 24 * 3600.0
E = TypeVar("E", bound=StrEnum)


class FieldFault(msgspec.Struct, frozen=True, gc=False):
    """One thing wrong in a document: the field's path, what was found, what is wanted."""

    field: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.field}: found {self.found}, wanted {self.wanted}"


def parse_number(text: str) -> float | None:
    """The finite number that a text is, in plain decimal or scientific notation, else ``None``."""
    if len(text) > 64 or NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def parse_seconds(text: str) -> float | None:
    """Seconds of a duration such as ``90s``, ``1m30s`` or ``0``, at most 30 days, else ``None``."""
    if text == "0":
        return 0.0
    parts = _DURATION.findall(text) if len(text) <= 64 else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    seconds = math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)
    return round(seconds, 6) if seconds <= _LONGEST else None


def shown(value: Any) -> str:
    """A found value for a person: short, printable, containers by their kind only."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, str):
        cut = value if len(value) <= 60 else value[:59] + "…"
        return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut) + '"'
    if isinstance(value, Sequence):
        return "a list"
    return str(value).lower() if isinstance(value, bool) else str(value)[:60]


class Fields:
    """A mapping at a path. Keys that nobody asked for are faults when it is closed with `done`."""

    def __init__(self, value: Any, path: str, faults: list[FieldFault]) -> None:
        self.path = path
        self.faults = faults
        self._asked: set[str] = set()
        self.values: Mapping[str, Any] = {}
        if isinstance(value, Mapping):
            self.values = {str(key): each for key, each in value.items()}
        else:
            faults.append(FieldFault(path or "the document", shown(value), "a mapping"))

    def at(self, name: str) -> str:
        """The path of a key."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether a key is there with a value."""
        self._asked.add(name)
        return self.values.get(name) is not None

    def fault(self, name: str, wanted: str) -> None:
        """Record that a key's value is not what is wanted."""
        self.faults.append(FieldFault(self.at(name), shown(self.values.get(name)), wanted))

    def done(self) -> None:
        """Record keys that nobody asked for."""
        for name in self.values:
            if name not in self._asked:
                known = ", ".join(sorted(self._asked))
                self.faults.append(FieldFault(self.at(name)[:200], "an unknown key", f"one of {known}"))

    def child(self, name: str, *, required: bool = False) -> Fields | None:
        """The mapping under a key, or ``None`` without one."""
        if self.has(name):
            return Fields(self.values[name], self.at(name), self.faults)
        if required:
            self.fault(name, "a mapping")
        return None

    def items(self, name: str, least: int, most: int) -> tuple[Fields, ...]:
        """The mappings of a list."""
        found = self.values.get(name)
        self._asked.add(name)
        wanted = f"a list of {least} to {most} mappings"
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            self.fault(name, wanted)
            return ()
        if not least <= len(found) <= most:
            self.faults.append(FieldFault(self.at(name), f"{len(found)} items", wanted))
            return ()
        return tuple(Fields(each, f"{self.at(name)}[{place}]", self.faults) for place, each in enumerate(found))

    def text(self, name: str, *, required: bool = False, most: int = 253, wanted: str = "a text") -> str:
        """A text that is not blank, at most so many characters; empty when absent."""
        if not self.has(name):
            if required:
                self.fault(name, wanted)
            return ""
        value = self.values[name]
        if not isinstance(value, str) or not value.strip() or len(value) > most:
            self.fault(name, f"{wanted} of 1 to {most} characters, not blank")
            return ""
        return value

    def word(self, name: str, words: type[E], default: E | None = None) -> E | None:
        """One of a closed list of words, spelt exactly."""
        if not self.has(name) and default is not None:
            return default
        value = self.values.get(name)
        found = next((word for word in words if word.value == value), None)
        if found is None:
            self.fault(name, "one of " + ", ".join(words))
        return found if found is not None else default

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self.values[name] if self.has(name) else default
        if not isinstance(value, bool):
            self.fault(name, "true or false")
            return default
        return value

    def seconds(self, name: str, default: float | None = None, *, above_zero: bool = False) -> float | None:
        """A duration; required where there is no default and ``above_zero``."""
        wanted = "a duration such as 30s or 5m" + (", above 0" if above_zero else "") + ", at most 30 days"
        if not self.has(name):
            return default
        value = self.values[name]
        seconds = parse_seconds(value) if isinstance(value, str) else None
        if seconds is None or (above_zero and seconds <= 0):
            self.fault(name, wanted)
            return default
        return seconds

    def whole(self, name: str, default: int | None, low: int, high: int) -> int | None:
        """A whole number in a range, or the default."""
        if not self.has(name):
            return default
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.fault(name, f"a whole number from {low} to {high}")
            return default
        return value

    def number(self, name: str, default: float, low: float, high: float, *, open_ends: bool = False) -> float:
        """A finite number in a range, written as a number or as a decimal text."""
        if not self.has(name):
            return default
        found = self.values[name]
        value = parse_number(found) if isinstance(found, str) else found
        sound = isinstance(value, int | float) and not isinstance(value, bool)
        # Comparing takes every number: what is none and what is too large for a float are in no range.
        if isinstance(value, int | float) and sound and (low < value < high if open_ends else low <= value <= high):
            return float(value)
        between = f"between {low:g} and {high:g}" if open_ends else f"from {low:g} to {high:g}"
        self.fault(name, f"a number {between}")
        return default
