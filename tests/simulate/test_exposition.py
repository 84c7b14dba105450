"""The registry: number formats, orders of lines, and that every style parses to what was put in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from observer.simulate.exposition import Registry, Style, number

NUMBERS = [
    (Style.SINGLE, 0.0, "0.0"),
    (Style.SINGLE, 14712.0, "14712.0"),
    (Style.MULTI, 2177687552.0, "2.177687552e+09"),
    (Style.MULTI, float("nan"), "NaN"),
    (Style.MULTI, 0.8366297323441358, "0.8366297323441358"),
    (Style.RUST, 3.0, "3"),
    (Style.RUST, -1.0, "-1"),
    (Style.RUST, 0.000095572, "0.000095572"),
    (Style.RUST, 21.295883217, "21.295883217"),
    (Style.GO, math.inf, "+Inf"),
    (Style.GO, 0.25, "0.25"),
]


@pytest.mark.parametrize(("style", "value", "text"), NUMBERS, ids=[f"{s}-{t}" for s, _, t in NUMBERS])
def test_number_formats(style: Style, value: float, text: str) -> None:
    assert number(value, style) == text


@given(st.floats(allow_nan=False), st.sampled_from(list(Style)))
def test_a_number_reads_back_as_it_was(value: float, style: Style) -> None:
    assert float(number(value, style)) == value


def filled(style: Style) -> Registry:
    registry = Registry(style)
    registry.declare("c_total", "counter", created=style is Style.SINGLE)
    registry.declare("g", "gauge")
    registry.declare("h", "histogram", bounds=("0.5", "1.0", "+Inf"))
    registry.declare("s", "summary")
    registry.add("c_total", (("a", 'x"y\\z\n'),), 2.0, now=7.0)
    registry.put("g", (), -3.0)
    for value, times in ((0.5, 2), (0.75, 1), (9.0, 4)):
        registry.observe("h", (("k", "v"),), value, times)
        registry.observe("s", (), value)
    return registry


@pytest.mark.parametrize("style", list(Style))
def test_every_style_parses_to_what_was_put_in(style: Style) -> None:
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(filled(style).render().decode())
        for sample in family.samples
    }
    assert samples["c_total", (("a", 'x"y\\z\n'),)] == 2
    assert samples["g", ()] == -3
    assert samples["h_bucket", (("k", "v"), ("le", "0.5"))] == 2
    assert samples["h_bucket", (("k", "v"), ("le", "1.0"))] == 3
    assert samples["h_bucket", (("k", "v"), ("le", "+Inf"))] == samples["h_count", (("k", "v"),)] == 7
    assert samples["h_sum", (("k", "v"),)] == 0.5 * 2 + 0.75 + 36
    assert samples["s_count", ()] == 3
    assert ("c_created", (("a", 'x"y\\z\n'),)) in samples or style is not Style.SINGLE


LINE_ORDERS = [
    (Style.SINGLE, ["h_bucket", "h_bucket", "h_bucket", "h_count", "h_sum"]),
    (Style.MULTI, ["h_sum", "h_bucket", "h_bucket", "h_bucket", "h_count"]),
    (Style.RUST, ["h_bucket", "h_bucket", "h_bucket", "h_sum", "h_count"]),
]


@pytest.mark.parametrize(("style", "order"), LINE_ORDERS, ids=[style.value for style, _ in LINE_ORDERS])
def test_histogram_lines_stand_in_the_order_of_the_program(style: Style, order: list[str]) -> None:
    lines = filled(style).render().decode().splitlines()
    assert [line.split("{")[0] for line in lines if line.startswith("h_")] == order


def test_rust_bodies_have_counters_first_and_blank_lines_and_only_families_with_series() -> None:
    registry = filled(Style.RUST)
    registry.declare("never", "counter")
    text = registry.render().decode()
    assert text.startswith("# TYPE c_total counter\n")
    assert "# HELP" not in text
    assert "never" not in text
    assert text.endswith("\n\n")


def test_an_unmoved_family_is_not_rendered_again_and_a_moved_one_is() -> None:
    registry = filled(Style.MULTI)
    first = registry.render()
    assert registry.render() == first
    registry.add("c_total", (("a", 'x"y\\z\n'),))
    registry.add("c_total", (("a", "new"),))
    text = registry.render().decode()
    assert 'c_total{a="new"} 1.0' in text
    assert '\\n"} 3.0' in text
