"""What arrived over OTLP, and a Prometheus exposition, in one shape: name and labels to number or buckets."""

from __future__ import annotations

import math
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

Key = tuple[str, tuple[tuple[str, str], ...]]
Histogram = tuple[tuple[float, ...], tuple[float, ...], float | None]


def decoded(requests) -> dict[Key, float | Histogram]:
    """Every point of some requests; a point that comes twice is an error."""
    found: dict[Key, float | Histogram] = {}
    for metric in metrics(requests):
        data = getattr(metric, metric.WhichOneof("data"))
        for point in data.data_points:
            key = (metric.name, attributes(point.attributes))
            assert key not in found, key
            found[key] = _value(point)
    return found


def metrics(requests) -> Iterable:
    for request in requests:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                yield from scope.metrics


def attributes(pairs) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((pair.key, pair.value.string_value) for pair in pairs))


def _value(point) -> float | Histogram:
    if not hasattr(point, "bucket_counts"):
        return float(getattr(point, point.WhichOneof("value")))
    running, total = [], 0
    for count in point.bucket_counts:
        total += count
        running.append(float(total))
    assert total == point.count
    assert not point.HasField("min")
    assert not point.HasField("max")
    bounds = (*point.explicit_bounds, math.inf)
    return bounds, tuple(running), point.sum if point.HasField("sum") else None


def exposed(text: str) -> dict[Key, float | Histogram]:
    """Every series of an exposition, histograms whole."""
    found: dict[Key, float | Histogram] = {}
    for family in text_string_to_metric_families(text):
        if family.type == "histogram":
            found |= _histograms(family)
            continue
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                labels = tuple(sorted((name, value) for name, value in sample.labels.items() if value))
                found[(sample.name, labels)] = sample.value
    return found


def _histograms(family) -> dict[Key, Histogram]:
    buckets: dict[Key, list[tuple[float, float]]] = {}
    sums: dict[Key, float] = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        if sample.name.endswith("_bucket"):
            buckets.setdefault((family.name, labels), []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[(family.name, labels)] = sample.value
    return {
        key: (tuple(bound for bound, _ in pairs), tuple(count for _, count in pairs), sums.get(key))
        for key, pairs in buckets.items()
    }
