"""The metrics document, case by case: what is shown, what is missing and why, and what makes it partial."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters.document import metrics_document, not_found
from exporters.expectation_tables import (
    BUSY_SIGNALS,
    ENGINE_ENTRIES,
    IDLE_SIGNALS,
    ROLE_LATENCY,
    ROUTER_ENTRIES,
    TALLIES,
    TIERS,
)
from exporters.expectations import LEVELS, has_flag
from router_contract.documents import REASONS, SKIPPED, ModelDeploymentMetrics, SkipCode, Unavailable
from router_contract.readings import Estimate, MissingCode, SignalValue, State, Window
from router_contract.signals import SIGNALS, Kind
from router_contract.targets import EndpointType, Replica
from router_contract.verdicts import RoleMeasurement, TargetState
from tests.exporters.reports import KEY, Pods, counter, gauge, gone, hist, member, report

FLAG = ("--kv-transfer-config", "{}")


def vllm(moved: float | None = 6.0, *more: SignalValue, without: tuple[str, ...] = ()) -> tuple[SignalValue, ...]:
    """A vLLM engine's answer; ``moved`` is what everything moved by, ``None`` on a first read."""
    tokens = None if moved is None else moved * 10
    values = (
        gauge("requests-running", 2.0),
        gauge("requests-waiting", 0.0),
        hist("time-to-first-token", moved),
        hist("inter-token-latency", tokens),
        hist("time-per-output-token", moved),
        counter("prefix-cache-queries", tokens),
        counter("prefix-cache-hits", moved),
        counter("external-cache-queries", 0.0 if moved is not None else None, value=0.0),
        counter("external-cache-hits", 0.0 if moved is not None else None, value=0.0),
        counter("prompt-tokens", tokens),
        counter("generation-tokens", tokens),
    )
    kept = tuple(value for value in values if value.signal not in (*without, *(v.signal for v in more)))
    return (*kept, *more)


def idle_vllm(*more: SignalValue, without: tuple[str, ...] = ()) -> tuple[SignalValue, ...]:
    return vllm(0.0, gauge("requests-running", 0.0), *more, without=without)


def sglang(moved: float | None = 6.0, *more: SignalValue, without: tuple[str, ...] = ()) -> tuple[SignalValue, ...]:
    levels = (
        "requests-running",
        "requests-waiting",
        "requests-retracted",
        "requests-paused",
        "prefill-bootstrap-waiting",
        "prefill-inflight",
        "decode-prealloc-waiting",
        "decode-transfer-waiting",
    )
    modes = (("input", 4.0), ("device_hit", 2.0), ("host_hit", 0.0), ("storage_hit", 0.0))
    values = (
        *(gauge(signal, 0.0) for signal in levels),
        hist("time-to-first-token", moved),
        hist("inter-token-latency", moved),
        *(
            counter("effective-prefill-tokens", None if moved is None else moved * share, value=share * 100, mode=mode)
            for mode, share in modes
        ),
        hist("transfer-latency", moved, 12.0),
        hist("transfer-speed", moved, 3.0),
        hist("transfer-size", moved, 40.0),
        counter("transfer-failures", None if moved is None else 0.0),
        counter("prompt-tokens", moved),
        counter("generation-tokens", moved),
    )
    kept = tuple(value for value in values if value.signal not in (*without, *(v.signal for v in more)))
    return (*kept, *more)


def router(software: str, *values: SignalValue, **more: object) -> Pods:
    return Pods("router", "Router", software, **more).pod("router-0", *values)


def document(*groups: Pods, **more: object) -> ModelDeploymentMetrics:
    made = metrics_document(report(*groups, **more))
    assert isinstance(made, ModelDeploymentMetrics), made
    return made


def entries(made: ModelDeploymentMetrics, *, scope: str = "") -> dict[str, float]:
    """``section/name[@pod]`` to value, for one scope or all."""
    found = {}
    for section in ("processing", "queueing", "latency", "traffic", "transfer", "cache_hits"):
        for entry in getattr(made, section) or ():
            name = entry.scope if section == "cache_hits" else entry.name
            pod = f"@{entry.pod}" if hasattr(entry, "pod") else ""
            if not scope or entry.scope == scope:
                found[f"{section}/{name}{pod}"] = entry.rate if section == "cache_hits" else entry.value
    return found


def lacks(made: ModelDeploymentMetrics) -> set[tuple[str, str, str]]:
    return {(m.pod, m.source, m.code) for m in made.missing or ()}


def quiet(latency, prefix):
    """What is missing of an engine whose latencies have no observation, with their code and that of the cache."""
    names = ("time-to-first-token", "inter-token-latency", "time-per-output-token")
    return {("p", f"wire:{name}", latency) for name in names} | {("p", "local-prefix", prefix)}


NO_STORE = ("p", "external-store", "UnsupportedNoConnector")
NO_TIERS = {("p", "host-prefix", "UnsupportedNoHostTier"), ("p", "storage-prefix", "UnsupportedNoStorageTier")}

