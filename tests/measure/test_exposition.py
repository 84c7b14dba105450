"""The selective reader against prometheus_client: on every recording and on generated bodies."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.measure.exposition import Family, Limits, NotRead, Reader, Reading
from observer.measure.lines import ProblemKind
from router_contract.readings import FailureKind
from tests.measure.compare import BODIES, ours, outcome, peer, wire_families
from tests.measure.parser_differences import DIFFERENCES


def name_of(path):
    return f"{path.parent.name}/{path.name}"


def read_whole(body, wanted, **options):
    reading = Reader(wanted).read(body, **options)
    assert isinstance(reading, Reading), reading
    assert not reading.shape.unreadable, reading.shape.problems
    return reading


@pytest.mark.parametrize("path", BODIES, ids=name_of)
def test_a_recording_reads_as_prometheus_client_reads_it(path):
    body = path.read_bytes()
    _, expected = peer(body)
    assert ours(read_whole(body, wire_families(body))) == expected


@pytest.mark.parametrize("path", BODIES, ids=name_of)
def test_a_recording_read_again_is_read_by_its_layout_and_says_the_same(path):
    body = path.read_bytes()
    families = sorted(wire_families(body))
    for wanted in (families, families[::3], families[1::7], ["nothing_of_this"]):
        reader = Reader(wanted)
        first, second = outcome(reader, body), outcome(reader, body)
        assert first == second
        assert (reader.full_reads, reader.layout_reads) == (1, 1)


@pytest.mark.parametrize("path", BODIES[::4], ids=name_of)
def test_a_subset_is_the_same_as_the_whole_for_the_wanted(path):
    body = path.read_bytes()
    families = sorted(wire_families(body))
    whole = Reader(families).read(body)
    for seed in range(3):
        wanted = random.Random(seed).sample(families, max(1, len(families) // 4))
        part = Reader(wanted).read(body)
        assert set(part.shape.families) == set(wanted) & set(whole.shape.families)
        for name, family in part.shape.families.items():
            other = whole.shape.families[name]
            assert family.keys() == other.keys()
            assert part.values[family.start : family.stop].tolist() == pytest.approx(
                whole.values[other.start : other.stop].tolist(), rel=0, abs=0, nan_ok=True
            )


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,4}", fullmatch=True).filter(lambda name: name not in {"le", "quantile"}),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
    max_size=3,
)
NUMBERS = st.one_of(
    st.integers(-(10**6), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1e5", "1.5E-7", ".5", "5.", "+3", "007", "Infinity", "nan", "0.0"]),
)
HELPS = st.text('ab \\"#{}', max_size=8)
COUNTS = st.integers(0, 10**6).map(str)


def escape(text):
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def render(name, labels, value, stamp=None, blank=" "):
    inside = ",".join(f'{key}="{escape(text)}"' for key, text in labels.items())
    head = f"{name}{{{inside}}}" if labels else name
    return f"{head}{blank}{value}" + (f" {stamp}" if stamp is not None else "")


@st.composite
def expositions(draw, *, openmetrics=False):
    """A valid body of a few families of every type, in wire text, and the names of its families."""
    lines, families = [], []
    taken: set[str] = set()
    for raw in draw(st.lists(NAMES, min_size=1, max_size=5, unique=True)):
        name = "f_" + raw
        # A name whose samples could be another family's is another test's matter (parser_differences).
        if any(name.startswith(other) or other.startswith(name) for other in taken):
            continue
        taken.add(name)
        kind = draw(st.sampled_from(["counter", "gauge", "histogram", "summary", "untyped"]))
        series = draw(st.lists(LABELS, min_size=0, max_size=3, unique_by=lambda labels: tuple(sorted(labels.items()))))
        header = name + "_total" if kind == "counter" and not openmetrics else name
        families.append(header)
        if draw(st.booleans()):
            lines.append(f"# HELP {header} {escape(draw(HELPS))}x")
        lines.append(f"# TYPE {header} {'unknown' if kind == 'untyped' and openmetrics else kind}")
        stamped = draw(st.booleans()) and not openmetrics
        for labels in series:
            stamp = draw(st.integers(0, 2**40)) if stamped and draw(st.booleans()) else None
            values = COUNTS if openmetrics else NUMBERS
            if kind == "histogram":
                total = draw(COUNTS)
                lines += [
                    render(f"{name}_bucket", {**labels, "le": le}, n, stamp)
                    for le, n in (("1.0", "0"), ("+Inf", total))
                ]
                lines += [
                    render(f"{name}_count", labels, total, stamp),
                    render(f"{name}_sum", labels, draw(values), stamp),
                ]
            elif kind == "summary":
                lines.append(render(name, {**labels, "quantile": "0.5"}, draw(values), stamp))
                lines += [
                    render(f"{name}_sum", labels, draw(values), stamp),
                    render(f"{name}_count", labels, "7", stamp),
                ]
            else:
                sample = name + "_total" if kind == "counter" else name
                lines.append(render(sample, labels, draw(values), stamp))
    return "\n".join([*lines, "# EOF"]).encode() + b"\n", families


@settings(max_examples=150, deadline=None)
@given(expositions())
def test_generated_text_reads_as_prometheus_client_reads_it(drawn):
    body, families = drawn
    assert ours(read_whole(body, families)) == peer(body)[1]


@settings(max_examples=100, deadline=None)
@given(expositions(openmetrics=True))
def test_generated_openmetrics_reads_as_prometheus_client_reads_it(drawn):
    body, families = drawn
    assert ours(read_whole(body, families, openmetrics=True), openmetrics=True) == peer(body, openmetrics=True)[1]


@settings(max_examples=100, deadline=None)
@given(expositions(), st.data())
def test_generated_text_selects_the_same(drawn, data):
    body, families = drawn
    wanted = data.draw(st.sets(st.sampled_from(families)))
    reader = Reader(wanted)
    first = outcome(reader, body)
    assert first == outcome(reader, body)
    whole = Reader(families).read(body)
    assert [row for row in outcome(Reader(families), body)[0] if row[0] in wanted] == first[0]
    assert whole.shape.kept + whole.shape.dropped == first[5][0] + first[5][1]


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row[0])
def test_the_differences_to_prometheus_client_are_the_listed_ones(row):
    _, openmetrics, body, wanted, theirs, expected, reason = row
    assert reason
    try:
        found = [
            (name, value)
            for (name, *_, value, _), count in peer(body, openmetrics=openmetrics)[1].items()
            for _ in range(count)
        ]
    except (ValueError, OverflowError) as error:
        found = [(w, 10**400) for w in wanted] if isinstance(error, OverflowError) else None
    assert found is None if theirs is None else sorted(found) == sorted(theirs)
    reading = Reader(wanted).read(body, openmetrics=openmetrics)
    rows = [
        (key.name, reading.values[row])
        for f in reading.shape.families.values()
        for row, key in enumerate(f.keys(), f.start)
    ]
    broken = [problem.kind for problem in reading.shape.problems if problem.family in reading.shape.unreadable]
    assert [*broken, *rows] == expected


def first(body, wanted, **options):
    return Reader(wanted, **options).read(body)


NOT_EXPOSITIONS = [
    ("empty", b"", FailureKind.NOT_EXPOSITION),
    ("blank", b" \r\n\n", FailureKind.NOT_EXPOSITION),
    ("blank beyond the look-ahead", b" " * 400, FailureKind.NOT_EXPOSITION),
    ("only a BOM", b"\xef\xbb\xbf", FailureKind.NOT_EXPOSITION),
    ("html", b"<!doctype html><html># TYPE up gauge\nup 1\n</html>", FailureKind.NOT_EXPOSITION),
    ("html after blanks", b"\n\n  <html>\nup 1\n", FailureKind.NOT_EXPOSITION),
    ("json object", b'{"error": "not found", "code": 404}', FailureKind.NOT_EXPOSITION),
    ("json list", b"[1, 2]\n", FailureKind.NOT_EXPOSITION),
    ("prose", b"Internal Server Error\n", FailureKind.NOT_EXPOSITION),
    ("comments only", b"# hello\n# world\n", FailureKind.NOT_EXPOSITION),
    ("gzip that was not asked for", b"\x1f\x8b\x08\x00rest", FailureKind.BAD_ENCODING),
    ("UTF-16", "# TYPE up gauge\nup 1\n".encode("utf-16"), FailureKind.BAD_ENCODING),
    ("a NUL", b"up 1\n\0\n", FailureKind.BAD_ENCODING),
    ("too large", b"up 1\n" * 100, FailureKind.TOO_LARGE),
    ("too many short lines", b"a 1\n" * 60, FailureKind.TOO_LARGE),
]


@pytest.mark.parametrize(
    ("body", "kind"), [row[1:] for row in NOT_EXPOSITIONS], ids=[row[0] for row in NOT_EXPOSITIONS]
)
def test_a_body_that_is_no_exposition_says_what_it_is(body, kind):
    result = Reader(["up"], limits=Limits(body_bytes=450, lines=50)).read(body)
    assert isinstance(result, NotRead)
    assert result.kind is kind
    assert result.detail


EXPOSITIONS_WITHOUT_WANTED = [
    ("another sample", b"down 1\n"),
    ("a TYPE line only", b"# TYPE up gauge\n"),
    ("an empty OpenMetrics body", b"# EOF\n"),
    ("a quoted name", b'{"my.metric",x="1"} 5\n'),
    ("a bad line and a good one", b"half a\ndown 1\n"),
]


@pytest.mark.parametrize(
    "body", [row[1] for row in EXPOSITIONS_WITHOUT_WANTED], ids=[row[0] for row in EXPOSITIONS_WITHOUT_WANTED]
)
def test_an_exposition_without_the_wanted_is_one(body):
    reading = first(body, ["up"])
    assert isinstance(reading, Reading)
    assert not reading.shape.families


READABLE = [
    # id, body, wanted, rows
    (
        "numbers right behind braces without labels",
        b'# TYPE a gauge\na{}12\n# TYPE b gauge\n b { }34.5\n# TYPE c gauge\n{"c"}56\n# TYPE d gauge\nd{}\t7.0\n',
        ["a", "b", "c", "d"],
        [("a", (), 12.0), ("b", (), 34.5), ("c", (), 56.0), ("d", (), 7.0)],
    ),
    ("CRLF", b'# TYPE a gauge\r\na{x="1"} 5\r\n', ["a"], [("a", (("x", "1"),), 5.0)]),
    ("BOM", b"\xef\xbb\xbfa 5\n", ["a"], [("a", (), 5.0)]),
    ("no newline after an unwanted line", b"# TYPE a gauge\na 5\nb 6", ["a"], [("a", (), 5.0)]),
    ("no newline after a comment", b"# TYPE a gauge\na 5\n# that is all", ["a"], [("a", (), 5.0)]),
    ("no newline after # EOF", b"# TYPE a gauge\na 5\n# EOF", ["a"], [("a", (), 5.0)]),
    (
        "tabs and blanks",
        b'a\t5\nb { x = "1" , y="2" , } \t 6\t\n',
        ["a", "b"],
        [("a", (), 5.0), ("b", (("x", "1"), ("y", "2")), 6.0)],
    ),
    ("leading blanks", b"  a 5\n", ["a"], [("a", (), 5.0)]),
    ("no blank before the value", b'a{x="1"}5\n', ["a"], [("a", (("x", "1"),), 5.0)]),
    ("empty labels", b"a{} 5\n", ["a"], [("a", (), 5.0)]),
    ("escapes", b'a{x="\\\\ \\" \\n \\y }"} 5\n', ["a"], [("a", (("x", '\\ " \n \\y }'),), 5.0)]),
    ("quoted name", b'{"a",x="1"} 5\n', ["a"], [("a", (("x", "1"),), 5.0)]),
    ("quoted label", b'a{"x.y"="1"} 5\n', ["a"], [("a", (("x.y", "1"),), 5.0)]),
    ("not ASCII", 'a{x="é"} 5\n'.encode(), ["a"], [("a", (("x", "é"),), 5.0)]),
    ("exemplar with timestamps", b'# TYPE a counter\na_total 5 123.4 # {t="u"} 1 2.5\n', ["a"], [("a_total", (), 5.0)]),
    (
        "_created belongs to its family",
        b"# TYPE a counter\na_total 5\na_created 7\n",
        ["a"],
        [("a_total", (), 5.0), ("a_created", (), 7.0)],
    ),
    (
        "_created as a family",
        b"# TYPE a histogram\na_sum 5\n# TYPE a_created gauge\na_created 7\n",
        ["a"],
        [("a_sum", (), 5.0)],
    ),
    (
        "a longer name is another family",
        b"# TYPE a gauge\na 1\n# TYPE a_count gauge\na_count 2\n",
        ["a"],
        [("a", (), 1.0)],
    ),
    (
        "no TYPE for a histogram",
        b'a_bucket{le="+Inf"} 1\na_sum 5\na_count 1\n',
        ["a"],
        [("a_bucket", (("le", "+Inf"),), 1.0), ("a_sum", (), 5.0), ("a_count", (), 1.0)],
    ),
    ("HELP without TYPE", b"# HELP a text\na 5\n", ["a"], [("a", (), 5.0)]),
    (
        "a header in a HELP text",
        b"# HELP b # TYPE a counter\n# TYPE b gauge\nb 1\n# TYPE a gauge\na 5\n",
        ["a"],
        [("a", (), 5.0)],
    ),
    (
        "a comment inside a family",
        b'# TYPE a gauge\na{x="1"} 1\n# by the way\n\na{x="2"} 2\n',
        ["a"],
        [("a", (("x", "1"),), 1.0), ("a", (("x", "2"),), 2.0)],
    ),
    (
        "info and gauge histogram",
        b'# TYPE i info\ni_info{v="1"} 1\n# TYPE g gaugehistogram\ng_bucket{le="+Inf"} 1\ng_gsum 2\ng_gcount 1\n',
        ["i", "g"],
        [
            ("i_info", (("v", "1"),), 1.0),
            ("g_bucket", (("le", "+Inf"),), 1.0),
            ("g_gsum", (), 2.0),
            ("g_gcount", (), 1.0),
        ],
    ),
    ("foreign lines in an unwanted block", b"# TYPE b gauge\nb 1\na 5\n", ["a"], [("a", (), 5.0)]),
    ("TYPE only", b"# TYPE a gauge\n# TYPE b gauge\nb 1\n", ["a"], []),
]


@pytest.mark.parametrize(("body", "wanted", "rows"), [row[1:] for row in READABLE], ids=[row[0] for row in READABLE])
def test_what_is_readable_is_read(body, wanted, rows):
    reader = Reader(wanted)
    for _ in range(2):
        found = outcome(reader, body)
        assert [(name, labels, value) for _, _, name, labels, value in found[0]] == rows
        assert not found[4]


BROKEN = [
    # id, body, wanted, (family, kind, line), families still read
    ("a label without quotes", b"a{x=1} 5\nb 1\n", ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("a label without a value", b"a{x} 5\nb 1\n", ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("an empty quoted label", b'a{""="1"} 5\nb 1\n', ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("labels that do not end", b'a{x="1" 5\nb 1\n', ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("a repeated label", b'a{x="1",x="1"} 5\nb 1\n', ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("a reserved label", b'a{__name__="b"} 5\nb 1\n', ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("two names", b'a{"a"} 5\nb 1\n', ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("no value", b"a{}\nb 1\n", ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("a value that is no number", b"a five\nb 1\n", ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("an underscore in a number", b"a 1_0\nb 1\n", ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("a bad timestamp", b"a 1 now\nb 1\n", ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("an exemplar without labels", b"a 1 # 5\nb 1\n", ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("an exemplar without a value", b'a 1 # {x="1"}\nb 1\n', ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("text before an exemplar", b'a 1 # z{x="1"} 5\nb 1\n', ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("a TYPE line without a type", b"# TYPE a\na 1\nb 1\n", ["a", "b"], ("a", "Malformed", 1), ["b"]),
    ("not UTF-8 in a wanted family", b'a{x="\xff"} 1\nb 1\n', ["a", "b"], ("a", "BadEncoding", 1), ["b"]),
    ("not UTF-8 in a quoted name's line", b'b 1\n{"a",x="\xff"} 1\n', ["a", "b"], None, ["b"]),
    (
        "a line without a readable name among its own",
        b'# TYPE b gauge\nb 1\n# TYPE a gauge\na{x="1"} 1\n{"a",x=} 2\na{x="3"} 3\n',
        ["a", "b"],
        ("a", "Malformed", 5),
        ["b"],
    ),
    (
        "a line that is only a number among its own",
        b'# TYPE b gauge\nb 1\n# TYPE a gauge\na{x="1"} 1\n2.0\n',
        ["a", "b"],
        ("a", "Malformed", 5),
        ["b"],
    ),
    ("interleaved", b'a{x="1"} 1\nb 1\na{x="2"} 1\n', ["a", "b"], ("a", "Interleaved", 3), ["b"]),
    (
        "interleaved with a family nobody wants",
        b'a{x="1"} 1\nc 1\na{x="2"} 1\nb 1\n',
        ["a", "b"],
        ("a", "Interleaved", 3),
        ["b"],
    ),
    (
        "a second block",
        b"# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\na 1\n",
        ["a", "b"],
        ("a", "Interleaved", 5),
        ["b"],
    ),
    (
        "a half line in its own family",
        b'# TYPE b gauge\nb 1\n# TYPE a histogram\na_bucket{le="1"} 1\na_bucket{le="',
        ["a", "b"],
        ("a", "Truncated", 5),
        ["b"],
    ),
    (
        "a half name",
        b"# TYPE b gauge\nb 1\n# TYPE a histogram\na_sum 1\na_bu",
        ["a", "b"],
        ("a", "Truncated", 5),
        ["b"],
    ),
    ("half a TYPE line", b"# TYPE b gauge\nb 1\n# TYPE a his", ["a", "b"], ("a", "Truncated", 3), ["b"]),
    (
        "too many series",
        b"b 1\n" + b"".join(b'a{x="%d"} 1\n' % n for n in range(30)),
        ["a", "b"],
        ("a", "TooLarge", 2),
        ["b"],
    ),
    (
        "too many series in two runs",
        b"b 1\n"
        + b"".join(b'a{x="%d"} 1\n' % n for n in range(15))
        + b"# so\n"
        + b"".join(b'a{y="%d"} 1\n' % n for n in range(15)),
        ["a", "b"],
        ("a", "TooLarge", 2),
        ["b"],
    ),
    (
        "too many bytes",
        b"b 1\n" + b"".join(b'a{x="%d",y="%s"} 1\n' % (n, b"z" * 90) for n in range(15)),
        ["a", "b"],
        ("a", "TooLarge", 2),
        ["b"],
    ),
    ("a long line", b'a{x="' + b"z" * 2000 + b'"} 1\nb 1\n', ["a", "b"], ("a", "TooLarge", 1), ["b"]),
    (
        "too many labels",
        b"a{" + b",".join(b'x%d="1"' % n for n in range(9)) + b"} 1\nb 1\n",
        ["a", "b"],
        ("a", "TooLarge", 1),
        ["b"],
    ),
]
SMALL = Limits(family_bytes=1200, line_bytes=1000, family_series=20, labels=8)


@pytest.mark.parametrize(
    ("body", "wanted", "problem", "left"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_a_fault_costs_its_family_and_is_named(body, wanted, problem, left):
    reader = Reader(wanted, limits=SMALL)
    for _ in range(2):
        shape = reader.read(body).shape
        assert list(shape.families) == left
        found = [(each.family, each.kind, each.line) for each in shape.problems if each.family in shape.unreadable]
        assert found == ([problem] if problem else [])
        assert all(each.detail for each in shape.problems)


def test_two_families_with_samples_of_one_name_are_two_writers_and_neither_is_read():
    body = b'# TYPE a counter\na_total 1\n# TYPE b gauge\nb 1\n# TYPE a_total counter\na_total{x="1"} 2\n'
    reader = Reader(["a", "a_total", "b"])
    for _ in range(2):
        shape = reader.read(body).shape
        assert list(shape.families) == ["b"]
        assert [(each.family, each.kind, each.line) for each in shape.problems] == [
            ("a", "Interleaved", 2),
            ("a_total", "Interleaved", 6),
        ]


def test_a_body_without_a_readable_line_is_no_exposition_however_it_was_read_before():
    reader = Reader(["b"])
    assert isinstance(reader.read(b"a 1\n"), Reading)
    assert isinstance(reader.read(b"a 1,\n"), NotRead)


def test_a_long_line_of_an_unwanted_family_costs_nothing():
    body = b'c{x="' + b"z" * (1 << 20) + b'"} 1\nb 1\n'
    reader = Reader(["b"], limits=SMALL)
    for _ in range(2):
        assert list(reader.read(body).shape.families) == ["b"]


@pytest.mark.parametrize(
    ("body", "openmetrics", "truncated"),
    [
        (b"a 1\n", False, False),
        (b"a 1", False, True),
        (b"a 1\nb 1", False, False),
        (b"a 1\n# EOF", False, False),
        (b"a 1\n# EO", False, True),
        (b"a 1\nb{", False, True),
        (b"a 1\n# EOF\n", True, False),
        (b"a 1\n", True, True),
    ],
)
def test_a_cut_body_is_marked(body, openmetrics, truncated):
    reader = Reader(["a"])
    for _ in range(2):
        assert reader.read(body, openmetrics=openmetrics).shape.truncated is truncated


def test_notes_tell_what_is_odd_but_readable():
    body = b"# TYPE a gouge\na 1\nb 1\nb 1\nc 1\nd 1"
    kinds = {(problem.family, problem.kind) for problem in first(body, ["a", "b", "c"]).shape.problems}
    assert kinds == {
        ("a", ProblemKind.TYPE_UNKNOWN),
        ("b", ProblemKind.TYPE_MISSING),
        ("b", ProblemKind.DUPLICATES_FOLDED),
        ("c", ProblemKind.TYPE_MISSING),
        ("", ProblemKind.NO_FINAL_NEWLINE),
    }


def test_a_number_that_may_be_cut_costs_its_family_alone():
    shape = first(b'# TYPE a gauge\na 1\n# TYPE b gauge\nb{x="1"} 5\nb{x="2"} 123', ["a", "b"]).shape
    assert (list(shape.families), shape.unreadable) == (["a"], {"b"})
    assert [(each.family, each.kind, each.line) for each in shape.problems] == [("b", ProblemKind.TRUNCATED, 5)]


@pytest.mark.parametrize("size", [4096, 4097, 60_000])
def test_a_label_value_past_its_limit_costs_the_family_and_is_named(size):
    body = b'# TYPE a gauge\na{x="1"} 1\na{x="%s"} 1\n# TYPE b gauge\nb 1\n' % (b"z" * size)
    reader = Reader(["a", "b"])
    for _ in range(3):
        shape = reader.read(body).shape
        found = [(each.family, each.kind, each.line) for each in shape.problems]
        assert found == ([("a", ProblemKind.TOO_LARGE, 3)] if size > 4096 else [])
        assert ("a" in shape.families, "b" in shape.families) == (size == 4096, True)
        assert all("label 'x' has" in each.detail for each in shape.problems)


def test_a_label_value_is_measured_as_it_is_not_as_it_is_written():
    reader = Reader(["a"], limits=Limits(label_value=16))
    assert list(reader.read(b'a{x="' + b"\\n" * 16 + b'"} 1\n').shape.families) == ["a"]
    assert not reader.read(b'a{x="' + "é".encode() * 9 + b'"} 1\n').shape.families


def test_a_family_in_two_runs_of_lines_has_the_stamps_of_both():
    reading = first(b'# TYPE a gauge\na{x="1"} 1\n# by the way\na{x="2"} 2 7\n\na{x="3"} 3\n', ["a"])
    assert reading.values.tolist() == [1.0, 2.0, 3.0]
    assert reading.timestamps.tolist() == pytest.approx([math.nan, 7.0, math.nan], nan_ok=True)


def test_a_foreign_suffix_in_a_block_is_another_family():
    reading = first(b"# TYPE a gauge\na 1\na_count 2\n# TYPE b gauge\nb 1\n", ["a", "b"])
    assert [key.name for family in reading.shape.families.values() for key in Family.keys(family)] == ["a", "b"]


def test_metadata_with_a_name_that_is_not_utf8_is_a_comment():
    assert first(b'# TYPE "a\xff" gauge\na 1\n', ["a"]).shape.types == {}


def test_a_fault_of_a_family_nobody_wants_is_nobodys():
    shape = first(b"# TYPE b\n# TYPE b gauge\nb{ 1\na 1\n", ["a"]).shape
    assert [problem.kind for problem in shape.problems] == [ProblemKind.TYPE_MISSING]


OTHERWISE = [
    'a{x="1"}2',
    'a{x="1"}\t2',
    'a{x="1",} 2',
    'a{x="1" } 2',
    'a{ x="1"} 2',
    'a{x= "1"} 2',
    'a {x="1"} 2',
    'a{"x"="1"} 2',
    '{"a",x="1"} 2',
    'a{x="1"} 2 # {t="u"} 1',
    'a{x="1"}2 1700000000000',
]


@pytest.mark.parametrize("between", ["", "# HELP b text\n"], ids=["together", "apart"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("line", OTHERWISE)
def test_a_series_written_in_another_way_is_the_same_series(line, before, between):
    usual = 'a{x="0"} 5\na{x="1"} 3\n'
    parts = [f"{line}\n", usual] if before else [usual, f"{line}\n"]
    reader = Reader(["a"])
    reader.read(usual.encode())
    reading = reader.read(parts[0].encode() + parts[1].encode())
    assert {problem.kind for problem in reading.shape.problems} == {ProblemKind.UNEQUAL_DUPLICATES}
    reading = Reader(["a"]).read(f"# HELP a text\n{parts[0]}{between}{parts[1]}".encode())
    assert reading.shape.unreadable == {"a"}


def test_a_value_escaped_in_another_way_is_the_same_value():
    reading = first(b'a{x="\\\\q"} 2\na{x="\\q"} 3\n', ["a"])
    assert [problem.kind for problem in reading.shape.problems] == [ProblemKind.UNEQUAL_DUPLICATES]


def test_equal_duplicates_that_are_nan_or_stamped_fold():
    reading = first(b'a NaN 5\na NaN 5\na{x="1"} 2\n', ["a"])
    assert reading.shape.kept == 2
    assert reading.timestamps.tolist() == pytest.approx([5.0, float("nan")], nan_ok=True)
