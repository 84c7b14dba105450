"""Our own cost as a document and as metrics."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry, Histogram

from exporters.own_costs import DURATIONS, durations, own_cost_families, own_costs
from exporters.self_metrics import SelfMetrics
from exporters.snapshot import Snapshot
from router_contract.own_costs import MemoryPart, QueueDepth


class Costs:
    def memory(self) -> Sequence[MemoryPart]:
        return (MemoryPart(name="readings", bytes=800), MemoryPart(name="rest", bytes=None))

    def queues(self) -> Sequence[QueueDepth]:
        return (QueueDepth(name="reads", depth=3, unit="reads in flight"),)


def observed(*seconds: float) -> CollectorRegistry:
    registry = CollectorRegistry()
    kept = Histogram("lag_seconds", "Lag.", ("kind",), buckets=(0.01, 0.1, 1.0), registry=registry)
    for number, each in enumerate(seconds):
        kept.labels(str(number % 2)).observe(each)
    return registry


@pytest.mark.parametrize(
    ("seconds", "p50", "p99"),
    [
        pytest.param((0.005, 0.005, 0.005, 0.5), 0.01, 1.0, id="both label sets are counted together"),
        pytest.param((0.05,), 0.1, 0.1, id="one"),
        pytest.param((0.005, 5.0), 0.01, None, id="beyond the last bound nothing is said"),
    ],
)
def test_quantiles_are_bounds_of_buckets(seconds: tuple[float, ...], p50: float, p99: float | None) -> None:
    found = durations(observed(*seconds), "lag_seconds")
    assert found["count"] == len(seconds)
    assert found["meanSeconds"] == pytest.approx(sum(seconds) / len(seconds))
    assert (found["p50AtMostSeconds"], found["p99AtMostSeconds"]) == (p50, p99)


def test_what_was_never_measured_is_not_0() -> None:
    found = durations(observed(), "lag_seconds")
    assert found == {
        "count": 0,
        "meanSeconds": None,
        "p50AtMostSeconds": None,
        "p99AtMostSeconds": None,
        "p999AtMostSeconds": None,
    }


def test_every_duration_has_a_histogram_of_ours() -> None:
    tally = SelfMetrics("1", "3")
    tally.lagged(0.02)
    tally.scraped("engine", "Ok", 0.1, 10, 0.001)
    told = own_costs(Costs(), tally.registry)
    names = {metric.name for metric in tally.registry.collect()}
    assert set(DURATIONS.values()) <= names
    assert told["durations"]["loopLag"]["count"] == 1
    assert told["durations"]["parse"]["p50AtMostSeconds"] == 0.001
    assert [part["bytes"] for part in told["memory"]] == [800, None]


def test_a_part_that_nobody_can_tell_has_no_series() -> None:
    memory, queues = (list(family.rows(Snapshot((), (), ()))) for family in own_cost_families(Costs()))
    assert memory == [(("readings",), 800.0)]
    assert queues == [(("reads",), 3.0)]