ENGINE_CASES = {
    "vllm complete": (Pods().pod("p", *vllm()), {NO_STORE}, False),
    "first read names every window": (
        Pods().pod("p", *vllm(None)),
        {
            *(
                ("p", f"wire:{signal}", "AwaitingSecondSample")
                for signal in (
                    "time-to-first-token",
                    "inter-token-latency",
                    "time-per-output-token",
                    "prompt-tokens",
                    "generation-tokens",
                )
            ),
            ("p", "local-prefix", "AwaitingSecondSample"),
            NO_STORE,
        },
        True,
    ),
    "idle": (
        Pods().pod("p", *idle_vllm()),
        {
            *quiet("Idle", "Idle"),
            NO_STORE,
        },
        False,
    ),
    "a rank whose work in hand is not known is not idle": (
        Pods().pod(
            "p", *idle_vllm(gone("requests-running", MissingCode.NOT_FINITE, rank="1"), gauge("requests-running", 0.0))
        ),
        {
            ("p", "wire:requests-running", "NotFinite"),
            *quiet("NoObservations", "NoQueries"),
            NO_STORE,
        },
        True,
    ),
    "idle but no ttft": (
        Pods().pod("p", *idle_vllm(without=("time-to-first-token",))),
        {
            ("p", "vllm:time_to_first_token_seconds", "Absent"),
            ("p", "wire:inter-token-latency", "Idle"),
            ("p", "wire:time-per-output-token", "Idle"),
            ("p", "local-prefix", "Idle"),
            NO_STORE,
        },
        True,
    ),
    "work in hand and nothing moves is not idle": (
        Pods().pod("p", *vllm(0.0)),
        {
            *quiet("NoObservations", "NoQueries"),
            NO_STORE,
        },
        True,
    ),
    "ttft moved, itl absent": (
        Pods().pod("p", *vllm(without=("inter-token-latency",))),
        {("p", "vllm:inter_token_latency_seconds", "Absent"), NO_STORE},
        True,
    ),
    "ttft moved, cache absent": (
        Pods().pod("p", *vllm(without=("prefix-cache-queries", "prefix-cache-hits"))),
        {("p", "local-prefix", "Absent"), NO_STORE},
        True,
    ),
    "one unreadable family": (
        Pods().pod("p", *vllm(6.0, gone("requests-waiting", MissingCode.UNREADABLE))),
        {("p", "vllm:num_requests_waiting", "Unreadable"), NO_STORE},
        True,
    ),
    "a level that is no number": (
        Pods().pod("p", *vllm(6.0, gauge("requests-running", float("nan")))),
        {("p", "wire:requests-running", "NotFinite"), NO_STORE},
        True,
    ),
    "one rank lost makes the sum missing": (
        Pods().pod(
            "p",
            *vllm(
                6.0,
                gauge("requests-running", 1.0, rank="0"),
                gone("requests-running", MissingCode.EXPIRED, rank="1"),
            ),
        ),
        {("p", "wire:requests-running", "Expired"), NO_STORE},
        True,
    ),
    "counter reset": (
        Pods().pod(
            "p",
            *vllm(
                6.0,
                msgspec.structs.replace(hist("time-to-first-token", None), window_missing=MissingCode.COUNTER_RESET),
            ),
        ),
        {("p", "wire:time-to-first-token", "CounterReset"), NO_STORE},
        True,
    ),
    "more hits than queries": (
        Pods().pod("p", *vllm(6.0, counter("prefix-cache-hits", 61.0))),
        {("p", "local-prefix", "IncompatibleDenominator"), NO_STORE},
        True,
    ),
    "this version never had it": (
        Pods().pod("p", *vllm(without=("time-per-output-token",)), version="0.9.0"),
        {("p", "vllm:request_time_per_output_token_seconds", "UnsupportedSource"), NO_STORE},
        False,
    ),
    "encode expects no tokens and misses no cache": (
        Pods(kind="Encode").pod("p", gauge("requests-running", 0.0), gauge("requests-waiting", 0.0)),
        set(),
        False,
    ),
    "sglang complete": (Pods(software="sglang").pod("p", *sglang()), NO_TIERS, False),
    "sglang idle": (
        Pods(software="sglang").pod("p", *sglang(0.0)),
        {
            ("p", "wire:time-to-first-token", "Idle"),
            ("p", "wire:inter-token-latency", "Idle"),
            ("p", "device-prefix", "Idle"),
            *NO_TIERS,
        },
        False,
    ),
    "sglang itl not begun while ttft saw nothing": (
        Pods(software="sglang").pod("p", *sglang(0.0, without=("inter-token-latency",))),
        {
            ("p", "wire:time-to-first-token", "Idle"),
            ("p", "sglang:inter_token_latency_seconds", "HistogramNotYetExported"),
            ("p", "device-prefix", "Idle"),
            *NO_TIERS,
        },
        False,
    ),
    "sglang itl absent while ttft moved": (
        Pods(software="sglang").pod("p", *sglang(6.0, gone("inter-token-latency", MissingCode.HISTOGRAM_NOT_YET))),
        {("p", "sglang:inter_token_latency_seconds", "Absent"), *NO_TIERS},
        True,
    ),
    "sglang needs all four modes": (
        Pods(software="sglang").pod("p", *sglang(6.0, counter("effective-prefill-tokens", 6.0, mode="device_hit"))),
        {("p", "device-prefix", "Absent"), *NO_TIERS},
        True,
    ),
    "sglang host tier by an abbreviated flag": (
        Pods(software="sglang", arguments=("--enable-hierarchical",)).pod("p", *sglang()),
        {("p", "storage-prefix", "UnsupportedNoStorageTier")},
        False,
    ),
    "sglang flexkv tier by value": (
        Pods(software="sglang", arguments=("--radix-cache-backend", "flexkv")).pod("p", *sglang()),
        {("p", "storage-prefix", "UnsupportedNoStorageTier")},
        False,
    ),
    "unknown engine": (Pods(software="mystery").pod("p"), {("p", "scrape", "UnknownSoftware")}, True),
    "failed pod beside a good one": (
        Pods().pod("p", *vllm()).pod("q", state=TargetState.FAILING),
        {("q", "scrape", "ScrapeFailed"), NO_STORE},
        True,
    ),
    "not read yet": (Pods().pod("p", state=TargetState.PENDING), {("p", "scrape", "NeverRead")}, True),
    "not scheduled yet": (Pods().pod("p", read=False), {("p", "scrape", "NeverRead")}, True),
    "no address": (
        Pods().pod("p", *vllm()).pod("q", read=False, metrics=None),
        {("q", "scrape", "NoAddress"), NO_STORE},
        True,
    ),
    "over the limit": (
        Pods().pod("p", *vllm()).pod("q", state=TargetState.SHED),
        {("q", "pod-discovery", "TooManyPods"), NO_STORE},
        True,
    ),
    "one of two": (
        Pods(desired=2).pod("p", *vllm()),
        {("", "engine/server", "PodsMissing"), NO_STORE},
        True,
    ),
    "skipped pods are never partial": (
        Pods(desired=3)
        .pod("p", *vllm())
        .pod("q", state=TargetState.FAILING, terminating=True)
        .pod("r", read=False, started=False),
        {NO_STORE},
        False,
    ),
    "a follower does not serve": (
        Pods(
            desired=1,
            size=2,
            replicas=(Replica(ordinal=0, members=(member("p"), member("q", serves=False))),),
        ).pod("p", *vllm()),
        {NO_STORE},
        False,
    ),
    "an elastic role has one": (Pods(desired=1, size=8, elastic=True).pod("p", *vllm()), {NO_STORE}, False),
}


