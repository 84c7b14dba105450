"""Paths into objects and templates of texts: the whole expression language of platform documents.

A path is keys joined by dots. A key may be followed by `[]` (every item), `[2]` (one item), `[name=x]` (the items whose
key has this text) or `["a.b/c"]` (a key that has dots). Nothing is computed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

MAX_FOUND = 4096
"""Most values one path may give; the rest is not looked at."""

_STEP = re.compile(
    r"""(?P<key>[^.\[\]"]+)|\[(?P<every>)\]|\[(?P<index>[0-9]{1,6})\]|\["(?P<quoted>[^"]+)"\]|\[(?P<name>[^=\[\]"]+)=(?P<value>[^\[\]]*)\]"""
)
_HOLE = re.compile(r"\{([a-z]+)\}")
HOLES = frozenset({"name", "namespace", "role"})
"""What templates may name."""
NO_HOLES: Mapping[str, str] = {}
MOST = 10**18
"""Numbers at and beyond it are none: what is published has 64 bits."""


class BadPathError(ValueError):
    """A text that is no path or template; the message says where."""


class Step(msgspec.Struct, frozen=True):
    """One step: a key, one item (``index``), every item, or the items whose ``key`` is ``value``."""

    kind: str
    key: str = ""
    index: int = 0
    value: str = ""


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> tuple[Step, ...]:
    """The steps of a path. Raises `BadPathError`."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        if text[at] == "." and steps and at + 1 < len(text) and text[at + 1] not in ".[":
            at += 1
        found = _STEP.match(text, at)
        if found is None or (found["key"] is not None and at and text[at - 1] != "."):
            raise BadPathError(f"{text!r} is no path at character {at + 1}")
        steps.append(_step(found))
        at = found.end()
    if not steps:
        raise BadPathError("an empty path")
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if found["key"] is not None:
        return Step("key", found["key"])
    if found["quoted"] is not None:
        return Step("key", found["quoted"])
    if found["index"] is not None:
        return Step("index", index=int(found["index"]))
    if found["name"] is not None:
        return Step("filter", found["name"], value=found["value"])
    return Step("every")


def every(value: Any, path: str, holes: Mapping[str, str] = NO_HOLES) -> list[Any]:
    """All values at a path, in order; nulls are no values.

    What fills a hole is one text within a step, whatever it holds: it never becomes a step of its own.
    """
    found = [value]
    for step in parse(path):
        at = _filled(step, holes) if holes else step
        found = [each for one in found for each in _take(one, at) if each is not None][:MAX_FOUND]
        if not found:
            return []
    return found


def first(value: Any, path: str, holes: Mapping[str, str] = NO_HOLES) -> Any:
    """The first value at a path, ``None`` without one."""
    found = every(value, path, holes)
    return found[0] if found else None


def _filled(step: Step, holes: Mapping[str, str]) -> Step:
    if "{" not in step.key and "{" not in step.value:
        return step
    return Step(step.kind, fill(step.key, holes), step.index, fill(step.value, holes))


def _take(value: Any, step: Step) -> Iterator[Any]:
    if step.kind == "key":
        if isinstance(value, Mapping):
            yield value.get(step.key)
        return
    if not isinstance(value, Sequence) or isinstance(value, str):
        return
    if step.kind == "index":
        yield from value[step.index : step.index + 1]
    elif step.kind == "every":
        yield from value
    else:
        yield from (each for each in value if isinstance(each, Mapping) and as_text(each.get(step.key)) == step.value)


def as_text(value: Any) -> str | None:
    """A scalar as text, as it would be written in YAML; ``None`` for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) else None


def whole(value: Any) -> int | None:
    """A whole number below `MOST`, also of its decimal text (no sign, no spaces); ``None`` for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if -MOST < value < MOST else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and -MOST < value < MOST else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    return None


@functools.lru_cache(maxsize=4096)
def _holes(text: str) -> tuple[str, ...]:
    return tuple(_HOLE.findall(text))


def check_template(text: str) -> None:
    """Raises `BadPathError` for a template with a hole that nothing fills."""
    for hole in _holes(text):
        if hole not in HOLES:
            raise BadPathError(f"{{{hole}}} is filled by nothing; known are {', '.join(sorted(HOLES))}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """A template with its holes filled, once each; a hole without a value stays as written."""
    return _HOLE.sub(lambda hole: values.get(hole[1], hole[0]), text) if "{" in text else text


@functools.lru_cache(maxsize=1024)
def pattern(text: str) -> re.Pattern[str]:
    """A compiled expression with at least one group. Raises `BadPathError`."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise BadPathError(f"{text!r} is no regular expression: {error}") from error
    if found.groups < 1:
        raise BadPathError(f"{text!r} has no group")
    return found
