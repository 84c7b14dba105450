"""What a platform's document answers and asks beside conditions: notes, Events, the operator's counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from observer.discover.platforms import paths
from observer.discover.platforms.document_facts import CountsRule, EventRule, NoteRule
from observer.discover.platforms.taking import Scope, present, text
from observer.discover.platforms.values import Take
from router_contract.platform_words import CountsFact, EventFact, NoteFact

MAX_SHOWN = 300
"""Longest value (characters) that a note shows; the rest is cut, visibly."""


def notes(rules: Iterable[NoteRule], scope: Scope) -> Iterator[NoteFact]:
    """The notes that have something to say about a target."""
    for rule in rules:
        if rule.when and not present(rule.when, scope):
            continue
        value = shown(rule.value, scope)
        if rule.value and not value:
            continue
        yield NoteFact(topic=rule.topic, says=rule.says.replace("{value}", value))


def shown(takes: Sequence[Take], scope: Scope) -> str:
    """A value as people read it: a text as it is, a mapping or list as JSON; empty without one."""
    for take in takes:
        found = scope.field(take.field) if take.field is not None else None
        if isinstance(found, dict | list):
            return _cut(_json(found)) if found else ""
        written = text((take,), scope)
        if written:
            return _cut(written)
    return ""


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _cut(value: str) -> str:
    return value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + " … (cut)"


def events(rules: Sequence[EventRule]) -> tuple[EventFact, ...]:
    """The reasons of Events that are told on demand."""
    return tuple(
        EventFact(reason=each.reason, course=each.course.value, whose=each.whose, hint=each.hint) for each in rules
    )


def counts(rule: CountsRule | None, scope: Scope) -> CountsFact | None:
    """The operator's counts, ``None`` where the platform has none."""
    if rule is None:
        return None
    wanted, ready, total = (paths.whole(scope.field(path)) for path in (rule.wanted, rule.ready, rule.total))
    return CountsFact(wanted=wanted, ready=ready, total=total)
