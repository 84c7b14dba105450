"""Queries with the variables that OME fills in. Anything else of its template language is refused, never half rendered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from router_contract.canary import CanaryAnalysis
from router_contract.canary_results import Reason

_ACTION: Final = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_FIELD: Final = re.compile(r"\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*")
_COMMENT: Final = re.compile(r"/\*.*\*/", re.DOTALL)


class TemplateFault(msgspec.Struct, frozen=True):
    """Why a query cannot be rendered."""

    reason: Reason
    detail: str


def variables(analysis: CanaryAnalysis, canary: str, stable: str | None) -> dict[str, str]:
    """What the names in a query stand for. A revision's Service is ``<name>-<component>-rev-<revision>``."""
    prefix = f"{analysis.target.name}-{analysis.component}-rev-"
    return {
        "Namespace": analysis.namespace,
        "ISVCName": analysis.target.name,
        "Component": analysis.component,
        "CanaryService": f"{prefix}{canary}" if canary else "",
        "StableService": f"{prefix}{stable}" if stable else "",
        "CanaryRevision": canary,
        "StableRevision": stable or "",
    }


def render(query: str, values: Mapping[str, str]) -> str | TemplateFault:
    """The query with its variables filled in, or what is wrong with it.

    A variable that is empty now is a fault as well: a selector with an empty label would match every other series.
    """
    parts: list[str] = []
    end = 0
    trim = False
    for found in _ACTION.finditer(query):
        before = query[end : found.start()]
        before = before.lstrip() if trim else before
        parts.append(before.rstrip() if found.group(1) else before)
        end, trim = found.end(), bool(found.group(3))
        body = found.group(2)
        if _COMMENT.fullmatch(body):
            continue
        field = _FIELD.fullmatch(body)
        name = field.group(1) if field else ""
        if name not in values:
            known = ", ".join(f".{each}" for each in values)
            return TemplateFault(Reason.QUERY_INVALID, f"template: {_cut(body)} is not one of {known}")
        if not values[name]:
            return TemplateFault(Reason.EMPTY_VARIABLE, f"template: .{name} is empty for this run")
        parts.append(values[name])
    rest = query[end:]
    parts.append(rest.lstrip() if trim else rest)
    if any("{{" in part for part in parts):
        return TemplateFault(Reason.QUERY_INVALID, "template: a {{ without its }}")
    text = "".join(parts)
    return text if text.strip() else TemplateFault(Reason.QUERY_INVALID, "template: the query is empty when rendered")


def _cut(text: str) -> str:
    shown = "".join(char if char.isprintable() else " " for char in text.strip())
    return f'"{shown[:40]}"'
