"""The targets page, and one target: how reads go, what the table matched and missed, the body as it last came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from exporters.page.protocols import Services
from exporters.page.query import Column, checked, contains, headings, one_of, sort
from exporters.page.render import Built, Fragment, Renderer, Twin, element_id, path_of
from exporters.page.shown import UNIT_FORMATS
from exporters.summaries import target_summary
from exporters.timestamps import rfc3339
from router_contract.documents import REASONS
from router_contract.readings import MissingCode, SignalValue, State
from router_contract.router_views import shown_url
from router_contract.signals import SIGNALS
from router_contract.targets import Component, DeploymentKey, TargetKey
from router_contract.verdicts import TargetReport, TargetState, TargetStatus

Args = Mapping[str, str]
_ORDER = {TargetState.FAILING: 0, TargetState.SHED: 1, TargetState.PENDING: 2, TargetState.UP: 3}
MOST_ROWS = 5_000
"""Targets on one page; with more the page says that it does not show all."""

SHOWN_CHARACTERS = 256 << 10
"""Characters of a body that the page shows; the JSON has all that is kept."""

COLUMNS = (
    Column(name="target", title="Target", key=lambda status: (str(status.key.deployment), status.member)),
    Column(name="software", title="Program", key=lambda status: (status.software, status.version or "")),
    Column(name="state", title="State", key=lambda status: _ORDER[status.state]),
    Column(name="age", title="Last good read", key=lambda status: status.age_seconds, numeric=True),
    Column(name="took", title="Took", key=lambda status: status.duration_seconds, numeric=True),
    Column(name="size", title="Size", key=lambda status: status.body_bytes or None, numeric=True),
    Column(name="kept", title="Samples kept", key=lambda status: status.samples_kept or None, numeric=True),
    Column(name="dropped", title="Dropped", key=lambda status: status.samples_dropped or None, numeric=True),
    Column(name="due", title="Next due", key=lambda status: status.next_due_seconds, numeric=True),
    Column(name="error", title="Last error", key=lambda status: status.last_error_at),
)
FILTERS = ("q", "namespace", "deployment", "component", "state", "sort")


def target_path(key: TargetKey) -> str:
    """Where the page of one target is."""
    deployment = key.deployment
    return path_of("targets", deployment.namespace, deployment.name, key.component, key.member_uid, key.port)


def target_id(key: TargetKey) -> str:
    """The id of a target's row."""
    deployment = key.deployment
    return element_id("t", deployment.namespace, deployment.name, key.component, key.member_uid, str(key.port))


