"""Filters and pages of a list of targets, from a request's query; a fault in the query is a sentence."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from router_contract.targets import Component
from router_contract.verdicts import TargetState, TargetStatus

DEFAULT_LIMIT = 500
MAX_LIMIT = 5000

FILTERS = ("namespace", "deployment", "component", "software", "role", "pod", "state")


class BadQueryError(ValueError):
    """A query parameter that cannot be honoured; the text names it, the value found and the value wanted."""


class Page(msgspec.Struct, frozen=True):
    """A part of the list: its targets, where the next part begins (empty at the end) and how many follow."""

    items: tuple[TargetStatus, ...]
    token: str
    remaining: int


def page(statuses: Sequence[TargetStatus], query: Mapping[str, str]) -> Page:
    """The targets (sorted by key) that pass the query's filters, from its ``continue`` on, at most its ``limit``."""
    known = {*FILTERS, "limit", "continue", "format"}
    unknown = sorted(set(query) - known)
    if unknown:
        raise BadQueryError(f"query parameter {unknown[0]!r} is not known; known: {', '.join(sorted(known))}")
    _one_of(query, "component", Component)
    _one_of(query, "state", TargetState)
    wanted = {name: query[name] for name in FILTERS if name in query}
    after = _position(query.get("continue", ""))
    kept = [status for status in statuses if _passes(status, wanted) and (not after or _key(status) > after)]
    limit = _limit(query.get("limit"))
    items = tuple(kept[:limit])
    more = len(kept) - len(items)
    return Page(items, _token(items[-1]) if more else "", more)


def _one_of(query: Mapping[str, str], name: str, values: type[StrEnum]) -> None:
    names = [value.value for value in values]
    if name in query and query[name] not in names:
        raise BadQueryError(f"{name} is {query[name]!r}; want one of {', '.join(names)}")


def _passes(status: TargetStatus, wanted: Mapping[str, str]) -> bool:
    facts = {
        "namespace": status.key.deployment.namespace,
        "deployment": status.key.deployment.name,
        "component": status.component.value,
        "software": status.software,
        "role": status.role,
        "pod": status.member,
        "state": status.state.value,
    }
    return all(facts[name] == value for name, value in wanted.items())


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not (len(text) <= 9 and text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_LIMIT):
        raise BadQueryError(f"limit is {text[:80]!r}; want a number from 1 to {MAX_LIMIT}")
    return int(text)


def _key(status: TargetStatus) -> tuple[str, ...]:
    key = status.key
    return (key.deployment.namespace, key.deployment.name, key.member_uid, key.component, f"{key.port:05d}")


def _token(status: TargetStatus) -> str:
    return base64.urlsafe_b64encode("\n".join(_key(status)).encode()).decode()


def _position(token: str) -> tuple[str, ...]:
    if not token:
        return ()
    try:
        return tuple(base64.b64decode(token, altchars=b"-_", validate=True).decode().split("\n"))
    except ValueError as error:  # no base64, no UTF-8, or (a lone surrogate) no ASCII at all
        raise BadQueryError(
            f"continue is {token[:80]!r}; want the value of metadata.continue of the page before"
        ) from error
