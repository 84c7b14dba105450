"""The version bounds of the engine tables against the scan of names by release."""

from __future__ import annotations

import json

import pytest

from router_contract.catalog import lookup
from router_contract.signals import Kind
from router_contract.targets import Component
from router_contract.vocabulary import Term, Vocabulary, parse_version
from tests.router_contract.recorded import RECORDINGS, wire_kind

_SCAN = json.loads((RECORDINGS / "names-by-version.json").read_text())
# The connector modules were looked at only in these releases.
_CONNECTORS = ("0.9.0.1", "0.10.2", "0.12.0", "0.16.0", "0.20.2", "0.24.0", "0.28.0", "0.30.0", "0.32.0", "0.33.0")
_CONNECTOR_NAMES = ("vllm:nixl_", "vllm:mooncake_", "vllm:kv_offload_", "vllm:hf3fs_", "vllm:hisparse_", "vllm:umbp_")

# Names for which the scan is no evidence, each with its reason. Nothing else may differ from it.
_NOT_IN_SCAN = {
    "vllm:lmcache_mp_lookup_duration_seconds": "defined by the LMCache connector, which the scan did not read",
    "process_start_time_seconds": "of the metrics library, not of the engine",
}
_BLIND = {
    "vllm:spec_decode_num_drafts_total": "found only since 0.32 and without a type: older declarations hid it",
    "vllm:spec_decode_num_draft_tokens_total": "V0 name until 0.9.0.1, then found only since 0.32, without a type",
    "vllm:spec_decode_num_accepted_tokens_total": "V0 name until 0.9.0.1, then found only since 0.32, without a type",
}


def _wire(name: str, types: str) -> set[str]:
    """The names on the wire of a declared name: counters gain `_total`, an unknown type may be one."""
    if types == "counter":
        return {f"{name.removesuffix('_total')}_total"}
    return {name, f"{name}_total"} if types == "?" else {name}


def _scanned(engine: str) -> dict[str, dict[str, str]]:
    """Wire name -> release -> type as declared in that release."""
    order = _SCAN[engine]["versions_looked_at"]
    found: dict[str, dict[str, str]] = {}
    for name, entry in _SCAN[engine]["series"].items():
        for release in entry["in"]:
            declared = entry["type"]
            for kind, span in entry["types"].items():
                first, last = span.split("..")
                if order.index(first) <= order.index(release) <= order.index(last):
                    declared = kind
            for wire in _wire(name, declared):
                found.setdefault(wire, {})[release] = declared
    return found


def _looked_at(engine: str, name: str) -> list[str]:
    return list(_CONNECTORS) if name.startswith(_CONNECTOR_NAMES) else _SCAN[engine]["versions_looked_at"]


def _after(release: str) -> str:
    major, minor, patch = parse_version(release)
    return f"{major}.{minor}.{patch + 1}"


def _bounds(looked_at: list[str], present: list[str]) -> tuple[str | None, str | None]:
    """The rule of `vocabulary`: since = right after the last release without it, before = the first without it."""
    first, last = looked_at.index(present[0]), looked_at.index(present[-1])
    since = None if first == 0 else _after(looked_at[first - 1])
    before = None if last == len(looked_at) - 1 else looked_at[last + 1]
    return since, before


_ENGINES = {name: lookup(Component.ENGINE, name) for name in ("vllm", "sglang")}
_ROWS = [
    (table, term)
    for table in _ENGINES.values()
    for term in table.terms
    if term.name not in _NOT_IN_SCAN and term.name not in _BLIND
]


def _id(item: object) -> str:
    return f"{item.name}-{item.signal}" if isinstance(item, Term) else getattr(item, "name", "")


