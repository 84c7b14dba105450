"""The verified layout must never say anything else than a full read, however a body is changed under it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.measure.exposition import Limits, Reader
from observer.measure.layout import Wanted
from tests.measure.compare import RECORDINGS, outcome

BODY = (
    b'# HELP python_info text\n# TYPE python_info gauge\npython_info{version="3"} 1.0\n'
    b"# HELP vllm:run text of vllm:wait\n# TYPE vllm:run gauge\n"
    b'vllm:run{engine="0"} 1.0\nvllm:run{engine="1"} 2.0\n'
    b"# HELP vllm:wait text\n# TYPE vllm:wait gauge\n"
    b'vllm:wait{engine="0"} 3.0\nvllm:wait{engine="1"} 4.0\n'
    b"# HELP vllm:e2e text\n# TYPE vllm:e2e histogram\n"
    b'vllm:e2e_bucket{engine="0",le="1.0"} 5.0\nvllm:e2e_bucket{engine="0",le="+Inf"} 6.0\n'
    b'vllm:e2e_count{engine="0"} 6.0\nvllm:e2e_sum{engine="0"} 7.5\n'
    b"# HELP vllm:e2e_created text\n# TYPE vllm:e2e_created gauge\n"
    b'vllm:e2e_created{engine="0"} 1.79e+09\n'
    b"# HELP vllm:swap_total text\n# TYPE vllm:swap_total counter\n"
    b'vllm:swap_total{engine="0"} 8.0\n\n'
    b"# HELP up text\n# TYPE up gauge\nup 1\n"
)
WANTED = ("vllm:run", "vllm:e2e", "vllm:swap", "vllm:swap_total")


def agree(reader, body):
    """One body through a reader that has layouts says what a reader without any says."""
    fresh = Reader(reader.wanted, limits=reader.limits, layouts=0)
    expected = outcome(fresh, body)
    assert outcome(reader, body) == expected
    assert fresh.layout_reads == 0


def primed(body=BODY, wanted=WANTED, **options):
    reader = Reader(wanted, **options)
    reader.read(body)
    reader.read(body)
    assert reader.layout_reads == 1
    return reader


def test_new_numbers_are_read_by_the_layout():
    reader = primed()
    for text in (b"9", b"-1", b"1e-7", b"NaN", b"+Inf", b"-Inf", b"123456789012345678901234567890", b"0.1", b"1E400"):
        body = BODY.replace(b'vllm:run{engine="1"} 2.0', b'vllm:run{engine="1"} ' + text)
        before = reader.layout_reads
        agree(reader, body)
        assert reader.layout_reads == before + 1


CHANGES = [
    ("a second block at the end", BODY + b'# TYPE vllm:run gauge\nvllm:run{engine="0"} 1.0\n'),
    ("a bare sample at the end", BODY + b'vllm:run{engine="2"} 1.0\n'),
    ("a bare sample in an unwanted block", BODY.replace(b'vllm:wait{engine="1"}', b'vllm:run{engine="2"}')),
    ("a bare bucket in an unwanted block", BODY.replace(b'vllm:wait{engine="1"}', b'vllm:e2e_count{engine="2"}')),
    ("a wanted sample in place of another family's", BODY.replace(b"up 1\n", b"vllm:run 1\n")),
    ("an unwanted sample becomes a created one", BODY.replace(b'vllm:wait{engine="1"}', b'vllm:e2e_created{a="2"}')),
    (
        "a created sample becomes a wanted one",
        BODY.replace(b'vllm:e2e_created{engine="0"}', b'vllm:e2e_count{engine="0"}'),
    ),
    ("a header in a HELP text", BODY.replace(b"text of vllm:wait", b"# TYPE vllm:swap_total gauge")),
    ("another HELP text", BODY.replace(b"text of vllm:wait", b"text of vllm:WAIT")),
    ("another type", BODY.replace(b"vllm:run gauge", b"vllm:run counter")),
    ("another type of an unwanted family", BODY.replace(b"vllm:wait gauge", b"vllm:wait counter")),
    ("a header renamed to a wanted name", BODY.replace(b"# TYPE vllm:wait gauge", b"# TYPE vllm:run gauge ")),
    ("labels in another order", BODY.replace(b'{engine="0",le="1.0"}', b'{le="1.0",engine="0"}')),
    ("another label value of equal length", BODY.replace(b'vllm:run{engine="1"}', b'vllm:run{engine="7"}')),
    ("a longer label value", BODY.replace(b'vllm:run{engine="1"}', b'vllm:run{engine="11"}')),
    (
        "two lines swapped",
        BODY.replace(
            b'vllm:run{engine="0"} 1.0\nvllm:run{engine="1"} 2.0', b'vllm:run{engine="1"} 2.0\nvllm:run{engine="0"} 1.0'
        ),
    ),
    ("a line gone and another come", BODY.replace(b'vllm:run{engine="1"} 2.0\n', b"") + b"zip 1\n"),
    ("a new family between", BODY.replace(b"# HELP vllm:wait", b"# TYPE vllm:new gauge\nvllm:new 1\n# HELP vllm:wait")),
    ("a line that is only a number", BODY.replace(b'vllm:run{engine="1"} 2.0', b"2.0")),
    ("a number and a comma", BODY.replace(b'vllm:run{engine="1"} 2.0', b'vllm:run{engine="1"} 2.0,3')),
    (
        "a JSON list over two lines",
        BODY.replace(b'"0"} 1.0\nvllm:run{engine="1"} 2.0', b'"0"} [1.0\nvllm:run{engine="1"} 2.0]'),
    ),
    (
        "a JSON list and two numbers",
        BODY.replace(b'"0"} 1.0\nvllm:run{engine="1"} 2.0', b'"0"} [1.0\nvllm:run{engine="1"} 2.0],4'),
    ),
    ("true", BODY.replace(b'"1"} 2.0', b'"1"} true')),
    ("null", BODY.replace(b'"1"} 2.0', b'"1"} null')),
    ("a JSON string", BODY.replace(b'"1"} 2.0', b'"1"} "2"')),
    ("a JSON object", BODY.replace(b'"1"} 2.0', b'"1"} {}')),
    ("an underscore", BODY.replace(b'"1"} 2.0', b'"1"} NaN').replace(b'"0"} 1.0', b'"0"} 1_0')),
    ("no number", BODY.replace(b'"1"} 2.0', b'"1"} ')),
    ("a timestamp", BODY.replace(b'"1"} 2.0', b'"1"} 2.0 1700000000000')),
    ("an exemplar", BODY.replace(b'le="1.0"} 5.0', b'le="1.0"} 5.0 # {t="u"} 0.5')),
    ("blanks before a number", BODY.replace(b'"1"} 2.0', b'"1"}   2.0')),
    ("a leading blank", BODY.replace(b'vllm:wait{engine="1"}', b' vllm:run{engine="1"}')),
    ("a quoted name", BODY.replace(b'vllm:wait{engine="1"}', b'{"vllm:run",e="1"}')),
    ("CRLF", BODY.replace(b"\n", b"\r\n")),
    ("CR at one number", BODY.replace(b'"1"} 2.0', b'"1"} 2.0\r')),
    ("no final newline", BODY[:-1]),
    ("half a line", BODY[:-4]),
    ("a blank line filled", BODY.replace(b"\n\n", b"\nvllm:run 7\n")),
    ("a comment for a blank line", BODY.replace(b"\n\n", b"\n# by the way\n")),
    ("an EOF", BODY + b"# EOF\n"),
    ("a BOM", b"\xef\xbb\xbf" + BODY),
    ("a NUL", BODY.replace(b"up 1", b"up \0")),
    ("html before", b"<" + BODY),
    ("a long number", BODY.replace(b'"1"} 2.0', b'"1"} 2.' + b"0" * 2000)),
    ("a longer unwanted line", BODY.replace(b"up 1\n", b"up 1" + b"0" * 2000 + b"\n")),
    ("a shorter last line", BODY.replace(b"\nup 1\n", b"\nu 1\n")),
    ("an empty last line", BODY.replace(b"\nup 1\n", b"\n\n")),
    ("a broken unwanted line", BODY.replace(b'vllm:wait{engine="1"} 4.0', b"vllm:wait what")),
    ("not UTF-8 in an unwanted line", BODY.replace(b'vllm:wait{engine="1"}', b'vllm:wait{engine="\xff"}')),
    ("not UTF-8 in a wanted line", BODY.replace(b'vllm:run{engine="1"}', b'vllm:run{engine="\xff"}')),
]


@pytest.mark.parametrize("body", [row[1] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_changed_body_is_not_mistaken(body):
    assert body != BODY
    reader = primed(limits=Limits(line_bytes=1500))
    agree(reader, body)
    agree(reader, body)
    agree(reader, BODY)


LINES = BODY.splitlines(keepends=True)
PIECES = [
    *LINES,
    b"\n",
    b"# EOF\n",
    b'vllm:run{engine="9"} 1\n',
    b"vllm:swap_total 4\n",
    b"junk\n",
    b"# TYPE vllm:swap counter\n",
]


@st.composite
def mutations(draw):
    """Lines removed, repeated, moved, put in and edited; as often as not with the number of lines kept."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["remove", "insert", "replace", "swap", "edit"])):
            case "remove" if len(lines) > 1:
                del lines[place]
            case "insert":
                lines.insert(place, draw(st.sampled_from(PIECES)))
            case "replace":
                lines[place] = draw(st.sampled_from(PIECES))
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[place], lines[other] = lines[other], lines[place]
            case _:
                at = draw(st.integers(0, len(lines[place]) - 1))
                char = draw(st.sampled_from(list(b'09.,e+-{}"\\ \t\r_#a:[]NI\xc3\xa9')))
                cut = draw(st.integers(0, 2))
                lines[place] = lines[place][:at] + bytes([char]) + lines[place][at + cut :]
    return b"".join(lines)


