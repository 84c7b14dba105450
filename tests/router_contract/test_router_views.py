"""Router views from the bytes the real routers answered with, and from every malformed answer we can name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from router_contract.router_view_parsers import (
    MAX_WORKERS,
    join_circuits,
    parse_list_workers,
    parse_observer_endpoints,
    parse_plugin_state,
    parse_workers,
    rows_from_series,
)
from router_contract.router_views import (
    Circuit,
    CircuitReading,
    EndpointSeries,
    ViewError,
    split_endpoint,
    split_worker_url,
)

RECORDINGS = Path(__file__).parent.parent / "recordings"
ENDPOINTS = sorted(RECORDINGS.glob("*router*/endpoints-*.txt"))


def blocks(path: Path) -> dict[str, tuple[int, bytes]]:
    """``GET`` path to status and body of one recorded file."""
    found = {}
    for part in re.split(r"^### GET ", path.read_text(), flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        where, status, _ = (
            (text.strip() for text in head.split(" | ", 2)) if head.count(" | ") >= 2 else (*head.split(" | "), "")
        )
        found[where] = (int(status.split()[1]), body.strip().encode())
    return found


def circuits(path: Path) -> CircuitReading:
    """The circuit series of the exposition recorded beside a file of endpoints."""
    text = (path.parent / path.name.replace("endpoints-", "metrics-").replace(".txt", ".prom")).read_text()
    states = re.findall(r'^\w+_cb_state\{worker="([^"]+)"\} (\S+)$', text, re.MULTILINE)
    done = re.findall(r'^\w+_cb_outcomes_total\{[^}]*worker="([^"]+)"', text, re.MULTILINE)
    return CircuitReading(states=tuple((name, float(value)) for name, value in states), finished=tuple(done))


def read(path: Path):
    answers = blocks(path)
    status, body = answers.get("/workers", (404, b""))
    rows = parse_workers(body) if status == 200 else parse_list_workers(answers["/list_workers"][1])
    return join_circuits(rows, circuits(path))


def test_every_recorded_file_gives_a_view():
    assert len(ENDPOINTS) >= 30
    for path in ENDPOINTS:
        for row in read(path):
            assert row.host == "127.0.0.1", path
            assert row.port is not None, path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("sglang-router-0.3.2/endpoints-01-fresh.txt", {18001: True, 18002: True, 18003: True}, id="fresh"),
        pytest.param(
            "sglang-router-0.3.2/endpoints-04-errors500.txt",
            {18001: True, 18002: False, 18003: True},
            id="an open circuit is not in selection though is_healthy is true",
        ),
        pytest.param(
            "sglang-router-0.3.2/endpoints-07-dead-just.txt",
            {18001: True, 18002: True, 18003: False},
            id="a dead worker still called healthy is refused by its circuit",
        ),
        pytest.param("sglang-router-0.3.2/endpoints-32-no-worker-up.txt", {}, id="an empty registry is a view"),
        pytest.param(
            "vllm-router-0.1.17/endpoints-01-fresh.txt",
            {18001: True, 18002: True, 18003: True},
            id="no circuit series yet counts as closed",
        ),
        pytest.param(
            "vllm-router-0.1.17/endpoints-04-errors500.txt",
            {18001: True, 18002: False, 18003: True},
            id="vllm-router open circuit",
        ),
        pytest.param("sglang-router-0.2.4/endpoints-03-errors-dead.txt", {31001: True, 31002: False}, id="unhealthy"),
        pytest.param(
            "sglang-router-0.1.9/endpoints-01-fresh.txt", {31001: None, 31002: None}, id="list_workers tells no health"
        ),
    ],
)
def test_recorded_selection(name, expected):
    assert {row.port: row.in_selection for row in read(RECORDINGS / name)} == expected


def test_ranks_of_one_listener_are_rows_of_one_port():
    rows = read(RECORDINGS / "vllm-router-0.1.17/endpoints-51-dp2.txt")
    assert sorted((row.port, row.rank) for row in rows) == [(18101, 0), (18101, 1)]


def test_prefill_and_decode_are_told_apart():
    for router in ("sglang-router-0.3.2", "vllm-router-0.1.17"):
        rows = read(RECORDINGS / router / "endpoints-21-pd-fresh.txt")
        assert {row.port: row.role for row in rows} == {
            18011: "prefill",
            18012: "prefill",
            18021: "decode",
            18022: "decode",
        }


def test_a_metrics_port_that_was_not_read_leaves_selection_unknown():
    rows = parse_workers(blocks(RECORDINGS / "sglang-router-0.3.2/endpoints-01-fresh.txt")["/workers"][1])
    assert {row.in_selection for row in join_circuits(rows, None)} == {None}


def test_series_of_removed_workers_add_no_row():
    rows = parse_workers(b'{"workers":[{"url":"http://h:1","is_healthy":true}]}')
    reading = CircuitReading(states=(("http://h:1", 0.0), ("http://gone:2", 0.0)))
    assert [row.host for row in join_circuits(rows, reading)] == ["h"]


URL = "http://h:1"


@pytest.mark.parametrize(
    ("healthy", "states", "finished", "circuit", "selected"),
    [
        pytest.param(True, {URL: 0.0}, (), Circuit.CLOSED, True, id="closed"),
        pytest.param(True, {URL: 1.0}, (), Circuit.OPEN, False, id="open"),
        pytest.param(True, {URL: 2.0}, (), Circuit.HALF_OPEN, True, id="half-open is selected"),
        pytest.param(True, {URL: -1.0}, (), Circuit.UNKNOWN, None, id="-1 of a removed worker says nothing"),
        pytest.param(True, {}, (), Circuit.CLOSED, True, id="not exported before the first finished request"),
        pytest.param(True, {}, (URL,), Circuit.UNKNOWN, None, id="not exported after a finished request"),
        pytest.param(False, {}, (URL,), Circuit.UNKNOWN, False, id="one refusal decides"),
        pytest.param(None, {URL: 0.0}, (), Circuit.CLOSED, None, id="health unknown"),
        pytest.param(None, {URL: 1.0}, (), Circuit.OPEN, False, id="open with health unknown is refused"),
    ],
)
def test_circuit_join(healthy, states, finished, circuit, selected):
    rows = parse_list_workers(b'{"urls":["http://h:1"]}')
    if healthy is not None:
        rows = parse_workers(json.dumps({"workers": [{"url": URL, "is_healthy": healthy}]}).encode())
    (row,) = join_circuits(rows, CircuitReading(states=tuple(states.items()), finished=finished))
    assert (row.circuit, row.in_selection) == (circuit, selected)


def test_a_circuit_that_may_be_one_of_those_that_could_not_be_read_is_unknown():
    rows = parse_workers(json.dumps({"workers": [{"url": URL, "is_healthy": True}]}).encode())
    (row,) = join_circuits(rows, CircuitReading(whole=False))
    assert (row.circuit, row.in_selection) == (Circuit.UNKNOWN, None)
    (row,) = join_circuits(rows, CircuitReading(states=((URL, 0.0),), whole=False))
    assert (row.circuit, row.in_selection) == (Circuit.CLOSED, True)


def payload(**changes):
    worker = {
        "url": "http://10.0.0.1:8000",
        "port": "8000",
        "role": "regular",
        "pod_hint": "x",
        "worker_id": "1",
        "selection": {"registered": True, "healthy": True, "circuit_open": False, "in_selection": True},
    }
    worker |= changes.pop("worker", {})
    whole = {"router": {"boot_generation": 5, "now_ms": 1}, "registry_revision": 3, "workers": [worker]} | changes
    return json.dumps({key: value for key, value in whole.items() if value is not ...}).encode()


def test_observer_endpoints_in_full():
    boot, revision, (row,) = parse_observer_endpoints(payload(worker={"lane": {"busy": 2, "waiting": 1}}))
    assert (boot, revision, row.host, row.port, row.in_selection, row.load) == ("5", 3, "10.0.0.1", 8000, True, 3.0)


def test_observer_endpoints_empty_registry_is_valid():
    assert parse_observer_endpoints(payload(workers=[]))[2] == ()


SELECTION = {"registered": True, "healthy": True, "circuit_open": False, "in_selection": True}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(payload(extra=1), "unknown field 'extra'", id="unknown field"),
        pytest.param(payload(worker={"debug": 1}), "unknown field 'debug'", id="debug-dump shape"),
        pytest.param(payload(router=...), "router is NoneType", id="missing router block"),
        pytest.param(payload(router={"boot_generation": 0}), "boot_generation is 0", id="boot generation 0"),
        pytest.param(payload(router={}), "boot_generation is None", id="boot generation absent"),
        pytest.param(payload(router={"boot_generation": True}), "boot_generation is True", id="boot generation bool"),
        pytest.param(payload(registry_revision="3"), "registry_revision is '3'", id="revision is text"),
        pytest.param(payload(workers=...), "workers is absent", id="omitted workers"),
        pytest.param(payload(workers=None), "workers is NoneType", id="null workers"),
        pytest.param(payload(workers={}), "workers is dict", id="non-array workers"),
        pytest.param(payload(workers=["x"]), r"workers\[0\] is str", id="non-object row"),
        pytest.param(payload(workers=[None]), r"workers\[0\] is NoneType", id="null row"),
        pytest.param(payload() + b"{}", "not one JSON document", id="trailing JSON"),
        pytest.param(payload() + b"x", "not one JSON document", id="trailing garbage"),
        pytest.param(b"", "body of 0 bytes", id="empty body"),
        pytest.param(b"[]", "body is list", id="array body"),
        pytest.param(payload(worker={"selection": None}), "selection is NoneType", id="null selection"),
        pytest.param(
            payload(worker={"selection": {"registered": True}}), "circuit_open is None", id="missing selection boolean"
        ),
        pytest.param(
            payload(worker={"selection": SELECTION | {"in_selection": None}}),
            "in_selection is None",
            id="null selection boolean",
        ),
        pytest.param(
            payload(worker={"selection": SELECTION | {"healthy": 1}}), "healthy is 1", id="a number is no boolean"
        ),
        pytest.param(payload(worker={"url": ""}), "url is ''", id="empty url"),
        pytest.param(payload(worker={"port": 8000}), "port is 8000", id="port as a number"),
        pytest.param(payload(worker={"port": "-1"}), "port is '-1'", id="signed port"),
        pytest.param(payload(worker={"lane": {"busy": -1}}), "lane holds -1", id="negative lane"),
    ],
)
def test_observer_endpoints_refuses(body, message):
    with pytest.raises(ViewError, match=message):
        parse_observer_endpoints(body)


@pytest.mark.parametrize("port", [None, "", "8000"])
def test_a_null_port_falls_back_to_the_url(port):
    assert parse_observer_endpoints(payload(worker={"port": port}))[2][0].port == 8000


def test_gateway_last_job_is_accepted_and_not_interpreted():
    assert parse_observer_endpoints(payload(worker={"last_job": {"status": "done"}}))[2][0].recent_dispatch is None


def test_journal_wants_its_boolean():
    job = {"last_job": {"recent_dispatch": True}}
    assert parse_observer_endpoints(payload(worker=job), journal=True)[2][0].recent_dispatch is True
    assert parse_observer_endpoints(payload(), journal=True)[2][0].recent_dispatch is None
    for bad in ({}, {"recent_dispatch": None}, 3):
        with pytest.raises(ViewError, match="recent_dispatch"):
            parse_observer_endpoints(payload(worker={"last_job": bad}), journal=True)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            b'{"workers":[{"url":"http://h:1"}]}', "is_healthy is None", id="missing attribute is not healthy"
        ),
        pytest.param(b'{"workers":[{"url":"http://h:1","is_healthy":"true"}]}', "is_healthy is 'true'", id="text"),
        pytest.param(b'{"workers":[{"is_healthy":true}]}', "url is None", id="no url"),
        pytest.param(b'{"workers":[7]}', "is int", id="row is a number"),
        pytest.param(b'{"total":0}', "workers is absent", id="no workers"),
        pytest.param(b"Not Found", "not one JSON document", id="text"),
        pytest.param(b'{"workers":[{"url":"http://h:99999","is_healthy":true}]}', "99999", id="port out of range"),
        pytest.param(b'{"workers":[{"url":"http://h:0","is_healthy":true}]}', "its port is 0", id="port of nothing"),
    ],
)
def test_workers_refuses(body, message):
    with pytest.raises(ViewError, match=message):
        parse_workers(body)


def test_a_load_of_minus_one_is_not_known():
    (row,) = parse_workers(b'{"workers":[{"url":"http://h:1","is_healthy":true,"load":-1}]}')
    assert row.load is None


def test_list_workers_refuses():
    for body in (b'{"urls":[""]}', b'{"urls":[1]}', b'{"urls":{}}', b"{}"):
        with pytest.raises(ViewError):
            parse_list_workers(body)


def test_a_list_beyond_the_limit_is_refused():
    body = json.dumps({"urls": ["http://h:1"] * (MAX_WORKERS + 1)}).encode()
    with pytest.raises(ViewError, match="at most"):
        parse_list_workers(body)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://10.0.0.1:8000", ("10.0.0.1", 8000, None)),
        ("http://10.0.0.1:8000@3", ("10.0.0.1", 8000, 3)),
        ("http://[fd00::7]:8000@0", ("fd00::7", 8000, 0)),
        ("http://pod.ns.svc", ("pod.ns.svc", None, None)),
        ("10.0.0.1:8000", ("10.0.0.1", 8000, None)),
        ("https://h:1/v1", ("h", 1, None)),
    ],
)
def test_worker_urls(url, expected):
    assert split_worker_url(url) == expected


@pytest.mark.parametrize("url", ["http://h:1@x", "http://", "http://h:x", "http://[::1:3"])
def test_bad_worker_urls(url):
    with pytest.raises(ViewError):
        split_worker_url(url)


def series(name: str) -> EndpointSeries:
    """llm-d's series by its newer names, from a hand-written sample."""
    text = (RECORDINGS / "synthetic" / name).read_text()
    endpoints = re.findall(r'per_endpoint_queue_size\{model_server_endpoint="([^"]+)"', text)
    ready = re.search(r"^llm_d_epp_ready_endpoints\{[^}]*\} (\S+)$", text, re.MULTILINE)
    return EndpointSeries(endpoints=tuple(endpoints), ready=float(ready.group(1)) if ready else None)