@pytest.mark.parametrize(("pods", "wanted", "partial"), ENGINE_CASES.values(), ids=ENGINE_CASES)
def test_what_one_engine_role_lacks(pods: Pods, wanted: set[tuple[str, str, str]], partial: bool) -> None:
    made = document(pods)
    assert lacks(made) == wanted
    assert made.partial is partial


@pytest.mark.parametrize("endpoint", [EndpointType.EMBEDDINGS, EndpointType.RERANK])
def test_embeddings_and_rerank_expect_no_token_latency(endpoint: EndpointType) -> None:
    values = (gauge("requests-running", 0.0), gauge("requests-waiting", 0.0), counter("prompt-tokens", 60.0))
    made = document(Pods().pod("p", *values), endpoint_type=endpoint)
    assert (lacks(made), made.partial) == (set(), False)


def test_a_measured_zero_is_kept_and_pods_add_up() -> None:
    made = document(Pods().pod("a", *vllm()).pod("b", *vllm(6.0, gauge("requests-running", 5.0))))
    found = entries(made)
    assert found["processing/running"] == 7.0
    assert found["queueing/waiting"] == 0.0
    assert found["latency/ttft@a"] == 0.5
    assert found["cache_hits/local-prefix@b"] == pytest.approx(0.1)
    assert found["traffic/prompt-tokens@a"] == pytest.approx(1.0)
    assert made.processing[0].pod_count == 2
    assert [entry.pod for entry in made.latency] == ["a", "a", "a", "b", "b", "b"]
    assert [entry.name for entry in made.latency[:3]] == ["itl", "tpot", "ttft"]


def test_ranks_add_and_usage_is_weighed_by_capacity() -> None:
    values = vllm(
        6.0,
        gauge("requests-running", 2.0, rank="0"),
        gauge("requests-running", 3.0, rank="1"),
        gauge("kv-cache-usage", 0.2, rank="0"),
        gauge("kv-cache-usage", 0.8, rank="1"),
        gauge("kv-capacity-blocks", 300.0, rank="0"),
        gauge("kv-capacity-blocks", 100.0, rank="1"),
    )
    found = entries(document(Pods().pod("p", *values)))
    assert found["processing/running"] == 5.0
    assert found["processing/kv-cache-usage"] == pytest.approx(0.35)
    unweighed = entries(document(Pods().pod("p", *values).pod("q", *vllm(6.0, gauge("kv-cache-usage", 0.65)))))
    assert unweighed["processing/kv-cache-usage"] == pytest.approx(0.5)


def test_quantiles_come_from_the_merged_window() -> None:
    estimates = tuple((q, Estimate(value=q, low=0.0, high=1.0, exact=False)) for q in (0.5, 0.9, 0.99))
    merged = hist("time-to-first-token", 8.0, 0.5)
    merged = msgspec.structs.replace(merged, window=msgspec.structs.replace(merged.window, quantiles=estimates))
    ranks = (hist("time-to-first-token", 2.0, 0.2, rank="0"), hist("time-to-first-token", 6.0, 0.6, rank="1"))
    made = document(Pods().pod("p", *vllm(6.0, *ranks), merged=(merged,)))
    ttft = next(entry for entry in made.latency if entry.name == "ttft")
    assert (ttft.p50.value, ttft.p90.value, ttft.p99.value, ttft.samples) == (0.5, 0.9, 0.99, 8.0)
    alone = next(e for e in document(Pods().pod("p", *vllm(6.0, *ranks))).latency if e.name == "ttft")
    assert (alone.value, alone.samples, alone.p50) == (pytest.approx(0.5), 8.0, msgspec.UNSET)


