"""Values as JSON bytes, whatever numbers and texts others made us hold: an answer never fails for one of them."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

_LEAST, _MOST = -(2**63), 2**64 - 1
"""The integers that fit our encoder (and every reader of 64-bit integers)."""
_DEEPEST = 100
_LONGEST = 200

UNRENDERABLE = (ValueError, TypeError, ArithmeticError)
"""What rendering one deployment's report may raise when a value in it is impossible (``OverflowError`` included)."""


def in_words(error: Exception) -> str:
    """What was raised, short enough for a line."""
    return f"{type(error).__name__}: {error}"[:_LONGEST]


def encode(value: object) -> bytes:
    """JSON of structs, dictionaries and lists.

    Integers beyond 64 bits become decimal text, and characters that UTF-8 cannot hold become ``?``; both only where
    they occur, which costs a second pass. Raises ``TypeError`` for objects that are no JSON at all.
    """
    plain = msgspec.to_builtins(value)
    try:
        return orjson.dumps(plain)
    except TypeError:
        return orjson.dumps(_fit(plain, 0))


def _fit(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {str(_fit(key, depth + 1)): _fit(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_fit(each, depth + 1) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and not _LEAST <= value <= _MOST:
        return _digits(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # more digits than the interpreter writes
        return hex(value)
