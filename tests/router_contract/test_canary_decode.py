"""The definition as a document: what is read, and every value that is refused with its field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from router_contract.canary import (
    CanaryAnalysis,
    NativeMetric,
    OnInconclusive,
    Operator,
    Pause,
    Procedure,
    PromqlMetric,
    SecretKey,
)
from router_contract.canary_decode import decode, read_steps
from router_contract.canary_source import read_source
from router_contract.fields import FieldFault, Fields, parse_number, parse_seconds

DOCUMENT: dict[str, Any] = {
    "apiVersion": "observer.modeldeployment.io/v1alpha1",
    "kind": "CanaryAnalysis",
    "metadata": {"name": "chat", "namespace": "ml"},
    "spec": {
        "targetRef": {"kind": "InferenceService", "name": "chat"},
        "component": "engine",
        "stable": {"revision": "aaa"},
        "canary": {"revision": "bbb"},
        "readyTimeout": "15m",
        "source": {"providerRef": {"name": "main"}, "headers": {"X-Scope-OrgID": "team"}},
        "steps": [
            {
                "traffic": 10,
                "pause": {"duration": "5m"},
                "analysis": {
                    "interval": "1m",
                    "initialDelay": "30s",
                    "failureLimit": 3,
                    "onInconclusive": "RollbackOnStall",
                    "consecutiveFailureLimit": 2,
                    "minPasses": 2,
                    "stallTimeout": "10m",
                    "warmUp": {"time": "30s", "requests": 20},
                    "metrics": [
                        {
                            "name": "errors",
                            "query": "sum(x)",
                            "operator": "LT",
                            "threshold": "0.05",
                            "timeout": "10s",
                        },
                        {
                            "name": "share",
                            "native": {
                                "kind": "ratio",
                                "signal": "router-errors",
                                "total": "router-requests",
                                "measuredBy": "router",
                            },
                            "operator": "LTE",
                            "threshold": "0.01",
                            "test": "point",
                        },
                        {
                            "name": "ttft",
                            "native": {"kind": "quantile", "signal": "time-to-first-token", "quantile": 0.95},
                            "relative": {"margin": "1.5"},
                            "cacheGuard": {"hitRate": 0.1},
                            "required": False,
                        },
                    ],
                },
            },
            {"traffic": 100, "pause": {}},
        ],
    },
}
GATE = "spec.steps[0].analysis"
QUERY, RATIO, TTFT = (f"{GATE}.metrics[{place}]" for place in range(3))
GONE = object()


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with one field set or taken away."""
    document = copy.deepcopy(DOCUMENT)
    at: Any = document
    *parents, last = path.replace("[", ".[").split(".")
    for part in parents:
        at = at[int(part[1:-1])] if part.startswith("[") else at.setdefault(part, {})
    key: Any = int(last[1:-1]) if last.startswith("[") else last
    if value is GONE:
        del at[key]
    else:
        at[key] = value
    return document


def test_a_whole_definition() -> None:
    made = decode(DOCUMENT)
    assert isinstance(made, CanaryAnalysis)
    assert (made.namespace, made.stable, made.canary, made.ready_timeout) == ("ml", "aaa", "bbb", 900.0)
    first, last = made.steps
    assert last.pause is not None
    assert last.pause.seconds is None
    gate = first.analysis
    assert gate is not None
    assert (gate.interval, gate.initial_delay, gate.failure_limit, gate.min_passes) == (60.0, 30.0, 3, 2)
    assert gate.on_inconclusive is OnInconclusive.ROLLBACK_ON_STALL
    assert (gate.warm_up.seconds, gate.warm_up.requests, gate.consecutive_failure_limit) == (30.0, 20, 2)
    assert made.stall_timeout(0) == 600.0
    assert made.stall_timeout(1) == 900.0
    query, share, ttft = gate.metrics
    assert isinstance(query.measure, PromqlMetric)
    assert (query.operator, query.limit, query.measure.timeout) == (Operator.LT, 0.05, 10.0)
    assert isinstance(share.measure, NativeMetric)
    assert (share.measure.test, share.measure.sequential) == (Procedure.POINT, False)
    assert isinstance(ttft.measure, NativeMetric)
    assert (ttft.operator, ttft.threshold, ttft.limit, ttft.required) == (Operator.LTE, "1.5", 1.5, False)
    assert (ttft.measure.cache_guard.hit_rate, ttft.measure.sequential) == (0.1, True)


