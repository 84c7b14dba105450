"""One harness for each reader of foreign bytes: what it is given, what it may answer, and where it begins.

A harness takes any bytes and returns; whatever it raises is a finding. The readers' own errors are answers, and each
harness checks of an answer what must always hold. The same functions run under atheris, under the plain driver, and
over the kept cases in the tests.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from fuzz import http_answers
from observer.clock import SystemClock
from observer.collect.promql_answer import error_type, parse_answer
from observer.collect.recording import Recorder, Recording, RecordingError
from observer.kube.client import ApiClient
from observer.kube.informer import Informer
from observer.kube.records import watched_documents, watched_pods
from observer.kube.resources import PODS
from observer.measure.exposition import Limits
from observer.measure.extract import Extractor, Frame, Unreadable
from observer.measure.ledger import Ledger
from observer.measure.stream_values import StreamLimits
from observer.measure.streams import Stream
from observer.settings import check_files
from observer.yamldoc.faults import Fault
from router_contract.canary_inputs import QueryAnswer, QueryTrouble
from router_contract.catalog import TABLES
from router_contract.contract import decode_router
from router_contract.endpoints import EventsForm
from router_contract.kv_events import LiveMessage, Rejected, ReplayEnd, read_live, read_reply
from router_contract.kv_streams import StreamKey, StreamSource
from router_contract.probe_parsers import ProbeError, parse_event_sources, parse_models, parse_version_told
from router_contract.readings import Instant
from router_contract.router_view_parsers import (
    parse_list_workers,
    parse_observer_endpoints,
    parse_plugin_state,
    parse_workers,
)
from router_contract.router_views import ViewError, WorkerRow, contradictions
from router_contract.targets import Component, DeploymentKey, KvEventSource

RECORDINGS = Path(__file__).parents[1] / "tests" / "recordings"
LIMITS = Limits(body_bytes=1 << 20, family_bytes=1 << 16, line_bytes=4096, family_series=500, labels=16)
NOW = Instant(100.0, 1.8e9)
Seeds = Callable[[], Iterator[bytes]]
_FENCE = b"\xff\xfe"
"""Between the frames of a message and between messages in the bytes of `kv_frames`."""


class Harness(msgspec.Struct, frozen=True):
    """``run`` takes any bytes; ``seeds`` are what a campaign begins with."""

    name: str
    run: Callable[[bytes], None]
    seeds: Seeds


# --- expositions ------------------------------------------------------------------------------------------------------

_TABLES = [table for component in Component for table in TABLES[component].values()]


def _check_frame(found: Frame | Unreadable) -> None:
    if isinstance(found, Unreadable):
        assert found.detail
        return
    for signal in found.signals():
        for series in found.series(signal):
            assert math.isfinite(series.value), (signal, series)
            held = series.histogram
            if held is not None:
                assert len(held.bounds) == len(held.counts), held
                assert all(low <= high for low, high in itertools.pairwise(held.counts)), held
                assert all(low < high for low, high in itertools.pairwise(held.bounds)), held
        assert found.series(signal) or found.missing(signal) is not None, signal


def _read_twice(data: bytes, *, openmetrics: bool) -> None:
    table = _TABLES[(data[0] if data else 0) % len(_TABLES)]
    extractor = Extractor(table, limits=LIMITS)
    first = extractor.read(data[1:], openmetrics=openmetrics)
    _check_frame(first)
    again = extractor.read(data[1:], previous=first if isinstance(first, Frame) else None, openmetrics=openmetrics)
    _check_frame(again)
    assert type(first) is type(again)
    if isinstance(first, Frame) and isinstance(again, Frame):
        assert first.signals() == again.signals(), "a body read again says the same"


def exposition(data: bytes) -> None:
    """Prometheus text. The first byte chooses the table."""
    _read_twice(data, openmetrics=False)


def openmetrics(data: bytes) -> None:
    """OpenMetrics text. The first byte chooses the table."""
    _read_twice(data, openmetrics=True)


def _bodies() -> Iterator[bytes]:
    """Whole small recordings and the first lines of the large ones, each for the table of its program."""
    for file in sorted(RECORDINGS.glob("*/*.prom"))[::4]:
        name = file.parent.name.rpartition("-")[0].replace("-", "_")
        for place, table in enumerate(_TABLES):
            if name.startswith(table.name.split("_", maxsplit=1)[0]):
                yield bytes([place]) + b"".join(file.read_bytes().splitlines(keepends=True)[:120])


def _openmetrics_bodies() -> Iterator[bytes]:
    place = next(place for place, table in enumerate(_TABLES) if table.name == "vllm")
    for file in sorted(RECORDINGS.glob("*/*.openmetrics")):
        lines = file.read_bytes().splitlines(keepends=True)
        for start in range(0, len(lines), 200):
            yield bytes([place]) + b"".join(lines[start : start + 200]) + b"# EOF\n"
    yield bytes([place]) + b'# TYPE a counter\na_total 1 # {t="x"} 1 1\na_created 5\n# EOF\n'


# --- KV events --------------------------------------------------------------------------------------------------------

_DEPLOYMENT = DeploymentKey("ns", "d")
_SOURCE = StreamSource(
    key=StreamKey(_DEPLOYMENT, "uid", 0),
    member="pod",
    role="server",
    source=KvEventSource(endpoint="tcp://127.0.0.1:1", replay_endpoint="tcp://127.0.0.1:2"),
    engine="vllm",
    version="0.32.0",
    model="m",
)


def _followed() -> tuple[Ledger, Stream]:
    ledger = Ledger(deployment_bytes=100_000)
    stream = Stream(ledger.join(_SOURCE), NOW, replay=True, limits=StreamLimits(held_batches=64))
    stream.attach(NOW)
    stream.connected(NOW)
    return ledger, stream


def kv_frames(data: bytes) -> None:
    """Messages of frames, as sockets deliver them, through a stream: live and as a replay's answer in turn."""
    ledger, stream = _followed()
    for place, message in enumerate(data.split(_FENCE * 2)[:32]):
        frames = message.split(_FENCE)
        if place % 2:
            replied = read_reply(frames)
            assert isinstance(replied, LiveMessage | ReplayEnd | Rejected)
            if isinstance(replied, LiveMessage):
                stream.reply(1, replied.sequence, replied.payload, NOW)
            continue
        live = read_live(frames)
        assert isinstance(live, LiveMessage | Rejected)
        if isinstance(live, LiveMessage):
            stream.message(live.sequence, live.payload, NOW)
        stream.outbox.clear()
    stream.tick(Instant(NOW.mono + 100, NOW.wall + 100))
    _check_index(ledger)


