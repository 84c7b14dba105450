"""The quick ways of a first read say what reading line by line says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.measure.exposition import Limits, NotRead, Reader
from observer.measure.lines import INFORMS
from observer.measure.rows import Rows, Structures
from observer.measure.together import Segment, read_together
from tests.measure.compare import BODIES, outcome, wire_families
from tests.measure.test_layout import BODY, CHANGES, WANTED, mutations


def slowly(reader, body, **options):
    """What a reader without its quick ways says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("observer.measure.scan.read_together", lambda *_: {})
        patch.setattr("observer.measure.scan.Rows.repeated", lambda *_: None)
        patch.setattr("observer.measure.scan.Scan._walk_plain", lambda *_: False)
        return outcome(reader, body, **options)


def told(found):
    """An outcome without which of several faults of a family is named: that may depend on what was read before."""
    if isinstance(found, NotRead):
        return found
    rows, stamps, types, problems, *rest = found
    return rows, stamps, types, {(each.family, each.kind in INFORMS) for each in problems}, *rest


def agree(wanted, *bodies, **options):
    """Bodies read one after the other by one reader, and each by a new one that goes line by line."""
    reader = Reader(wanted, layouts=0, **options)
    for body in bodies:
        slow = slowly(Reader(wanted, layouts=0, **options), body)
        assert outcome(Reader(wanted, layouts=0, **options), body) == slow
        assert told(outcome(reader, body)) == told(slow)