@settings(max_examples=400, deadline=None)
@given(st.lists(mutations(), min_size=1, max_size=3))
def test_no_mutation_is_mistaken(bodies):
    reader = primed()
    for body in bodies:
        agree(reader, body)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_mutation_of_a_recording_is_mistaken(data):
    body = (RECORDINGS / "vllm-0.32.0" / "metrics-02-warm.prom").read_bytes()
    names = sorted(set(re.findall(rb"# TYPE (\S+)", body)))
    reader = Reader([data.draw(st.sampled_from(names)).decode() for _ in range(5)])
    reader.read(body)
    lines = body.splitlines(keepends=True)
    one, two = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[one], lines[two] = data.draw(st.sampled_from([(lines[two], lines[one]), (lines[two], lines[two])]))
    agree(reader, b"".join(lines))


def test_a_shifted_line_is_not_mistaken_where_the_window_fits_it():
    body = b"# TYPE b gauge\naaaaaaaaaaaa 1\n"
    reader = primed(body, ["aaaaaaaaaaab"])
    agree(reader, b"# TYPE b gauge\n aaaaaaaaaaab 1\n")


def test_a_bare_word_that_becomes_a_wanted_name_is_seen():
    reader = primed(b"ab 1\na\n", ["ab"])
    agree(reader, b"ab 1\nab 2\n")
    reader = primed(b"zz 1\na\n", ["ab", "zz"])
    agree(reader, b"zz 1\nab\n")
    agree(reader, b"zz 1\nab 2\n")


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("observer.measure.layout._WINDOWS_KEPT", 2)
    monkeypatch.setattr("observer.measure.together._WHOLES_KEPT", 2)
    monkeypatch.setattr("observer.measure.rows._STRUCTURES_KEPT", 1)
    reader = Reader(["a", "b"])
    for number in range(6):
        agree(reader, b'a{x="%d"} 1\nb{y="1"} 2\nc%d 1\nd%d{x="1"} 2\n' % (number, number, number))
    assert len(reader._memory.names._windows) <= 2
    assert len(reader._memory.structures.wholes) <= 2
    assert len(reader._memory.structures.names) == 1


