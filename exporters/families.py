"""The table of our own metric families: everything the observer says about deployments and about what it reads.

A series exists only while what it says is known: a level that is no longer fresh, a counter that was never read and a
replica count of a deployment whose Pods could not be listed are absent, never 0. Counters are the observer's running
totals: they never fall when an engine restarts. To add a family, add a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import msgspec

from exporters.family import DEPLOYMENT, POD, RANK, ROLE, Family, FamilyType, Row
from exporters.snapshot import Snapshot, TargetView
from exporters.status_families import STATUS_FAMILIES
from router_contract.readings import SignalValue, State
from router_contract.signals import Combine
from router_contract.targets import Component
from router_contract.verdicts import TargetStatus


class Measured(msgspec.Struct, frozen=True):
    """A family whose numbers are one signal of each engine: a level, or a running total when ``counter``.

    ``kept`` is a label of the signal's values that becomes a label of the series.
    """

    name: str
    help: str
    signal: str
    counter: bool = False
    kept: str = ""
    combine: Combine = Combine.ADD

    def family(self) -> Family:
        """The row as a family."""
        return Family(
            name=self.name,
            help=self.help,
            type=FamilyType.COUNTER if self.counter else FamilyType.GAUGE,
            labels=(*RANK, self.kept) if self.kept else RANK,
            rows=self._rows,
            signals=frozenset({self.signal}),
        )

    def _rows(self, snapshot: Snapshot) -> Iterator[Row]:
        for target in snapshot.of(Component.ENGINE):
            yield from self._target_rows(target)

    def _target_rows(self, target: TargetView) -> Iterator[Row]:
        values = target.values.get(self.signal, ())
        if len(values) == 1:  # nearly always, and then there is nothing to add up
            number = self._number(values[0])
            if number is not None:
                yield self._key(target, values[0]), 0 + number  # a sum, as below: no zero has a sign
            return
        groups: dict[tuple[str, ...], list[float | None]] = {}
        for value in values:
            groups.setdefault(self._key(target, value), []).append(self._number(value))
        for key, parts in groups.items():
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):  # a sum of which a part is not known is none
                yield key, sum(known) / len(known) if self.combine is Combine.WEIGH else sum(known)

    def _key(self, target: TargetView, value: SignalValue) -> tuple[str, ...]:
        labels = dict(value.labels)
        rank = labels.get("rank", "")
        return (*target.labels, rank, labels.get(self.kept, "")) if self.kept else (*target.labels, rank)

    def _number(self, value: SignalValue) -> float | None:
        if self.counter:
            found = value.running_total if value.state is not State.MISSING else None
        else:
            found = value.value if value.state is State.FRESH else None
        # None of these families can be below zero or without end, whoever made the value.
        return found if found is not None and 0 <= found < math.inf else None


MEASURED = (
    Measured(
        "modeldeployment_requests_running", "Requests an engine works on, waiting ones aside.", "requests-running"
    ),
    Measured("modeldeployment_requests_waiting", "Requests that wait in an engine's queue.", "requests-waiting"),
    Measured(
        "modeldeployment_kv_cache_usage_ratio",
        "Share of an engine's KV cache in use by running requests, 0 to 1.",
        "kv-cache-usage",
        combine=Combine.WEIGH,
    ),
    Measured("modeldeployment_input_tokens_total", "Prompt tokens processed.", "prompt-tokens", counter=True),
    Measured("modeldeployment_output_tokens_total", "Tokens generated.", "generation-tokens", counter=True),
    Measured(
        "modeldeployment_prefix_query_tokens_total",
        "Tokens looked up in an engine's own prefix cache.",
        "prefix-cache-queries",
        counter=True,
    ),
    Measured(
        "modeldeployment_prefix_hit_tokens_total",
        "Tokens found in an engine's own prefix cache.",
        "prefix-cache-hits",
        counter=True,
    ),
    Measured(
        "modeldeployment_preemptions_total",
        "Requests that lost their KV blocks to others.",
        "preemptions",
        counter=True,
    ),
    Measured(
        "modeldeployment_requests_finished_total",
        "Requests an engine finished, by the engine's reason.",
        "requests-finished",
        counter=True,
        kept="reason",
    ),
)

MERGED = (
    (
        "modeldeployment_time_to_first_token_seconds",
        "Time from arrival to the first token, as engines measure it.",
        "time-to-first-token",
    ),
    (
        "modeldeployment_inter_token_latency_seconds",
        "Time between two tokens of one answer, as engines measure it.",
        "inter-token-latency",
    ),
    ("modeldeployment_request_duration_seconds", "Time from arrival to the end of an answer.", "request-duration"),
    ("modeldeployment_queue_time_seconds", "Time a request waited before an engine began it.", "queue-time"),
)
"""Histograms merged over a role's engines: family, help and signal."""


def _merged(name: str, text: str, signal: str) -> Family:
    def rows(snapshot: Snapshot) -> Iterator[Row]:
        for report in snapshot.reports:
            for role in report.roles:
                total = role.total(signal)
                if total is not None:
                    yield (report.key.namespace, report.key.name, role.name), total

    return Family(name=name, help=text, type=FamilyType.HISTOGRAM, labels=ROLE, rows=rows, totals=frozenset({signal}))


def _bucket_mismatch(snapshot: Snapshot) -> Iterator[Row]:
    for report in snapshot.reports:
        for role in report.roles:
            for signal in role.mismatched:
                yield (report.key.namespace, report.key.name, role.name, signal), 1.0


