"""Any JSON at all to every parser of what routers and engines answer: a value or the parser's own error, and bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router_contract.endpoints import EventsForm
from router_contract.probe_parsers import ProbeError, parse_event_sources, parse_models, parse_version_told
from router_contract.router_view_parsers import (
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
    WorkerRow,
    contradictions,
    shown_url,
    worker_address,
)

HUGE = 10**400
SECRET = "hunter2"
NAMES = st.sampled_from(
    [
        "router",
        "boot_generation",
        "now_ms",
        "registry_revision",
        "workers",
        "urls",
        "url",
        "port",
        "role",
        "selection",
        "registered",
        "healthy",
        "circuit_open",
        "in_selection",
        "lane",
        "busy",
        "waiting",
        "last_job",
        "load",
        "plugins",
        "recent_dispatch",
        "is_healthy",
        "worker_type",
        "state",
        "endpoints",
        "endpoint",
        "requests",
        "kv_events",
        "data",
        "id",
        "version",
        "publisher",
        "topic",
        "dp_size",
        "endpoint_port_base",
        "replay_endpoint_port_base",
        "0",
        "²",
        "enable_kv_cache_events",
        "replay_endpoint",
        "endpoint_host",
    ]
)
NUMBERS = st.sampled_from([0, 1, -1, 2**53 + 1, 2**63, 2**64, 10**27, HUGE, -HUGE, 0.5]) | st.integers()
TEXTS = st.sampled_from(
    (
        f"http://h:1 http://h:1@3 http://h:1@{10**26} p-rank-3 8000 ² {'9' * 5000} zmq tcp://*:5557 tcp://*:² "
        f"http://u:{SECRET}@h:1 http://[::1:3 http://h:99999"
    ).split()
) | st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=6),
    max_leaves=25,
)
ROWS = st.lists(st.dictionaries(NAMES, VALUES, max_size=8), max_size=3)
DOCUMENTS = (
    VALUES
    | st.fixed_dictionaries({"workers": ROWS})
    | st.fixed_dictionaries({"urls": st.lists(TEXTS, max_size=3)})
    | st.fixed_dictionaries({"router": st.fixed_dictionaries({"boot_generation": NUMBERS}), "workers": ROWS})
    | st.fixed_dictionaries({"plugins": st.dictionaries(st.text(max_size=3), VALUES, max_size=3)})
    | st.fixed_dictionaries({"kv_events": st.dictionaries(NAMES, VALUES, max_size=6)})
)


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def check_row(row: WorkerRow) -> None:
    assert row.rank is None or 0 <= row.rank <= 65_535
    assert row.load is None or 0 <= row.load <= 2**54
    assert row.port is None or 0 <= row.port < 65_536


@settings(max_examples=400, deadline=None)
@given(DOCUMENTS)
def test_any_json_is_a_view_or_a_view_error(value):
    body = dumped(value)
    for parser in (parse_workers, parse_list_workers, parse_plugin_state, parse_observer_endpoints):
        for options in ({}, {"journal": True}) if parser is parse_observer_endpoints else ({},):
            try:
                found = parser(body, **options)
            except ViewError:
                continue
            if parser is parse_observer_endpoints:
                _, revision, rows = found
                assert revision is None or -(2**63) <= revision < 2**63
                for row in rows:
                    check_row(row)
            elif parser is not parse_plugin_state:
                for row in found:
                    check_row(row)


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS)
def test_any_json_is_an_answer_or_a_probe_error(value):
    body = dumped(value)
    for read in (
        lambda: parse_version_told(body, "version"),
        lambda: parse_models(body),
        *(lambda form=form: parse_event_sources(body, form, "10.0.0.1") for form in EventsForm),
    ):
        try:
            found = read()
        except ProbeError:
            continue
        for source in getattr(found, "sources", ()):
            assert 0 <= source.rank <= 65_535
            assert 0 < int(source.endpoint.rpartition(":")[2]) < 65_536


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_view_error_or_a_view(body):
    for parser in (parse_workers, parse_list_workers, parse_plugin_state, parse_observer_endpoints):
        try:
            parser(body)
        except ViewError:
            continue


def observer(**row: object) -> bytes:
    selection = {"registered": True, "healthy": True, "circuit_open": False, "in_selection": True}
    worker = {"url": "http://h:1", "selection": selection} | row
    return json.dumps({"router": {"boot_generation": 1}, "workers": [worker]}).encode()


REFUSED = {
    "lane": (lambda: parse_observer_endpoints(observer(lane={"busy": HUGE})), "a count is wanted"),
    "role": (lambda: parse_observer_endpoints(observer(role=["x"])), "a name of at most"),
    "port": (lambda: parse_observer_endpoints(observer(port="1" * 5000)), "a port number"),
    "rank in a url": (lambda: parse_workers(dumped({"workers": [{"url": f"http://h:1@{10**26}"}]})), "at most 65535"),
    "rank of an endpoint": (
        lambda: rows_from_series(EndpointSeries(endpoints=(f"p-rank-{10**26}",), ready=1.0)),
        "at most 65535",
    ),
    "revision": (
        lambda: parse_observer_endpoints(dumped({"router": {"boot_generation": 1}, "registry_revision": 2**64})),
        "of 64 bits",
    ),
}


@pytest.mark.parametrize(("read", "part"), REFUSED.values(), ids=REFUSED)
def test_what_is_out_of_range_is_a_named_fault(read, part):
    with pytest.raises(ViewError, match=part):
        read()


def test_a_load_beyond_belief_is_not_known():
    body = dumped({"workers": [{"url": "http://h:1", "is_healthy": True, "load": HUGE}]})
    assert parse_workers(body)[0].load is None


CREDENTIALS = [
    (f"http://user:{SECRET}@10.0.0.1:8000", "http://10.0.0.1:8000", ("10.0.0.1", 8000, None)),
    (f"http://user:{SECRET}@10.0.0.1:8000@3", "http://10.0.0.1:8000@3", ("10.0.0.1", 8000, 3)),
    (f"http://user:{SECRET}/@x@10.0.0.1:8000", "http://10.0.0.1:8000", ("10.0.0.1", 8000, None)),
    (f"user:{SECRET}@10.0.0.1:8000", "10.0.0.1:8000", ("10.0.0.1", 8000, None)),
    (f"http://10.0.0.1:8000/v1?key={SECRET}", "http://10.0.0.1:8000/v1", ("10.0.0.1", 8000, None)),
    (f"http://10.0.0.1:8000#{SECRET}", "http://10.0.0.1:8000", ("10.0.0.1", 8000, None)),
]


@pytest.mark.parametrize(("told", "shown", "parts"), CREDENTIALS)
def test_credentials_are_no_part_of_a_row(told, shown, parts):
    rows = parse_workers(dumped({"workers": [{"url": told, "is_healthy": True}]}))
    (_, _, observed) = parse_observer_endpoints(observer(url=told))
    for row in (*rows, *observed, *parse_list_workers(dumped({"urls": [told]}))):
        assert (row.url, (row.host, row.port, row.rank)) == (shown, parts)
        assert SECRET not in repr(row)
    (joined,) = join_circuits(rows, CircuitReading(states=((told, 1.0),)))
    assert joined.circuit is Circuit.OPEN


@pytest.mark.parametrize(
    "told",
    [
        f"http://user:{SECRET}@h:x",
        f"http://user:{SECRET}@",
        f"http://user:{SECRET}@[::1",
        f"http://user:{SECRET}@5",
        f"http://user:1@{SECRET}",
        f"http://:{SECRET}@:1",
        f"http://h:x?{SECRET}",
    ],
)
def test_a_refused_url_shows_no_credential(told):
    with pytest.raises(ViewError) as caught:
        worker_address(told)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (f"http://user:{SECRET}@h:1", "http://h:1"),
        (f"http://user:{SECRET}@h:x", "…"),
        (f"http://user:1@{SECRET}", "…"),
        (f"http://h:x?{SECRET}", "…"),
        ("pod-0-rank-1", "pod-0-rank-1"),
        ("http://h:1@2", "http://h:1@2"),
        ("http://h:x", "http://h:x"),
        ("", ""),
    ],
)
def test_labels_with_urls_show_no_credential(told, shown):
    assert shown_url(told) == shown


def test_a_view_that_contradicts_itself_says_so():
    good = WorkerRow(url="http://h:1", host="h", port=1, healthy=True, in_selection=True)
    bad = WorkerRow(url="http://h:1", host="h", port=1, healthy=False, in_selection=False)
    assert contradictions([good, good]) == ()
    (sentence,) = contradictions([good, bad, good])
    assert "http://h:1 more than once" in sentence
    ranks = [WorkerRow(endpoint="p", rank=rank, healthy=rank == 0) for rank in (0, 1)]
    assert contradictions(ranks) == ()
