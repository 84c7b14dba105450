"""What `observer status`, `explain` and `contract` print: headings, tables and sentences made from the API's JSON.

What is not known is shown as ``-``, never as 0. Ages are as of the document's own time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from exporters.grid import UNKNOWN, Column, cells_of, columns_of, grid
from exporters.record_tables import records
from exporters.tables import number, seconds, state

Json = Mapping[str, Any]
Parts = list[Table | Text]

_STYLES = {"True": "green", "False": "red", "Unknown": "yellow", "Act": "red", "Eligible": "green"}

ROLES = columns_of(
    "ROLE, KIND 4, DESIRED>, READY>, ELIGIBLE>, SERVING, QUOTA> 5, FLAVORS 5, READY MEANS 2, PARALLELISM~ 3"
)
CONDITIONS = columns_of("CONDITION, STATUS, REASON, AGE> 2, FROM 3, MESSAGE~ 1")
GROUPS = columns_of("GROUP^, STATE, REASON^ 2, QUALIFIED> 4, MEMBER^, READY 1, STANDING 3, DETAIL~")
VIEWS = columns_of("ROUTER^, SOURCE 3, AGE>, WORKER^, SELECTED, HEALTHY 1, CIRCUIT 2, LOAD> 4")
OPERATOR = columns_of("OPERATOR SAYS, STATUS, REASON 1, AGE> 2, WE SAY, DISAGREES")
SOURCES = columns_of("NOT READ, WHY, SINCE>, DETAIL~ 1")
DRAIN = columns_of("DRAIN, STATE, REQUESTS>, WHY~ 1")
FINDINGS = columns_of("{}, REASON, FOR>, MESSAGE~, THEN~ 1, WHOSE 2")
LOOKS = columns_of("LOOKED AT, NAME, REASON, AGO>, SAID~, THEN~ 1")
NOTES = columns_of("ABOUT, ANSWER~")
HISTORY = columns_of("AGO>, WHAT, FROM, TO, REASON 1")
CHECKS = columns_of("CONTRACT, DECLARED~, FOUND~, HOLDS, REASON 1")


def _since(at: str | None, made: Json) -> float | None:
    """Seconds between a time of the document and the document's own time."""
    if at is None:
        return None
    return max(0.0, (datetime.fromisoformat(made["timestamp"]) - datetime.fromisoformat(at)).total_seconds())


def _coloured(text: str | None) -> Text:
    shown = UNKNOWN if text is None else text
    return Text(shown, _STYLES.get(shown, ""))


def _yes(value: bool | None) -> str:
    return UNKNOWN if value is None else "yes" if value else "no"


def _heading(made: Json, phase: str) -> Text:
    meta = made["metadata"]
    name = (f"{meta['namespace']}/{meta['name']}", "bold")
    return Text.assemble(name, "  ", state(phase), f"  at {made['timestamp']}")


def _filled(columns: Sequence[Column], rows: Iterable[Sequence[str | Text]], width: int | None) -> Parts:
    cells = [cells_of(row) for row in rows]
    return [grid(columns, cells, width)] if cells else []


def status(made: Json, *, wide: bool = False, width: int | None = None) -> Parts:
    """The whole status: a heading, roles, conditions, groups with their members, what each router sees, and the rest."""
    told = made["status"]
    parts: Parts = [_status_heading(made)]
    parts += _filled(ROLES, (_role(role) for role in told["roles"]), width)
    parts += _filled(CONDITIONS, (_condition(item, made) for item in told["conditions"] if wide or _seen(item)), width)
    hidden = sum(not _seen(item) for item in told["conditions"])
    if hidden and not wide:
        counted = "1 condition" if hidden == 1 else f"{hidden} conditions"
        parts.append(Text(f"{counted} cannot be observed from here (-o wide names them)", "dim"))
    parts += _filled(GROUPS, (row for role in told["roles"] for row in _groups(role, made)), width)
    parts += _filled(VIEWS, (row for view in told["routerViews"] for row in _view(view)), width)
    parts += _retirement(told.get("retirement"))
    parts += records(told, lambda at: _since(at, made), width)
    busy = (_drain(item) for item in told["drain"] if wide or item["state"] == "Busy" or "retirement" in told)
    parts += _filled(DRAIN, busy, width)
    parts += _filled(OPERATOR, (_voice(item, made) for item in told["operator"]), width)
    missing = ((s["kind"], s["why"], seconds(_since(s["since"], made)), s.get("detail", "")) for s in told["sources"])
    return parts + _filled(SOURCES, missing, width)