def test_names_shorter_than_a_window_are_told_apart():
    reader = primed(b"b 1\na 2\n", ["a", "bcdefghijkl"])
    agree(reader, b"a 1\na 2\n")
    agree(reader, b"bcdefghijkl 1\na 2\n")


def test_layouts_are_shared_and_bounded():
    reader = Reader(["a"], layouts=2)
    bodies = [b"# TYPE a gauge\n" + b"".join(b'a{x="%d"} 1\n' % n for n in range(size)) for size in range(1, 5)]
    shapes = [reader.read(body).shape for body in bodies]
    assert reader.read(bodies[3]).shape is shapes[3]
    assert reader.read(bodies[2]).shape is shapes[2]
    assert reader.layout_reads == 2
    assert reader.read(bodies[0]).shape is not shapes[0]
    assert reader.layout_bytes == sum(shape.layout.nbytes for shape in reader._shapes) > 0
    assert reader.read(bodies[1], hint=shapes[1]).shape is shapes[1]


def test_layouts_are_bounded_by_their_bytes_and_large_bodies_have_none(monkeypatch):
    bodies = [b"".join(b'a{x="%d"} 1\n' % n for n in range(size)) for size in (10, 11, 12)]
    monkeypatch.setattr("observer.measure.exposition._LAYOUT_BYTES", 1200)
    reader = Reader(["a"])
    for body in bodies:
        reader.read(body)
    assert 0 < reader.layout_bytes <= 1200
    monkeypatch.setattr("observer.measure.exposition._LAYOUT_LINES", 11)
    reader = Reader(["a"])
    assert [reader.read(body).shape.layout is None for body in bodies] == [False, False, True]


