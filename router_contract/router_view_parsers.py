"""Strict parsers from the bytes that routers answer with to the rows of a `RouterView`.

Every parser takes bytes and returns rows or raises `ViewError`, whose text names what was found and what was wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import msgspec

from router_contract.router_views import (
    MAX_SHOWN,
    Circuit,
    CircuitReading,
    EndpointSeries,
    ViewError,
    WorkerRow,
    shown_url,
    split_endpoint,
    worker_address,
)

MAX_WORKERS = 16_384
"""Rows a view may hold; a longer list is refused, so that a broken router cannot fill our memory."""

MAX_COUNT = 2**53
"""The largest number of requests that is believed: up to it a float counts exactly."""
MAX_REVISION = 2**63 - 1
MAX_BOOT = 2**64 - 1
MAX_ROLE = 128
_PORT_DIGITS = 5

_CIRCUITS = {0.0: Circuit.CLOSED, 1.0: Circuit.OPEN, 2.0: Circuit.HALF_OPEN}


def _decode(body: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:  # DecodeError is one; so is an integer of thousands of digits
        raise ViewError(f"body of {len(body)} bytes is not one JSON document: {error}") from None
    if not isinstance(document, dict):
        raise ViewError(f"body is {type(document).__name__}, an object is wanted")
    return document


def _shown(value: object) -> str:
    """A foreign value in a sentence: short, however large or deep it is."""
    if isinstance(value, list | dict):
        return f"{type(value).__name__} of {len(value)}"
    return repr(value)[:MAX_SHOWN]


def _is_count(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _integer(value: object, low: int, high: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high else None


def _rows(document: Mapping[str, Any], field: str) -> list[Any]:
    rows = document.get(field)
    if not isinstance(rows, list):
        found = "absent" if field not in document else type(rows).__name__
        raise ViewError(f"{field} is {found}, an array is wanted (an empty one is a valid empty registry)")
    if len(rows) > MAX_WORKERS:
        raise ViewError(f"{field} has {len(rows)} rows, at most {MAX_WORKERS} are read")
    return rows


def _known(row: object, where: str, allowed: frozenset[str]) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ViewError(f"{where} is {type(row).__name__}, an object is wanted")
    unknown = sorted(set(row) - allowed)
    if unknown:
        raise ViewError(f"{where} has unknown field {_shown(unknown[0])}")
    return row


_PAYLOAD = frozenset({"router", "registry_revision", "workers"})
_ROUTER = frozenset({"boot_generation", "now_ms"})
_WORKER = frozenset({"url", "port", "role", "pod_hint", "worker_id", "selection", "lane", "last_job"})
_SELECTION = frozenset({"registered", "healthy", "circuit_open", "in_selection"})
_LANE = frozenset({"busy", "waiting"})


def parse_observer_endpoints(body: bytes, *, journal: bool = False) -> tuple[str, int | None, tuple[WorkerRow, ...]]:
    """Boot identity, registry revision and rows of ``GET /observer/endpoints``. Strict: unknown fields are refused.

    With ``journal`` (llm-d) a present ``last_job`` must carry a boolean ``recent_dispatch``; for the other routers it
    is kept raw and not interpreted. Raises `ViewError`.
    """
    document = _known(_decode(body), "payload", _PAYLOAD)
    router = _known(document.get("router"), "router", _ROUTER)
    boot = _integer(router.get("boot_generation"), 1, MAX_BOOT)
    if boot is None:
        raise ViewError(
            f"router.boot_generation is {_shown(router.get('boot_generation'))}, a positive integer of 64 bits is wanted"
        )
    told = document.get("registry_revision")
    revision = _integer(told, -MAX_REVISION - 1, MAX_REVISION)
    if told is not None and revision is None:
        raise ViewError(f"registry_revision is {_shown(told)}, an integer of 64 bits is wanted")
    rows = tuple(_observer_row(row, index, journal) for index, row in enumerate(_rows(document, "workers")))
    return str(boot), revision, rows


def _observer_row(raw: object, index: int, journal: bool) -> WorkerRow:
    where = f"workers[{index}]"
    row = _known(raw, where, _WORKER)
    selection = _known(row.get("selection"), f"{where}.selection", _SELECTION)
    flags: dict[str, bool] = {}
    for name in sorted(_SELECTION):
        value = selection.get(name)
        if not isinstance(value, bool):
            raise ViewError(f"{where}.selection.{name} is {_shown(value)}, a boolean is wanted")
        flags[name] = value
    url, host, url_port, rank = _address(row.get("url"), f"{where}.url")
    port = _port(row.get("port"), where)
    return WorkerRow(
        url=url,
        host=host,
        port=port if port is not None else url_port,
        rank=rank,
        role=_role(row.get("role"), where),
        registered=flags["registered"],
        healthy=flags["healthy"],
        circuit=Circuit.OPEN if flags["circuit_open"] else Circuit.CLOSED,
        in_selection=flags["in_selection"],
        load=_lane(row.get("lane"), where),
        recent_dispatch=_journal(row.get("last_job"), where) if journal else None,
    )


def _address(value: object, where: str) -> tuple[str, str, int | None, int | None]:
    if not isinstance(value, str) or not value:
        raise ViewError(f"{where} is {_shown(value)}, a non-empty string is wanted")
    try:
        return worker_address(value)
    except ViewError as error:
        raise ViewError(f"{where}: {error}") from None


def _role(value: object, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_ROLE:
        raise ViewError(f"{where}.role is {_shown(value)}, a name of at most {MAX_ROLE} characters is wanted")
    return value


def _port(value: object, where: str) -> int | None:
    if value is None or value == "":
        return None
    digits = isinstance(value, str) and len(value) <= _PORT_DIGITS and value.isascii() and value.isdecimal()
    if digits and isinstance(value, str) and 0 < int(value) < 65_536:
        return int(value)
    raise ViewError(f"{where}.port is {_shown(value)}, a port number in a string is wanted")


def _lane(value: object, where: str) -> float | None:
    if value is None:
        return None
    lane = _known(value, f"{where}.lane", _LANE)
    total = 0.0
    for part in lane.values():
        if isinstance(part, bool):
            total += float(part)
        elif isinstance(part, int) and _is_count(part):
            total += part
        else:
            raise ViewError(f"{where}.lane holds {_shown(part)}, a count is wanted")
    # a part of it is not the load
    return total if len(lane) == len(_LANE) else None


def _journal(value: object, where: str) -> bool | None:
    if value is None:
        return None
    recent = value.get("recent_dispatch") if isinstance(value, dict) else None
    if not isinstance(recent, bool):
        raise ViewError(f"{where}.last_job has no boolean recent_dispatch: whether it still got requests is not known")
    return recent


def parse_workers(body: bytes) -> tuple[WorkerRow, ...]:
    """Rows of ``GET /workers``; ``is_healthy`` must be a boolean, unknown fields are normal. Raises `ViewError`."""
    rows = []
    for index, raw in enumerate(_rows(_decode(body), "workers")):
        if not isinstance(raw, dict):
            raise ViewError(f"workers[{index}] is {type(raw).__name__}, an object is wanted")
        healthy, load = raw.get("is_healthy"), raw.get("load")
        url, host, port, rank = _address(raw.get("url"), f"workers[{index}].url")
        if not isinstance(healthy, bool):
            raise ViewError(f"workers[{index}].is_healthy is {_shown(healthy)}, a boolean is wanted")
        role = raw.get("worker_type")
        rows.append(
            WorkerRow(
                url=url,
                host=host,
                port=port,
                rank=rank,
                role=role[:MAX_ROLE] if isinstance(role, str) else "",
                healthy=healthy,
                load=float(load) if _is_count(load) else None,
            )
        )
    return tuple(rows)


def parse_list_workers(body: bytes) -> tuple[WorkerRow, ...]:
    """Rows of ``GET /list_workers``: URLs only, so health is not known. Raises `ViewError`."""
    rows = []
    for index, url in enumerate(_rows(_decode(body), "urls")):
        shown, host, port, rank = _address(url, f"urls[{index}]")
        rows.append(WorkerRow(url=shown, host=host, port=port, rank=rank))
    return tuple(rows)


def parse_plugin_state(body: bytes) -> tuple[tuple[str, float], ...]:
    """``(endpoint, requests in flight)`` that any llm-d plugin tracks in ``/debug/plugins/state``. Raises `ViewError`.

    A plugin of another shape is passed over: only some plugins count endpoints.
    """
    plugins = _decode(body).get("plugins")
    if not isinstance(plugins, dict):
        raise ViewError(f"plugins is {type(plugins).__name__}, an object is wanted")
    found: dict[str, float] = {}
    for plugin in plugins.values():
        state = plugin.get("state") if isinstance(plugin, dict) else None
        endpoints = state.get("endpoints") if isinstance(state, dict) else None
        for entry in endpoints if isinstance(endpoints, list) else ():
            name = entry.get("endpoint") if isinstance(entry, dict) else None
            requests = entry.get("requests") if isinstance(entry, dict) else None
            if isinstance(name, str) and _is_count(requests):
                found[name] = max(found.get(name, 0.0), float(requests))
    return tuple(sorted(found.items()))


def join_circuits(rows: Iterable[WorkerRow], reading: CircuitReading | None) -> tuple[WorkerRow, ...]:
    """Rows of the worker API with circuits from the metrics port; ``None`` means that the port was not read.

    In selection: registered, healthy and circuit closed or half-open; False as soon as one refuses, else unknown when
    one is unknown. Series of workers that the API does not list are ignored: they outlive their worker.
    """
    states = {shown_url(url): state for url, state in reading.states} if reading is not None else {}
    finished = frozenset(map(shown_url, reading.finished)) if reading is not None else frozenset()
    joined = []
    for row in rows:
        circuit = Circuit.UNKNOWN
        if row.url in states:
            circuit = _CIRCUITS.get(states[row.url], Circuit.UNKNOWN)
        elif reading is not None and reading.whole and row.url not in finished:
            # The breaker's series is created by the first finished request: until then nothing can have opened it.
            # Where some series could not be read it may be one of those.
            circuit = Circuit.CLOSED
        joined.append(msgspec.structs.replace(row, circuit=circuit, in_selection=_selection(row, circuit)))
    return tuple(joined)


def _selection(row: WorkerRow, circuit: Circuit) -> bool | None:
    if not row.registered or row.healthy is False or circuit is Circuit.OPEN:
        return False
    if row.healthy is None or circuit is Circuit.UNKNOWN:
        return None
    return True


def rows_from_series(series: EndpointSeries) -> tuple[WorkerRow, ...]:
    """llm-d's rows from its series. Selection is known only when as many endpoints are fresh as there are endpoints.

    Raises `ViewError` when the gauge of fresh endpoints is absent or claims endpoints that no series names, and when
    some of the series could not be read.
    """
    if not series.whole:
        raise ViewError(
            "some of the endpoint series cannot be read: an endpoint that none of the others names is not gone"
        )
    if series.ready is None:
        raise ViewError("the ready-endpoints gauge is absent: an empty endpoint list cannot be told from an unread one")
    names = sorted(set(series.endpoints))
    if not names and series.ready > 0:
        raise ViewError(f"{series.ready:g} endpoints are ready and no per-endpoint series names them")
    agreed = True if len(names) == series.ready else None
    inflight = dict(series.inflight)
    return tuple(
        WorkerRow(endpoint=pod, rank=rank, healthy=agreed, in_selection=agreed, load=inflight.get(name))
        for name in names
        for pod, rank in (split_endpoint(name),)
    )
