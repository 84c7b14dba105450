"""Every input, edge, handling rule and user report that canary judging was built for names the cases that prove it.

The tables are of the reference that the analysis was specified by: what OME makes of an answer (1.10), its sharp edges
(1.12), what we make of an answer (5.4), and reports of users of other tools (4, by their numbers).
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = {
    "http": "tests/collect/test_promql.py",
    "reports": "tests/collect/test_canary_reports.py",
    "judge": "tests/judge/canary/test_reports.py",
    "evaluate": "tests/judge/canary/test_evaluate.py",
    "native": "tests/judge/canary/test_native.py",
    "steps": "tests/judge/canary/test_steps.py",
    "pods": "tests/app/test_canary_native.py",
    "cluster": "tests/app/test_canary_cluster.py",
    "decode": "tests/router_contract/test_canary_decode.py",
    "shown": "tests/exporters/test_canary.py",
}
_SAYS = "http::test_what_a_source_answers"
_BAD = "decode::test_refused_with_the_field_what_was_found_and_what_is_wanted"


def says(*cases: str) -> tuple[str, ...]:
    return tuple(f"{_SAYS}[{case}]" for case in cases)


def row(*cases: str) -> tuple[str, ...]:
    return tuple(f"judge::test_row[{case}]" for case in cases)


def report(*cases: str) -> tuple[str, ...]:
    return tuple(f"reports::test_row[{case}]" for case in cases)


ROWS: dict[str, tuple[str, ...]] = {
    # 1.10: what a source answers
    "1.10 scalar finite": says("scalar", "scalar breach"),
    "1.10 vector of finite series": (*says("vector, all pass", "vector, worst fails"), "http::test_the_worst_series_by_operator[values2-GT-0.5-0.9]"),
    "1.10 vector with some NaN or Inf": (*says("some series NaN", "some series Inf"), "http::test_policies_of_series_and_warnings"),
    "1.10 empty, all NaN or Inf": (*says("empty vector", "all NaN", "all Inf", "scalar NaN"), "http::test_no_data_keeps_the_words_of_ome", *report("1.10 -Inf passes no LT")),
    "1.10 string": says("string", "string NaN"),
    "1.10 matrix": says("matrix"),
    "1.10 native histogram": says("native histogram"),
    "1.10 warnings and infos": says("warnings", "infos only"),
    "1.10 HTTP 4xx, 5xx": says("400", "401", "403, empty body", "404", "422", "429", "500", "503"),
    "1.10 JSON error, HTML": says("error status beside data", "HTML", "invalid JSON"),
    "1.10 DNS": ("reports::test_a_source_that_cannot_be_reached[a name that does not resolve]",),
    "1.10 TLS": ("reports::test_a_source_that_cannot_be_reached[a certificate nobody trusts]",),
    "1.10 refused": ("http::test_nothing_listens",),
    "1.10 timeout": ("http::test_a_slow_source_times_out_and_says_which[no answer]",),
    "1.10 deadline hit on a metric": ("http::test_a_slow_metric_does_not_starve_the_others", *row("1.10 deadline of a metric")),
    "1.10 unparsable threshold": (f"{_BAD}[threshold 'abc']", f"{_BAD}[threshold '1e999']"),
    "1.10 template field or syntax": ("http::test_queries_are_checked_before_the_first_sample[unknown field]", "http::test_queries_are_checked_before_the_first_sample[syntax]", *row("1.10 template error")),
    "1.10 a bad URL": ("http::test_sources_are_bound_or_refused_and_never_replaced[not a URL]", *row("1.10 a bad URL")),
    "1.10 no address": ("http::test_sources_are_bound_or_refused_and_never_replaced[nothing]", *row("1.10 no address")),
    # 1.12: sharp edges
    "1.12 #1 a rounded display": ("judge::test_edge_1_a_rounded_value_reads_back_as_its_verdict",),
    "1.12 #2 one sample counted again": ("judge::test_edge_2_one_bad_sample_seen_again_and_again_counts_once", "evaluate::test_a_sample_counts_once_however_often_it_comes"),
    "1.12 #3 invisible Pods": (*row("edge 3 a Pod that nobody read"), "pods::test_a_pod_that_is_not_read_is_missing"),
    "1.12 #4 threshold NaN, Inf": (f"{_BAD}[threshold 'NaN']", f"{_BAD}[threshold 'Inf']"),
    "1.12 #5 overlapping windows": row("edge 5 one burst in overlapping windows"),
    "1.12 #6 initial delay and stall": ("judge::test_edge_6_and_7_a_long_warm_up_is_no_stall_and_a_starved_sampler_is_one",),
    "1.12 #7 a starved sampler": ("judge::test_edge_6_and_7_a_long_warm_up_is_no_stall_and_a_starved_sampler_is_one", "evaluate::test_no_sample_at_all_past_the_stall_time_stalls"),
    "1.12 #8 a slow first metric": ("http::test_a_slow_metric_does_not_starve_the_others",),
    "1.12 #9 a token over a redirect": ("http::test_a_redirect_elsewhere_never_takes_the_token_along",),
    "1.12 #10 no cap, bodies in messages": (*says("a body without end"), "http::test_status_and_error_type_reach_the_message_and_the_token_does_not"),
    "1.12 #11 a gauge that stays": ("shown::test_families_have_no_series_for_what_is_not_known",),
    "1.12 #12 no stable Pod at the last step": (*row("edge 12 no stable Pod at the last step", "edge 12 no stable Pod and none kept"), "pods::test_a_stable_side_that_is_gone_is_kept_from_the_step_before"),
    "1.12 #13 a Pod added in the step": (*row("edge 13 a Pod added in the step"), "steps::test_a_pod_counts_once_it_is_warm[added in the step]"),
    # 5.4: handling of answers
    "5.4 finite": says("scalar", "vector, all pass"),
    "5.4 some NaN or Inf": (*says("some series NaN", "some series Inf"), "http::test_policies_of_series_and_warnings"),
    "5.4 all NaN, Inf, empty": (*says("all NaN", "all Inf", "empty vector"), "http::test_no_data_keeps_the_words_of_ome"),
    "5.4 empty means zero": ("http::test_empty_means_zero_only_with_proof_of_traffic[traffic0-Passed]", "http::test_empty_means_zero_only_with_proof_of_traffic[traffic1-Inconclusive]", f"{_BAD}[zero without proof]"),
    "5.4 string": says("string"),
    "5.4 matrix": says("matrix"),
    "5.4 native histogram": says("native histogram"),
    "5.4 warnings": (*says("warnings"), "http::test_policies_of_series_and_warnings"),
    "5.4 status error": says("error status beside data"),
    "5.4 400, 422": says("400", "422"),
    "5.4 401, 403": says("401", "403, empty body"),
    "5.4 404": says("404"),
    "5.4 429, 5xx": (*says("429", "500", "503"), "http::test_retry_after_is_honoured_up_to_the_interval"),
    "5.4 3xx": (*says("302", "307 elsewhere", "308 in a circle"), "http::test_a_redirect_within_the_origin_is_followed_once_with_method_and_token"),
    "5.4 timeout of connect, read, total": ("http::test_a_connection_that_is_never_taken", "http::test_a_slow_source_times_out_and_says_which[dripping]"),
    "5.4 caps": says("a body without end", "1001 series", "65 labels"),
    "5.4 HTML, JSON, keys, UTF-8, bomb": says("HTML", "invalid JSON", "duplicate keys", "bad UTF-8", "gzip bomb"),
    "5.4 stale, skewed": says("an old value", "a value from the future", "old within lookback", "nearly from the future"),
    "5.4 1e400": says("a value beyond doubles"),
    "5.4 Secret missing, key, empty, newline": (*(f"http::test_secrets[{case}]" for case in ("no Secret", "no key", "empty", "a newline inside", "a newline at the end")), "cluster::test_a_secret_is_read_by_its_listed_name_and_what_is_wrong_is_said_at_once[no Secret]"),
    "5.4 unbound provider": ("http::test_sources_are_bound_or_refused_and_never_replaced[not bound]", "cluster::test_a_provider_that_is_not_bound_is_said_at_once"),
    "5.4 invalid header": (f"{_BAD}[header value]", f"{_BAD}[header of the client]", "decode::test_a_header_that_clashes_with_the_token_and_values_that_stay_secret"),
    "5.4 threshold NaN, Inf": (f"{_BAD}[threshold 'nan']", f"{_BAD}[threshold '-infinity']"),
    "5.4 superseded": tuple(f"evaluate::test_samples_begun_for_something_else_are_dropped[change{place}]" for place in range(3)),
    # 4: reports of users
    "4 #1": report("1 an empty vector"),
    "4 #2": report("2 0/0"),
    "4 #3": row("3 no traffic yet, then healthy"),
    "4 #5": report("5 NaN with a maximum"),
    "4 #6": row("6 an idle service"),
    "4 #7": row("7 traffic stops"),
    "4 #8": report("8 empty, expected 1"),
    "4 #10": report("10 targets lost"),
    "4 #11": report("11 no series is not 100 %"),
    "4 #13": row("13 an error-free baseline"),
    "4 #14": report("14 a wrong query"),
    "4 #15": row("15 a quiet period"),
    "4 #16": report("16 one series"),
    "4 #18": row("18 a new label on the canary"),
    "4 #19": row("19 canary and stable apart"),
    "4 #20": ("judge::test_row_20_one_revision_as_both_sides_has_no_stable_side",),
    "4 #22": ("steps::test_a_pod_that_both_services_select_belongs_to_nobody",),
    "4 #23": report("23 an empty body"),
    "4 #25": (*row("25 a mistyped template"), "evaluate::test_a_configuration_error_says_so_at_once_and_costs_nothing"),
    "4 #26": report("26 403 without a text"),
    "4 #27": ("reports::test_row_27_the_timeout_is_the_metrics_own",),
    "4 #28": ("judge::test_row_28_and_58_the_query_and_both_numbers_are_published",),
    "4 #29": (*report("29 no tenant header"), "http::test_headers_reach_the_source"),
    "4 #30": ("reports::test_row_30_a_private_authority_needs_no_disabled_verification", "http::test_a_private_authority_and_a_client_certificate"),
    "4 #31": ("reports::test_row_31_a_binding_serves_the_namespaces_it_allows",),
    "4 #34": report("34 200 000 series", "34 10 000 labels"),
    "4 #35": ("steps::test_a_pod_counts_once_it_is_warm[too young]", "pods::test_requests_before_a_pod_is_warm_do_not_count"),
    "4 #36": ("native::test_nothing_from_before_the_step_enters",),
    "4 #37": (*row("37 inconclusive beside an elapsed pause"), "evaluate::test_the_decision_table[baked, but inconclusive]"),
    "4 #39": ("evaluate::test_every_metric_is_needed_for_a_pass",),
    "4 #41": ("evaluate::test_a_new_revision_starts_afresh_and_old_samples_cannot_count",),
    "4 #42": ("evaluate::test_the_decision_table[consecutive, not in a row]",),
    "4 #44": (*row("44 a broken stable side"), "native::test_an_unhealthy_stable_side_is_flagged"),
    "4 #48": row("48 a torn read"),
    "4 #50": (*row("50 first tokens that mean another thing"), "pods::test_programs_that_measure_otherwise_are_incomparable"),
    "4 #51": ("native::test_layouts_of_two_versions_are_compared_where_a_bound_is_shared_and_bracketed_where_not",),
    "4 #54": ("steps::test_a_pod_counts_once_it_is_warm[requests]",),
    "4 #55": ("reports::test_row_55_a_metadata_address_is_not_asked", "http::test_metadata_addresses_are_refused_before_anything_is_sent"),
    "4 #56": report("56 a token echoed"),
    "4 #58": ("judge::test_row_28_and_58_the_query_and_both_numbers_are_published",),
    "4 #59": row("59 a ratio of 1.2 where 1.5 is allowed"),
    "4 #60": row("60 twelve samples"),
}  # fmt: skip


@cache
def collected() -> frozenset[str]:
    """The ids of every test of the files above, as pytest itself has them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *FILES.values()], cwd=ROOT, capture_output=True, text=True, timeout=100, check=True
    )
    return frozenset(line for line in done.stdout.splitlines() if "::" in line)


@pytest.mark.parametrize("row_of", ROWS)
def test_the_row_has_its_cases(row_of: str) -> None:
    assert ROWS[row_of], f"{row_of} names no case"
    for case in ROWS[row_of]:
        file, _, rest = case.partition("::")
        assert f"{FILES[file]}::{rest}" in collected(), f"{row_of}: no test {case}"


def test_no_row_was_left_out() -> None:
    """The numbers of each table, so that a row cannot be taken out with its case."""
    counts = {table: sum(name.startswith(f"{table} ") for name in ROWS) for table in ("1.10", "1.12", "5.4", "4")}
    print(f"figure: {counts} rows, each with its case")
    assert counts == {"1.10": 19, "1.12": 13, "5.4": 24, "4": 42}
