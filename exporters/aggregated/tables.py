"""What kubectl prints: Tables of our objects, and objects with nothing but their metadata.

Cells are made from the objects, not from reports, so an object that another replica sent is printed the same way. What
is not known is ``-``, and a sum of which a part is not known ends in ``+?``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from exporters import tables
from exporters.aggregated.refusals import RefusalError
from exporters.aggregated.resources import METRICS_KIND, OBSERVED_KIND
from router_contract.documents import REASONS

Json = dict[str, Any]
UNKNOWN = "-"
META = "meta.k8s.io"
_BENIGN = frozenset(code.value for code, reason in REASONS.items() if not reason.partial)
INCLUDE = ("None", "Metadata", "Object")


class Column(msgspec.Struct, frozen=True):
    """One column: its name, what it says, its cell, and whether it is shown with ``-o wide`` only."""

    name: str
    description: str
    cell: Callable[[Json], str]
    wide: bool = False

    def definition(self) -> Json:
        """As a Table declares it."""
        return {
            "name": self.name,
            "type": "string",
            "format": "name" if self.name == "Name" else "",
            "description": self.description,
            "priority": int(self.wide),
        }


def table(objects: Sequence[Json], kind: str, version: str, include: str, metadata: Json) -> Json:
    """A ``Table`` of objects of one kind. ``include`` is ``None``, ``Metadata`` or ``Object``."""
    columns = COLUMNS.get(kind, _PLAIN)
    return {
        "kind": "Table",
        "apiVersion": f"{META}/{version}",
        "metadata": metadata,
        "columnDefinitions": [column.definition() for column in columns],
        "rows": [
            {"cells": [column.cell(each) for column in columns], "object": _object(each, version, include)}
            for each in objects
        ],
    }


def included(text: str | None) -> str:
    """``includeObject`` of a query. Raises `RefusalError` (400)."""
    if not text:
        return "Metadata"
    if text not in INCLUDE:
        raise RefusalError(400, f"invalid includeObject {text[:80]!r}: must be one of {', '.join(INCLUDE)}")
    return text


def _object(value: Json, version: str, include: str) -> Json | None:
    if include == "None":
        return None
    return value if include == "Object" else partial(value, version)


def partial(value: Json, version: str) -> Json:
    """``PartialObjectMetadata`` of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"{META}/{version}", "metadata": value["metadata"]}


def partial_list(objects: Iterable[Json], version: str, metadata: Json) -> Json:
    """``PartialObjectMetadataList`` of objects."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"{META}/{version}",
        "metadata": metadata,
        "items": [partial(each, version) for each in objects],
    }


def _entries(value: Json, section: str, name: str) -> list[Json]:
    return [entry for entry in value.get(section) or () if entry["name"] == name]


def _missed(value: Json, sources: str) -> bool:
    """Whether a part of a sum of these sources is not known: a Pod was not read, or answered without this value."""
    coverage = value.get("coverage") or {}
    if coverage.get("failed") or coverage.get("read", 0) < coverage.get("expected", 0):
        return True
    return any(gap["source"] in {"scrape", "pod-discovery"} or gap["source"] in sources for gap in _gaps(value))


def _gaps(value: Json) -> list[Json]:
    """What is missing and matters; a code that only another version knows does."""
    return [gap for gap in value.get("missing") or () if gap.get("code") not in _BENIGN]


def _level(section: str, name: str) -> Callable[[Json], str]:
    """A level summed over roles; the router's own counts have another name and are not in it."""

    def cell(value: Json) -> str:
        found = _entries(value, section, name)
        if not found:
            return UNKNOWN
        part = _missed(value, " ".join(entry["source"] for entry in found))
        return tables.number(sum(entry["value"] for entry in found)) + ("+?" if part else "")

    return cell


def _requests(value: Json) -> str:
    """Of all routers; one that could not be read may have had requests too."""
    for name in ("requests", "successful-requests", "pd-requests"):
        found = [entry for entry in _entries(value, "traffic", name) if entry["scope"] == "router"]
        if found:
            part = _missed(value, " ".join(entry["source"] for entry in found))
            return tables.number(sum(entry["value"] for entry in found)) + ("+?" if part else "")
    return UNKNOWN


def _ratio(value: Json) -> str:
    found = _entries(value, "traffic", "error-ratio")
    samples = sum(entry["samples"] for entry in found)
    if not found or not samples:
        return UNKNOWN
    return f"{100 * sum(entry['value'] * entry['samples'] for entry in found) / samples:.2f}%"


def _latency(name: str) -> Callable[[Json], str]:
    """The median of each role that measures it; the mean where buckets give no median."""

    def cell(value: Json) -> str:
        found: list[str] = []
        for role in value.get("roles") or ():
            for entry in role["latency"]:
                if entry["name"] == name:
                    median = (entry.get("p50") or {}).get("value")
                    found.append(tables.seconds(entry["value"] if median is None else median))
        return ",".join(found) or UNKNOWN

    return cell


def _hits(value: Json) -> str:
    found = [entry for entry in value.get("cacheHits") or () if entry["scope"] in {"local-prefix", "device-prefix"}]
    queries = sum(entry["queries"] for entry in found)
    return f"{100 * sum(entry['hits'] for entry in found) / queries:.0f}%" if queries else UNKNOWN


