"""Pieces of the generated reference pages: tables, code letters, the head of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "Written by `make docs` from the tables that run; a test compares. Change the tables, not this page."
Page = tuple[str, int]
"""A page's text, and how many names it covers."""


def cell(text: object) -> str:
    """One cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    made = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*made, *(f"| {' | '.join(map(cell, row))} |" for row in rows), ""]


def code(text: str) -> str:
    """A name in code letters; nothing for an empty one."""
    return f"`{text}`" if text else ""


def page(title: str, *lines: str) -> str:
    """A whole page."""
    return "\n".join([f"# {title}", "", GENERATED, "", *lines]).rstrip() + "\n"