def test_many_layouts_with_equal_line_counts_are_found_by_the_hint_or_by_a_full_read():
    reader = Reader(["a"])
    bodies = [b'a{pid="%d"} 1\n' % pid for pid in range(8)]
    shapes = [reader.read(body).shape for body in bodies]
    assert len(set(map(id, shapes))) == 8
    before = reader.full_reads
    for body, shape in zip(bodies, shapes, strict=True):
        assert reader.read(body, hint=shape).shape is shape
    assert reader.full_reads == before
    for body, shape in zip(bodies, shapes, strict=True):
        assert reader.read(body).shape is shape
    assert reader.full_reads == before
    assert len(reader._shapes) == 8


def test_what_is_read_in_full_is_seen_to_be_known_so_that_a_target_more_has_no_shape_more():
    # Only two that have the same rows at two places are tried without a hint.
    reader = Reader(["a"])
    bodies = [b'a{pid="0"} 1\na{pid="%d"} 1\na{pid="0",x="9"} 1\n' % pid for pid in range(1, 9)]
    shapes = [reader.read(body).shape for body in bodies]
    before = reader.full_reads
    for body, shape in zip(bodies, shapes, strict=True):
        assert reader.read(body).shape is shape
    assert reader.full_reads > before
    assert len(reader._shapes) == 8


def test_the_layout_that_was_not_used_for_longest_goes():
    reader = Reader(["a"], layouts=3)
    bodies = [b'a{pid="%d"} 1\n' % pid for pid in range(9)]
    much_used = reader.read(bodies[0]).shape
    for body in bodies[1:]:
        reader.read(body)
        assert reader.read(bodies[0], hint=much_used).shape is much_used
    assert much_used in reader._shapes
    assert len(reader._shapes) == 3
    # One that went and is still a target's comes back.
    gone = Reader(["a"], layouts=1)
    first = gone.read(bodies[0]).shape
    gone.read(bodies[1])
    assert gone._shapes != [first]
    assert gone.read(bodies[0], hint=first).shape is first
    assert gone._shapes == [first]


def test_a_full_read_is_given_no_kept_shape_that_says_anything_else():
    reader = Reader(["a", "b"])
    bodies = [
        b"# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n",
        b"# TYPE a counter\na 1\n# TYPE b gauge\nb 1\n",
        b"# TYPE a gauge\na 1\n# TYPE c gauge\nb 1\n",
        b"# TYPE a gauge\na 1\n# TYPE c gauge\nc 1\n",
        b"# TYPE a gauge\na 1\n# TYPE b gauge\n# EOF\n",
        b"# TYPE a gauge\na 1\n# TYPE d gauge\nd 1\n",
    ]
    for body in [*bodies, *bodies, *reversed(bodies)]:
        agree(reader, body)


def test_an_openmetrics_body_needs_its_end_on_the_layout_path_too():
    reader = Reader(["a"])
    assert reader.read(b"a 1\n").shape.truncated is False
    assert reader.read(b"a 1\n", openmetrics=True).shape.truncated is True
    ended = reader.read(b"a 1\n# EOF\n").shape
    assert reader.read(b"a 2\n# EOF\n", openmetrics=True).shape is ended
    # And what was cut for OpenMetrics is whole as text.
    reader = Reader(["a"])
    assert reader.read(b"a 1\n", openmetrics=True).shape.truncated is True
    assert reader.read(b"a 1\n").shape.truncated is False


def test_a_family_that_grows_past_its_limit_leaves_the_layout():
    limits = Limits(family_bytes=40)
    reader = Reader(["a"], limits=limits)
    reader.read(b'a{x="1"} 1\na{x="2"} 1\n')
    agree(reader, b'a{x="1"} 111111111111\na{x="2"} 1111111111111\n')
    assert reader.read(b'a{x="1"} 111111111111\na{x="2"} 1111111111111\n').shape.unreadable == {"a"}