def kv_payloads(data: bytes) -> None:
    """Payloads of batches in rising sequence: msgpack of anybody."""
    ledger, stream = _followed()
    for sequence, payload in enumerate(data.split(_FENCE)[:64]):
        stream.message(sequence, payload, NOW)
        stream.outbox.clear()
    _check_index(ledger)
    stream.disconnected(NOW)


def _check_index(ledger: Ledger) -> None:
    summary = ledger.index_summary(_DEPLOYMENT)
    assert 0 <= summary.estimated_bytes < 1 << 24
    for residency in summary.residency:
        assert residency.unique <= residency.total
    json.dumps(
        msgspec.to_builtins(ledger.lookup(_DEPLOYMENT, [1, 2, b"\1"], [], NOW), builtin_types=(bytes,)), default=str
    )


def _recorded_messages() -> Iterator[list[bytes]]:
    for file in sorted(RECORDINGS.glob("kv-events/*.jsonl")):
        for line in file.read_text().splitlines()[:40]:
            row = json.loads(line)
            if "frames" in row:
                yield [base64.b64decode(frame) for frame in row["frames"]]


def _frames() -> Iterator[bytes]:
    messages = [_FENCE.join(frames) for frames in _recorded_messages()]
    yield from messages[::4]
    for start in range(0, len(messages), 12):
        yield (_FENCE * 2).join(messages[start : start + 6])


def _payloads() -> Iterator[bytes]:
    payloads = [frames[-1] for frames in _recorded_messages()]
    yield from payloads[::4]
    for start in range(0, len(payloads), 12):
        yield _FENCE.join(payloads[start : start + 6])


# --- answers of routers and engines -----------------------------------------------------------------------------------

_ANSWER = re.compile(rb"^### GET (\S+) \|[^\n]*\n((?:(?!### GET ).*\n?)*)", re.MULTILINE)


