"""What ``replay`` prints of one deployment: its status, explanation and metrics documents under each other."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.text import Text

from exporters import status_tables, tables
from observer.cli.exits import CommandFailed


def chosen(documents: list[dict[str, Any]], deployment: str | None) -> list[dict[str, Any]]:
    """All, or the one that ``NAMESPACE/NAME`` is. Raises `CommandFailed` when the recording has no such one."""
    if deployment is None:
        return documents
    found = [each for each in documents if f"{each['namespace']}/{each['name']}" == deployment]
    if not found:
        known = ", ".join(f"{each['namespace']}/{each['name']}" for each in documents) or "none at all"
        raise CommandFailed(f"the recording has no deployment {deployment}; it has {known}")
    return found


def pictures(told: dict[str, Any], *, wide: bool, width: int | None) -> list[RenderableType]:
    """The documents of one deployment as text and tables; for one that there is not, why."""
    parts: list[RenderableType] = []
    for name in ("status", "explain", "metrics"):
        made = told[name]
        if "metadata" not in made:
            parts.append(Text(f"no {name}: {made['message']}"))
        elif name == "status":
            parts += status_tables.status(made, wide=wide, width=width)
        elif name == "explain":
            parts += status_tables.explanation(made, width=width)
        else:
            parts += tables.document(made, wide=wide, width=width)
    return parts
