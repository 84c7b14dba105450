"""Filters and sorts of a page, from its URL: what may be said there, and the links that say it.

Every part of a page's state stands in its URL, so that a link shows somebody else the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

Item = TypeVar("Item")
Key = Callable[[Any], Any]
MAX_TEXT = 200


class BadPageQueryError(ValueError):
    """A query parameter that cannot be honoured; the text names it, the value found and the values wanted."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a table: its name in the URL, its heading, and what it is sorted by (``None``: it is not)."""

    name: str
    title: str
    key: Key | None = None
    numeric: bool = False
    hint: str = ""


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """A column's heading as shown: where a click leads and how the table is sorted by it now."""

    column: Column
    href: str
    direction: str


def checked(query: Mapping[str, str], allowed: Iterable[str]) -> dict[str, str]:
    """The parameters, none empty. Raises `BadPageQueryError` for one that is not allowed or too long."""
    known = {*allowed, "format"}
    for name, text in query.items():
        if name not in known:
            raise BadPageQueryError(f"parameter {name[:40]!r} is not known here; known: {', '.join(sorted(known))}")
        if len(text) > MAX_TEXT:
            raise BadPageQueryError(f"{name} has {len(text)} characters; at most {MAX_TEXT}")
    return {name: text for name, text in query.items() if text}


def one_of(query: Mapping[str, str], name: str, values: Sequence[str]) -> str | None:
    """A parameter with a closed list of values. Raises `BadPageQueryError` for another value."""
    found = query.get(name)
    if found is not None and found not in values:
        raise BadPageQueryError(f"{name} is {found!r}; want one of {', '.join(values)}")
    return found


def contains(needle: str, *texts: str | None) -> bool:
    """Whether a text is part of any of some others, in any letter case."""
    return any(needle.casefold() in text.casefold() for text in texts if text)


def sort(items: Iterable[Item], columns: Sequence[Column], told: str | None) -> list[Item]:
    """The items in the order that ``sort`` names; ``-`` in front turns it. What is not known comes last either way."""
    found = list(items)
    if told is None:
        return found
    name = told.removeprefix("-")
    column = next((each for each in columns if each.name == name and each.key is not None), None)
    if column is None or column.key is None:
        names = [each.name for each in columns if each.key is not None]
        raise BadPageQueryError(f"sort is {told!r}; want one of {', '.join(names)}, with - in front for the other way")
    key = column.key
    known = [item for item in found if key(item) is not None]
    known.sort(key=key, reverse=told.startswith("-"))
    return known + [item for item in found if key(item) is None]


def headings(columns: Sequence[Column], path: str, query: Mapping[str, str]) -> list[Heading]:
    """The headings with links that sort by them; a second click turns the order."""
    now = query.get("sort", "")
    made = []
    for column in columns:
        turned = f"-{column.name}" if now == column.name else column.name
        direction = {column.name: "ascending", f"-{column.name}": "descending"}.get(now, "")
        made.append(Heading(column=column, href=link(path, {**query, "sort": turned}), direction=direction))
    return made


def link(path: str, query: Mapping[str, str]) -> str:
    """A path with its parameters, in one order so that equal states give equal links."""
    kept = {name: text for name, text in sorted(query.items()) if text and name != "format"}
    return f"{path}?{urlencode(kept)}" if kept else path