def test_a_whole_role_has_its_own_latency() -> None:
    role = RoleMeasurement(name="server", values=(hist("time-to-first-token", 9.0, 0.25), hist("queue-time", 3.0)))
    made = document(Pods().pod("p", *vllm()), roles=(role, RoleMeasurement(name="other")))
    assert [(r.role, [(e.name, e.value, e.samples, e.pod) for e in r.latency]) for r in made.roles] == [
        ("server", [("ttft", 0.25, 9.0, "")])
    ]


def test_stale_values_are_shown_as_stale_beside_the_failure() -> None:
    old = tuple(msgspec.structs.replace(value, state=State.STALE, age_seconds=40.0) for value in vllm())
    made = document(Pods().pod("p", *old, state=TargetState.FAILING))
    assert lacks(made) == {("p", "scrape", "ScrapeFailed")}
    assert {entry.state for entry in (*made.processing, *made.latency, *made.cache_hits)} == {"Stale"}
    assert made.partial is True
    assert made.missing[0].reason == "the last read failed: Http: status 500"


def test_a_lossy_window_says_so() -> None:
    lossy = msgspec.structs.replace(
        counter("prompt-tokens", 5.0), window=Window(increase=5.0, seconds=50.0, lossy=True)
    )
    traffic = {entry.name: entry.lossy for entry in document(Pods().pod("p", *vllm(6.0, lossy))).traffic}
    assert traffic == {"prompt-tokens": True, "generation-tokens": msgspec.UNSET}


PAIR_CASES = {
    "vllm: the prefill half has no itl or tpot": ("vllm", {"latency/ttft@p", "latency/ttft@d", "latency/itl@d"}, set()),
    "sglang: each series from its half": (
        "sglang",
        {
            "transfer/transfer-latency@p",
            "transfer/transfer-failures@p",
            "queueing/decode-transfer-waiting",
            "latency/ttft@d",
            "cache_hits/device-prefix@p",
        },
        {"latency/ttft@p", "cache_hits/device-prefix@d", "transfer/transfer-latency@d", "latency/itl@p"},
    ),
}


@pytest.mark.parametrize(("software", "there", "absent"), PAIR_CASES.values(), ids=PAIR_CASES)
def test_a_pair_reads_each_series_from_its_half(software: str, there: set[str], absent: set[str]) -> None:
    answer = {"vllm": vllm, "sglang": sglang}[software]
    # The names say the opposite of the kinds, on purpose: only the kind counts.
    prefill = Pods("decoder", "Prefill", software).pod("p", *answer())
    decode = Pods("prefiller", "Decode", software).pod("d", *answer())
    made = document(prefill, decode)
    assert there <= set(entries(made))
    assert not absent & set(entries(made))
    assert ("latency/itl@p" in entries(made)) is False
    assert made.partial is False


def test_a_decode_half_that_stops_moving_is_partial() -> None:
    stopped = vllm(6.0, hist("inter-token-latency", 0.0), hist("time-per-output-token", 0.0))
    made = document(Pods("p", "Prefill").pod("p", *vllm()), Pods("d", "Decode").pod("d", *stopped))
    assert {code for pod, _, code in lacks(made) if pod == "d"} == {"NoObservations", "UnsupportedNoConnector"}
    assert made.partial is True


def test_an_idle_sglang_prefill_half_is_told_by_its_tokens() -> None:
    prefill = Pods("p", "Prefill", "sglang").pod("p", *sglang(0.0))
    made = document(prefill, Pods("d", "Decode", "sglang").pod("d", *sglang()))
    assert ("p", "device-prefix", "Idle") in lacks(made)
    assert made.partial is False


@pytest.mark.parametrize(
    ("without", "code", "partial"),
    [
        (("transfer-failures",), "CounterNotYetExported", False),
        (("transfer-failures", "transfer-size"), "Absent", True),
    ],
)
def test_transfer_failures_need_the_transfer_size(without: tuple[str, ...], code: str, partial: bool) -> None:
    prefill = Pods("p", "Prefill", "sglang").pod("p", *sglang(without=without))
    made = document(prefill, Pods("d", "Decode", "sglang").pod("d", *sglang()))
    assert ("p", "sglang:num_transfer_failed_reqs_total", code) in lacks(made)
    assert made.partial is partial


MOVED = (counter("external-cache-queries", 40.0), counter("external-cache-hits", 10.0))
STORE_CASES = {
    "no flag, nothing counted": ((), False, "Server", None, "UnsupportedNoConnector"),
    "flag, no pool": (FLAG, False, "Server", None, "UnsupportedNotTheStore"),
    "flag, pool, decode half": (FLAG, True, "Decode", None, "UnsupportedNotTheStore"),
    "flag, pool, nothing looked up": (FLAG, True, "Server", None, "NoQueries"),
    "moved counter proves a connector": ((), True, "Server", MOVED, 0.25),
    "moved counter without a pool": ((), False, "Server", MOVED, "UnsupportedNotTheStore"),
    "flag and pool and moved": (FLAG, True, "Prefill", MOVED, 0.25),
    "glued flag": (("--kv-transfer-config={}",), True, "Server", MOVED, 0.25),
    "flag past a bare dash is none": (("--", *FLAG), True, "Server", None, "UnsupportedNoConnector"),
    "flag and pool and first read": (
        FLAG,
        True,
        "Server",
        (counter("external-cache-queries", None), counter("external-cache-hits", None)),
        "AwaitingSecondSample",
    ),
}


