"""`observer check --platform`: what a platform's document would find in a cluster dump, and why a Pod was not taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import RenderableType
from rich.text import Text

from exporters.grid import UNKNOWN, columns_of, grid
from exporters.live import console, width
from exporters.platform_records import record_fields
from observer.cli.exits import CommandFailed
from observer.cli.output import Format, dumped, grouped
from observer.clock import SystemClock
from observer.discover.admission import refusal
from observer.discover.platforms import Platform, PlatformError, built_in, load_platforms
from observer.discover.platforms.dump import DumpError, Explained, explain, read_dump
from observer.discover.platforms.engine import Found
from router_contract.targets import Address, Member

_FACTS = (
    "operator",
    "cache",
    "binding",
    "workloads",
    "weights",
    "router_objects",
    "publishers",
    "retirement",
    "scaler",
    "pool",
    "contract",
    "endpoint",
    "rollout",
    "elastic",
    "reserved_namespace",
)
_ROLES = (
    "ROLE, KIND, ENGINE, DESIRED>, SIZE>, REPLICAS>, TAKE-OVER",
    "role kind engine desired size replicas takeOver",
)
_MEMBERS = (
    "ROLE, ORDINAL>, SEAT>, MEMBER^, SERVES, READY, METRICS, API 6, KV EVENTS 5, NOTE~",
    "role ordinal seat member serves ready metrics api events note",
)
_LEFT = ("NOT TAKEN, WHY~", "pod why")


def check_platform(named: str, dump: Path | None, form: Format) -> None:
    """Check a platform (a file, or the name of one of ours) and explain a dump with it. Raises `CommandFailed`."""
    platform = _platform(named)
    if dump is None:
        click.echo(f"well: the platform {platform.name}, {len(platform.document.sources)} sources")
        return
    try:
        found = explain(platform, read_dump(dump), now=SystemClock().now().wall, refusal=refusal)
    except DumpError as error:
        raise CommandFailed(str(error)) from error
    answer = as_json(found)
    if form in {Format.JSON, Format.YAML}:
        click.echo(dumped(answer, form))
    else:
        target = console()
        target.print(grouped(list(_pictures(platform, answer, width(target)))))


def _platform(named: str) -> Platform:
    for each in built_in():
        if each.name == named:
            return each
    try:
        own = {str(Path(named)), *(str(path) for path in Path(named).glob("*"))} if Path(named).is_dir() else {named}
        made = [each for each in load_platforms([Path(named)]) if each.file in own]
    except PlatformError as error:
        click.echo("\n".join(str(fault) for fault in error.faults))
        raise CommandFailed(f"{len(error.faults)} faults in {named}") from error
    if len(made) != 1:
        raise CommandFailed(f"{named}: found {len(made)} platforms, wanted one")
    return made[0]


def as_json(found: Explained) -> dict[str, Any]:
    """Everything found as plain JSON values."""
    return {"deployments": [_deployment(each) for each in found.found], "unread": list(found.unread)}


def _deployment(found: Found) -> dict[str, Any]:
    made, facts = found.discovered.deployment, found.discovered.facts
    rows = [
        _member(role.name, replica.ordinal, member)
        for role in made.roles
        for replica in role.replicas
        for member in replica.members
    ]
    if made.router is not None:
        rows += [_member("(router)", None, member) for member in made.router.members]
    return {
        "deployment": str(made.key),
        "uid": made.uid,
        "model": made.model,
        "endpointType": made.endpoint_type.value,
        "roles": [
            {
                "role": role.name,
                "kind": role.kind,
                "desired": role.desired,
                "size": role.size,
                "replicas": len(role.replicas),
                "engine": " ".join(filter(None, (role.engine, role.engine_version))),
                "takeOver": bool(role.command) if facts.managed else None,
            }
            for role in made.roles
        ],
        "router": None
        if made.router is None
        else {"name": made.router.name, "software": made.router.software, "desired": made.router.desired},
        "stores": [f"{store.name} ({store.software})" for store in made.stores],
        "members": rows,
        "facts": {name: _fact(getattr(facts, name)) for name in _FACTS},
        "sources": msgspec.to_builtins(facts.sources),
        "records": record_fields(facts.records),
        "notices": [
            {"type": item.type, "status": item.status, "reason": item.reason, "message": item.message}
            for item in facts.records.notices
        ],
        "left": [{"pod": left.pod, "why": left.why} for left in found.left],
    }


def _member(role: str, ordinal: int | None, member: Member) -> dict[str, Any]:
    return {
        "role": role,
        "ordinal": ordinal,
        "seat": member.seat,
        "member": member.name,
        "serves": member.serves,
        "ready": member.ready.value,
        "metrics": _url(member.metrics),
        "api": None if member.api is None else member.api.authority,
        "events": [source.endpoint for source in member.kv_events],
        "note": member.skipped_reason,
    }


def _url(address: Address | None) -> str | None:
    return None if address is None else address.url


def _fact(value: object) -> str:
    """One of the three values of a fact, in words; what is observed is shown short."""
    if isinstance(value, msgspec.UnsetType):
        return "not observed"
    if value is None:
        return "observed absent"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return f"{len(value)} observed"
    return value if isinstance(value, str) else "observed"


def _shown(value: Any) -> Text:
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, list):
        value = " ".join(value)
    return Text(UNKNOWN if value is None or value == "" else str(value))


def _table(titles: str, keys: str, rows: list[dict[str, Any]], room: int | None) -> RenderableType:
    return grid(columns_of(titles), [[_shown(row.get(key)) for key in keys.split()] for row in rows], room)


def _pictures(platform: Platform, answer: dict[str, Any], room: int | None) -> Iterator[RenderableType]:
    yield Text(f"platform {platform.name} ({platform.file}): {len(answer['deployments'])} deployments")
    for each in answer["deployments"]:
        named = f"{each['deployment']}: model {each['model'] or 'not said'}, {each['endpointType']}"
        router = each["router"]
        named += f", router {router['name']} ({router['software'] or 'unknown'})" if router else ", no router"
        yield Text("; ".join([named, *(f"store {store}" for store in each["stores"])]))
        yield _table(*_ROLES, each["roles"], room)
        if each["members"]:
            yield _table(*_MEMBERS, each["members"], room)
        if each["left"]:
            yield _table(*_LEFT, each["left"], room)
        facts = [{"fact": name, "value": value} for name, value in each["facts"].items()]
        yield _table("FACT, VALUE~", "fact value", facts, room)
        if each["notices"]:
            yield _table("IT SAYS, STATUS, REASON, MESSAGE~", "type status reason message", each["notices"], room)
        if each["sources"]:
            yield _table("NOT READ, WHY, DETAIL~", "kind why detail", each["sources"], room)
    for sentence in answer["unread"]:
        yield Text(f"unreadable: {sentence}")