def _info(snapshot: Snapshot) -> Iterator[Row]:
    for report in snapshot.reports:
        deployment = report.deployment
        engine = next((role.engine for role in deployment.roles if role.engine), "")
        labels = (deployment.key.namespace, deployment.key.name, deployment.model or "", engine, deployment.platform)
        yield labels, 1.0


def _created(snapshot: Snapshot) -> Iterator[Row]:
    for report in snapshot.reports:
        if report.deployment.created_at is not None:
            yield (report.key.namespace, report.key.name), report.deployment.created_at


def _generation(snapshot: Snapshot) -> Iterator[Row]:
    for report in snapshot.reports:
        if report.deployment.generation is not None:
            yield (report.key.namespace, report.key.name), float(report.deployment.generation)


def _observed_generation(snapshot: Snapshot) -> Iterator[Row]:
    for report in snapshot.reports:
        if report.deployment.observed_generation is not None:
            yield (report.key.namespace, report.key.name), float(report.deployment.observed_generation)


def _endpoint_info(snapshot: Snapshot) -> Iterator[Row]:
    for report in snapshot.reports:
        nodes = {member.uid: member.node for role in report.deployment.roles for member in role.members()}
        for target in report.targets:
            status = target.status
            if status.component is Component.ENGINE:
                pod = (report.key.namespace, report.key.name, status.role, status.member, str(status.key.port))
                yield (*pod, nodes.get(status.key.member_uid) or "", status.software, status.version or ""), 1.0


_LAST_SUCCESS_SOURCE = {Component.ENGINE: "metrics", Component.ROUTER: "router", Component.STORE: "store"}


def _last_success(snapshot: Snapshot) -> Iterator[Row]:
    for target in snapshot.targets:
        if target.status.last_success is not None:
            yield (*target.labels, _LAST_SUCCESS_SOURCE[target.status.component]), target.status.last_success


def _resets(snapshot: Snapshot) -> Iterator[Row]:
    for target in snapshot.of(Component.ENGINE):
        if target.status.last_success is not None:
            yield target.labels, float(target.status.resets)


def _targets(snapshot: Snapshot) -> Iterator[Row]:
    counts: dict[tuple[str, ...], int] = {}
    for status in snapshot.statuses:
        key = (status.component.value, status.state.value)
        counts[key] = counts.get(key, 0) + 1
    return ((key, float(count)) for key, count in sorted(counts.items()))


def _per_software(names: Callable[[TargetStatus], tuple[str, ...]]) -> Callable[[Snapshot], Iterator[Row]]:
    """Rows that count different names over all targets of one program and version that were read."""

    def rows(snapshot: Snapshot) -> Iterator[Row]:
        found: dict[tuple[str, ...], set[str]] = {}
        for status in snapshot.statuses:
            if status.last_success is not None:
                found.setdefault((status.software, status.version or ""), set()).update(names(status))
        return ((key, float(len(members))) for key, members in sorted(found.items()))

    return rows


FAMILIES: tuple[Family, ...] = (
    Family(
        name="modeldeployment_info",
        help="A deployment that is observed, with what does not change about it.",
        labels=(*DEPLOYMENT, "model", "engine", "platform"),
        rows=_info,
    ),
    Family(
        name="modeldeployment_created_timestamp_seconds",
        help="When the deployment was created.",
        labels=DEPLOYMENT,
        rows=_created,
    ),
    Family(
        name="modeldeployment_metadata_generation",
        help="The generation of the deployment's specification.",
        labels=DEPLOYMENT,
        rows=_generation,
    ),
    Family(
        name="modeldeployment_status_observed_generation",
        help="The generation that the deployment's operator has acted on.",
        labels=DEPLOYMENT,
        rows=_observed_generation,
    ),
    *STATUS_FAMILIES,
    Family(
        name="modeldeployment_endpoint_info",
        help="An engine endpoint that is read, with what does not change about it.",
        labels=(*POD, "node", "engine", "engine_version"),
        rows=_endpoint_info,
    ),
    Family(
        name="modeldeployment_endpoint_last_success_timestamp_seconds",
        help="When an endpoint last gave a good answer, by what was asked.",
        labels=(*POD, "source"),
        rows=_last_success,
    ),
    Family(
        name="modeldeployment_engine_resets_total",
        help="Restarts of an engine's counters seen since the observer began to read it.",
        type=FamilyType.COUNTER,
        labels=POD,
        rows=_resets,
    ),
    *(measured.family() for measured in MEASURED),
    *(_merged(*row) for row in MERGED),
    Family(
        name="modeldeployment_bucket_mismatch",
        help="A role's histogram that cannot be merged because its engines share no bucket bound.",
        labels=(*ROLE, "signal"),
        rows=_bucket_mismatch,
        totals=frozenset(signal for _, _, signal in MERGED),
    ),
    Family(
        name="observer_targets",
        help="Targets by kind of program and state.",
        labels=("source", "state"),
        rows=_targets,
    ),
    Family(
        name="observer_unknown_families",
        help="Metric families of a program and version that its table does not know.",
        labels=("software", "version"),
        rows=_per_software(lambda status: status.unknown_families),
    ),
    Family(
        name="observer_missing_signals",
        help="Signals in the table of a program and version that its answers did not have.",
        labels=("software", "version"),
        rows=_per_software(lambda status: status.absent),
    ),
    Family(
        name="observer_exposed_series",
        help="Series of this exposition by family.",
        labels=("family",),
        counts_series=True,
    ),
)
