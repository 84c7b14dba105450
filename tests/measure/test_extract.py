"""From bodies to signals: combination, preference, versions, and what is missing with its code."""

from __future__ import annotations

import math

import pytest

from observer.measure.exposition import Limits
from observer.measure.extract import Extractor, Frame, Unreadable, combine
from observer.measure.lines import ProblemKind
from observer.measure.parts import _Work
from router_contract.catalog import TABLES
from router_contract.readings import FailureKind, MissingCode, Series
from router_contract.signals import SIGNALS
from router_contract.targets import Component
from tests.measure.compare import RECORDINGS
from tests.measure.table import TABLE, histogram, read, values


def g(name, *lines):
    return f"# TYPE {name} gauge\n".encode() + b"".join(name.encode() + line.encode() + b"\n" for line in lines)


def c(name, *lines):
    return f"# TYPE {name} counter\n".encode() + b"".join(name.encode() + line.encode() + b"\n" for line in lines)


COMBINED = [
    ("ranks stay apart", g("toy:running", '{engine="0"} 1', '{engine="1"} 9'), {("0",): 1.0, ("1",): 9.0}),
    (
        "two rank labels",
        g("toy:running", '{engine="0",dp="1"} 1', '{engine="0",dp="2"} 9'),
        {("0/1",): 1.0, ("0/2",): 9.0},
    ),
    ("copies fold", g("toy:running", *(f'{{tp="{n}"}} 4' for n in range(4))), {(): 4.0}),
    ("processes by the largest", g("toy:running", '{pid="a"} 0', '{pid="b"} 7', '{pid="c"} 0'), {(): 7.0}),
    ("other labels add", g("toy:running", '{port="1"} 3', '{port="2"} 4'), {(): 7.0}),
    ("copies of other labels", g("toy:running", '{p="1",tp="0"} 3', '{p="1",tp="1"} 3', '{p="2",tp="0"} 4'), {(): 7.0}),
    ("models stay apart", g("toy:running", '{model="a"} 1', '{model="b"} 2'), {("a",): 1.0, ("b",): 2.0}),
    ("an empty label is none", g("toy:running", '{model="",engine=""} 1'), {(): 1.0}),
    ("a sentinel is no value", g("toy:running", '{engine="0"} -1', '{engine="1"} 2'), {("1",): 2.0}),
    ("no type", b"toy:running 3\n", {(): 3.0}),
    ("without _total", b"toy:running_total 3\n", {(): 3.0}),
]


@pytest.mark.parametrize(("body", "expected"), [row[1:] for row in COMBINED], ids=[row[0] for row in COMBINED])
def test_series_combine_by_what_their_labels_mean(body, expected):
    assert values(read(body), "requests-running") == expected


def test_unequal_copies_are_said_and_the_largest_is_used():
    frame = read(g("toy:running", '{tp="0"} 4', '{tp="1"} 5'))
    assert values(frame, "requests-running") == {(): 5.0}
    assert [(problem.kind, problem.family) for problem in frame.problems] == [
        (ProblemKind.UNEQUAL_COPIES, "toy:running")
    ]
    assert frame.series("requests-running")[0].folded == 2


def test_processes_may_differ_without_a_problem():
    assert not read(g("toy:running", '{pid="a"} 4', '{pid="b"} 5')).problems


def test_ratios_are_averaged_not_added():
    assert values(read(g("toy:usage", '{p="1"} 0.2', '{p="2"} 0.8')), "kv-cache-usage") == {(): 0.5}


@pytest.mark.parametrize(
    ("version", "body", "expected"),
    [
        (None, g("toy:old_usage", " 40"), {(): 0.4}),
        (None, g("toy:usage", " 0.5"), {(): 0.5}),
        (None, g("toy:old_usage", " 40") + g("toy:usage", " 0.5"), {(): 0.5}),
        ("0.2", g("toy:usage", " 0.5"), {}),
        ("0.2", g("toy:usage", " 0.5") + g("toy:old_usage", " 40"), {(): 0.4}),
        ("0.4", g("toy:old_usage", " 40"), {}),
    ],
)
def test_the_version_and_the_preference_choose_one_name(version, body, expected):
    assert values(read(body, version=version), "kv-cache-usage") == expected


