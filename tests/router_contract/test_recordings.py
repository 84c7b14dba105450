"""The tables against the recordings: nothing forgotten, nothing unproven in silence, no proof claimed without one."""

from __future__ import annotations

import pytest

from router_contract.catalog import TABLES
from router_contract.vocabulary import Term
from tests.router_contract.recorded import BODIES, RECORDINGS, families, matched

_TERMS = [(table, term) for tables in TABLES.values() for table in tables.values() for term in table.terms]


def _bodies_of(table: object) -> list:
    return [body for body in BODIES if body.table is table]


def test_every_recorded_exposition_is_read_by_a_table() -> None:
    on_disk = set(RECORDINGS.glob("*/*.prom"))
    assert on_disk == {body.path for body in BODIES}
    assert len(BODIES) >= 70


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.label)
def test_every_family_of_the_program_is_used_or_ignored(body) -> None:
    forgotten = [
        family.name
        for family in families(body.path)
        if body.table.claims(family.name) and not body.table.knows(family.name)
    ]
    assert forgotten == []


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.label)
def test_a_body_holds_no_row_outside_its_version(body) -> None:
    selected = body.table.select(body.version)
    outside = [term.name for term in body.table.terms if term not in selected and matched(term, body.path)]
    # A row of the same name in range reads the body instead (a type or a label that changed).
    names = {term.name for term in selected}
    assert [name for name in outside if name not in names] == []


def _exercised(table: object, term: Term) -> bool:
    return any(body.real and matched(term, body.path) for body in _bodies_of(table))


@pytest.mark.parametrize(("table", "term"), _TERMS, ids=lambda item: getattr(item, "signal", getattr(item, "name", "")))
def test_a_row_is_marked_unproven_exactly_when_nothing_of_the_real_program_exercises_it(table, term: Term) -> None:
    if _exercised(table, term):
        said = term.unproven or term.proven_by
        assert said == "", f"{term.name} is exercised by a recording, but says: {said}"
    else:
        reasons = [reason for reason in (term.unproven, term.proven_by) if reason]
        assert len(reasons) == 1, f"{term.name} is exercised by no recording and gives {len(reasons)} reasons"


@pytest.mark.parametrize("place", sorted({term.proven_by for _, term in _TERMS if term.proven_by}))
def test_a_run_that_proves_a_row_reads_the_running_program(place: str) -> None:
    """The run itself asserts that it read each row that names it."""
    text = (RECORDINGS.parents[1] / place).read_text(encoding="utf-8")
    assert place.startswith("tests/real/")
    assert "pytestmark = pytest.mark.real" in text
    assert "proven_by" in text


def test_the_number_of_unproven_rows_is_known() -> None:
    """A change here is a change of what we can claim: look at the rows before changing the numbers."""
    counted = {table.name: 0 for table, _ in _TERMS}
    for table, term in _TERMS:
        counted[table.name] += bool(term.unproven)
    assert counted == {
        "sglang": 22,
        "vllm": 24,
        "llm_d": 42,
        "sglang_gateway": 4,
        "vllm_router": 0,
        "lmcache": 1,
        "mooncake": 13,
    }


@pytest.mark.parametrize(
    ("label", "signal", "total", "series"),
    [
        pytest.param("vllm-0.32.0/metrics-13-dp2-idle.prom", "kv-capacity-blocks", 800, 2, id="one for each rank"),
        pytest.param("vllm-0.32.0/metrics-10-dp2-fresh.prom", "requests-running", 0, 0, id="a TYPE line is no sample"),
        pytest.param("vllm-old-modules/vllm-0.9.0.1-engine0-fresh.prom", "kv-block-size", 16, 1, id="old block size"),
        pytest.param("sglang-0.5.23/metrics-01-fresh.prom", "effective-prefill-tokens", 28, 4, id="moved by a probe"),
        pytest.param("sglang-0.5.23/metrics-01-fresh.prom", "prompt-tokens", 27, 1, id="not moved by a probe"),
        pytest.param(
            "sglang-router-0.3.2/metrics-24-pd-decode500.prom",
            "router-retries-exhausted",
            6,
            2,
            id="once for each half",
        ),
        pytest.param("sglang-router-0.3.2/metrics-21-pd-fresh.prom", "router-requests-running", 0, 0, id="not yet"),
        pytest.param("sglang-router-0.2.4/metrics-03-errors-dead.prom", "router-retries-exhausted", 2, 1, id="older"),
        pytest.param(
            "sglang-router-0.2.4/metrics-01-fresh.prom", "router-reported-workers", 0, 1, id="lies: two are up"
        ),
        pytest.param(
            "vllm-router-0.1.17/metrics-21-pd-fresh.prom", "router-reported-workers", 0, 0, id="absent in P/D"
        ),
        pytest.param(
            "mooncake-0.3.13.post1/metrics-06-after-fill-evict.prom", "store-evicted-keys", 90, 1, id="evicted"
        ),
        pytest.param("lmcache-0.5.6/metrics-02-after-store.prom", "store-hit-tokens", 3712, 1, id="hit tokens"),
    ],
)
def test_what_a_signals_first_row_reads(label: str, signal: str, total: float, series: int) -> None:
    body = next(body for body in BODIES if body.label == label)
    terms = sorted((term for term in body.table.terms if term.signal == signal), key=lambda term: term.preference)
    hits = next((found for term in terms if (found := matched(term, body.path))), [])
    numbers = [float(labels[term.value_label]) if (term := terms[0]).value_label else value for labels, value in hits]
    assert (sum(numbers), len(hits)) == (total, series)


def test_removed_workers_are_no_values() -> None:
    """A removed worker's gauges stay at -1 in the gateway."""
    (table,) = {body.table for body in BODIES if body.label.startswith("sglang-router-0.3.2")}
    gauges = [term for term in table.terms if term.signal in {"router-worker-health", "router-worker-circuit"}]
    assert all(term.sentinels == (-1.0,) for term in gauges)