def _status_heading(made: Json) -> Text:
    told = made["status"]
    heading = _heading(made, told["phase"])
    if told["phaseMessage"]:
        heading.append(f"\n{told['phaseMessage']}")
    line = [
        f"{name} {value}"
        for name, value in (
            ("roles", _summary(told)),
            ("endpoint", told.get("endpoint")),
            ("owner of the count", told.get("scaler", {}).get("binding")),
            ("last decision", told.get("scaler", {}).get("decision")),
        )
        if value
    ]
    converged = told.get("convergence", {})
    if converged.get("reason") not in {None, "NotConfigured"}:
        line.append(f"routers {converged['reason']} for {seconds(_since(converged.get('since'), made))}")
    return heading.append("\n" + "  ".join(line)) if line else heading


_KINDS = {"Server": "servers", "Encode": "encoders", "Prefill": "prefillers", "Decode": "decoders"}


def _summary(told: Json) -> str:
    """The summary, which counts what is ready, and in words of how many that are wanted: ``2R2S`` alone is read as both."""
    summary = str(told["roleSummary"])
    counts: list[str] = []
    routers, has_router, _ = summary.partition("R")
    if has_router:
        counts.append(f"routers {routers}")
    for kind, plural in _KINDS.items():
        roles = [role for role in told["roles"] if role["kind"] == kind]
        if roles:
            counts.append(f"{plural} {_sum(roles, 'ready')} of {_sum(roles, 'desired')}")
    return f"{summary} (ready: {', '.join(counts)})" if summary and counts else summary


def _sum(roles: Sequence[Json], name: str) -> str:
    """The sum of a count over roles, ``?`` when one is not known."""
    found = [role.get(name) for role in roles]
    return "?" if None in found else number(sum(count or 0 for count in found))


def _seen(condition: Json) -> bool:
    return bool(condition["provenance"] != "NotObservable")


def _serving(serving: Json) -> str:
    return number(serving["value"]) if serving["state"] == "Confirmed" else str(serving["state"])


def _role(role: Json) -> list[str | Text]:
    endpoints = role["endpoints"]
    flavors = role.get("assignedFlavors")
    return [
        role["name"],
        role["kind"] + (" (own command)" if role.get("unmanaged") else ""),
        number(role.get("desired")),
        number(role.get("ready")),
        number(endpoints["eligible"]),
        _serving(endpoints["serving"]),
        number(role.get("quotaReserved")),
        UNKNOWN if flavors is None else ",".join(flavors),
        role.get("readiness", {}).get("meaning", UNKNOWN),
        _parallelism(role.get("parallelism")),
    ]


def _parallelism(read: Json | None) -> str:
    """What is declared and how it balances, or why that could not be read."""
    if read is None:
        return UNKNOWN
    if not read["source"]["complete"]:
        return f"not read: {read['source'].get('unreadableReason', 'Unknown')}"
    declared = [f"{name}={value}" for name, value in read["declared"].items() if value is not None]
    modes = [name if on else f"no {name}" for name, on in read["modes"].items()]
    return " ".join([*declared, *modes, read["loadBalance"]])


def _condition(item: Json, made: Json) -> list[str | Text]:
    age = seconds(_since(item.get("lastTransitionTime"), made))
    return [item["type"], _coloured(item["status"]), item["reason"], age, item["provenance"], item["message"]]


_REVOKED = frozenset({"Retiring", "Replacing", "Incomplete", "NotReady"})
"""The states of a group that does not qualify now, by a fact."""


def _groups(role: Json, made: Json) -> Iterable[list[str | Text]]:
    """One line for each member; the group's own cells stand on the first."""
    for group in role["groups"]:
        name = role["name"] if group["ordinal"] is None else f"{role['name']}/{group['ordinal']}"
        revoked = group["state"] in _REVOKED
        # the reason is the name of a criterion: alone it would read as if that were fulfilled
        reason = "" if group["state"] == "Eligible" and not group.get("retained") else group["reason"]
        reason += " failed" if revoked else ""
        # the document keeps when it last qualified; beside a group that no longer does it would read as still so
        qualified = "" if revoked else seconds(_since(group.get("qualifiedAt"), made))
        own: list[str | Text] = [name, _coloured(group["state"]), reason, qualified]
        for member in group["members"]:
            seat = "" if member.get("seat") is None else f" seat {member['seat']}"
            detail = [member["name"] + seat, _coloured(member["ready"]), member.get("standing", "")]
            yield [*own, *detail, member.get("detail", "")]
            own = [""] * 4
        if not group["members"]:
            yield [*own, UNKNOWN, UNKNOWN, "", ""]


def _view(view: Json) -> Iterable[list[str | Text]]:
    """One line for each worker; a router Pod whose last read failed says so on a line of its own."""
    failure = view.get("failure")
    own: list[str | Text] = [view["router"], view.get("source", UNKNOWN), seconds(view.get("ageSeconds"))]
    if failure is not None:
        text = f"{failure['kind']} {seconds(failure['ageSeconds'])} ago: {failure.get('detail', '')}".rstrip(": ")
        yield [*own, Text(text, "red"), *[""] * 4]
        own = [""] * 3
    for worker in view.get("workers", ()):
        rank = f" rank {worker['rank']}" if "rank" in worker else ""
        flags = [_yes(worker["inSelection"]), _yes(worker["healthy"])]
        yield [*own, worker.get("pod", worker["url"]) + rank, *flags, worker["circuit"], number(worker["load"])]
        own = [""] * 3
    if own[0] and failure is None:
        yield [*own, Text("no worker" if "source" in view else "not asked yet"), *[""] * 4]