def test_the_version_is_read_from_the_body_where_nobody_told_it():
    body = g("toy:build_info", '{version="0.4.1"} 1') + g("toy:old_usage", " 40")
    frame = read(body)
    assert (frame.version, frame.missing("kv-cache-usage")) == ("0.4.1", MissingCode.ABSENT)
    assert read(body, version="0.2").version == "0.2"
    assert read(g("toy:build_info", '{version=""} 1')).version is None


def test_the_deployments_model_is_kept_and_lines_without_a_model():
    body = g("toy:running", '{model="a"} 1', '{model="b"} 2') + g("toy:usage", " 0.5")
    frame = read(body, model="a")
    assert values(frame, "requests-running") == {("a",): 1.0}
    assert values(frame, "kv-cache-usage") == {(): 0.5}
    assert not frame.problems


def test_one_sole_model_of_another_name_is_used_and_said():
    frame = read(g("toy:running", '{model="a"} 1'), model="/models/a")
    assert values(frame, "requests-running") == {("a",): 1.0}
    assert [problem.kind for problem in frame.problems] == [ProblemKind.MODEL_NOT_FOUND]


def test_several_models_of_other_names_are_not_the_deployments():
    frame = read(g("toy:running", '{model="a"} 1', '{model="b"} 2'), model="c")
    assert frame.missing("requests-running") is MissingCode.ABSENT
    assert [problem.kind for problem in frame.problems] == [ProblemKind.MODEL_NOT_FOUND]


def test_labels_that_hold_numbers_are_values_and_infos_keep_their_labels():
    body = g("toy:config_info", '{engine="0",blocks="10",x="y",z=""} 1', '{engine="1",blocks="None"} 1')
    frame = read(body)
    assert values(frame, "kv-capacity-blocks") == {("0",): 10.0}
    first = frame.series("cache-config")[0]
    assert first.info == (("blocks", "10"), ("engine", "0"), ("x", "y"))
    assert (first.value, first.labels) == (1.0, (("rank", "0"),))


def test_a_histogram_is_assembled_and_scaled():
    body = b"# TYPE toy:transfer_seconds histogram\n" + histogram("toy:transfer_seconds", {"0.5": 1, "+Inf": 3}, 2.5)
    found = read(body).series("transfer-latency")[0].histogram
    assert (found.bounds, found.counts, found.sum) == ((500.0, math.inf), (1.0, 3.0), 2500.0)


def test_the_older_gauge_of_a_histogram_is_a_level():
    frame = read(g("toy:transfer_ms", '{p="1"} 4', '{p="2"} 8'))
    assert frame.series("transfer-latency")[0].histogram is None
    assert values(frame, "transfer-latency") == {(): 6.0}
    assert not frame.columns.series


TTFT = b"# TYPE toy:ttft_seconds histogram\n"


def test_histograms_of_other_labels_add_and_copies_fold():
    body = TTFT + b"".join(
        histogram("toy:ttft_seconds", {"1": 1, "+Inf": 3}, 2.5, f'p="{p}",tp="{tp}"') for p in "ab" for tp in "01"
    )
    found = read(body).series("time-to-first-token")[0]
    assert (found.histogram.counts, found.histogram.sum, found.folded) == ((2.0, 6.0), 5.0, 4)


def test_a_summary_tells_its_count_and_sum():
    body = b'# TYPE toy:ttft_seconds summary\ntoy:ttft_seconds{quantile="0.5"} 1\ntoy:ttft_seconds_sum 8\ntoy:ttft_seconds_count 4\n'
    found = read(body).series("time-to-first-token")[0].histogram
    assert (found.bounds, found.counts, found.sum) == ((math.inf,), (4.0,), 8.0)


def test_a_histogram_without_sum_or_count_or_type_is_readable():
    body = b'toy:ttft_seconds_bucket{le="1"} 1\ntoy:ttft_seconds_bucket{le="+Inf"} 2\n'
    found = read(body).series("time-to-first-token")[0].histogram
    assert found.counts == (1.0, 2.0)
    assert math.isnan(found.sum)


