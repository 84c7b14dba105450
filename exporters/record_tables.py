"""What `observer status` prints of a platform's own records: components, operations, canary runs, homes.

Made from the API's JSON. A dash is not known, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from exporters.grid import UNKNOWN, Column, cells_of, columns_of, grid
from exporters.tables import number, seconds

Json = Mapping[str, Any]
Since = Callable[[str | None], float | None]
Parts = list[Table | Text]

COMPONENTS = columns_of("COMPONENT, MODE 1, INSTANCES, SCALER 2, NOW> 2, WANTED> 2, HELD BY~")
OPERATIONS = columns_of("INSTANCE, OPERATION, STEP 2, WAITS FOR, FOR>, BECAUSE~ 1")
FAILURES = columns_of("FAILED INSTANCE, REASON, AGO>, CODE> 2, POD 1, MESSAGE~ 1")
CANARIES = columns_of("CANARY RUN, PHASE, STEP, HELD BY, FOR>, REVISION 1, TRAFFIC> 2, OUR ANALYSIS 1")
HOMES = columns_of("HOME, PHASE, STATE, SINCE> 1, ADMITTED>, READY>, DRAINING 2, ENDPOINT~ 3")

_STYLES = {"Fresh": "green", "Stale": "yellow", "Unknown": "yellow", "Failed": "red", "Rejected": "red"}


def records(told: Json, since: Since, width: int | None) -> Parts:
    """The tables of a status's records; nothing where the platform has none. ``since`` gives seconds until its time."""
    components = told.get("components", ())
    operations = (_operation(c, each, since) for c in components for each in c["operations"])
    failures = (_failure(c, each, since) for c in components for each in c["failures"] if each["phase"] != "Ready")
    canaries = (_canary(c, c["canaryRun"], since) for c in components if "canary" in c.get("canaryRun", {}))
    parts = _filled(COMPONENTS, (_component(each) for each in components), width)
    parts += _filled(OPERATIONS, operations, width)
    parts += _filled(FAILURES, failures, width)
    parts += _filled(CANARIES, canaries, width)
    placed = told.get("placement")
    if placed is None:
        return parts
    totals = placed["totals"]
    line = f"homes known {totals['homesKnown']} of {totals['homes']}, admitted {number(totals['admitted'])}"
    parts.append(Text(f"{line}, ready {number(totals['ready'])}"))
    return parts + _filled(HOMES, (_home(each, since) for each in placed["homes"]), width)


def _filled(columns: Sequence[Column], rows: Iterable[Sequence[str | Text]], width: int | None) -> Parts:
    cells = [cells_of(row) for row in rows]
    return [grid(columns, cells, width)] if cells else []


def _styled(word: str) -> Text:
    return Text(word, _STYLES.get(word, ""))


def held(component: Json) -> str:
    """What holds a component's rollout, in the gate's own words; why there is none to hold where it has no contract."""
    hold = component.get("rolloutHold")
    if hold is not None:
        return f"{hold['gate']}: {hold.get('reason', '')}".rstrip(": ")
    return str(component.get("fault") or component.get("why", ""))


def _component(item: Json) -> list[str | Text]:
    scaler = item.get("autoscaler", {})
    phases = ", ".join(f"{each['instances']} {each['phase']}" for each in item["phases"])
    return [
        item["name"],
        item.get("mode", UNKNOWN),
        phases or UNKNOWN,
        scaler.get("class", "") or scaler.get("managedBy", UNKNOWN),
        number(scaler.get("currentReplicas")),
        number(scaler.get("desiredReplicas")),
        held(item),
    ]


def _operation(component: Json, item: Json, since: Since) -> list[str | Text]:
    waiting = item.get("waiting", "")
    began = item.get("capacityRefusedAt") if waiting else item.get("startedAt")
    return [
        f"{component['name']}/{item['instance']}",
        item["type"],
        item.get("step", ""),
        Text(waiting, "red"),
        seconds(since(began or item.get("startedAt"))),
        item.get("reason", ""),
    ]


def _failure(component: Json, item: Json, since: Since) -> list[str | Text]:
    place = f"{component['name']}/{item['instance']}"
    code, at = number(item.get("exitCode")), seconds(since(item.get("time")))
    return [place, item.get("reason", UNKNOWN), at, code, item.get("pod", ""), item.get("message", "")]


def _canary(component: Json, run: Json, since: Since) -> list[str | Text]:
    steps = run["steps"]
    step = f"{run['step'] + 1} of {steps}" if run["open"] else UNKNOWN
    began = run.get("failed", {}).get("time") or run.get("capacityWaitSince") or run.get("stepEnteredTime")
    return [
        component["name"],
        run.get("phase", UNKNOWN),
        step,
        _styled(run.get("failed", {}).get("reason") or run["heldBy"]),
        seconds(since(began)) if run["heldBy"] != "Nothing" else "",
        run["canary"],
        number(run.get("trafficWeight")),
        run.get("analysis", ""),
    ]


def _home(item: Json, since: Since) -> list[str | Text]:
    return [
        item["name"],
        item.get("phase", UNKNOWN),
        _styled(item["state"]),
        seconds(since(item.get("since"))) if "since" in item else "",
        number(item["admitted"]),
        number(item["ready"]),
        "yes" if item["draining"] else "",
        item.get("endpoint", ""),
    ]
