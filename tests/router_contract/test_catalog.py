"""Names of programs and the tables behind them."""

from __future__ import annotations

import sys
from types import ModuleType

import msgspec
import pytest

from router_contract.catalog import TABLES, BadTableError, UnknownSoftware, known, lookup, scan
from router_contract.signals import SIGNALS, Combine, Kind
from router_contract.targets import Component
from router_contract.vocabulary import Labels, Term, Vocabulary

_ENGINE, _ROUTER, _STORE = Component.ENGINE, Component.ROUTER, Component.STORE


@pytest.mark.parametrize(
    ("component", "written", "table"),
    [
        (_ENGINE, "vLLM", "vllm"),
        (_ENGINE, "VLLM", "vllm"),
        (_ENGINE, "vllm-ascend", "vllm"),
        (_ENGINE, "vLLM Ascend", "vllm"),
        (_ENGINE, "SGLang", "sglang"),
        (_ROUTER, "vllm-router", "vllm_router"),
        (_ROUTER, "vLLM_Router", "vllm_router"),
        (_ROUTER, "llm-d-router", "llm_d"),
        (_ROUTER, "LLM-D", "llm_d"),
        (_ROUTER, "sglang-gateway", "sglang_gateway"),
        (_ROUTER, "sglang-router", "sglang_gateway"),
        (_ROUTER, "smg", "sglang_gateway"),
        (_STORE, "Mooncake", "mooncake"),
        (_STORE, "LMCache", "lmcache"),
    ],
)
def test_names_are_understood_in_any_case(component: Component, written: str, table: str) -> None:
    assert lookup(component, written).name == table


@pytest.mark.parametrize(
    ("component", "written"),
    [(_ENGINE, "tgi"), (_ENGINE, ""), (_ENGINE, "vllm-router"), (_ROUTER, "vllm"), (_STORE, "redis")],
)
def test_an_unknown_name_lists_the_known_ones(component: Component, written: str) -> None:
    with pytest.raises(UnknownSoftware) as caught:
        lookup(component, written)
    assert str(caught.value) == f"unknown {component.value} {written!r}; known: {', '.join(known(component))}"
    assert (caught.value.component, caught.value.name) == (component, written)
    assert caught.value.known


def test_the_tables_are_immutable() -> None:
    with pytest.raises(TypeError):
        TABLES[_ENGINE]["other"] = lookup(_ENGINE, "vllm")
    with pytest.raises(AttributeError):
        lookup(_ENGINE, "vllm").name = "other"
    with pytest.raises(TypeError):
        SIGNALS["other"] = SIGNALS["requests-running"]


def test_the_issues_programs_are_there() -> None:
    assert {component: sorted(tables) for component, tables in TABLES.items()} == {
        _ENGINE: ["sglang", "vllm"],
        _ROUTER: ["llm_d", "sglang_gateway", "vllm_router"],
        _STORE: ["lmcache", "mooncake"],
    }


_PEER_SIGNALS = {
    "vllm": """requests-running requests-waiting prefix-cache-hits prefix-cache-queries external-cache-hits
        external-cache-queries time-to-first-token time-per-output-token inter-token-latency""",
    "sglang": """requests-running requests-waiting decode-transfer-waiting effective-prefill-tokens time-to-first-token
        inter-token-latency transfer-latency transfer-speed transfer-size transfer-failures""",
    "llm_d": """router-requests-running router-backends router-time-to-first-token router-time-per-output-token
        router-requests router-request-errors""",
    "vllm_router": """router-requests-running router-reported-workers router-successful-requests router-errors
        router-retries-exhausted router-pd-requests router-pd-errors router-pd-decode-errors""",
    "sglang_gateway": """router-requests-running router-backends router-requests router-errors router-http-responses
        router-retries-exhausted router-upstream-responses router-worker-circuit router-worker-health""",
}


@pytest.mark.parametrize("name", sorted(_PEER_SIGNALS))
def test_everything_the_peer_reads_is_readable(name: str) -> None:
    table = next(tables[name] for tables in TABLES.values() if name in tables)
    assert set(_PEER_SIGNALS[name].split()) - {term.signal for term in table.terms} == set()


def test_every_signal_is_read_by_some_table() -> None:
    read = {term.signal for tables in TABLES.values() for table in tables.values() for term in table.terms}
    assert set(SIGNALS) - read == set()


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=list(SIGNALS))
def test_a_signal_is_consistent(signal) -> None:
    assert signal.id == signal.id.lower()
    assert "_" not in signal.id
    assert signal.meaning.endswith(".")
    assert signal.weight is None or (signal.combine is Combine.WEIGH and SIGNALS[signal.weight].kind is Kind.GAUGE)
    assert not signal.progress or signal.kind in {Kind.COUNTER, Kind.HISTOGRAM}
    assert signal.kind is not Kind.INFO or signal.combine is Combine.EACH
    assert signal.kind is Kind.GAUGE or signal.combine in {Combine.ADD, Combine.EACH}
    assert signal.unit != "fraction" or signal.combine is Combine.WEIGH


def test_ids_are_unique() -> None:
    from router_contract import signals

    assert len(signals._ALL) == len(SIGNALS)


def _folder(tmp_path, monkeypatch, **modules: str) -> ModuleType:
    """A package of tables, as the three folders are."""
    package = tmp_path / "folder_under_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in modules.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [loaded for loaded in sys.modules if loaded.startswith("folder_under_test")]:
        monkeypatch.delitem(sys.modules, name)
    return __import__("folder_under_test")


_GOOD = """
from router_contract.targets import Component
from router_contract.vocabulary import Labels, Term, Vocabulary
VOCABULARY = Vocabulary(name="good", component=Component.STORE, labels=Labels(), terms=(Term(signal="store-keys", name="k"),))
"""


@pytest.mark.parametrize(
    ("module", "text", "fault"),
    [
        ("empty", "", "empty: VOCABULARY is None, want a Vocabulary"),
        ("other", _GOOD, "other: the table's name is 'good', want the module's"),
        ("good", _GOOD.replace("STORE", "ENGINE"), "good: the table's component is engine, want store"),
        ("good", _GOOD.replace("store-keys", "stored-keys"), "unknown signal 'stored-keys', want an id of SIGNALS"),
    ],
)
def test_a_bad_table_is_refused_by_name(tmp_path, monkeypatch, module: str, text: str, fault: str) -> None:
    with pytest.raises(BadTableError, match=fault):
        scan(_STORE, _folder(tmp_path, monkeypatch, **{module: text}))


def test_a_new_file_is_a_new_program(tmp_path, monkeypatch) -> None:
    tables = scan(_STORE, _folder(tmp_path, monkeypatch, good=_GOOD))
    assert list(tables) == ["good"]


def test_two_programs_cannot_share_a_name() -> None:
    from router_contract import catalog

    one = Vocabulary(name="one", component=_STORE, labels=Labels(), terms=(Term(signal="store-keys", name="k"),))
    two = msgspec.structs.replace(one, name="two", aliases=("ONE",))
    with pytest.raises(BadTableError, match="'ONE' names both one and two"):
        catalog._names({"one": one, "two": two})