@pytest.mark.parametrize(("table", "term"), _ROWS, ids=_id)
def test_the_bounds_follow_from_the_releases_looked_at(table: Vocabulary, term: Term) -> None:
    scanned = _scanned(table.name).get(term.name)
    assert scanned, f"{term.name} is in no release looked at"
    kind = wire_kind(term)
    compatible = {Kind.INFO: {"gauge", "?"}, Kind.GAUGE: {"gauge", "?"}}.get(kind, {kind.value, "?"})
    looked_at = _looked_at(table.name, term.name)
    present = [release for release in looked_at if scanned.get(release) in compatible]
    since, before = _bounds(looked_at, present)
    assert (term.since, term.before) == (since, before)


@pytest.mark.parametrize(("table", "term"), _ROWS, ids=_id)
def test_a_row_is_selected_exactly_in_the_releases_that_have_it(table: Vocabulary, term: Term) -> None:
    scanned = _scanned(table.name)[term.name]
    for release in _looked_at(table.name, term.name):
        names = {selected.name for selected in table.select(release)}
        assert (term.name in names) == (release in scanned), release


@pytest.mark.parametrize("engine", sorted(_ENGINES))
def test_every_name_of_the_scan_is_used_or_ignored(engine: str) -> None:
    templates = {"vllm:hisparse_{name}", "vllm:hisparse_{name}_total"}
    forgotten = [name for name in _scanned(engine) if name not in templates and not _ENGINES[engine].knows(name)]
    assert forgotten == []


@pytest.mark.parametrize("engine", sorted(_ENGINES))
def test_no_ignored_name_is_invented(engine: str) -> None:
    scanned = _scanned(engine)
    assert [name for name in _ENGINES[engine].ignored if name not in scanned] == []


def test_exceptions_to_the_scan_are_still_exceptions() -> None:
    scanned = _scanned("vllm")
    assert [name for name in _NOT_IN_SCAN if name in scanned] == []
    assert [name for name in _BLIND if len(scanned[name]) == len(_SCAN["vllm"]["versions_looked_at"])] == []


_TRANSFERS = ("transfer-latency", "transfer-speed", "transfer-size", "transfer-bootstrap-time")


@pytest.mark.parametrize("signal", _TRANSFERS)
@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        pytest.param("0.5.9", [Kind.GAUGE], id="gauge until 0.5.9"),
        pytest.param("0.5.10", [Kind.HISTOGRAM, Kind.GAUGE], id="either between, the histogram preferred"),
        pytest.param("0.5.11", [Kind.HISTOGRAM, Kind.GAUGE], id="either between, up to the last"),
        pytest.param("0.5.12", [Kind.HISTOGRAM], id="histogram from 0.5.12"),
        pytest.param(None, [Kind.HISTOGRAM, Kind.GAUGE], id="unknown version"),
    ],
)
def test_sglang_transfers_change_their_type(signal: str, version: str | None, kinds: list[Kind]) -> None:
    terms = [term for term in _ENGINES["sglang"].select(version) if term.signal == signal]
    assert [wire_kind(term) for term in sorted(terms, key=lambda term: term.preference)] == kinds


@pytest.mark.parametrize(
    ("signal", "version", "names"),
    [
        ("kv-cache-usage", "0.9.0.1", ["vllm:gpu_cache_usage_perc"]),
        ("kv-cache-usage", "0.10.2", ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]),
        ("kv-cache-usage", "0.12.0", ["vllm:kv_cache_usage_perc"]),
        ("inter-token-latency", "0.9.0.1", ["vllm:time_per_output_token_seconds"]),
        ("inter-token-latency", "0.14.1", ["vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"]),
        ("inter-token-latency", "v0.32.0+cpu", ["vllm:inter_token_latency_seconds"]),
        ("time-per-output-token", "0.10.2", []),
    ],
)
def test_renames_are_read_by_preference(signal: str, version: str, names: list[str]) -> None:
    terms = [term for term in _ENGINES["vllm"].select(version) if term.signal == signal]
    assert [term.name for term in sorted(terms, key=lambda term: term.preference)] == names
