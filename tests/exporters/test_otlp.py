"""What arrives at a collector over OTLP equals `/metrics` at the same instant, and a failing collector is visible."""

from __future__ import annotations

import ast
import asyncio
import logging
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client import ProcessCollector, generate_latest

from exporters.families import FAMILIES
from exporters.family import Family, FamilyType
from exporters.otlp_data import Converter, Starts, own_rows, resource
from exporters.otlp_options import OtlpError, OtlpPlan, OtlpSettings, plan
from exporters.otlp_rows import Taken, take, take_gen_ai
from exporters.otlp_send import CLOSE_SECONDS, exporter
from exporters.prometheus import Renderer
from exporters.self_metrics import SelfMetrics
from exporters.snapshot import snapshot
from observer.app.otlp import OtlpPart, otlp_part
from router_contract.readings import Histogram, MissingCode
from router_contract.targets import EndpointType
from router_contract.verdicts import RoleMeasurement, TargetState
from tests.exporters.judged import EVERYTHING
from tests.exporters.otlp_points import attributes, decoded, exposed, metrics
from tests.exporters.page_world import Clock
from tests.exporters.reports import WALL, Pods, counter, gauge, gone, hist, report
from tests.exporters.sources import Reports
from tests.fakes.otlp_collector import grpc_collector, http_collector

COLLECTORS = {"grpc": grpc_collector, "http/protobuf": http_collector}
NO_SUM = replace(
    hist("queue-time", 2.0),
    running_histogram=Histogram(bounds=(1.0, math.inf), counts=(1.0, 2.0), sum=math.nan),
)


def source() -> Reports:
    role = RoleMeasurement(
        name="server", values=(hist("time-to-first-token", 9.0), hist("time-per-output-token", 4.0), NO_SUM)
    )
    measured = report(
        Pods(desired=None)
        .pod("a", gauge("requests-running", 3.0), counter("prompt-tokens", 5.0), gone("requests-waiting"))
        .pod("b", gauge("requests-running", 0.0), gone("kv-cache-usage", MissingCode.UNREADABLE))
        .pod("c", state=TargetState.FAILING),
        roles=(role,),
        model="tiny",
    )
    key = replace(measured.key, name="measured")
    return Reports(EVERYTHING, replace(measured, deployment=replace(measured.deployment, key=key)))


def tally() -> SelfMetrics:
    made = SelfMetrics("1", "3.11")
    made.scraped("engine", "Ok", 0.02, 4000, 0.001)
    made.answered("/metrics", 200)
    ProcessCollector(registry=made.registry)
    return made


@contextmanager
def pushing(protocol: str, monkeypatch, reports: Reports, own: SelfMetrics, *, gen_ai: bool = False, **environ: str):
    """A part, its open sender, and the collector it sends to."""
    with COLLECTORS[protocol]() as collected:
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": collected.url, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol} | environ
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        part = otlp_part(OtlpSettings(gen_ai_names=gen_ai), told, FAMILIES, reports, own, Clock(), "1.2.3")
        assert isinstance(part, OtlpPart)
        with part._sender() as sender:
            yield part, sender, collected