def line(text):
    return text.encode() + b"\n"


TORN = [
    ("counts fall", histogram("toy:ttft_seconds", {"1": 5, "2": 4, "+Inf": 6}, 1)),
    ("no +Inf", line('toy:ttft_seconds_bucket{le="1"} 1') + line("toy:ttft_seconds_count 1")),
    ("+Inf is not the count", line('toy:ttft_seconds_bucket{le="+Inf"} 1') + line("toy:ttft_seconds_count 2")),
    ("one bound twice", histogram("toy:ttft_seconds", {"1": 1, "1.0": 1, "+Inf": 1}, 1)),
    ("a bound that is no number", histogram("toy:ttft_seconds", {"one": 1, "+Inf": 1}, 1)),
    ("a negative count", histogram("toy:ttft_seconds", {"1": -1, "+Inf": 1}, 1)),
    ("a NaN count", histogram("toy:ttft_seconds", {"1": "NaN", "+Inf": 1}, 1)),
    ("an infinite count", histogram("toy:ttft_seconds", {"1": "+Inf", "+Inf": "+Inf"}, 1)),
    ("a NaN sum", histogram("toy:ttft_seconds", {"1": 1, "+Inf": 1}, math.nan)),
    ("no buckets and no count", line("toy:ttft_seconds_sum 2")),
    (
        "bounds that differ",
        histogram("toy:ttft_seconds", {"1": 1, "+Inf": 1}, 1, 'p="1"')
        + histogram("toy:ttft_seconds", {"2": 1, "+Inf": 1}, 1, 'p="2"'),
    ),
]


@pytest.mark.parametrize("body", [row[1] for row in TORN], ids=[row[0] for row in TORN])
def test_a_torn_histogram_is_unreadable_and_named(body):
    frame = read(TTFT + body + c("toy:prompt_total", " 5"))
    assert frame.series("time-to-first-token") == ()
    assert frame.missing("time-to-first-token") is MissingCode.UNREADABLE
    assert [problem.family for problem in frame.problems if problem.kind == ProblemKind.TORN] == ["toy:ttft_seconds"]
    assert values(frame, "prompt-tokens") == {(): 5.0}
    assert "time-to-first-token" not in frame.signals()


MISSING = [
    ("a TYPE line is not a zero", b"# TYPE toy:running gauge\n", "requests-running", MissingCode.ABSENT),
    ("not there", g("toy:usage", " 1"), "requests-running", MissingCode.ABSENT),
    ("no such signal", g("toy:usage", " 1"), "no-such-signal", MissingCode.ABSENT),
    ("NaN", g("toy:running", " NaN"), "requests-running", MissingCode.NOT_FINITE),
    ("infinite", g("toy:running", " +Inf"), "requests-running", MissingCode.NOT_FINITE),
    ("NaN among copies", g("toy:running", '{tp="0"} 1', '{tp="1"} NaN'), "requests-running", MissingCode.NOT_FINITE),
    ("NaN among parts", g("toy:running", '{p="0"} 1', '{p="1"} NaN'), "requests-running", MissingCode.NOT_FINITE),
    ("only sentinels", g("toy:running", " -1"), "requests-running", MissingCode.ABSENT),
    ("a broken family", b"toy:running one\n", "requests-running", MissingCode.UNREADABLE),
    ("a cut body", b"toy:usage 1\n# TYP", "requests-running", MissingCode.UNREADABLE),
    ("a counter not yet there", c("toy:prompt_total", " 5"), "preemptions", MissingCode.COUNTER_NOT_YET),
    ("nor its pair", g("toy:usage", " 1"), "preemptions", MissingCode.ABSENT),
    ("no such reason yet", c("toy:done_total", '{why="stop"} 5'), "aborted-requests", MissingCode.COUNTER_NOT_YET),
    (
        "a histogram not yet there",
        TTFT + histogram("toy:ttft_seconds", {"+Inf": 1}, 1),
        "inter-token-latency",
        MissingCode.HISTOGRAM_NOT_YET,
    ),
    ("a gauge under a histogram's name", g("toy:ttft_seconds", " 5"), "time-to-first-token", MissingCode.UNREADABLE),
    (
        "a histogram under a gauge's name",
        b"# TYPE toy:running histogram\n" + histogram("toy:running", {"+Inf": 1}),
        "requests-running",
        MissingCode.UNREADABLE,
    ),
    ("there", g("toy:running", " 0"), "requests-running", None),
]


