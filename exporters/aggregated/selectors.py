"""Label and field selectors as Kubernetes writes them, turned into predicates; a fault in one is a 400 that names it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from exporters.aggregated.refusals import RefusalError

_LONGEST = 8192
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:(?=.{{1,253}}/)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_TOKEN = re.compile(r"\s*(?:(==|!=|=|!|,|\(|\)|<|>)|([^\s,()=!<>]+))")
FIELDS = ("metadata.name", "metadata.namespace")


class Requirement(msgspec.Struct, frozen=True):
    """One part: ``values`` of a key that are wanted (``negated``: not wanted); ``values`` ``None`` asks for the key."""

    key: str
    values: frozenset[str] | None
    negated: bool = False
    number: int | None = None
    above: bool = False

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels are as wanted. A key that is not there passes what is negated and nothing else."""
        found = labels.get(self.key)
        if self.number is not None:
            if found is None or not re.fullmatch(r"-?[0-9]{1,18}", found):
                return False
            return int(found) > self.number if self.above else int(found) < self.number
        if self.values is None:
            return (found is None) if self.negated else (found is not None)
        return (found not in self.values) if self.negated else (found in self.values)


Selector = tuple[Requirement, ...]


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether every part holds."""
    return all(each.holds(labels) for each in selector)


def label_selector(text: str) -> Selector:
    """Every part of a label selector (``=``, ``==``, ``!=``, ``in``, ``notin``, ``<``, ``>``, a key, ``!`` and a key).

    Raises `RefusalError` (400).
    """
    tokens = _tokens(text)
    found: list[Requirement] = []
    at = 0
    while at < len(tokens):
        requirement, at = _requirement(text, tokens, at)
        found.append(requirement)
        if at < len(tokens):
            if tokens[at] != "," or at + 1 == len(tokens):
                raise _bad(text, f"found {tokens[at]!r}, expected: ',' or the end")
            at += 1
    return tuple(found)


def _tokens(text: str) -> list[str]:
    if len(text) > _LONGEST:
        raise RefusalError(
            400, f"unable to parse requirement: the selector has {len(text)} characters, at most {_LONGEST}"
        )
    found: list[str] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _bad(text, f"found {text[at:][:20]!r}, expected: a key or an operator")
        found.append(match[1] or match[2])
        at = match.end()
    return found


def _requirement(text: str, tokens: list[str], at: int) -> tuple[Requirement, int]:
    if tokens[at] == "!":
        return Requirement(_key(text, _at(tokens, at + 1)), None, negated=True), at + 2
    key, operator = _key(text, tokens[at]), _at(tokens, at + 1)
    if operator in {"", ","}:
        return Requirement(key, None), at + 1
    if operator in {"=", "==", "!="}:
        value = _at(tokens, at + 2)
        empty = value in {"", ","}
        wanted = frozenset({"" if empty else _value(text, value)})
        return Requirement(key, wanted, negated=operator == "!="), at + (2 if empty else 3)
    if operator in {"<", ">"}:
        bound = _at(tokens, at + 2)
        if not re.fullmatch(r"-?[0-9]{1,18}", bound):
            raise _bad(text, f"found {bound!r}, expected: an integer for '<' and '>'")
        return Requirement(key, None, number=int(bound), above=operator == ">"), at + 3
    if operator in {"in", "notin"}:
        values, after = _values(text, tokens, at + 2)
        return Requirement(key, values, negated=operator == "notin"), after
    raise _bad(text, f"found {operator!r}, expected: in, notin, =, ==, !=, gt, lt")


def _values(text: str, tokens: list[str], at: int) -> tuple[frozenset[str], int]:
    """The values in parentheses, and the place after them. Nothing between two commas is the empty value."""
    if _at(tokens, at) != "(":
        raise _bad(text, f"found {_at(tokens, at)!r}, expected: '('")
    values: list[str] = []
    expected = True
    while True:
        at += 1
        found = _at(tokens, at)
        if found in {",", ")"}:
            if expected:
                values.append("")
            expected = True
            if found == ")":
                return frozenset(values), at + 1
        elif not found or not expected:
            raise _bad(text, f"found {found!r}, expected: ',' or ')'")
        else:
            values.append(_value(text, found))
            expected = False


def _at(tokens: list[str], at: int) -> str:
    return tokens[at] if at < len(tokens) else ""


def _key(text: str, key: str) -> str:
    if not _KEY.fullmatch(key):
        raise _bad(text, f"found {key!r}, expected: a label key")
    return key


def _value(text: str, value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise _bad(text, f"found {value!r}, expected: a label value of at most 63 characters")
    return value


def _bad(text: str, why: str) -> RefusalError:
    return RefusalError(400, f"unable to parse requirement: label selector {text[:200]!r}: {why}")


def field_selector(text: str) -> Selector:
    """Every part of a field selector over `FIELDS`. Raises `RefusalError` (400)."""
    found: list[Requirement] = []
    for part in text.split(",") if text else ():
        match = re.fullmatch(r"([^=!]*)(==|=|!=)(.*)", part)
        if match is None:
            raise RefusalError(400, f"invalid field selector: {text[:200]!r}: {part[:80]!r} has none of =, ==, !=")
        if match[1] not in FIELDS:
            raise RefusalError(400, f"field label not supported: {match[1][:80]}")
        found.append(Requirement(match[1], frozenset({match[3]}), negated=match[2] == "!="))
    return tuple(found)
