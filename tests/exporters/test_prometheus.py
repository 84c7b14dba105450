"""The renderer against `prometheus_client`, byte for byte, and the table of our families."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.utils import floatToGoString

from exporters import prometheus
from exporters.families import FAMILIES, MEASURED, MERGED
from exporters.family import Family, FamilyType
from exporters.prometheus import Format, Renderer, negotiate, numbers
from exporters.self_metrics import OK, SelfMetrics
from exporters.snapshot import Snapshot, snapshot
from router_contract.readings import Histogram, MissingCode, State
from router_contract.signals import SIGNALS, Kind
from router_contract.verdicts import RoleMeasurement, TargetState
from tests.exporters.reports import WALL, Pods, counter, gauge, gone, hist, report, status

EMPTY = Snapshot((), (), ())
INF = float("inf")


def test_a_sum_over_label_sets_is_absent_while_a_part_of_it_is_not_known():
    def sums(*values):
        shot = snapshot((report(Pods().pod("p", *values)),), ())
        return [
            value
            for family in FAMILIES
            if family.name.startswith("modeldeployment_requests_running")
            for _, value in family.rows(shot)
        ]

    two = [gauge("requests-running", 3.0, model=model) for model in ("a", "b")]
    assert sums(*two) == [6.0]
    assert sums(two[0], gone("requests-running", MissingCode.NOT_FINITE, model="b")) == []
    assert sums(two[0], replace(two[1], state=State.STALE)) == []


class Collector:
    """The same families as `prometheus_client` metrics; an empty label value is a label that is not written."""

    def __init__(self, families: tuple[Family, ...], shot: Snapshot) -> None:
        self._families, self._shot = families, shot

    def collect(self):
        kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "histogram": HistogramMetricFamily}
        for family in self._families:
            metric = kinds[family.type](family.name, family.help, labels=family.labels)
            for labels, value in family.rows(self._shot):
                kept = {name: text for name, text in zip(family.labels, labels, strict=True) if text}
                metric._labelnames = tuple(kept)
                if isinstance(value, Histogram):
                    buckets = [(floatToGoString(b), c) for b, c in zip(value.bounds, value.counts, strict=True)]
                    metric.add_metric(tuple(kept.values()), buckets, None if math.isnan(value.sum) else value.sum)
                else:
                    metric.add_metric(tuple(kept.values()), value)
            yield metric


def theirs(families: tuple[Family, ...], shot: Snapshot, target: Format) -> bytes:
    registry = CollectorRegistry()
    registry.register(Collector(families, shot))
    return generate_latest(registry) if target is Format.TEXT else generate_openmetrics(registry)


def family(name: str, kind: FamilyType, labels: tuple[str, ...], rows) -> Family:
    return Family(name=name, help="What it says, 100% of it.", type=kind, labels=labels, rows=lambda _: rows)


texts = st.text(max_size=8)
floats = st.floats(allow_nan=True, allow_infinity=True)
counts = st.lists(st.integers(0, 10**9), min_size=2, max_size=5).map(sorted)


@given(
    gauges=st.dictionaries(st.tuples(texts, texts), floats, max_size=6),
    totals=st.dictionaries(st.tuples(texts), st.floats(min_value=0, allow_infinity=False), max_size=4),
    histograms=st.dictionaries(st.tuples(texts), st.tuples(counts, floats), max_size=3),
)
@settings(max_examples=120, deadline=None)
def test_bytes_equal_the_library(gauges, totals, histograms) -> None:
    shapes = [
        (key, Histogram(bounds=(*(0.5 * (i + 1) for i in range(len(c) - 1)), INF), counts=tuple(map(float, c)), sum=s))
        for key, (c, s) in histograms.items()
    ]
    families = (
        family("a_level", FamilyType.GAUGE, ("z", "b"), list(gauges.items())),
        family("a_sum_total", FamilyType.COUNTER, ("only",), list(totals.items())),
        family("a_time_seconds", FamilyType.HISTOGRAM, ("role",), shapes),
    )
    renderer = Renderer(families)
    for target in Format:
        first = renderer.render(EMPTY, target)
        assert first.body == theirs(families, EMPTY, target)
        assert renderer.render(EMPTY, target) == first


@given(st.lists(floats, max_size=30))
def test_numbers_are_written_as_the_library_writes_them(values: list[float]) -> None:
    assert numbers(values) == [floatToGoString(value).encode() for value in values]


def test_the_layout_is_kept_and_follows_the_series() -> None:
    rows: list[tuple[tuple[str, ...], float]] = [(("a",), 1.0)]
    families = (family("level", FamilyType.GAUGE, ("pod",), rows),)
    renderer = Renderer(families)
    for change in ([(("a",), 2.0)], [(("a",), 2.0), (('b%b\n\\"',), 3.0)], [(("c",), 1e6)], []):
        rows[:] = change
        for target in Format:
            assert renderer.render(EMPTY, target).body == theirs(families, EMPTY, target)


def test_a_family_beyond_the_limit_is_left_out_whole_and_counted_as_none() -> None:
    families = (
        family("small", FamilyType.GAUGE, ("pod",), [((str(i),), 1.0) for i in range(3)]),
        family("large", FamilyType.GAUGE, ("pod",), [((str(i),), 1.0) for i in range(50)]),
        Family(name="exposed", help="h", labels=("family",), counts_series=True),
    )
    made = Renderer(families, series_limit=10).render(EMPTY)
    assert made.dropped == ("large",)
    assert made.body.decode().splitlines()[-2:] == ['exposed{family="small"} 3.0', 'exposed{family="large"} 0.0']


ACCEPTS = {
    "": Format.TEXT,
    "*/*": Format.TEXT,
    "text/plain": Format.TEXT,
    "application/openmetrics-text": Format.OPENMETRICS,
    "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1": Format.OPENMETRICS,
    "application/openmetrics-text;q=0.2,text/plain;version=0.0.4;q=0.9": Format.TEXT,
    "application/openmetrics-text;q=0": Format.TEXT,
    "application/openmetrics-text;version=2.0.0": Format.TEXT,
    "application/openmetrics-text;q=high": Format.TEXT,
    "text/html, application/openmetrics-text; version=0.0.1": Format.OPENMETRICS,
}


@pytest.mark.parametrize(("accept", "wanted"), ACCEPTS.items(), ids=ACCEPTS)
def test_negotiation(accept: str, wanted: Format) -> None:
    assert negotiate(accept) is wanted


def whole() -> Snapshot:
    role = RoleMeasurement(name="server", values=(hist("time-to-first-token", 4.0),), mismatched=("queue-time",))
    pods = Pods(desired=3).pod(
        "p",
        gauge("requests-running", 2.0, rank="0", model="m"),
        gauge("requests-running", 3.0, rank="1", model="m"),
        gauge("requests-waiting", 9.0, state=State.STALE),
        gone("kv-cache-usage"),
        counter("prompt-tokens", 1.0, value=70.0),
        counter("requests-finished", 1.0, value=5.0, reason="stop"),
        counter("requests-finished", 1.0, value=2.0, reason="length"),
        node="node-a",
        version="0.32.0",
    )
    router = Pods("router", "Router", "llm_d").pod("r", gauge("router-backends", 1.0))
    made = report(pods, router, roles=(role,), model="tiny", generation=4)
    statuses = (
        *(target.status for target in made.targets),
        status("x", state=TargetState.FAILING),
        replace(status("y"), version="0.32.0", unknown_families=("a", "b"), absent=("queue-time",)),
    )
    return snapshot((made,), statuses)


def lines(shot: Snapshot) -> list[str]:
    text = Renderer(FAMILIES).render(shot).body.decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_what_is_known_is_there_and_what_is_not_is_absent() -> None:
    pod = 'deployment="chat",namespace="prod",pod="p",port="8000"'
    found = lines(whole())
    wanted = [
        'modeldeployment_info{deployment="chat",engine="vllm",model="tiny",namespace="prod",platform="static"} 1.0',
        'modeldeployment_metadata_generation{deployment="chat",namespace="prod"} 4.0',
        'modeldeployment_replicas{deployment="chat",namespace="prod",role="server",state="desired"} 3.0',
        'modeldeployment_replicas{deployment="chat",namespace="prod",role="server",state="observed"} 1.0',
        (
            'modeldeployment_endpoint_info{deployment="chat",engine="vllm",engine_version="0.32.0",namespace="prod",'
            'node="node-a",pod="p",port="8000",role="server"} 1.0'
        ),
        f'modeldeployment_engine_resets_total{{{pod},role="server"}} 0.0',
        f'modeldeployment_requests_running{{{pod},rank="0",role="server"}} 2.0',
        f'modeldeployment_requests_running{{{pod},rank="1",role="server"}} 3.0',
        f'modeldeployment_input_tokens_total{{{pod},role="server"}} 70.0',
        f'modeldeployment_requests_finished_total{{{pod},reason="stop",role="server"}} 5.0',
        'modeldeployment_bucket_mismatch{deployment="chat",namespace="prod",role="server",signal="queue-time"} 1.0',
        'observer_targets{source="engine",state="Failing"} 1.0',
        'observer_targets{source="engine",state="Up"} 2.0',
        'observer_targets{source="router",state="Up"} 1.0',
        'observer_unknown_families{software="vllm",version="0.32.0"} 2.0',
        'observer_missing_signals{software="vllm",version="0.32.0"} 1.0',
        'observer_exposed_series{family="modeldeployment_requests_running"} 2.0',
    ]
    assert [line for line in wanted if line not in found] == []
    text = "\n".join(found)
    for absent in ("_requests_waiting{", "kv_cache_usage_ratio{", "output_tokens_total{", "observed_generation{"):
        assert absent not in text, absent


def test_a_router_is_no_engine_endpoint() -> None:
    found = [line for line in lines(whole()) if 'pod="r"' in line]
    assert [line.split("{")[0] for line in found] == ["modeldeployment_endpoint_last_success_timestamp_seconds"]
    assert found[0].endswith(f'source="router"}} {floatToGoString(WALL - 1)}')


def test_replicas_are_not_counted_without_a_list_of_pods() -> None:
    shot = snapshot((report(Pods(desired=1), complete=False),), ())
    assert [line for line in lines(shot) if "replicas" in line and 'state="observed"' in line] == []


def test_both_formats_parse_and_agree() -> None:
    metrics = SelfMetrics("0.1.0", "3.11")
    metrics.scraped("engine", OK, 0.01, 40_000, 0.001)
    metrics.scraped("engine", "Timeout", 2.0, 0, None)
    metrics.discarded("NotFinite", 3)
    metrics.overran("engine")
    metrics.lagged(0.002)
    metrics.answered("/livez", 200)
    renderer = Renderer(FAMILIES, metrics.registry)
    shot = whole()
    text = renderer.render(shot, Format.TEXT).body.decode()
    openmetrics = renderer.render(shot, Format.OPENMETRICS).body.decode()
    from_text = {(s.name, tuple(sorted(s.labels.items()))): s.value for f in parse_text(text) for s in f.samples}
    from_open = {
        (s.name, tuple(sorted(s.labels.items()))): s.value for f in parse_openmetrics(openmetrics) for s in f.samples
    }
    assert from_text == from_open
    assert from_text["observer_scrapes_total", (("result", "Timeout"), ("source", "engine"))] == 1
    assert openmetrics.endswith("# EOF\n")
    assert openmetrics.count("# EOF") == 1


@pytest.mark.parametrize("row", FAMILIES, ids=lambda row: row.name)
def test_names_follow_the_rules(row: Family) -> None:
    assert re.fullmatch(r"(modeldeployment|observer)_[a-z0-9_]+", row.name)
    assert row.name.endswith("_total") is (row.type is FamilyType.COUNTER)
    assert not set(row.help) & set('\\"\n')
    assert row.help.endswith(".")
    assert len(set(row.labels)) == len(row.labels)


@pytest.mark.parametrize("number", [-3.0, INF, -INF, math.nan])
def test_a_number_that_cannot_be_is_not_published(number: float) -> None:
    values = (counter(row.signal, None, value=number) if row.counter else gauge(row.signal, number) for row in MEASURED)
    shot = snapshot((report(Pods(desired=1).pod("p", *values)),), ())
    found = lines(shot)
    assert found
    assert not [line for line in found if line.startswith(tuple(row.name for row in MEASURED))]


def test_names_are_unique_and_signals_exist() -> None:
    names = [row.name for row in FAMILIES]
    assert len(set(names)) == len(names)
    for measured in MEASURED:
        signal = SIGNALS[measured.signal]
        assert (signal.kind is Kind.COUNTER) is measured.counter, measured.name
        assert measured.counter or signal.combine is measured.combine
    assert all(SIGNALS[signal].kind is Kind.HISTOGRAM for _, _, signal in MERGED)


@pytest.mark.parametrize("lines", [1, 3, 7, 1_000])
def test_in_steps_the_bytes_are_the_same(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "LINES_A_STEP", lines)
    shot = snapshot(
        [
            report(
                Pods().pod("p", gauge("requests-running", 2.0)), Pods("second").pod("q", gauge("requests-waiting", 1.0))
            )
        ],
        (),
    )
    stepped, at_once = Renderer(FAMILIES), Renderer(FAMILIES)
    for _ in range(2):
        steps = stepped.steps(shot)
        found, count = None, 0
        while found is None:
            try:
                next(steps)
                count += 1
            except StopIteration as end:
                found = end.value
        assert found == at_once.render(shot)
        assert count >= len(FAMILIES)


def test_a_rendering_that_is_left_half_way_leaves_nothing() -> None:
    first = snapshot([report(Pods().pod("p", gauge("requests-running", 2.0)))], ())
    other = snapshot(
        [report(Pods().pod("x", gauge("requests-running", 3.0)).pod("y", gauge("requests-running", 4.0)))], ()
    )
    renderer = Renderer(FAMILIES)
    renderer.render(first)
    steps = renderer.steps(other)
    for _ in range(len(FAMILIES) // 2):
        next(steps)
    steps.close()
    assert renderer.render(other) == Renderer(FAMILIES).render(other)
    assert renderer.render(first) == Renderer(FAMILIES).render(first)