@pytest.mark.parametrize(("arguments", "pool", "kind", "values", "wanted"), STORE_CASES.values(), ids=STORE_CASES)
def test_the_external_store(arguments, pool: bool, kind: str, values, wanted: str | float) -> None:
    groups = [Pods(kind=kind, arguments=arguments).pod("p", *vllm(6.0, *(values or ())))]
    if kind != "Server":
        groups.append(Pods("other", {"Decode": "Prefill", "Prefill": "Decode"}[kind]).pod("o", *vllm()))
    made = document(*groups, pool=pool)
    if isinstance(wanted, float):
        assert entries(made)["cache_hits/external-store@p"] == wanted
    else:
        assert ("p", "external-store", wanted) in lacks(made)


def test_the_source_of_a_cache_entry_is_what_its_two_series_share() -> None:
    values = vllm(
        6.0,
        msgspec.structs.replace(counter("prefix-cache-hits", 6.0), source="vllm:prefix_cache_hits_total"),
        msgspec.structs.replace(counter("prefix-cache-queries", 60.0), source="vllm:prefix_cache_queries_total"),
    )
    assert [hit.source for hit in document(Pods().pod("p", *values)).cache_hits] == ["vllm:prefix_cache"]


def sent(increase: float, **labels: str) -> SignalValue:
    return counter("router-requests", increase, **labels)


GATEWAY_LEVELS = (gauge("router-requests-running", 1.0), gauge("router-backends", 3.0))
VLLM_LEVELS = (gauge("router-requests-running", 1.0), gauge("router-reported-workers", 3.0))
OK_200 = counter("router-http-responses", 20.0, status_code="200")