@pytest.mark.parametrize("protocol", COLLECTORS)
async def test_what_arrives_equals_metrics(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reports, own = source(), tally()
    with pushing(protocol, monkeypatch, reports, own, OTEL_EXPORTER_OTLP_HEADERS="x-token=abc") as (part, sender, got):
        rows = [report for key in sorted(reports.reports) if (report := reports.deployment(key)) is not None]
        text = Renderer(FAMILIES, own.registry).render(snapshot(rows, reports.targets())).body.decode()
        assert sender.offer(await part.take(), WALL)
        assert sender.wait(20)
    wanted, found = exposed(text), decoded(got.requests)
    # The process's own figures move between the two looks; that they are there is what counts.
    moving = {key for key in wanted if key[0].startswith("process_")}
    assert moving <= found.keys()
    assert {key: value for key, value in found.items() if key not in moving} == {
        key: value for key, value in wanted.items() if key not in moving
    }
    assert all(headers["x-token"] == "abc" for headers in got.headers)
    print(f"figure: {len(found)} series decoded over {protocol}, all equal to /metrics")


@pytest.mark.parametrize("protocol", COLLECTORS)
async def test_unknown_is_no_point_and_kinds_are_honest(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pushing(protocol, monkeypatch, source(), tally()) as (part, sender, got):
        sender.offer(await part.take(), WALL)
        assert sender.wait(20)
    by_name = {metric.name: metric for metric in metrics(got.requests)}
    running = by_name["modeldeployment_requests_running"].gauge.data_points
    values = {dict(attributes(point.attributes))["pod"]: point.as_double for point in running}
    # a 0 that was read is a point; a Pod that could not be read, and a level that it did not tell, are none
    assert (values["a"], values["b"]) == (3.0, 0.0)
    assert "c" not in values
    assert "modeldeployment_requests_waiting" not in by_name
    tokens = by_name["modeldeployment_input_tokens_total"]
    assert tokens.sum.is_monotonic
    assert tokens.sum.aggregation_temporality == 2
    (point,) = tokens.sum.data_points
    assert (point.time_unix_nano, point.start_time_unix_nano) == (int(WALL * 1e9), int(WALL * 1e9))
    queue = by_name["modeldeployment_queue_time_seconds"]
    assert queue.unit == "s"
    assert not queue.histogram.data_points[0].HasField("sum")
    phases = by_name["modeldeployment_status_phase"].gauge.data_points
    assert sum(point.as_double for point in phases) == 1


async def test_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"OTEL_RESOURCE_ATTRIBUTES": "k8s.cluster.name=east", "OTEL_SERVICE_NAME": "watch-east"}
    with pushing("grpc", monkeypatch, source(), tally(), **told) as (part, sender, got):
        sender.offer(await part.take(), WALL)
        assert sender.wait(20)
    about = dict(attributes(got.requests[0].resource_metrics[0].resource.attributes))
    assert about == {"service.name": "watch-east", "service.version": "1.2.3", "k8s.cluster.name": "east"}
    scope = got.requests[0].resource_metrics[0].scope_metrics[0].scope
    assert (scope.name, scope.version) == ("modeldeployment-observer", "1.2.3")


async def test_gen_ai_names_only_where_a_signal_means_that(monkeypatch: pytest.MonkeyPatch) -> None:
    with pushing("grpc", monkeypatch, source(), tally(), gen_ai=True) as (part, sender, got):
        sender.offer(await part.take(), WALL)
        assert sender.wait(20)
    found = {key: value for key, value in decoded(got.requests).items() if key[0].startswith("gen_ai.")}
    labels = (
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "vllm"),
        ("gen_ai.request.model", "tiny"),
        ("modeldeployment.name", "measured"),
        ("modeldeployment.namespace", "prod"),
        ("modeldeployment.role", "server"),
    )
    shape = ((1.0, math.inf), (50.0, 50.0), 25.0)
    assert found == {
        ("gen_ai.server.time_to_first_token", labels): shape,
        ("gen_ai.server.time_per_output_token", labels): shape,
    }


@pytest.mark.parametrize(
    ("kind", "endpoint", "count"),
    [
        ("Server", EndpointType.CHAT, 1),
        ("Server", EndpointType.EMBEDDINGS, 1),
        ("Server", EndpointType.RERANK, 0),
        ("Prefill", EndpointType.CHAT, 0),
        ("Decode", EndpointType.CHAT, 0),
    ],
)
def test_gen_ai_names_only_of_whole_answers(kind: str, endpoint: EndpointType, count: int) -> None:
    measured = (RoleMeasurement(name="part", values=(hist("request-duration", 9.0),)),)
    made = report(Pods("part", kind).pod("a"), roles=measured, endpoint_type=endpoint)
    assert sum(len(each.rows) for each in take_gen_ai(snapshot((made,), ()))) == count