@pytest.mark.parametrize(("body", "signal", "code"), [row[1:] for row in MISSING], ids=[row[0] for row in MISSING])
def test_what_is_missing_has_its_code_and_is_never_zero(body, signal, code):
    frame = read(body)
    assert frame.missing(signal) is code
    assert (frame.series(signal) == ()) is (code is not None)
    if code is MissingCode.ABSENT and signal in SIGNALS and "sentinel" not in str(body) and b"-1" not in body:
        assert signal in frame.absent


def test_the_second_name_is_used_where_the_first_is_unreadable():
    assert values(read(g("toy:old_usage", " 40") + b"toy:usage zero\n"), "kv-cache-usage") == {(): 0.4}


def test_another_type_is_said():
    frame = read(g("toy:prompt_total", " 5"))
    assert values(frame, "prompt-tokens") == {(): 5.0}
    assert [problem.kind for problem in frame.problems] == [ProblemKind.TYPE_UNEXPECTED]


def test_unknown_families_are_those_of_the_program_that_no_table_knows():
    body = g("toy:new", " 1") + g("toy:boring", " 1") + g("other:thing", " 1") + g("toy:running", " 1")
    frame = read(body)
    assert frame.unknown_families == ("toy:new",)
    assert (frame.samples_kept, frame.samples_dropped, frame.truncated) == (1, 3, False)


def test_the_process_start_is_the_latest():
    assert read(g("process_start_time_seconds", " 5")).process_start == 5.0
    assert read(g("toy:running", " 5")).process_start is None


def test_what_is_no_exposition_is_unreadable():
    result = Extractor(TABLE, limits=Limits(body_bytes=10)).read(b"<html></html>")
    assert isinstance(result, Unreadable)
    assert result.kind is FailureKind.TOO_LARGE
    assert Extractor(TABLE).read(b"").kind is FailureKind.NOT_EXPOSITION


def test_plans_are_shared_between_bodies_of_one_shape():
    extractor = Extractor(TABLE)
    one, two = extractor.read(g("toy:running", " 1")), extractor.read(g("toy:running", " 2"))
    assert one.plan is two.plan
    # With a timestamp no layout can be had; the plan is found by the series.
    three = extractor.read(g("toy:running", " 3 1"))
    assert extractor.read(g("toy:running", " 4 2"), previous=three).plan is three.plan
    assert extractor.read(g("toy:running", '{p="1"} 4 2'), previous=three).plan is not three.plan
    assert extractor.read(g("toy:running", " 4 2")).plan is not three.plan


def test_a_frame_of_another_extractor_is_no_hint():
    body = g("toy:running", '{model="a"} 1', '{model="b"} 2') + g("toy:usage", " 0.5") + g("toy:old_usage", " 40")
    before = Extractor(TABLE, model="a").read(body)
    assert values(Extractor(TABLE, model="b").read(body, previous=before), "requests-running") == {("b",): 2.0}
    old = Extractor(TABLE, version="0.2", model="b")
    frame = old.read(body, previous=before)
    assert values(frame, "kv-cache-usage") == {(): 0.4}
    again = old.read(body, previous=frame)
    assert again.plan is frame.plan
    cache = {}
    one, two = (Extractor(TABLE, model=model, cache=cache) for model in "ab")
    assert values(two.read(body, previous=one.read(body)), "requests-running") == {("b",): 2.0}


def test_plans_kept_are_bounded():
    extractor = Extractor(TABLE)
    for number in range(300):
        extractor.read(g("toy:running", f'{{p="{number}"}} 1'))
    assert len(extractor._views._living) <= 128


