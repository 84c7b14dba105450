"""One fault in a configuration file: where it stands, what was found there and what is wanted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong in one file.

    ``line`` and ``column`` are 1-based; 0 means that the fault is the file's as a whole. ``path`` is the key path as
    ``deployments[0].roles[1].desired``, empty for a whole document. ``hint`` says what to do, where that is known.
    ``refused`` marks a notice that the observer starts with and `observer check` fails for.
    """

    file: str
    line: int = 0
    column: int = 0
    path: str = ""
    found: str = ""
    wanted: str = ""
    hint: str = ""
    refused: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        parts = [f"found {self.found}" if self.found else "", f"wanted {self.wanted}" if self.wanted else ""]
        text = f"{place}: " + (f"{self.path}: " if self.path else "") + ", ".join(part for part in parts if part)
        return f"{text}. {self.hint}" if self.hint else text

    @property
    def order(self) -> tuple[str, int, int, str]:
        """Sort key: file, then place in it."""
        return (self.file, self.line, self.column, self.path)


def shown(text: str, limit: int = 60) -> str:
    """A found value in quotes, control characters escaped, cut to ``limit`` characters."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    escaped = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut)
    return f'"{escaped}"'


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence naming the closest known word, or an empty text when nothing is close."""
    plain = {name.replace("_", "").replace("-", "").lower(): name for name in known}
    close = difflib.get_close_matches(word.replace("_", "").replace("-", "").lower(), plain, n=1, cutoff=0.6)
    return f"Did you mean {shown(plain[close[0]])}?" if close else ""