@pytest.mark.parametrize("protocol", COLLECTORS)
async def test_a_collector_that_refuses_is_visible_and_logged_on_change(
    protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = tally()
    with pushing(protocol, monkeypatch, source(), own) as (part, sender, got):
        for refuse in (True, True, False, False):
            got.refuse = refuse
            assert sender.offer(await part.take(), WALL)
            assert sender.wait(20)
            assert bool(sender.failing) is refuse
    text = generate_latest(own.registry).decode()
    assert 'observer_otlp_exports_total{result="Failed"} 2.0' in text
    assert 'observer_otlp_exports_total{result="Ok"} 2.0' in text
    assert f'observer_otlp_last_success_timestamp_seconds{{protocol="{protocol}"}} 1.8e+09' in text
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 2, said
    assert said[0].startswith("metrics are not pushed over OTLP: ")
    assert "403" in said[0] or "PERMISSION_DENIED" in said[0]
    assert said[1] == "metrics are pushed over OTLP again"


async def test_a_collector_that_hangs_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    own = tally()
    with pushing("http/protobuf", monkeypatch, source(), own) as (part, sender, got):
        got.hold.clear()
        rows = await part.take()
        assert sender.offer(rows, WALL)
        assert got.entered.wait(10)
        began = time.perf_counter()
        assert not any(sender.offer(rows, WALL) for _ in range(100))
        took = time.perf_counter() - began
        got.hold.set()
        assert sender.wait(20)
        assert sender.offer(rows, WALL + 1)
        assert sender.wait(20)
    assert took < 0.5
    assert 'observer_otlp_exports_total{result="Skipped"} 100.0' in generate_latest(own.registry).decode()


async def test_ending_while_a_collector_hangs_takes_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pushing("grpc", monkeypatch, source(), tally()) as (part, sender, got):
        got.hold.clear()
        sender.offer(await part.take(), WALL)
        assert await asyncio.to_thread(got.entered.wait, 10)
        began = time.perf_counter()
        sender.close()
        took = time.perf_counter() - began
        got.hold.set()
        with pytest.raises(RuntimeError, match="the thread that pushes over OTLP has ended"):
            sender.offer([], WALL)
        monkeypatch.setattr(sender, "close", lambda: None)  # what opened it closes it once
    assert took < CLOSE_SECONDS + 1


def test_no_success_is_no_time_of_success(monkeypatch: pytest.MonkeyPatch) -> None:
    own = tally()
    with pushing("grpc", monkeypatch, source(), own):
        pass
    assert "observer_otlp_last_success_timestamp_seconds{" not in generate_latest(own.registry).decode()


def broken(_: object) -> Iterator[object]:
    yield ("prod",), 1.0
    raise OverflowError("a number beyond all")


def test_a_family_that_cannot_be_made_is_left_out_and_named() -> None:
    bad = Family(name="bad", help="Bad.", labels=("namespace",), rows=broken)
    told: list[str] = []
    made = take((bad, *FAMILIES), snapshot((EVERYTHING,), ()), lambda name, error: told.append(f"{name}: {error}"))
    assert [each.name for each in made] == [family.name for family in FAMILIES]
    assert told == ["bad: a number beyond all"]


def points(converter: Converter, at: float, **totals: float) -> dict[str, int]:
    """The start of each series, in seconds."""
    rows = tuple(((name,), number) for name, number in totals.items())
    taken = Taken(name="made_total", help="", type=FamilyType.COUNTER, labels=("pod",), rows=rows)
    data = converter.data([taken], None, at)
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics or (None,)
    return {p.attributes["pod"]: p.start_time_unix_nano // 1_000_000_000 for p in metric.data.data_points}


def test_a_series_starts_where_its_numbers_did() -> None:
    converter = Converter(resource("1"), "1", 100.0)
    assert points(converter, 110.0, a=5.0) == {"a": 100}
    assert points(converter, 120.0, a=9.0, b=1.0) == {"a": 100, "b": 110}  # b is new since the last export
    assert points(converter, 130.0, a=2.0, b=1.0) == {"a": 120, "b": 110}  # a fell: it began again
    assert points(converter, 140.0, a=3.0) == {"a": 120}
    assert points(converter, 150.0, a=3.0, b=1.0) == {"a": 120, "b": 140}  # b was gone


def test_starts_forget_what_is_gone() -> None:
    starts = Starts(0.0)
    for number in range(1000):
        starts.of(("name", (str(number),)), 1.0)
        starts.finish(number)
    assert len(starts._known) == 1


def test_buckets_that_fall_are_no_point() -> None:
    torn = Histogram(bounds=(1.0, math.inf), counts=(5.0, 3.0), sum=1.0)
    taken = Taken(name="torn", help="", type=FamilyType.HISTOGRAM, labels=(), rows=(((), torn),))
    data = Converter(resource("1"), "1", 0.0).data([taken], None, 1.0)
    assert not data.resource_metrics[0].scope_metrics[0].metrics


def test_every_own_family_is_known() -> None:
    own = tally()
    names = {each.name for each in own_rows(own.registry)}
    assert names == {key[0] for key in exposed(generate_latest(own.registry).decode())}


PLANS: dict[str, tuple[OtlpSettings, dict[str, str], OtlpPlan | None]] = {
    "nothing said": (OtlpSettings(), {}, None),
    "an endpoint": (
        OtlpSettings(),
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"},
        OtlpPlan(protocol="grpc", period=60.0),
    ),
    "an endpoint for metrics, over HTTP, each 5 s": (
        OtlpSettings(),
        {
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
            "OTEL_METRIC_EXPORT_INTERVAL": "5000",
        },
        OtlpPlan(protocol="http/protobuf", period=5.0),
    ),
    "an exporter of another name": (
        OtlpSettings(),
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_METRICS_EXPORTER": "none"},
        None,
    ),
    "the exporter named": (OtlpSettings(), {"OTEL_METRICS_EXPORTER": "otlp"}, OtlpPlan(protocol="grpc", period=60.0)),
    "the SDK turned off": (
        OtlpSettings(),
        {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"},
        None,
    ),
    "settings turn it on": (
        OtlpSettings(enabled=True, gen_ai_names=True),
        {},
        OtlpPlan(protocol="grpc", period=60.0, gen_ai_names=True),
    ),
    "settings turn it off": (OtlpSettings(enabled=False), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, None),
}


@pytest.mark.parametrize(("settings", "environ", "wanted"), PLANS.values(), ids=PLANS)
def test_what_turns_it_on(settings: OtlpSettings, environ: dict[str, str], wanted: OtlpPlan | None) -> None:
    assert plan(settings, environ) == wanted


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json'; want grpc or http/"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "soon", "OTEL_METRIC_EXPORT_INTERVAL is 'soon'; want milliseconds, 1000 to"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "10", "OTEL_METRIC_EXPORT_INTERVAL is '10'; want milliseconds, 1000 to"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "nan", "OTEL_METRIC_EXPORT_INTERVAL is 'nan'; want milliseconds"),
    ],
)
def test_what_the_environment_says_wrongly(name: str, value: str, said: str) -> None:
    with pytest.raises(OtlpError, match=said):
        plan(OtlpSettings(enabled=True), {name: value})


def test_a_setup_that_cannot_be_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "rot13")
    with pytest.raises(OtlpError, match="OTLP over grpc cannot be set up"):
        exporter(OtlpPlan(protocol="grpc", period=60.0))


def test_opentelemetry_is_imported_only_when_on() -> None:
    """Neither the command line nor the whole application loads it; the modules that do are named here."""
    code = "import sys, observer.app.watcher, observer.cli; print(any('opentelemetry' in name for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    root = Path(__file__).resolve().parents[2]
    users = set()
    for file in [*root.glob("exporters/**/*.py"), *root.glob("observer/**/*.py")]:
        tree = ast.parse(file.read_text())
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        if any(name.startswith("opentelemetry") for name in names):
            users.add(file.name)
    assert users == {"otlp_data.py", "otlp_send.py"}
