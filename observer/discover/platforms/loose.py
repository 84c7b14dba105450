"""Careful reading of objects that no schema was checked for: a value of another shape is a value that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from observer.discover.platforms import paths
from observer.discover.platforms.members import moment
from router_contract.operator_condition import OperatorCondition

MAX_CONDITIONS = 64
"""Most conditions that are kept of one object."""

LARGEST = 2**63 - 1
"""Largest number of an API object."""

Json = Mapping[str, Any]


def part(value: Json, name: str) -> Json:
    """A mapping below a key, empty without one."""
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def parts(value: Json, name: str) -> list[Json]:
    """The mappings of a list below a key."""
    found = value.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def names(value: Json, name: str) -> tuple[str, ...]:
    """The texts of a list below a key."""
    found = value.get(name)
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def word(value: Json, name: str) -> str:
    """A scalar as text, empty without one."""
    return paths.as_text(value.get(name)) or ""


def number(value: Json, name: str) -> int | None:
    """A whole number that is not negative and that an int64 holds, ``None`` without one."""
    found = paths.whole(value.get(name))
    return found if found is not None and 0 <= found <= LARGEST else None


def time(value: Json, name: str) -> float | None:
    """Wall seconds of a time, ``None`` without one."""
    return moment(word(value, name))


def conditions(value: Json) -> tuple[OperatorCondition, ...]:
    """The conditions of an object's status, as written."""
    return tuple(condition(each) for each in parts(value, "conditions")[:MAX_CONDITIONS])


def condition(found: Json) -> OperatorCondition:
    """One condition as written."""
    return OperatorCondition(
        type=word(found, "type"),
        status=word(found, "status"),
        reason=word(found, "reason"),
        message=word(found, "message"),
        observed_generation=number(found, "observedGeneration"),
        last_transition=time(found, "lastTransitionTime"),
    )