def _retirement(found: Json | None) -> Parts:
    if found is None:
        return []
    left = f"{seconds(found.get('phaseSecondsLeft'))} of the step, {seconds(found.get('totalSecondsLeft'))} in all left"
    text = f"retirement of {found['roleName']}/{found['replicaOrdinal']}: {found['state']} ({found['reason']}), {left}"
    return [Text(text + (f"\n{found['message']}" if "message" in found else ""))]


def _drain(item: Json) -> list[str | Text]:
    name = item["role"] if item["ordinal"] is None else f"{item['role']}/{item['ordinal']}"
    return [name, item["state"], number(item.get("requests")), item.get("why", "")]


def _voice(item: Json, made: Json) -> list[str | Text]:
    said, ours = item["operator"], item.get("observed")
    since = seconds(_since(item.get("since"), made))
    return [
        item["type"],
        _coloured(said["status"]),
        said["reason"],
        seconds(said.get("ageSeconds")),
        UNKNOWN if ours is None else f"{ours['status']}/{ours['reason']}",
        Text(f"for {since}", "red") if item["disagrees"] else "",
    ]


def explanation(made: Json, *, width: int | None = None) -> Parts:
    """The sentences, then the other findings, what is not known, and the history where it was asked for."""
    parts: Parts = [_heading(made, made["phase"]), Text("\n".join(made["sentences"]))]
    for title, name in (("ALSO FALSE", "others"), ("NOT KNOWN", "unknown")):
        shown = [item for item in made[name] if item["reason"] != "NotObservable"]
        columns = (FINDINGS[0]._replace(title=title), *FINDINGS[1:])
        parts += _filled(columns, (_finding(item) for item in shown), width)
    columns = (FINDINGS[0]._replace(title="TRUE, WITH A NOTICE"), *FINDINGS[1:])
    parts += _filled(columns, (_finding(item) for item in made.get("notices", ())), width)
    parts += _filled(LOOKS, (_look(item, made) for item in made.get("looks", ())), width)
    blind = [item["type"] for item in made["unknown"] if item["reason"] == "NotObservable"]
    if blind:
        parts.append(Text(f"not observable from here: {', '.join(blind)}", "dim"))
    parts += _filled(NOTES, ([item["topic"], item["says"]] for item in made.get("notes", ())), width)
    if "history" in made:
        rows = [_change(item, made) for item in made["history"]]
        parts += _filled(HISTORY, rows, width) or [Text("Nothing has changed since the observer began to watch.")]
    return parts


_COURSES = {
    "ClearsByItself": "clears by itself",
    "WaitThenAct": "wait, then act",
    "Act": "act",
    "Over": "over",
    "StaysUnknown": "stays unknown",
}


def _finding(item: Json) -> list[str | Text]:
    evidence = "; ".join(f"{pair['name']} {pair['value']}" for pair in item.get("evidence", ()))
    message = ": ".join(text for text in (item.get("message", ""), evidence) if text)
    course = _COURSES.get(item.get("advice", ""), "")
    then = ": ".join(text for text in (course, item.get("hint", "")) if text)
    return [item["type"], item["reason"], seconds(item.get("ageSeconds")), message, then, item.get("whose", "")]


def _look(item: Json, made: Json) -> list[str | Text]:
    then = ": ".join(text for text in (_COURSES.get(item.get("advice", ""), ""), item.get("hint", "")) if text)
    ago = seconds(_since(item["at"], made)) if "at" in item else UNKNOWN
    return [item["kind"], item["name"], item["reason"], ago, item.get("said", ""), then]


def _change(item: Json, made: Json) -> list[str | Text]:
    ago = seconds(_since(item["time"], made))
    return [ago, item["what"], item["from"], _coloured(item["to"]), item["reason"]]


def contract(made: Json, *, width: int | None = None) -> Parts:
    """Both sides of the contract, a line for each thing that it says."""
    condition = made.get("condition")
    status = UNKNOWN if condition is None else condition["status"]
    heading = Text.assemble(
        (f"{made['metadata']['namespace']}/{made['metadata']['name']}", "bold"),
        "  the router's contract holds: ",
        _coloured(status),
        "" if condition is None else f" ({condition['reason']}) {condition['message']}",
    )
    rows = [
        [item["item"], item["declared"], item["observed"], _coloured(_holds(item["holds"])), item.get("reason", "")]
        for item in made["checks"]
    ]
    return [heading, *_filled(CHECKS, rows, width)]


def _holds(value: bool | None) -> str:
    return "Unknown" if value is None else str(value)
