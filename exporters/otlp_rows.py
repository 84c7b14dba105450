"""Every series of one instant as plain rows, taken on the event loop; what turns them into OTLP runs elsewhere.

The rows are those of ``/metrics``: the same families, labels and numbers, and nothing where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from exporters.encoding import UNRENDERABLE
from exporters.family import Family, FamilyType, Row
from exporters.snapshot import Snapshot
from router_contract.readings import Histogram
from router_contract.targets import EndpointType, RoleKind

SERIES_LIMIT = 1_000_000
"""A family that would bring the rows above this is left out whole, as in ``/metrics``."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """One family's rows at one instant: name, help, type, label names, rows. Empty label values are not written."""

    name: str
    help: str
    type: FamilyType
    labels: tuple[str, ...]
    rows: tuple[Row, ...]
    unit: str = ""


def take(
    families: Sequence[Family], snapshot: Snapshot, left_out: Callable[[str, Exception | None], None]
) -> Iterator[Taken]:
    """The rows of each family in turn, so that the caller can let others run in between.

    ``left_out`` is told of a family whose rows cannot be made (with what was raised) or pass the limit (with nothing).
    """
    counts: list[Row] = []
    lines = 0
    for family in families:
        try:
            rows = tuple(counts if family.counts_series else family.rows(snapshot))
            size = sum(_lines(value) for _, value in rows)
        except UNRENDERABLE as error:
            left_out(family.name, error)
            continue
        if lines + size > SERIES_LIMIT:
            left_out(family.name, None)
            size, rows = 0, ()
        lines += size
        counts.append(((family.name,), float(size)))
        unit = _unit(family.name)
        yield Taken(name=family.name, help=family.help, type=family.type, labels=family.labels, rows=rows, unit=unit)


def _lines(value: float | Histogram) -> int:
    """The lines of a series in an exposition: what `observer_exposed_series` counts."""
    if not isinstance(value, Histogram):
        return 1
    return len(value.counts) + (2 if value.sum == value.sum else 0)


def _unit(name: str) -> str:
    """The unit in UCUM that a family's name states."""
    base = name.removesuffix("_total")
    units = {"_seconds": "s", "_bytes": "By", "_ratio": "1"}
    return next((unit for suffix, unit in units.items() if base.endswith(suffix)), "")


_GEN_AI = (
    ("gen_ai.server.time_to_first_token", "Time to the first token of an answer.", "time-to-first-token"),
    ("gen_ai.server.time_per_output_token", "Time per token after the first.", "time-per-output-token"),
    ("gen_ai.server.request.duration", "Time from a request to the end of its answer.", "request-duration"),
)
GEN_AI_SIGNALS = frozenset(signal for _, _, signal in _GEN_AI)
"""The signals of which `take_gen_ai` takes the running totals of roles."""
_OPERATIONS = {EndpointType.CHAT: "chat", EndpointType.EMBEDDINGS: "embeddings"}
_GEN_AI_LABELS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "modeldeployment.namespace",
    "modeldeployment.name",
    "modeldeployment.role",
)


def take_gen_ai(snapshot: Snapshot) -> Iterator[Taken]:
    """The server histograms of the GenAI conventions.

    Only of roles that give whole answers: in a disaggregated deployment a prefill's or a decode's time is not the time
    that the convention means. Only the mean time per token of each request is its time per output token; the time
    between two tokens is something else and is not sent under that name.
    """
    for name, text, signal in _GEN_AI:
        rows = tuple(_gen_ai_rows(snapshot, signal))
        yield Taken(name=name, help=text, type=FamilyType.HISTOGRAM, labels=_GEN_AI_LABELS, rows=rows, unit="s")


def _gen_ai_rows(snapshot: Snapshot, signal: str) -> Iterator[Row]:
    for report in snapshot.reports:
        deployment = report.deployment
        operation = _OPERATIONS.get(deployment.endpoint_type)
        whole = {role.name: role for role in deployment.roles if role.kind == RoleKind.SERVER}
        for measured in report.roles:
            role = whole.get(measured.name)
            if role is None or operation is None:
                continue
            labels = (operation, role.engine, deployment.model or "", report.key.namespace, report.key.name, role.name)
            total = measured.total(signal)
            if total is not None:
                yield labels, total