ROUTER_CASES = {
    "gateway: failures are exhausted retries": (
        "sglang_gateway",
        (
            *GATEWAY_LEVELS,
            sent(20.0),
            counter("router-retries-exhausted", 5.0),
            OK_200,
            counter("router-http-responses", 5.0, status_code="500"),
        ),
        {"requests": 20.0, "failed-requests": 5.0, "error-ratio": 20.0, "http-5xx-responses": 5.0},
        {("errors", "CounterNotYetExported")},
        False,
    ),
    "gateway 503 without an error counter": (
        "sglang_gateway",
        (*GATEWAY_LEVELS, sent(20.0), counter("router-http-responses", 4.0, status_code="503")),
        {"requests": 20.0, "http-5xx-responses": 4.0},
        {
            ("errors", "CounterNotYetExported"),
            ("failed", "CounterNotYetExported"),
            ("ratio", "CounterNotYetExported"),
        },
        False,
    ),
    "gateway: only 200s are a present zero": (
        "sglang_gateway",
        (*GATEWAY_LEVELS, sent(20.0), counter("router-retries-exhausted", 0.0), OK_200),
        {"requests": 20.0, "failed-requests": 0.0, "error-ratio": 20.0, "http-5xx-responses": 0.0},
        {("errors", "CounterNotYetExported")},
        False,
    ),
    "gateway: no response samples is absent": (
        "sglang_gateway",
        (
            *GATEWAY_LEVELS,
            sent(20.0),
            counter("router-retries-exhausted", 0.0),
            counter("router-http-responses", 3.0, status_code="none"),
        ),
        {"requests": 20.0, "failed-requests": 0.0, "error-ratio": 20.0},
        {("errors", "CounterNotYetExported"), ("responses", "Absent")},
        True,
    ),
    "gateway without any error counter and without requests": (
        "sglang_gateway",
        (*GATEWAY_LEVELS, OK_200),
        {"http-5xx-responses": 0.0},
        {("errors", "Absent"), ("failed", "Absent"), ("ratio", "Absent"), ("requests", "Absent")},
        True,
    ),
    "requests and failures over different windows": (
        "sglang_gateway",
        (*GATEWAY_LEVELS, sent(20.0), counter("router-retries-exhausted", 1.0, seconds=30.0), OK_200),
        {"requests": 20.0, "failed-requests": 1.0, "http-5xx-responses": 0.0},
        {("errors", "CounterNotYetExported"), ("ratio", "DifferentWindows")},
        True,
    ),
    "more failures than requests": (
        "sglang_gateway",
        (*GATEWAY_LEVELS, sent(2.0), counter("router-retries-exhausted", 3.0), OK_200),
        {"requests": 2.0, "failed-requests": 3.0, "http-5xx-responses": 0.0},
        {("errors", "CounterNotYetExported"), ("ratio", "ErrorsExceedRequests")},
        True,
    ),
    "idle gateway has no ratio": (
        "sglang_gateway",
        (
            gauge("router-requests-running", 0.0),
            gauge("router-backends", 3.0),
            sent(0.0),
            counter("router-retries-exhausted", 0.0),
            OK_200,
        ),
        {"requests": 0.0, "failed-requests": 0.0, "http-5xx-responses": 0.0},
        {("errors", "CounterNotYetExported"), ("ratio", "Idle")},
        False,
    ),
    "requests in hand, none ended": (
        "sglang_gateway",
        (*GATEWAY_LEVELS, sent(0.0), counter("router-retries-exhausted", 0.0), OK_200),
        {"requests": 0.0, "failed-requests": 0.0, "http-5xx-responses": 0.0},
        {("errors", "CounterNotYetExported"), ("ratio", "NoRequests")},
        True,
    ),
    "vllm router: requests are successes and failures": (
        "vllm_router",
        (*VLLM_LEVELS, counter("router-successful-requests", 16.0), counter("router-retries-exhausted", 4.0)),
        {"requests": 20.0, "failed-requests": 4.0, "error-ratio": 20.0}
        | {"successful-requests": 16.0, "retries-exhausted": 4.0},
        {("errors", "CounterNotYetExported")},
        False,
    ),
    "vllm router: nothing failed yet": (
        "vllm_router",
        (*VLLM_LEVELS, counter("router-successful-requests", 16.0)),
        {"requests": 16.0, "successful-requests": 16.0},
        {
            ("errors", "CounterNotYetExported"),
            ("retries", "CounterNotYetExported"),
            ("ratio", "CounterNotYetExported"),
        },
        False,
    ),
    "vllm router: probes are shown and not counted": (
        "vllm_router",
        (
            *VLLM_LEVELS,
            counter("router-successful-requests", 16.0, route="/v1/chat/completions"),
            counter("router-successful-requests", 9.0, route="/v1/models"),
            counter("router-retries-exhausted", 4.0, route="/v1/chat/completions"),
        ),
        {"requests": 20.0, "failed-requests": 4.0, "error-ratio": 20.0}
        | {"successful-requests": 25.0, "retries-exhausted": 4.0},
        {("errors", "CounterNotYetExported")},
        False,
    ),
    "vllm router: pair series on a server shape are partial": (
        "vllm_router",
        (counter("router-pd-requests", 16.0), counter("router-pd-errors", 0.0)),
        {},
        {
            ("errors", "Absent"),
            ("retries", "Absent"),
            ("ratio", "Absent"),
            ("running", "UnsupportedByPolicy"),
            ("workers", "Absent"),
            ("requests", "Absent"),
        },
        True,
    ),
    "gateway: running requests are counted under some policies only": (
        "sglang_gateway",
        (gauge("router-backends", 3.0), sent(20.0), counter("router-retries-exhausted", 0.0), OK_200),
        {"requests": 20.0, "failed-requests": 0.0, "error-ratio": 20.0, "http-5xx-responses": 0.0},
        {("errors", "CounterNotYetExported"), ("active", "UnsupportedByPolicy")},
        False,
    ),
    "llm-d": (
        "llm_d",
        (
            *GATEWAY_LEVELS,
            sent(30.0),
            counter("router-request-errors", 2.0),
            hist("router-time-to-first-token", 30.0),
            hist("router-time-per-output-token", 30.0),
        ),
        {"requests": 30.0, "request-errors": 2.0},
        set(),
        False,
    ),
}

KEYS = {
    "smg_router_request_errors_total": "errors",
    "vllm_router_request_errors_total": "errors",
    "smg_retries_exhausted_total": "failed",
    "smg_worker_retries_exhausted_total": "failed",
    "smg_worker_retries_exhausted_total+smg_router_request_errors_total": "failed",
    "vllm_router_retries_exhausted_total": "retries",
    "wire:router-http-responses": "responses",
    "smg_router_requests_total": "requests",
    "vllm_router_requests_total": "requests",
    "vllm_router_active_workers": "workers",
    "vllm_router_running_requests": "running",
    "smg_worker_requests_active": "active",
}


def short(source: str) -> str:
    return KEYS.get(source, "ratio" if "+" in source else source)


@pytest.mark.parametrize(("software", "values", "samples", "gaps", "partial"), ROUTER_CASES.values(), ids=ROUTER_CASES)
def test_what_routers_count(software: str, values, samples, gaps, partial: bool) -> None:
    made = document(Pods().pod("p", *vllm()), router(software, *values))
    assert {e.name: e.samples for e in made.traffic or () if e.pod == "router-0"} == samples
    assert {(short(m.source), m.code) for m in made.missing if m.pod == "router-0"} == gaps
    assert len(set(made.missing)) == len(made.missing)
    assert made.partial is partial
    lacking = [m.name for m in made.missing if m.pod == "router-0" and m.source != "scrape"]
    assert all(lacking), "a value that is missing has a name"
    assert not set(lacking) & set(samples), "no value is there and missing"


def test_what_is_missing_is_told_apart_where_two_values_have_one_source() -> None:
    made = document(router("vllm_router", *ROUTER_CASES["vllm router: nothing failed yet"][1]))
    assert [m.name for m in made.missing if "+" in m.source] == ["error-ratio"]
    assert {m.name for m in made.missing if m.source == "vllm_router_retries_exhausted_total"} == {
        "failed-requests",
        "retries-exhausted",
    }