def test_llm_d_rows_when_counts_agree():
    rows = rows_from_series(series("epp-v0.10-both-names.prom"))
    assert [(row.endpoint, row.rank, row.in_selection) for row in rows] == [
        ("engine-0", 0, True),
        ("engine-1", 0, True),
    ]


def test_llm_d_without_endpoints_is_an_empty_registry():
    assert rows_from_series(series("epp-v0.10-fresh-no-endpoints.prom")) == ()


@pytest.mark.parametrize("ready", [0.0, 1.0, 3.0])
def test_llm_d_counts_that_disagree_leave_selection_unknown(ready):
    rows = rows_from_series(EndpointSeries(endpoints=("p-rank-0", "q-rank-0"), ready=ready))
    assert {row.in_selection for row in rows} == {None}
    assert {row.registered for row in rows} == {True}


def test_llm_d_absent_gauge_is_not_an_empty_list():
    with pytest.raises(ViewError, match="absent"):
        rows_from_series(EndpointSeries())
    with pytest.raises(ViewError, match="no per-endpoint series"):
        rows_from_series(EndpointSeries(ready=2.0))
    with pytest.raises(ViewError, match="cannot be read"):
        rows_from_series(EndpointSeries(ready=0.0, whole=False))


def test_plugin_state():
    body = b'{"plugins":{"inflight":{"state":{"endpoints":[{"endpoint":"p-rank-0","requests":4,"tokens":9}]}},"x":{"state":1}}}'
    inflight = parse_plugin_state(body)
    assert inflight == (("p-rank-0", 4.0),)
    (row,) = rows_from_series(EndpointSeries(endpoints=("p-rank-0",), ready=1.0, inflight=inflight))
    assert row.load == 4.0
    with pytest.raises(ViewError, match="plugins"):
        parse_plugin_state(b"{}")


def test_endpoint_names():
    assert split_endpoint("engine-0-rank-12") == ("engine-0", 12)
    assert split_endpoint("engine-rank-x") == ("engine-rank-x", None)


@pytest.mark.parametrize(
    ("lane", "load"),
    [(None, None), ({}, None), ({"busy": 2}, None), ({"waiting": 0}, None), ({"busy": True, "waiting": 0}, 1.0)],
)
def test_a_part_of_a_lane_is_not_the_load(lane, load):
    assert parse_observer_endpoints(payload(worker={"lane": lane}))[2][0].load == load