def test_extractors_of_several_models_share_their_reader():
    cache = {}
    one, two = (Extractor(TABLE, model=model, cache=cache) for model in "ab")
    assert one.reader is two.reader
    assert Extractor(TABLE).reader is not one.reader


def made(*numbers):
    return [Series(labels=(("rank", str(rank)),), value=value) for rank, value in enumerate(numbers)]


@pytest.mark.parametrize(
    ("signal", "series", "weights", "expected"),
    [
        ("requests-running", made(1, 9), None, 10.0),
        ("kv-cache-usage", made(0.4, 0.4), None, pytest.approx(0.4)),
        ("kv-cache-usage", made(0.2, 0.8), {(("rank", "0"),): 3.0, (("rank", "1"),): 1.0}, pytest.approx(0.35)),
        ("kv-cache-usage", made(0.2, 0.8), {(("rank", "0"),): 3.0}, pytest.approx(0.5)),
        ("context-length", made(3, 7), None, 7.0),
        ("router-worker-health", made(1), None, 1.0),
        ("router-worker-health", made(1, 0), None, None),
        ("requests-running", [], None, None),
    ],
)
def test_ranks_combine_by_the_signals_rule(signal, series, weights, expected):
    assert combine(series, SIGNALS[signal], weights) == expected


@pytest.mark.parametrize(
    ("place", "component", "name", "signal", "expected"),
    [
        ("vllm-0.32.0/metrics-10-dp2-fresh.prom", Component.ENGINE, "vllm", "requests-running", MissingCode.ABSENT),
        (
            "vllm-0.32.0/metrics-13-dp2-idle.prom",
            Component.ENGINE,
            "vllm",
            "requests-running",
            {("0",): 0.0, ("1",): 0.0},
        ),
        ("vllm-old-modules/vllm-0.10.2-engine01-traffic.prom", Component.ENGINE, "vllm", "kv-cache-usage", None),
        ("sglang-0.5.23/metrics-01-fresh.prom", Component.ENGINE, "sglang", "prompt-tokens", {(): 27.0}),
        (
            "sglang-router-0.1.9/metrics-01-fresh.prom",
            Component.ROUTER,
            "sglang_gateway",
            "router-reported-workers",
            {(): 2.0},
        ),
    ],
)
def test_a_recording_tells_what_it_told(place, component, name, signal, expected):
    frame = Extractor(TABLES[component][name]).read((RECORDINGS / place).read_bytes())
    assert isinstance(frame, Frame)
    if isinstance(expected, MissingCode):
        assert frame.missing(signal) is expected
    elif expected is None:
        assert len(frame.series(signal)) == 2
    else:
        without_model = {tuple(t for n, t in s.labels if n != "model"): s.value for s in frame.series(signal)}
        assert without_model == expected


def test_a_changed_family_costs_only_itself(monkeypatch):
    extractor = Extractor(TABLE)
    body = TTFT + histogram("toy:ttft_seconds", {"1": 1, "+Inf": 3}, 2.5) + g("toy:running", '{p="1"} 1')
    before = extractor.read(body)
    made = []
    work = "observer.measure.parts._Work.series"
    original = _Work.series
    monkeypatch.setattr(work, lambda self, term, facts: made.append(facts.name) or original(self, term, facts))
    after = extractor.read(g("toy:running", '{p="1"} 1', '{p="2"} 4') + body[: body.index(b"# TYPE toy:running")])
    assert made == ["toy:running"]
    assert after.plan is not before.plan
    assert values(after, "requests-running") == {(): 5.0}
    assert after.series("time-to-first-token") == before.series("time-to-first-token")


def test_parts_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr("observer.measure.parts._KEPT", 3)
    extractor = Extractor(TABLE)
    for number in range(20):
        frame = extractor.read(g("toy:running", f'{{engine="{number}"}} {number}'))
        assert values(frame, "requests-running") == {(str(number),): float(number)}
    assert len(extractor._views._planner._parts._facts) <= 3