def test_the_error_ratio_is_failures_over_requests() -> None:
    made = document(router("sglang_gateway", *ROUTER_CASES["gateway: failures are exhausted retries"][1]))
    ratio = next(entry for entry in made.traffic if entry.name == "error-ratio")
    assert (ratio.value, ratio.unit) == (0.25, "fraction")
    assert ratio.source == "wire:router-retries-exhausted+smg_router_request_errors_total+wire:router-requests"


def pair(software: str, *values: SignalValue) -> ModelDeploymentMetrics:
    return document(
        Pods("p", "Prefill").pod("p", *vllm()), Pods("d", "Decode").pod("d", *vllm()), router(software, *values)
    )


def test_a_gateway_pair_counts_a_failure_once() -> None:
    values = (
        *GATEWAY_LEVELS,
        sent(20.0),
        counter("router-retries-exhausted", 4.0, worker_type="prefill"),
        counter("router-retries-exhausted", 5.0, worker_type="decode"),
        OK_200,
    )
    made = pair("sglang_gateway", *values)
    assert {e.name: e.samples for e in made.traffic if e.pod == "router-0"}["failed-requests"] == 5.0
    assert made.partial is False


def test_a_vllm_router_pair_has_other_series_and_no_gauges() -> None:
    made = pair(
        "vllm_router",
        counter("router-pd-requests", 10.0),
        counter("router-pd-errors", 1.0),
        counter("router-pd-prefill-errors", 1.0, worker="p"),
        counter("router-pd-decode-errors", 2.0, worker="a"),
        counter("router-pd-decode-errors", 1.0, worker="b"),
    )
    samples = {e.name: e.samples for e in made.traffic if e.pod == "router-0"}
    assert samples == {
        "requests": 11.0,
        "failed-requests": 5.0,
        "error-ratio": 11.0,
        "pd-requests": 10.0,
        "pd-errors": 1.0,
    }
    assert {(m.source, m.code) for m in made.missing if m.pod == "router-0"} == {
        ("router-running", "UnsupportedRouterGauge"),
        ("router-reported-workers", "UnsupportedRouterGauge"),
    }
    assert made.partial is False


def test_backends_of_several_types_add_up() -> None:
    values = (
        gauge("router-requests-running", 0.0),
        gauge("router-backends", 2.0, worker_type="prefill"),
        gauge("router-backends", 3.0, worker_type="decode"),
        sent(1.0),
        OK_200,
    )
    assert entries(document(router("sglang_gateway", *values)), scope="router")["processing/router-backends"] == 5.0


def test_a_busy_and_an_idle_engine_behind_a_router_are_complete() -> None:
    made = document(
        Pods().pod("a", *vllm()).pod("b", *idle_vllm()),
        router("vllm_router", *VLLM_LEVELS, counter("router-successful-requests", 16.0)),
    )
    assert made.partial is False


def test_roles_without_pods_and_routers_without_pods_are_named() -> None:
    made = document(Pods().pod("p", *vllm()), Pods("other", desired=2), Pods("router", "Router", "llm_d", desired=1))
    assert {("", "engine/other", "NoOwnedPod"), ("", "router", "NoOwnedPod")} <= lacks(made)
    assert made.coverage == type(made.coverage)(expected=4, read=1, failed=0, skipped=0)


def test_coverage_and_skipped_pods() -> None:
    made = document(
        Pods(desired=6)
        .pod("a", *vllm())
        .pod("b", state=TargetState.FAILING)
        .pod("c", state=TargetState.PENDING)
        .pod("d", read=False, terminating=True)
        .pod("e", read=False, started=False, skipped_reason="image is being pulled")
    )
    assert made.coverage == type(made.coverage)(expected=4, read=1, failed=1, skipped=2)
    assert [(s.pod, s.code, s.reason) for s in made.skipped] == [
        ("d", "Terminating", SKIPPED[SkipCode.TERMINATING]),
        ("e", "NotStarted", "image is being pulled"),
    ]


def test_a_parked_deployment_is_complete_and_zero() -> None:
    made = document(Pods(desired=0), Pods("two", software="sglang", desired=0))
    assert (made.partial, made.missing) == (False, msgspec.UNSET)
    assert [(g.name, g.scope, g.value, g.pod_count) for g in (*made.processing, *made.queueing)] == [
        ("running", "engine/server", 0.0, 0),
        ("running", "engine/two", 0.0, 0),
        ("waiting", "engine/server", 0.0, 0),
        ("waiting", "engine/two", 0.0, 0),
    ]
    assert made.coverage == type(made.coverage)(expected=0, read=0, failed=0, skipped=0)


def test_parked_without_a_list_of_pods_proves_nothing() -> None:
    made = document(Pods(desired=0), complete=False)
    assert (made.processing, made.partial) == (msgspec.UNSET, True)
    assert lacks(made) == {("", "pod-discovery", "ListFailed")}


UNAVAILABLE = {
    "every pod unreadable": (
        Pods().pod("b", state=TargetState.FAILING).pod("a", state=TargetState.FAILING),
        {},
        "no Pod of prod/chat could be read; a: the last read failed: Http: status 500",
    ),
    "no pods at all": (Pods(desired=2), {}, "no Pod of prod/chat is there to serve"),
    "nobody says how many": (Pods(desired=None), {}, "no Pod of prod/chat is there to serve"),
    "only skipped ones": (
        Pods().pod("a", read=False, started=False),
        {},
        "no Pod of prod/chat is there to serve (skipped: a NotStarted)",
    ),
    "no list": (
        Pods(desired=1),
        {"complete": False},
        "no Pod of prod/chat is there to serve; the last list of Pods failed, so there may be others",
    ),
    "everything expired": (
        Pods().pod("a", gone("requests-running", MissingCode.EXPIRED), state=TargetState.FAILING),
        {},
        "no Pod of prod/chat could be read; a: the last read failed: Http: status 500",
    ),
}


