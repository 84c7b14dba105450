"""What of the status document is stored as a `ModelDeploymentObservation`: all that has a meaning, nothing that only ticks.

Ages, loads and evidence change with every reading; they belong to the API and to metrics. A text that differs from the
stored one only in how long something lasts is the stored one. What is too large is left out by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from exporters.platform_records import still
from exporters.status import status_fields
from router_contract.status import ServingState
from router_contract.verdicts import DeploymentReport

Json = dict[str, Any]

UNKNOWN = "Unknown"
LARGEST = 512 << 10
"""Bytes of one stored status. The store of a cluster takes 1.5 MiB for a whole object."""

LONGEST_TEXT = 2048
"""Characters of one text in a status that would be too large."""

AT_WORK = frozenset({"Idle", "Progressing", "Receiving"})
"""How a healthy engine or publisher stands from one second to the next: busy or not, and neither is news."""

_TICKING = ("roles", "routerViews", "operator", "retirement", "components")
_NUMBER = re.compile(r"(?<![\w.:/-])\d+(?:\.\d+)?(?= ?(?:ms|s|min|m|h|d|seconds?|minutes?|hours?)\b)")


def observation_fields(report: DeploymentReport) -> Json:
    """The status without its conditions, which are written by type. The report must have been judged."""
    document = status_fields(report)
    fields: Json = {"summary": _summary(report)}
    if report.deployment.generation is not None:
        fields["observedGeneration"] = report.deployment.generation
    if report.deployment.model is not None:
        fields["model"] = report.deployment.model
    for name, value in document.items():
        if name in {"conditions", "drain"}:
            continue
        fields[name] = _still[name](value) if name in _TICKING else value
    return fields


def _summary(report: DeploymentReport) -> Json:
    """One word for each column."""
    conditions = {item.type: item for item in report.conditions}
    summary: Json = {"eligible": _eligible(report), "serving": _serving(report)}
    if "CacheAttached" in conditions:
        summary["cache"] = conditions["CacheAttached"].status.value
    if "CanaryAnalysis" in conditions:
        summary["canary"] = conditions["CanaryAnalysis"].reason
    return summary


def _eligible(report: DeploymentReport) -> str:
    counts = [role.endpoints.eligible for role in report.role_status]
    known = [count for count in counts if count is not None]
    return str(sum(known)) if counts and len(known) == len(counts) else UNKNOWN


def _serving(report: DeploymentReport) -> str:
    if report.convergence is None:
        return UNKNOWN
    serving = report.convergence.serving
    if serving.state is ServingState.CONFIRMED and serving.value is not None:
        return str(serving.value)
    return serving.state.value


def _roles(roles: list[Json]) -> list[Json]:
    """Roles whose healthy members do not say whether they have work at this moment."""

    def member(entry: Json) -> Json:
        if entry.get("standing") not in AT_WORK:
            return entry
        return {key: value for key, value in entry.items() if key not in {"standing", "detail"}}

    return [
        {
            **role,
            "groups": [{**group, "members": [member(entry) for entry in group["members"]]} for group in role["groups"]],
        }
        for role in roles
    ]


def _views(views: list[Json]) -> list[Json]:
    """What routers select, without how much and when."""
    kept = []
    for view in views:
        entry = {key: value for key, value in view.items() if key not in {"readAt", "ageSeconds", "circuitsAgeSeconds"}}
        if "workers" in entry:
            # Routers list them in any order, a new one at each read.
            rows = sorted(entry["workers"], key=lambda row: (row["url"], row.get("rank") or 0))
            entry["workers"] = [{key: row[key] for key in row if key != "load"} for row in rows]
        if "failure" in entry:
            entry["failure"] = {
                key: value for key, value in entry["failure"].items() if key not in {"at", "ageSeconds"}
            }
        kept.append(entry)
    return kept


def _voices(voices: list[Json]) -> list[Json]:
    return [
        {**voice, "operator": {key: value for key, value in voice["operator"].items() if key != "ageSeconds"}}
        for voice in voices
    ]


def _retirement(told: Json) -> Json:
    return {key: value for key, value in told.items() if not key.endswith("SecondsLeft")}


_still: dict[str, Callable[[Any], Any]] = {
    "components": still,
    "roles": _roles,
    "routerViews": _views,
    "operator": _voices,
    "retirement": _retirement,
}


def settled_memory(memory: Json, stored: Any) -> Json:
    """What judging remembers, but for whether a healthy engine has work: there the stored reason stays."""
    held = {entry.get("type"): entry for entry in _entries(stored)}

    def entry(wanted: Json) -> Json:
        before = held.get(wanted["type"])
        if before is None or {wanted["reason"], before.get("reason")} - AT_WORK:
            return wanted
        return dict(before) if before.get("status") == wanted["status"] else wanted

    return {**memory, "conditions": [entry(each) for each in memory["conditions"]]}


def _entries(stored: Any) -> list[Mapping[str, Any]]:
    found = stored.get("conditions") if isinstance(stored, Mapping) else None
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def settled(wanted: Any, stored: Any) -> Any:
    """What is wanted, with the stored texts in the places where only a duration differs."""
    if isinstance(wanted, dict):
        held = stored if isinstance(stored, Mapping) else {}
        return {key: settled(value, held.get(key)) for key, value in wanted.items()}
    if isinstance(wanted, list):
        held_list = stored if isinstance(stored, list) and len(stored) == len(wanted) else [None] * len(wanted)
        return [settled(value, held) for value, held in zip(wanted, held_list, strict=True)]
    if isinstance(wanted, str) and isinstance(stored, str):
        return settled_text(wanted, stored)
    return wanted


def settled_text(wanted: str, stored: str) -> str:
    """The stored text when the wanted one says the same, but for how long."""
    if wanted == stored:
        return stored
    return stored if _NUMBER.sub("#", wanted) == _NUMBER.sub("#", stored) else wanted


def bounded_fields(fields: Json, largest: int = LARGEST) -> Json:
    """The fields within so many bytes. What had to go, dearest first, is named in ``omitted``."""
    if len(orjson.dumps(fields)) <= largest:
        return fields
    omitted: list[str] = []
    for name, drop in _CUTS:
        before, fields = fields, drop(fields)
        if fields == before:
            continue
        omitted.append(name)
        if len(orjson.dumps(fields)) <= largest:
            break
    return {**fields, "omitted": omitted}


def _without(name: str) -> Callable[[Json], Json]:
    return lambda fields: {key: value for key, value in fields.items() if key != name}


def _without_in_groups(name: str) -> Callable[[Json], Json]:
    def drop(fields: Json) -> Json:
        roles = [
            {
                **role,
                "groups": [
                    {key: value for key, value in group.items() if key != name} for group in role.get("groups", ())
                ],
            }
            for role in fields.get("roles", ())
        ]
        return {**fields, "roles": roles}

    return drop


def _short(value: Any) -> Any:
    """Values whose texts are of a readable length: operators and programs word theirs as they like."""
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_short(each) for each in value]
    return value[: LONGEST_TEXT - 1] + "…" if isinstance(value, str) and len(value) > LONGEST_TEXT else value


def _short_texts(fields: Json) -> Json:
    """Memory stays as it is: a restart compares it."""
    return {key: value if key == "memory" else _short(value) for key, value in fields.items()}


def _without_groups(fields: Json) -> Json:
    return {
        **fields,
        "roles": [{key: value for key, value in role.items() if key != "groups"} for role in fields.get("roles", ())],
    }


_CUTS: tuple[tuple[str, Callable[[Json], Json]], ...] = (
    (f"ends of texts longer than {LONGEST_TEXT}", _short_texts),
    ("routerViews", _without("routerViews")),
    ("roles[].groups[].legs", _without_in_groups("legs")),
    ("convergence", _without("convergence")),
    ("roles[].groups[].members", _without_in_groups("members")),
    ("roles[].groups", _without_groups),
    ("operator", _without("operator")),
    ("components", _without("components")),
    ("transitions", _without("transitions")),
    ("memory", _without("memory")),
)


def taken_back(fields: Json, stored: Mapping[str, Any]) -> bool:
    """Whether the stored status promises what no longer holds: more eligible endpoints, or a confirmation that is gone."""
    held = {role.get("name"): _count(role) for role in stored.get("roles") or () if isinstance(role, Mapping)}
    for role in fields.get("roles", ()):
        before, now = held.get(role["name"]), _count(role)
        if before is not None and (now is None or now < before):
            return True
    summary = stored.get("summary")
    before_serving = summary.get("serving") if isinstance(summary, Mapping) else None
    return isinstance(before_serving, str) and before_serving.isdigit() and not fields["summary"]["serving"].isdigit()


def _count(role: Mapping[str, Any]) -> int | None:
    endpoints = role.get("endpoints")
    count = endpoints.get("eligible") if isinstance(endpoints, Mapping) else None
    return count if isinstance(count, int) else None
