"""Texts for a terminal: what others wrote must not move its cursor, name its window or turn its lines around."""

from __future__ import annotations

from typing import Final

_SHOWN: Final = "\N{REPLACEMENT CHARACTER}"
_KEPT: Final = frozenset({0x09, 0x0A})
_OBEYED: Final = (range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
"""Control characters of both sets, and those that turn the direction of text."""
_SAFE: Final = {code: _SHOWN for codes in _OBEYED for code in codes if code not in _KEPT}


def printable(text: str) -> str:
    """The text with a mark in place of each character that a terminal would obey; line ends and tabs stay."""
    return text.translate(_SAFE)