@pytest.mark.parametrize(("pods", "more", "message"), UNAVAILABLE.values(), ids=UNAVAILABLE)
def test_unavailable(pods: Pods, more: dict[str, object], message: str) -> None:
    assert metrics_document(report(pods, **more)) == Unavailable(reason="ServiceUnavailable", message=message)


def test_unknown_deployment() -> None:
    assert not_found(KEY) == Unavailable(reason="NotFound", message="no deployment prod/chat is observed")


def test_every_code_has_a_sentence_and_few_do_not_mark_the_document() -> None:
    assert set(REASONS) == set(MissingCode)
    assert {code for code, reason in REASONS.items() if not reason.partial} == {
        MissingCode.COUNTER_NOT_YET,
        MissingCode.HISTOGRAM_NOT_YET,
        MissingCode.IDLE,
        MissingCode.UNSUPPORTED_SOURCE,
        MissingCode.NO_ROUTER_GAUGE,
        MissingCode.NOT_BY_POLICY,
        MissingCode.NO_CONNECTOR,
        MissingCode.NOT_THE_STORE,
        MissingCode.NO_HOST_TIER,
        MissingCode.NO_STORAGE_TIER,
    }


def test_the_wire_form_keeps_the_known_field_names_and_omits_empty_arrays() -> None:
    made = msgspec.to_builtins(document(Pods().pod("p", gauge("requests-running", 0.0))))
    assert list(made) == [
        "apiVersion",
        "kind",
        "metadata",
        "timestamp",
        "processing",
        "missing",
        "partial",
        "coverage",
    ]
    assert set(made["processing"][0]) == {
        "name",
        "source",
        "scope",
        "unit",
        "value",
        "podCount",
        "observedAt",
        "ageSeconds",
        "state",
    }
    assert made["timestamp"] == "2027-01-15T08:00:00.000Z"


def test_the_tables_name_signals_that_exist() -> None:
    entries_ = (*ENGINE_ENTRIES, *ROUTER_ENTRIES)
    named = {
        signal for entry in entries_ for signal in (*entry.signals, *([entry.companion] if entry.companion else []))
    }
    named |= {signal for tally in TALLIES for signal in tally.signals}
    named |= {signal for tier in TIERS for signal in (tier.hits, tier.queries)}
    named |= {*IDLE_SIGNALS, *BUSY_SIGNALS, *(signal for _, signal in ROLE_LATENCY)}
    assert named <= set(SIGNALS)
    for entry in entries_:
        kinds = {SIGNALS[signal].kind for signal in entry.signals}
        wanted = Kind.GAUGE if entry.section in LEVELS else Kind.HISTOGRAM if entry.histogram else Kind.COUNTER
        assert kinds == {wanted}, entry.name


@given(st.sets(st.sampled_from([value.signal for value in vllm()])), st.sampled_from([None, 0.0, 6.0]))
@settings(max_examples=80, deadline=None)
def test_what_is_expected_is_shown_or_missed_and_never_both(without: set[str], moved: float | None) -> None:
    made = metrics_document(report(Pods().pod("p", *vllm(moved, without=tuple(without)))))
    assert isinstance(made, (ModelDeploymentMetrics, Unavailable))
    if isinstance(made, Unavailable):
        return
    expected = {"running", "waiting", "ttft", "itl", "tpot"}
    shown = {entry.name for section in (made.processing, made.queueing, made.latency) for entry in section or ()}
    tiers = {hit.scope for hit in made.cache_hits or ()}
    missed = [(gap.source, gap.code) for gap in made.missing or ()]
    windows = {"prompt-tokens", "generation-tokens"}
    optional = [gap for gap in missed if gap[0].removeprefix("wire:") in windows]
    assert len(shown & expected) + len(tiers) + len(missed) - len(optional) == len(expected) + 2
    assert made.partial is any(REASONS[MissingCode(code)].partial for _, code in missed)


FLAGS = {
    "whole": (("--enable-lmcache",), True),
    "shortened": (("--enable-lmca",), True),
    "too short": (("--enable",), False),
    "longer is another": (("--enable-lmcache-extra",), False),
    "a value is no flag": (("serve", "enable-lmcache"), False),
    "value wanted and there": (("--radix-cache-backend", "flexkv"), True),
    "value wanted and glued": (("--radix-cache-backend=flexkv",), True),
    "another value": (("--radix-cache-backend", "radix"), False),
    "value missing": (("--radix-cache-backend",), False),
    "past the dashes": (("--", "--enable-lmcache"), False),
    "nothing": ((), False),
}


@pytest.mark.parametrize(("stream", "wanted"), FLAGS.values(), ids=FLAGS)
def test_flags_in_an_argument_stream(stream: tuple[str, ...], wanted: bool) -> None:
    assert has_flag(stream, ("--enable-lmcache", "--radix-cache-backend=flexkv")) is wanted