class TargetsPage:
    """Every target, a row each."""

    def __init__(self, services: Services, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    def _found(self, query: Mapping[str, str]) -> tuple[list[TargetStatus], dict[str, str], dict[str, int]]:
        told = checked(query, FILTERS)
        state = one_of(told, "state", [each.value for each in TargetState])
        component = one_of(told, "component", [each.value for each in Component])
        statuses = self._services.reports.targets()
        counts = {each.value: 0 for each in TargetState}
        for status in statuses:
            counts[status.state.value] += 1
        kept = [
            status
            for status in statuses
            if (state is None or status.state.value == state)
            and (component is None or status.component.value == component)
            and ("namespace" not in told or status.key.deployment.namespace == told["namespace"])
            and ("deployment" not in told or status.key.deployment.name == told["deployment"])
            and ("q" not in told or contains(told["q"], str(status.key.deployment), status.member, status.url))
        ]
        return sort(kept, COLUMNS, told.get("sort", "target")), told, counts

    def build(self, _: Args, query: Mapping[str, str]) -> Built:
        """The rows that pass the query."""
        found, told, counts = self._found(query)
        now = self._services.kv.now().wall
        rows = [self._row(status, now) for status in found[:MOST_ROWS]]
        summary = self._renderer.part(
            "targets_summary.html",
            "targets-summary",
            counts=counts,
            shown=len(rows),
            found=len(found),
            total=sum(counts.values()),
        )
        context = {
            "headings": headings(COLUMNS, "/targets", told),
            "query": told,
            "states": [each.value for each in TargetState],
            "components": [each.value for each in Component],
        }
        groups = {"summary": (summary,), "rows": rows}
        return Built(template="targets.html", title="Targets", context=context, groups=groups)

    def _row(self, status: TargetStatus, now: float) -> Fragment:
        due = status.next_due_seconds
        return self._renderer.part(
            "target_row.html",
            target_id(status.key),
            status=status,
            path=target_path(status.key),
            deployment=path_of("deployments", status.key.deployment.namespace, status.key.deployment.name),
            # Whole seconds on the wall: a due moment wobbles by parts of a millisecond between two looks.
            due=None if due is None else float(round(now + due)),
        )

    def twin(self, _: Args, query: Mapping[str, str]) -> Twin:
        """The same targets as the API lists them."""
        found, _, counts = self._found(query)
        return Twin(
            value={
                "counts": counts,
                "items": [target_summary(status) for status in found[:MOST_ROWS]],
                "notShown": max(0, len(found) - MOST_ROWS),
            }
        )


def _key(args: Args) -> TargetKey:
    deployment = DeploymentKey(args["namespace"], args["name"])
    port = int(args["port"]) if len(args["port"]) <= 5 else -1
    return TargetKey(deployment, args["uid"], args["component"], port)


class TargetPage:
    """One target."""

    def __init__(self, services: Services, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    def _found(self, args: Args) -> TargetReport | None:
        key = _key(args)
        report = self._services.reports.deployment(key.deployment)
        if report is None:
            return None
        return next((target for target in report.targets if target.status.key == key), None)

    def build(self, args: Args, query: Mapping[str, str]) -> Built:
        """Everything known of it; 404 when it is not watched."""
        checked(query, ())
        found = self._found(args)
        if found is None:
            gone = {"what": f"target {args['uid']} of {args['namespace']}/{args['name']}"}
            return Built(template="gone.html", title="Not observed", context=gone, status=404, live=False)
        status, now = found.status, self._services.kv.now().wall
        raw = self._services.bodies.body(status.key)
        due = None if status.next_due_seconds is None else float(round(now + status.next_due_seconds))
        ident = target_path(status.key)
        parts = {
            "state": self._renderer.part("target_state.html", "target-state", status=status, due=due),
            "values": self._renderer.part("values.html", "target-values", rows=value_rows(found.values)),
            "unmatched": self._renderer.part(
                "unmatched.html",
                "target-unmatched",
                absent=status.absent,
                unknown_families=status.unknown_families,
                problems=status.problems,
            ),
            "raw": self._renderer.part("raw.html", "target-raw", raw=raw),
        }
        context = {
            "status": status,
            "own_path": ident,
            "raw_text": raw.text[:SHOWN_CHARACTERS] if raw is not None else None,
            "raw_at": raw.at.wall if raw is not None else None,
            "raw_more": raw is not None and len(raw.text) > SHOWN_CHARACTERS,
            "deployment": path_of("deployments", status.key.deployment.namespace, status.key.deployment.name),
        }
        groups = {name: (part,) for name, part in parts.items()}
        return Built(template="target.html", title=f"Target {status.member}", context=context, groups=groups)

    def twin(self, args: Args, query: Mapping[str, str]) -> Twin:
        """The target's summary, its signals, and its body if one is kept."""
        checked(query, ())
        found = self._found(args)
        if found is None:
            return Twin(value={"error": "this target is not watched"}, status=404)
        raw = self._services.bodies.body(found.status.key)
        body = None if raw is None else {"at": rfc3339(raw.at.wall), "size": raw.size, "cut": raw.cut, "text": raw.text}
        return Twin(
            value=target_summary(found.status) | {"values": [value_twin(each) for each in found.values], "body": body}
        )

    async def fetch(self, args: Args) -> bool:
        """Read it once more now; whether it exists."""
        found = self._found(args)
        if found is None:
            return False
        self._services.bodies.body(found.status.key)
        await self._services.fetch(found.status.key)
        return True


def shown_labels(value: SignalValue) -> list[tuple[str, str]]:
    """A value's labels; the URL of a router's worker without what may be a credential."""
    return [(name, shown_url(text) if name == "worker" else text) for name, text in value.labels]


def value_rows(values: Iterable[SignalValue]) -> list[dict[str, Any]]:
    """What a table of values shows of each: the number in its unit, its window, its age and where it came from."""
    rows = []
    for each in values:
        signal = SIGNALS[each.signal]
        moving = signal.kind in {"counter", "histogram"}
        rows.append(
            {
                "signal": each.signal,
                "meaning": signal.meaning,
                "labels": ", ".join(f"{name}={text}" for name, text in shown_labels(each)),
                "unit": signal.unit,
                "kind": signal.kind.value,
                "format": "number" if moving else UNIT_FORMATS.get(signal.unit, "number"),
                "mean_format": UNIT_FORMATS.get(signal.unit, "number"),
                "value": each.value,
                "info": ", ".join(f"{name}={text}" for name, text in each.info),
                "stale": each.state is State.STALE,
                "window": each.window,
                "histogram": signal.kind == "histogram",
                "moving": moving,
                "source": each.source,
                "observed_at": each.observed_at,
                "why": why_missing(each.missing),
                "window_why": why_missing(each.window_missing),
            }
        )
    return rows


def why_missing(code: MissingCode | None) -> str:
    """A code in words; empty where nothing is missing."""
    if code is None:
        return ""
    return f"{code.value}: {REASONS[code].sentence.partition(', {')[0].replace('{detail}', '').strip(' :')}"


def value_twin(each: SignalValue) -> dict[str, Any]:
    """One value for JSON; what is not known is left out, and ``missing`` says why there is no value."""
    window = None
    if each.window is not None:
        window = {
            "increase": each.window.increase,
            "perSecond": each.window.per_second,
            "seconds": each.window.seconds,
            "mean": each.window.mean,
            "lossy": each.window.lossy,
        }
    found = {
        "signal": each.signal,
        "labels": dict(shown_labels(each)) or None,
        "value": each.value,
        "state": each.state.value,
        "ageSeconds": each.age_seconds,
        "source": each.source or None,
        "missing": each.missing.value if each.missing is not None else None,
        "window": window,
        "windowMissing": each.window_missing.value if each.window_missing is not None else None,
    }
    return {name: value for name, value in found.items() if value is not None}