def test_defaults_are_those_of_ome() -> None:
    document = changed(
        GATE, {"interval": "1m", "failureLimit": 1, "metrics": [DOCUMENT["spec"]["steps"][0]["analysis"]["metrics"][0]]}
    )
    made = decode(document)
    assert isinstance(made, CanaryAnalysis)
    gate = made.steps[0].analysis
    assert gate is not None
    assert (gate.initial_delay, gate.on_inconclusive, gate.min_passes) == (0.0, OnInconclusive.HOLD, 1)
    assert not gate.warm_up_excluded, "OME counts warm-up against the stall time"


NUMBERS = ["NaN", "nan", "Inf", "-infinity", "1e999", "0x1p-2", "1_000", " 1", "1 ", "", "abc", "٣", "1e", "."]
REFUSED: dict[str, tuple[str, Any, str]] = {
    **{f"threshold {text!r}": (f"{QUERY}.threshold", text, "a finite number") for text in NUMBERS if text.strip()},
    "threshold blank": (f"{QUERY}.threshold", " ", "not blank"),
    "threshold as a number": (f"{QUERY}.threshold", 0.05, "text"),
    "threshold absent": (f"{QUERY}.threshold", GONE, "a finite number"),
    "operator": (f"{QUERY}.operator", "EQ", "one of LT, LTE, GT, GTE"),
    "operator in lower case": (f"{QUERY}.operator", "lt", "one of LT, LTE, GT, GTE"),
    "operator absent": (f"{QUERY}.operator", GONE, "one of LT, LTE, GT, GTE"),
    "interval 0": (f"{GATE}.interval", "0s", "above 0"),
    "interval negative": (f"{GATE}.interval", "-1m", "above 0"),
    "interval of Argo": (f"{GATE}.interval", "1d", "a duration"),
    "interval absent": (f"{GATE}.interval", GONE, "a duration"),
    "interval too long": (f"{GATE}.interval", "999h", "at most 30 days"),
    "failureLimit 0": (f"{GATE}.failureLimit", 0, "a whole number from 1"),
    "failureLimit true": (f"{GATE}.failureLimit", True, "a whole number from 1"),
    "failureLimit absent": (f"{GATE}.failureLimit", GONE, "a whole number from 1"),
    "onInconclusive": (f"{GATE}.onInconclusive", "Retry", "one of Hold, Rollback, RollbackOnStall"),
    "stallTimeout 0": (f"{GATE}.stallTimeout", "0s", "above 0"),
    "no metrics": (f"{GATE}.metrics", [], "a list of 1 to 10"),
    "11 metrics": (f"{GATE}.metrics", [{}] * 11, "a list of 1 to 10"),
    "metrics no list": (f"{GATE}.metrics", "x", "a list of 1 to 10"),
    "name twice": (f"{RATIO}.name", "errors", "each name once"),
    "name absent": (f"{QUERY}.name", GONE, "a text"),
    "query blank": (f"{QUERY}.query", " \n", "not blank"),
    "query and native": (f"{RATIO}.query", "up", "either query or native"),
    "neither": (f"{QUERY}.query", GONE, "either query or native"),
    "relative query": (f"{QUERY}.relative", {"margin": 1.5}, "does not go with query"),
    "timeout of a native metric": (f"{RATIO}.timeout", "5s", "does not go with native"),
    "zero without proof": (f"{QUERY}.emptyMeans", "zero", "a query that proves traffic"),
    "kind": (f"{RATIO}.native.kind", "sum", "one of ratio, quantile, mean, rate"),
    "signal": (f"{RATIO}.native.signal", "errors", "a counter signal such as"),
    "signal of another kind": (f"{TTFT}.native.signal", "router-errors", "a histogram signal"),
    "no total": (f"{RATIO}.native.total", GONE, "a counter signal"),
    "quantile 1": (f"{TTFT}.native.quantile", 1.0, "between 0 and 1"),
    "quantile absent": (f"{TTFT}.native.quantile", GONE, "between 0 and 1"),
    "quantile NaN": (f"{TTFT}.native.quantile", float("nan"), "between 0 and 1"),
    "share above 1": (f"{RATIO}.threshold", "5", "a share from 0 to 1"),
    "margin below 1": (f"{TTFT}.relative.margin", 0.9, "from 1 to 100"),
    "threshold of a relative metric": (f"{TTFT}.threshold", "2", "compares with stable"),
    "alpha": (f"{RATIO}.alpha", 0.9, "between 0 and 0.5"),
    "unknown key": (f"{QUERY}.treshold", "1", "one of"),
    "unknown key of the step": ("spec.steps[0].paused", True, "one of"),
    "no steps": ("spec.steps", [], "a list of 1 to 20"),
    "21 steps": ("spec.steps", [{}] * 21, "a list of 1 to 20"),
    "traffic falls": ("spec.steps[0].traffic", 100, "a last step with traffic 100"),
    "traffic does not end at 100": ("spec.steps[1].traffic", 50, "a last step with traffic 100"),
    "component": ("spec.component", "decoder", "one of router, engine"),
    "one revision twice": ("spec.stable.revision", "bbb", "two different revisions"),
    "no target": ("spec.targetRef", GONE, "a mapping"),
    "both sources": ("spec.source.serverAddress", "http://p:9090", "not both"),
    "header of the client": ("spec.source.headers.Host", "x", "a header other than"),
    "header name": ("spec.source.headers.a b", "x", "a header other than"),
    "header value": ("spec.source.headers.X-A", "a\r\nB: c", "one line of ASCII"),
    "kind of object": ("kind", "Canary", "CanaryAnalysis"),
    "version": ("apiVersion", "v1", "observer.modeldeployment.io/v1alpha1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_field_what_was_found_and_what_is_wanted(case: str) -> None:
    path, value, wanted = REFUSED[case]
    document = changed(path, value)
    if case == "traffic falls":
        document["spec"]["steps"][1]["traffic"] = 10
    if case == "threshold of a relative metric":
        document["spec"]["steps"][0]["analysis"]["metrics"][2]["operator"] = "LT"
    faults = decode(document)
    assert isinstance(faults, tuple)
    found = [fault for fault in faults if wanted in str(fault)]
    assert found, [str(fault) for fault in faults]
    if case not in {"zero without proof", "one revision twice", "traffic falls", "traffic does not end at 100"}:
        assert any(path.startswith(fault.field) or fault.field.startswith(path) for fault in found), found


@pytest.mark.parametrize("address", ["ftp://p", "http://user:pw@p:9090", "http://p:9090/?a=b", "p:9090", "http://p /"])
def test_addresses_that_are_no_plain_url(address: str) -> None:
    faults = decode(changed("spec.source", {"serverAddress": address}))
    assert isinstance(faults, tuple)
    assert [fault.field for fault in faults] == ["spec.source.serverAddress"]


def test_a_header_that_clashes_with_the_token_and_values_that_stay_secret() -> None:
    source = {
        "serverAddress": "http://p:9090",
        "authRef": {"name": "s", "key": "k"},
        "headers": {"authorization": "Basic s3cret", "X-B": "s3cret\n"},
    }
    faults = decode(changed("spec.source", source))
    assert isinstance(faults, tuple)
    assert len(faults) == 2
    assert "s3cret" not in " ".join(map(str, faults))


def test_all_faults_are_told_at_once_and_nothing_raises() -> None:
    document = changed(f"{GATE}.interval", "0s")
    document["spec"]["steps"][0]["analysis"]["failureLimit"] = 0
    document["spec"]["component"] = "x"
    faults = decode(document)
    assert isinstance(faults, tuple)
    assert len(faults) == 3
    assert str(FieldFault("a.b", "1", "2")) == "a.b: found 1, wanted 2"
    for value in (None, 3, [], "x", {}, {"spec": 1}, {"metadata": {}, "spec": {"steps": [None]}}):
        assert isinstance(decode(value), tuple)


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_that_python_would_take_and_we_do_not(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1.0), ("-.5", -0.5), ("+2.", 2.0), ("1E-3", 0.001), ("0", 0.0), ("1e400", None)]
)
def test_numbers(text: str, value: float | None) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m30s", 90.0), ("250ms", 0.25), ("0", 0.0), ("1m0s", 60.0), ("1", None), ("", None), ("1d", None), ("s", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "source",
    [
        {"serverAddress": "http://user:s3cret@prom:9090"},
        {"serverAddress": "http://prom:9090/?token=s3cret"},
        {"serverAddress": "https://prom:9090/#s3cret"},
        {"headers": "Authorization: Bearer s3cret"},
        {"headers": {"Authorization: Bearer s3cret": None}},
        {"headers": {"X-Key": "s3cret\n"}},
        {"authRef": "s3cret"},
    ],
    ids=["user", "query", "fragment", "a header line", "a header line as a name", "a value", "a token for a reference"],
)
def test_what_may_be_a_secret_is_refused_and_not_shown(source: dict[str, Any]) -> None:
    faults = decode(changed("spec.source", source))
    assert isinstance(faults, tuple)
    assert all(fault.field.startswith("spec.source") for fault in faults)
    assert "s3cret" not in " ".join(str(fault) for fault in faults)