def _answers(*parts: str) -> Iterator[bytes]:
    for file in sorted(RECORDINGS.glob("*/endpoints-*.txt")):
        for path, text in _ANSWER.findall(file.read_bytes()):
            if any(part in path.decode() for part in parts) and len(text) < 20_000:
                yield text.strip()


def _rows_hold(rows: tuple[WorkerRow, ...]) -> None:
    contradictions(rows)
    for row in rows:
        assert row.port is None or 0 <= row.port < 65_536
        assert row.load is None or 0 <= row.load <= 2**54
    msgspec.json.encode(rows)


def router_views(data: bytes) -> None:
    """Lists of workers of either router and plugin states."""
    for parse in (parse_workers, parse_list_workers):
        try:
            rows = parse(data)
        except ViewError as error:
            assert str(error)
        else:
            _rows_hold(rows)
    try:
        parse_plugin_state(data)
    except ViewError as error:
        assert len(str(error)) < 2000


def observer_endpoints(data: bytes) -> None:
    """`/observer/endpoints` of routers that keep the contract, with and without a journal; and the contract itself."""
    for journal in (False, True):
        try:
            boot, revision, rows = parse_observer_endpoints(data, journal=journal)
        except ViewError as error:
            assert len(str(error)) < 2000
        else:
            assert boot
            assert revision is None or revision >= 0
            _rows_hold(rows)
    try:
        document = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return
    decode_router(document)


def _endpoints() -> Iterator[bytes]:
    worker = {"url": "http://10.0.0.1:8000", "role": "regular", "selection": {"registered": True, "healthy": True}}
    yield json.dumps({"router": {"boot_generation": 7}, "registry_revision": 3, "workers": [worker]}).encode()
    yield json.dumps({"router": {"boot_generation": 7}, "workers": []}).encode()
    yield from _answers("/observer")


def probes(data: bytes) -> None:
    """Engines' versions, models and publishers."""
    for parse in (
        lambda: parse_version_told(data, "version"),
        lambda: parse_models(data),
        *(lambda form=form: parse_event_sources(data, form, "10.0.0.1") for form in EventsForm),
    ):
        try:
            parse()
        except ProbeError as error:
            assert len(str(error)) < 2000


def _probed() -> Iterator[bytes]:
    yield b'{"version":"0.32.0"}'
    yield b'{"object":"list","data":[{"id":"m","object":"model"}]}'
    for file in sorted(RECORDINGS.glob("*/*.json")):
        yield file.read_bytes()[:20_000]
    yield from _answers("/v1/models", "/version", "/server_info")


def promql(data: bytes) -> None:
    """Answers of a query API."""
    found = parse_answer(data, "up", 1.8e9)
    assert isinstance(found, QueryAnswer | QueryTrouble)
    if isinstance(found, QueryTrouble):
        assert found.reason
        assert len(found.detail) < 2000
    error_type(data)


def _queried() -> Iterator[bytes]:
    sample = {"metric": {"pod": "a"}, "value": [1.8e9, "1"]}
    for result in ({"resultType": "vector", "result": [sample]}, {"resultType": "scalar", "result": [1.8e9, "NaN"]}):
        yield json.dumps({"status": "success", "data": result}).encode()
    series = {"metric": {}, "histogram": [1.8e9, {"count": "1", "sum": "2", "buckets": [[0, "0", "1", "3"]]}]}
    yield json.dumps(
        {"status": "success", "warnings": ["w"], "data": {"resultType": "vector", "result": [series]}}
    ).encode()
    yield b'{"status":"error","errorType":"bad_data","error":"parse error"}'


# --- Kubernetes -------------------------------------------------------------------------------------------------------


class _Nobody:
    """Credentials of a client that is never asked."""

    server, proxy = "http://127.0.0.1:1", None


def watch_lines(data: bytes) -> None:
    """Lines of a watch, of Pods (first byte even) or of whole documents."""
    watched = watched_pods() if not data or data[0] % 2 == 0 else watched_documents(PODS)
    client = ApiClient(_Nobody(), SystemClock())  # type: ignore[arg-type]  # never asked
    changes: list[object] = []
    informer = Informer(client, watched, SystemClock(), on_change=changes.append, chance=lambda: 0.5)
    for line in data[1:].splitlines()[:64]:
        informer._event(line)  # noqa: SLF001 - the reader of one line is what is tried
    for record in informer:
        assert isinstance(record.name, str)
        assert isinstance(record.uid, str)


