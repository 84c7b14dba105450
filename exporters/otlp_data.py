"""Plain rows as OpenTelemetry metrics data: gauges, cumulative sums and histograms with honest start times.

Runs in the exporting thread. Imported only when OTLP is on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family

from exporters.family import FamilyType
from exporters.otlp_rows import Taken
from router_contract.readings import Histogram

SCOPE = "modeldeployment-observer"
_NANO = 1_000_000_000
_Key = tuple[str, tuple[str, ...]]


def resource(version: str) -> Resource:
    """Who we are; ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` win over our own words."""
    own = Resource({"service.name": SCOPE, "service.version": version})
    return own.merge(OTELResourceDetector().detect())


class Starts:
    """When each cumulative series began: no later than its first number, no earlier than the export before it.

    A series that falls, or that is back after an absence, has begun again.
    """

    def __init__(self, began: float) -> None:
        self._last = int(began * _NANO)
        self._known: dict[_Key, tuple[int, float]] = {}
        self._seen: dict[_Key, tuple[int, float]] = {}

    def of(self, key: _Key, number: float) -> int:
        """The start in nanoseconds of a series that now stands at ``number``."""
        start, before = self._known.get(key, (self._last, number))
        if number < before:
            start = self._last
        self._seen[key] = (start, number)
        return start

    def finish(self, at: int) -> None:
        """One export is complete; what it did not have is forgotten."""
        self._last, self._known, self._seen = at, self._seen, {}


class Converter:
    """Makes the data of one export after another; each is told the wall time (seconds) its rows were taken at."""

    def __init__(self, about: Resource, version: str, began: float) -> None:
        self._resource = about
        self._scope = InstrumentationScope(SCOPE, version)
        self._starts = Starts(began)

    def data(self, taken: Sequence[Taken], registry: CollectorRegistry | None, at: float) -> MetricsData:
        """Everything that has a series, the process's own metrics last."""
        now = int(at * _NANO)
        metrics = [*filter(None, (self._metric(each, now) for each in taken))]
        if registry is not None:
            metrics += filter(None, (self._metric(each, now) for each in own_rows(registry)))
        self._starts.finish(now)
        scope = ScopeMetrics(self._scope, metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _metric(self, taken: Taken, now: int) -> Metric | None:
        made: Gauge | Sum | HistogramData
        if taken.type is FamilyType.HISTOGRAM:
            buckets = [point for point in self._histograms(taken, now) if point is not None]
            made = HistogramData(buckets, AggregationTemporality.CUMULATIVE)
        elif taken.type is FamilyType.COUNTER:
            made = Sum(list(self._numbers(taken, now)), AggregationTemporality.CUMULATIVE, is_monotonic=True)
        else:
            made = Gauge(list(self._numbers(taken, now)))
        return Metric(taken.name, taken.help, taken.unit, made) if made.data_points else None

    def _numbers(self, taken: Taken, now: int) -> Iterator[NumberDataPoint]:
        for labels, value in taken.rows:
            if isinstance(value, Histogram):
                continue
            # A level has no start.
            start = self._starts.of((taken.name, labels), value) if taken.type is FamilyType.COUNTER else 0
            yield NumberDataPoint(_attributes(taken.labels, labels), start, now, float(value))

    def _histograms(self, taken: Taken, now: int) -> Iterator[HistogramDataPoint | None]:
        for labels, value in taken.rows:
            if isinstance(value, Histogram):
                yield self._histogram(taken, labels, value, now)

    def _histogram(
        self, taken: Taken, labels: tuple[str, ...], value: Histogram, now: int
    ) -> HistogramDataPoint | None:
        counts = [round(count) for count in value.counts]
        own = [after - before for before, after in zip([0, *counts], counts, strict=False)]
        bounds = value.bounds[:-1]
        if not counts or min(own) < 0 or not all(map(math.isfinite, bounds)) or value.bounds[-1] != math.inf:
            return None
        return HistogramDataPoint(
            attributes=_attributes(taken.labels, labels),
            start_time_unix_nano=self._starts.of((taken.name, labels), value.count),
            time_unix_nano=now,
            count=counts[-1],
            # Neither a sum that a program does not tell nor a least and a largest are known: all three stay unset.
            sum=value.sum if math.isfinite(value.sum) else None,  # type: ignore[arg-type]  # optional on the wire
            bucket_counts=own,
            explicit_bounds=bounds,
            min=None,  # type: ignore[arg-type]  # optional on the wire
            max=None,  # type: ignore[arg-type]  # optional on the wire
        )


def _attributes(names: Iterable[str], values: Iterable[str]) -> Mapping[str, str]:
    return {name: value for name, value in zip(names, values, strict=True) if value}


def own_rows(registry: CollectorRegistry) -> Iterator[Taken]:
    """The families of a registry as rows; of what it holds only gauges, counters and histograms are known here."""
    for family in registry.collect():
        if family.type == "histogram":
            if family.samples:  # one with labels of which none was observed has nothing to say yet
                yield _own_histogram(family)
        elif family.type in {"counter", "gauge", "unknown", "info"}:
            yield from _own_numbers(family)


def _own_numbers(family: Family) -> Iterator[Taken]:
    kind = FamilyType.COUNTER if family.type == "counter" else FamilyType.GAUGE
    by_shape: dict[tuple[str, tuple[str, ...]], list[tuple[tuple[str, ...], float]]] = {}
    for sample in family.samples:
        if not sample.name.endswith("_created"):
            shape = (sample.name, tuple(sample.labels))
            by_shape.setdefault(shape, []).append((tuple(sample.labels.values()), sample.value))
    for (name, labels), rows in by_shape.items():
        yield Taken(name=name, help=family.documentation, type=kind, labels=labels, rows=tuple(rows))


def _own_histogram(family: Family) -> Taken:
    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in family.samples:
        key = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        if sample.name.endswith("_bucket"):
            buckets.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    names = tuple(name for name, _ in next(iter(buckets), ()))
    rows = tuple(
        (
            tuple(value for _, value in key),
            Histogram(
                bounds=tuple(bound for bound, _ in pairs),
                counts=tuple(count for _, count in pairs),
                sum=sums.get(key, math.nan),
            ),
        )
        for key, pairs in buckets.items()
    )
    return Taken(name=family.name, help=family.documentation, type=FamilyType.HISTOGRAM, labels=names, rows=rows)