@settings(max_examples=300, deadline=None)
@given(
    st.sets(st.text("ab:", min_size=1, max_size=12), min_size=1, max_size=6),
    st.text("ab:", min_size=1, max_size=24),
    st.sampled_from(["{", " "]),
    st.text('ab:{ "', max_size=30),
)
def test_a_window_proves_what_it_says(names, name, end, other):
    text = (name + end).encode()
    window = Wanted(frozenset(names)).window(text)
    if window is None:
        return
    offset = window[0]
    known = text[offset : offset + 8]
    # Any line with these bytes at that place begins with no wanted name.
    for line in (text, (other.ljust(offset, "a")[:offset]).encode() + known + b"x"):
        assert line[offset : offset + 8].startswith(known)
        assert not any(line.startswith(wanted.encode()) for wanted in names)


def test_a_text_that_a_wanted_name_begins_with_proves_nothing():
    assert Wanted(frozenset({"abcdefghij"})).window(b"ab") is None
    assert Wanted(frozenset({"abcdefghij"})).window(b"ab ") is not None


HEAD = b"# TYPE h histogram\n"
TRICKY = [
    b'h_bucket{x="1",le="5"} 1\n',
    b'h_bucket{x="1",le="+Inf"} 2\n',
    b'h_bucket{x="1"le="5"} 1\n',
    b'h_bucket{x="1"} 1\n',
    b'h_bucket{le="5",x="1"} 1\n',
    b'h_bucket{le="5"",x="1"} 1\n',
    b'h_bucket{le="5} 1\n',
    b'h_bucket{role="5",x="1"} 1\n',
    b'h_bucket{x="le=",le="1"} 1\n',
    b'h_bucket{x="a} b",le="1"} 1\n',
    b'h_bucket{le="1"} 1 # {t="u"} 1\n',
    b'h_bucket{le="1"} 1 1700000000000\n',
    b'h_bucket{le="1\\"",x="1"} 1\n',
    b'h_bucket{le="1",le="1"} 1\n',
    b'h_bucket{le="1",__x="1"} 1\n',
    b'h_bucket{le="1",} 1\n',
    b'h_bucket {le="1"} 1\n',
    b'h_bucket{le= "1"} 1\n',
    b'h_bucket{le="\xff"} 1\n',
    b'h_count{x="1"} 2\n',
    b'h_sum{x="1"} NaN\n',
    b'h_sum{x="2"} 1_0\n',
    b"h_count 3\n",
    b'h_other{x="1"} 2\n',
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.sampled_from(TRICKY), min_size=1, max_size=5), min_size=1, max_size=3))
def test_lines_of_few_kinds_are_read_as_each_line_by_itself(blocks):
    """The quick way over a block of lines says what reading them one by one says, whatever was read before."""
    reader, slow = Reader(["h"], layouts=0), Reader(["h"], layouts=0)
    for block in blocks:
        body = HEAD + b"".join(block)
        found = outcome(reader, body)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("observer.measure.scan.read_together", lambda *_: {})
            assert found == outcome(slow, body)


HEADERS = [
    b"# HELP a text\n",
    b"# HELP a \n",
    b"# HELP a\n",
    b"# HELP b text # TYPE a counter\n",
    b"# TYPE a gauge\n",
    b"# TYPE a counter\n",
    b"# TYPE a Gauge\n",
    b"# TYPE a gauge\r\n",
    b"# TYPE b gauge\n",
    b"# TYPE b \n",
    b"#TYPE b gauge\n",
    b"# UNIT a seconds\n",
    b"# EOF\n",
    b"\n",
    b"a 1\n",
    b"b 2\n",
    b'{"a"} 1\n',
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(HEADERS), min_size=1, max_size=8))
def test_pairs_of_headers_are_read_as_each_line_by_itself(lines):
    body = b"".join(lines)
    found = outcome(Reader(["a", "b"], layouts=0), body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("observer.measure.outline._DECLARED", re.compile(r"\A\Zx"))
        assert found == outcome(Reader(["a", "b"], layouts=0), body)


@pytest.mark.parametrize("last", [b"", b"a", b"toy", b"toy:wan", b"toy:wanted_m"])
def test_a_last_line_that_is_shorter_than_the_place_that_was_looked_at_in_it(last):
    body = b"# TYPE toy:wanted_name gauge\ntoy:wanted_name 1\n# TYPE toy:wanted_more gauge\ntoy:wanted_more 1\n"
    reader = primed(body, ["toy:wanted_name"])
    agree(reader, body.replace(b"toy:wanted_more 1\n", last + b"\n"))