def _watched() -> Iterator[bytes]:
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [
            {"name": "c", "ready": True, "restartCount": 1, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
        ],
    }
    pod = {
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": {"app": "x"}},
        "spec": {
            "containers": [{"name": "c", "args": ["-tp", "2"], "ports": [{"containerPort": 8000, "name": "http"}]}]
        },
        "status": status,
    }
    lines = [json.dumps({"type": kind, "object": pod}) for kind in ("ADDED", "MODIFIED", "DELETED")]
    lines.append('{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}')
    lines.append('{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}')
    for first in "\0\1":
        yield (first + "\n".join(lines)).encode()
        for line in lines:
            yield (first + line).encode()


# --- files ------------------------------------------------------------------------------------------------------------

_FOLDER = tempfile.TemporaryDirectory(prefix="observer-fuzz-")
_YAML = Path(_FOLDER.name, "config.yaml")
_RECORDING = Path(_FOLDER.name, "run.obsrec")


def settings(data: bytes) -> None:
    """Documents of every kind that files may hold: Settings, Fleet, CanaryAnalysis."""
    _YAML.write_bytes(data)
    for fault in check_files([_YAML]):
        assert isinstance(fault, Fault)
        assert len(str(fault)) < 5000


def _documents() -> Iterator[bytes]:
    head = "apiVersion: observer.modeldeployment.io/v1alpha1\nkind: "
    yield (
        head
        + "Settings\nscrape: {period: 5s, timeout: 2s}\nlimits: {body: 1Mi}\nsecurity: {allowCIDRs: [10.0.0.0/8]}\n"
    ).encode()
    yield (
        head + "Fleet\ndeployments:\n- name: chat\n  engine: {name: vllm, version: 0.32.0}\n  roles:\n"
        '  - {name: p, kind: Prefill, addresses: ["10.0.0.1:8000", "[fd00::7]:1"]}\n'
        "  router: {name: vllm-router, members: [{address: 'r:1', metricsPort: 29000}]}\n"
    ).encode()
    for file in sorted((Path(__file__).parents[1] / "docs").glob("**/*.yaml")):
        yield file.read_bytes()


def recordings(data: bytes) -> None:
    """`.obsrec` files, whole ones and those whose recorder was killed."""
    journal, _, archive = data.partition(_FENCE)
    _RECORDING.write_bytes(archive)
    beside = _RECORDING.with_name(_RECORDING.name + ".events")
    beside.write_bytes(journal)
    try:
        with Recording(_RECORDING) as recording:
            for event in itertools.islice(recording.events(), 200):
                if event.kind == "fleet":
                    recording.deployments(event)
                elif event.kind == "kv":
                    recording.streams(event)
                elif event.body:
                    recording.body(event)
    except RecordingError as error:
        assert len(str(error)) < 5000


def _recorded() -> Iterator[bytes]:
    path = Path(_FOLDER.name, "seed.obsrec")
    path.unlink(missing_ok=True)
    with Recorder(path, writer="0.1.0", started=NOW) as recorder:
        recorder.fleet((), NOW)
        recorder.judged(NOW)
        unfinished = path.with_name(path.name + ".events").read_bytes() + _FENCE + path.read_bytes()
    yield unfinished
    yield _FENCE + path.read_bytes()


HARNESSES: dict[str, Harness] = {
    each.name: each
    for each in (
        Harness("exposition", exposition, _bodies),
        Harness("openmetrics", openmetrics, _openmetrics_bodies),
        Harness("kv-frames", kv_frames, _frames),
        Harness("kv-payloads", kv_payloads, _payloads),
        Harness("router-views", router_views, lambda: _answers("workers", "plugins", "state")),
        Harness("observer-endpoints", observer_endpoints, _endpoints),
        Harness("probes", probes, _probed),
        Harness("promql", promql, _queried),
        Harness("http-answers", http_answers.http_answers, http_answers.seeds),
        Harness("watch-lines", watch_lines, _watched),
        Harness("settings", settings, _documents),
        Harness("recordings", recordings, _recorded),
    )
}
"""Every reader of foreign bytes, by name."""