def test_an_address_without_a_secret_is_shown_as_it_was_found() -> None:
    faults = decode(changed("spec.source", {"serverAddress": "ftp://prom"}))
    assert isinstance(faults, tuple)
    assert 'found "ftp://prom", wanted an http:// or https:// URL' in str(faults[0])


def test_the_plan_of_an_ome_service_is_read_by_the_same_readers() -> None:
    canary = {
        "steps": [
            {
                "capacity": "25%",
                "traffic": 25,
                "pause": {"duration": "2m0s"},
                "analysis": {
                    "interval": "1m0s",
                    "failureLimit": 3,
                    "metrics": [{"name": "e", "query": "up", "operator": "GTE", "threshold": "1"}],
                },
            },
            {"capacity": 4, "traffic": 100},
        ],
        "prometheus": {"serverAddress": "http://prometheus.monitoring.svc:9090", "authRef": {"name": "t", "key": "k"}},
    }
    faults: list[FieldFault] = []
    fields = Fields(canary, "status.rollout.canary", faults)
    first, last = read_steps(fields)
    prometheus = fields.child("prometheus")
    assert prometheus is not None
    source = read_source(prometheus)
    assert faults == []
    assert first.analysis is not None
    assert (first.analysis.interval, first.pause, last.analysis) == (60.0, Pause(seconds=120.0), None)
    assert (source.provider, source.auth) == (None, SecretKey(name="t", key="k"))
    read_steps(Fields({"steps": [{"analysis": {}}]}, "status.rollout.canary", faults))
    assert [fault.field.removeprefix("status.rollout.canary.steps[0].analysis.") for fault in faults] == [
        "interval",
        "failureLimit",
        "metrics",
    ]


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf"), "1e999", "nan", True, [], ""])
def test_what_is_no_number_in_the_range_is_a_fault_and_never_raises(value: object) -> None:
    faults: list[FieldFault] = []
    assert Fields({"n": value}, "spec", faults).number("n", 2.0, 1.0, 100.0) == 2.0
    assert [each.field for each in faults] == ["spec.n"]