def _state(value: Json) -> str:
    if not value.get("coverage"):
        return "Unavailable"
    return "Partial" if value["partial"] else "Complete"


def _pods(value: Json) -> str:
    coverage = value.get("coverage")
    return f"{coverage['read']}/{coverage['expected']}" if coverage else UNKNOWN


def _age(value: Json) -> str:
    """The age of the oldest value shown."""
    sections = ("processing", "queueing", "cacheHits", "latency", "traffic", "transfer")
    entries = [entry for section in sections for entry in value.get(section) or ()]
    entries += [entry for role in value.get("roles") or () for entry in role["latency"]]
    ages = [entry.get("ageSeconds") for entry in entries]
    return tables.seconds(max((age for age in ages if age is not None), default=None))


def _missing(value: Json) -> str:
    """How many values that matter are missing, and the first of them."""
    found = _gaps(value)
    if not found:
        return "0"
    first = found[0]
    return f"{len(found)}: " + ": ".join(part for part in (first["pod"], first["source"], first["reason"]) if part)


def _roles(read: Callable[[Json], Any]) -> Callable[[Json], str]:
    """One number for each role, in order, commas between."""

    def cell(value: Json) -> str:
        roles = (value.get("status") or {}).get("roles") or ()
        found = [read(role) for role in roles]
        return ",".join(UNKNOWN if each is None else str(each) for each in found) or UNKNOWN

    return cell


def _status(*path: str) -> Callable[[Json], str]:
    def cell(value: Json) -> str:
        found: Any = value.get("status") or {}
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return UNKNOWN if found is None or found == "" else str(found)

    return cell


def _condition(kind: str) -> Callable[[Json], str]:
    def cell(value: Json) -> str:
        conditions = (value.get("status") or {}).get("conditions") or ()
        return next((each["status"] for each in conditions if each["type"] == kind), UNKNOWN)

    return cell


def _serving(role: Json) -> Any:
    serving = role["endpoints"]["serving"]
    return serving.get("value", serving["state"])


def _sentence(number: int) -> Callable[[Json], str]:
    """One of an explanation's three sentences."""

    def cell(value: Json) -> str:
        found = value.get("sentences") or ()
        return str(found[number]) if number < len(found) else UNKNOWN

    return cell


def _holds(value: Json) -> str:
    return str((value.get("condition") or {}).get("status", UNKNOWN))


def _differences(value: Json) -> str:
    """What the contract declares and is observed otherwise."""
    return ",".join(check["item"] for check in value.get("checks") or () if check["holds"] is False) or "none"


def _streams(value: Json) -> str:
    """How many KV-event streams are in each state."""
    states = [stream["state"] for stream in value.get("streams") or ()]
    return ",".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states)) or "none"


_NAME = Column("Name", "Name of the deployment.", lambda value: str(value["metadata"]["name"]))
_PLAIN = (_NAME,)
COLUMNS: dict[str, tuple[Column, ...]] = {
    "Explanation": (
        _NAME,
        Column("Phase", "Phase of the deployment as observed.", lambda value: str(value.get("phase") or UNKNOWN)),
        Column("What Holds", "What holds.", _sentence(0)),
        Column("Why", "Why.", _sentence(1), wide=True),
        Column("What To Do", "What to do.", _sentence(2), wide=True),
    ),
    "RouterContract": (
        _NAME,
        Column("Holds", "Whether what is there is as the contract says.", _holds),
        Column("Differs", "What is otherwise.", _differences),
    ),
    "KVResidency": (_NAME, Column("Streams", "KV-event streams by state.", _streams)),
    METRICS_KIND: (
        _NAME,
        Column("State", "Complete, Partial (something that matters is missing) or Unavailable.", _state),
        Column("Running", "Requests that engines work on now.", _level("processing", "running")),
        Column("Waiting", "Requests that wait in engines.", _level("queueing", "waiting")),
        Column("Requests/s", "Requests per second through the router.", _requests),
        Column("TTFT", "Median time to the first token, one for each role.", _latency("ttft")),
        Column("Cache Hit", "Part of the prompt tokens found in engines' own prefix cache.", _hits),
        Column("Value Age", "Age of the oldest value shown.", _age),
        Column("ITL", "Median time between tokens, one for each role.", _latency("itl"), wide=True),
        Column("Errors", "Part of the requests that failed in the router.", _ratio, wide=True),
        Column("Pods", "Pods read, of those that should serve.", _pods, wide=True),
        Column("Missing", "Values that matter and are missing, and the first of them.", _missing, wide=True),
    ),
    OBSERVED_KIND: (
        _NAME,
        Column("Phase", "Phase of the deployment as observed.", _status("phase")),
        Column("Roles", "Roles and their sizes.", _status("roleSummary")),
        Column(
            "Eligible", "Replicas that may get traffic, by role.", _roles(lambda role: role["endpoints"]["eligible"])
        ),
        Column("Serving", "Replicas that routers confirm, by role.", _roles(_serving)),
        Column("Converged", "Whether routers select what is eligible.", _condition("RouterConverged")),
        Column("Cache", "Whether the KV cache is attached.", _condition("CacheAttached")),
        Column("Endpoint", "Where requests go.", _status("endpoint"), wide=True),
        Column("Model", "The model.", lambda value: str(value.get("model") or UNKNOWN), wide=True),
        Column("Message", "Why it is in its phase.", _status("phaseMessage"), wide=True),
    ),
}