@pytest.mark.parametrize("path", BODIES[::3], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_recording_is_read_quickly_as_it_is_read_slowly(path):
    body = path.read_bytes()
    families = sorted(wire_families(body))
    for wanted in (families, families[::5], families[1::4]):
        agree(wanted, body, body)


@pytest.mark.parametrize("body", [row[1] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_changed_body_is_read_quickly_as_it_is_read_slowly(body):
    agree(WANTED, BODY, body, BODY, limits=Limits(line_bytes=1500))
    agree(WANTED, body, limits=Limits(line_bytes=1500))


@settings(max_examples=300, deadline=None)
@given(st.lists(mutations(), min_size=1, max_size=3))
def test_a_mutated_body_is_read_quickly_as_it_is_read_slowly(bodies):
    agree(WANTED, BODY, *bodies)
    agree(WANTED, *bodies)


LINES = [
    b"{} 1\n",
    b'{}{{x="1"}} 2\n',
    b'{}{{x="a b"}} 3\n',
    b'{}{{x="a b",y="c  d"}} 4\n',
    b'{}{{x="1"}} 5 1700000000000\n',
    b'{}_bucket{{le="1"}} 6 # {{t="u"}} 0.5\n',
    b'{}{{x="# TYPE a counter"}} 7\n',
    b'{}{{x="\\n# TYPE a counter"}} 8\n',
    b'{}{{x="\\"}} 9"}} 9\n',
    b'{}{{x="1"}}10\n',
    b'{}{{x="1"}}\n',
    b'{}{{x="1"\n',
    b'{}{{x="1}} 5\n',
    b'{}{{x="1 5\n',
    b'{}"}} 6\n',
    b'{} {{x="2"}} 11\n',
    b'{}{{x="3"}}\t12\n',
    b'{}{{x="4"}}  13\n',
    b'{}{{x="5"}} 14 \n',
    b'{}{{x="6"}} NaN\n',
    b'{}{{x="7"}} +Inf\r\n',
    b'{}{{x="8"}} 1_0\n',
    b'{}{{x="9"}} [16\n',
    b'{}{{x="10"}} 17]\n',
    b'{}{{x="11",x="12"}} 18\n',
    b'{}{{__x="1"}} 19\n',
    b'{}{{x="1",}} 20\n',
    b"{}{{}} 21\n",
    b"{}{{ 22\n",
    b"{}\n",
    b"{} \n",
    b'{}{{x="\xc3\xa9"}} 23\n',
    b'{}{{x="\xff"}} 24\n',
    b'{}{{x="=\\",le="}} 25\n',
    b'{}{{x="{{"}} 26\n',
    b'{}{{x="{{y="}} 27\n',
    b'{}{{x="{{y=",z="1"}} 28\n',
    b'{}_created{{x="1"}} 29\n',
    b'{}_sum{{x="1"}} 30\n',
    b"2 b 31\n",
    b"{} 1 2 3\n",
    b'{}{{x="1"}} 5 a{{x="2"}} 6\n',
    b"\n",
    b"# by the way\n",
]
NAMES = [b"a", b"ab", b"a_created", b"b"]


@st.composite
def blocks(draw):
    """Families one after the other with lines of every kind, some of a neighbour's name."""
    out = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)):
        if draw(st.integers(0, 5)):
            out.append(b"# HELP %b text\n" % name)
        if draw(st.integers(0, 5)):
            out.append(
                b"# TYPE %b %b\n" % (name, draw(st.sampled_from([b"gauge", b"counter", b"histogram", b"untyped"])))
            )
        for line in draw(st.lists(st.sampled_from(LINES), max_size=4)):
            whose = name if draw(st.integers(0, 7)) else draw(st.sampled_from(NAMES))
            out.append(line.replace(b"{}", whose, 1).replace(b"{{", b"{").replace(b"}}", b"}"))
    return b"".join(out)


@settings(max_examples=600, deadline=None)
@given(st.lists(blocks(), min_size=1, max_size=2), st.sets(st.sampled_from(["a", "ab", "b", "a_created"])))
def test_families_with_lines_of_every_kind_are_read_quickly_as_they_are_read_slowly(bodies, wanted):
    agree(wanted, *bodies)
    agree(wanted, *bodies, limits=Limits(labels=1, line_bytes=30, label_value=8, family_series=3))


PLAIN = [b'a{x="1"} 5', b"b 6\nb 7", b'c_bucket{x="1",le="+Inf"} 8\nc_sum{x="1"} 0.5']
ODD = [
    ("a timestamp", b"d 1 2"),
    ("an escape", b'd{x="\\n"} 1'),
    ("not ASCII", 'd{x="é"} 1'.encode()),
    ("half a label", b'd{x="1} 1'),
    ("one label over two lines", b'd{x="1 5\ne"} 6'),
    ("half labels that meet", b'd{x="1} 1\nd{x="2} 1'),
    ("a blank missing and one too many", b"d\nd 1 2"),
    ("a blank missing before one too many", b"d 1 d 2\nd"),
    ("no number", b"d one"),
    ("a repeated label", b'd{x="1",x="2"} 1'),
    ("a reserved label", b'd{__x="1"} 1'),
    ("an exemplar", b'd{x="1"} 1 # {t="u"} 1'),
    ("empty labels", b"d{} 1"),
    ("a brace", b"d{ 1"),
    ("a name that is none", b"d-e 1"),
]


@pytest.mark.parametrize("odd", [row[1] for row in ODD], ids=[row[0] for row in ODD])
@pytest.mark.parametrize("place", range(4))
def test_one_odd_family_leaves_the_others_to_be_read_together(odd, place):
    texts = [*PLAIN[:place], odd, *PLAIN[place:]]
    segments, line = [], 0
    for text in texts:
        last = line + text.count(b"\n") + 1
        segments.append(Segment("f", line, last, text))
        line = last
    known = Structures(8, 1000, 1000)
    found = read_together(segments, known)
    assert sorted(found) == [each.first for each in segments if each.text is not odd]
    for each in segments:
        if each.first in found:
            slow = Rows.read("f", each.text.split(b"\n"), each.first, Structures(8, 1000, 1000))
            rows = found[each.first]
            assert rows.values.tolist() == slow.values.tolist()
            assert (rows.prefixes, rows.names, rows.runs, rows.lines) == (
                slow.prefixes,
                slow.names,
                slow.runs,
                slow.lines,
            )
            assert rows.bytes == slow.bytes
            # Lines of one family that are there twice make the others be looked at by themselves.
            assert slow.unique or not rows.unique
