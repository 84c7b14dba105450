"""Instant queries of Prometheus over the canary families, for clients that can ask nothing else.

One selector of one family is understood, and `vector(1)`, which some clients send to see whether anybody is there. A
verdict is 1 for Passed and 0 for Failed; Inconclusive, stale or unknown is an empty answer, never a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from exporters.canary_families import FAMILIES
from router_contract.canary_view import CanaryView

MAX_QUERY: Final = 4096
_SELECTOR: Final = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\})?\s*", re.DOTALL)
_MATCHER: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\\n]|\\.)*)"\s*(,|$)')
_PROBE: Final = re.compile(r"\s*vector\s*\(\s*1(?:\.0*)?\s*\)\s*")
_PLAIN: Final = re.compile(r"\(([A-Za-z0-9_./:|\-]*)\)|([A-Za-z0-9_./:|\-]*)")


class FacadeError(Exception):
    """A query that is not understood here; the text says what is."""


def answer(query: str, views: Iterable[CanaryView], now: float) -> list[dict[str, Any]]:
    """The result vector of a query at ``now`` (wall seconds). Raises `FacadeError` for anything but one selector of a canary family."""
    if len(query) > MAX_QUERY:
        raise FacadeError(f"found a query of {len(query)} characters, wanted at most {MAX_QUERY}")
    if _PROBE.fullmatch(query):
        return [{"metric": {}, "value": [round(now, 3), "1"]}]
    selector = _SELECTOR.fullmatch(query)
    family = FAMILIES.get(selector.group(1)) if selector is not None else None
    if selector is None or family is None:
        raise FacadeError("wanted one selector of " + ", ".join(FAMILIES) + ", or vector(1)")
    matchers = _matchers(selector.group(2) or "")
    result = []
    for view in views:
        for values, number in family.numbers(view):
            labels = dict(zip(family.labels, values, strict=True)) | {"__name__": family.name}
            if all(_holds(labels.get(name, ""), sign, value) for name, sign, value in matchers):
                result.append({"metric": labels, "value": [round(now, 3), _text(number)]})
    return result


def _matchers(text: str) -> list[tuple[str, str, str]]:
    found, at = [], 0
    while at < len(text.rstrip()):
        told = _MATCHER.match(text, at)
        if told is None:
            raise FacadeError('wanted label matchers such as name="chat", with =, !=, =~ or !~')
        name, sign, value = told.group(1), told.group(2), re.sub(r"\\(.)", r"\1", told.group(3))
        # Only what cannot take for ever: names joined by |, no repetition, and groups inside groups neither: a row of
        # them tries every way of sharing a label out.
        if sign in {"=~", "!~"} and _PLAIN.fullmatch(value) is None:
            raise FacadeError(
                f"wanted a pattern of names joined by |, all of them in parentheses or none, found {value[:60]!r}"
            )
        found.append((name, sign, value))
        at = told.end()
    return found


def _holds(label: str, sign: str, value: str) -> bool:
    same = re.fullmatch(value, label) is not None if sign in {"=~", "!~"} else label == value
    return same is (sign in {"=", "=~"})


def _text(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)
