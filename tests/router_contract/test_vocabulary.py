"""Versions, selection by version, and which families a table knows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_contract.targets import Component
from router_contract.vocabulary import Labels, Matcher, Term, Vocabulary, has_version, parse_version

_TABLE = Vocabulary(
    name="table",
    component=Component.ENGINE,
    labels=Labels(),
    terms=(
        Term(signal="requests-running", name="p:running"),
        Term(signal="kv-cache-usage", name="p:new", since="0.10.0"),
        Term(signal="kv-cache-usage", name="p:old", before="0.11.0", preference=1),
        Term(signal="prompt-tokens", name="p:tokens_total"),
        Term(signal="iteration-tokens", name="p:steps_total"),
    ),
    prefixes=("p:",),
    ignored=("p:noise", "p:misses_total"),
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.5.23", (0, 5, 23)),
        ("v0.11.0rc2.dev3+cpu", (0, 11, 0)),
        ("0.9.0.1", (0, 9, 0)),
        ("0.4.6.post5", (0, 4, 6)),
        ("1", (1, 0, 0)),
        ("v0.10", (0, 10, 0)),
        ("main", (0, 0, 0)),
        ("", (0, 0, 0)),
        ("9" * 5000, (999_999_999, 0, 0)),
        ("0." + "0" * 5000 + "7.1", (0, 7, 1)),
        ("v1." + "1" * 10 + ".2", (1, 999_999_999, 2)),
        ("\u0661.\u0662", (0, 0, 0)),
        ("1.\u0662.3", (1, 0, 0)),
    ],
)
def test_parse_version(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["main", "latest", "", "\u0661.\u0662", "v", "-1"])
def test_what_is_no_version(text: str) -> None:
    assert not has_version(text)


@given(st.text())
def test_no_text_makes_a_version_fail(text: str) -> None:
    assert len(parse_version(text)) == 3


@given(
    st.tuples(*[st.integers(0, 10_000)] * 3),
    st.sampled_from(["", "v"]),
    st.sampled_from(["", "rc1", "+cpu", ".post2", "-dev"]),
)
def test_versions_order_by_number(numbers: tuple[int, int, int], lead: str, tail: str) -> None:
    text = lead + ".".join(map(str, numbers)) + tail
    assert has_version(text)
    assert parse_version(text) == numbers


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("0.9.9", ["p:old"]),
        ("0.10.0", ["p:new", "p:old"]),
        ("0.10.2.post1", ["p:new", "p:old"]),
        ("0.11.0rc1", ["p:new"]),
        (None, ["p:new", "p:old"]),
        ("main", ["p:new", "p:old"]),
        ("", ["p:new", "p:old"]),
        ("nightly-0.9", ["p:new", "p:old"]),
    ],
)
def test_select(version: str | None, names: list[str]) -> None:
    assert [term.name for term in _TABLE.select(version) if term.signal == "kv-cache-usage"] == names


@pytest.mark.parametrize(
    ("family", "known"),
    [
        pytest.param("p:running", True, id="used"),
        pytest.param("p:tokens_total", True, id="counter in the text format"),
        pytest.param("p:tokens", True, id="counter in OpenMetrics"),
        pytest.param("p:tokens_created", True, id="when a counter began"),
        pytest.param("p:steps_total", True, id="histogram that ends in total"),
        pytest.param("p:steps_total_created", True, id="when it began"),
        pytest.param("p:noise", True, id="ignored"),
        pytest.param("p:misses", True, id="ignored counter in OpenMetrics"),
        pytest.param("p:runnin", False, id="a part of a name"),
        pytest.param("p:other", False, id="unknown"),
    ],
)
def test_knows(family: str, known: bool) -> None:
    assert _TABLE.knows(family) is known


def test_claims_by_prefix() -> None:
    assert _TABLE.claims("p:anything")
    assert not _TABLE.claims("process_start_time_seconds")


@pytest.mark.parametrize(
    ("matcher", "value", "accepted"),
    [
        (Matcher("a", ("x", "y")), "y", True),
        (Matcher("a", ("x",)), "", False),
        (Matcher("a", ("",), negate=True), "", False),
        (Matcher("a", ("",), negate=True), "x", True),
    ],
)
def test_matchers(matcher: Matcher, value: str, accepted: bool) -> None:
    assert matcher.accepts(value) is accepted
