"""What is read many bytes at a time is what is read one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from observer.measure.words import Texts, line_starts, numbers_at, parse_numbers, words_at


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=40))
@example([b"", b"", b"1234567", b"12345678", b""])
@example([])
def test_lines_begin_where_newlines_end(lines):
    body = b"".join(line + b"\n" for line in lines)
    expected = [0]
    for line in lines:
        expected.append(expected[-1] + len(line) + 1)
    assert line_starts(body).tolist() == expected


@given(st.binary(min_size=1, max_size=40), st.data())
def test_words_hold_the_bytes_behind_their_places(body, data):
    places = data.draw(st.lists(st.integers(0, len(body) - 1), max_size=6))
    width = data.draw(st.sampled_from([8, 16, 48]))
    words = words_at(body, np.array(places, np.int64), width)
    assert words.tobytes() == b"".join(body[place : place + width].ljust(width, b"\0") for place in places)


ODD = [
    b"",
    b".0",
    b".",
    b"0",
    b"-0",
    b"-0.0",
    b"+5",
    b"5.",
    b"5.00",
    b"5,0",
    b" 5",
    b"5 ",
    b"5\r",
    b"5.0\r",
    b"\t5",
    b"1e5",
    b"NaN",
    b"nan",
    b"+Inf",
    b"-Inf",
    b"1_0",
    b"0x10",
    b"true",
    b"null",
    b'"5"',
    b"[5]",
    b"{}",
    b"5.0.0",
    b"99999999",
    b"99999999.0",
    b"100000000",
    b"100000000.0",
    b"1700000000000",
    b"5 1700000000000",
    b"1" * 70,
    b"\xb0\xb1",
    b"5:",
    b"5/",
    b"12;0",
    b"\xff" * 8,
    b"0.0",
    b"00000000.0",
    b"5 .0",
    b"\x0e.0",
    b"\xc3\xa9.0",
]
NUMBERS = st.one_of(
    st.integers(0, 10**18).map(lambda number: b"%d" % number),
    st.integers(0, 10**18).map(lambda number: b"%d.0" % number),
    st.integers(0, 10**10).map(lambda number: b"%09d" % number),
    st.floats().map(lambda number: repr(number).encode()),
    st.sampled_from(ODD),
    st.binary(max_size=12).map(lambda text: text.replace(b"\n", b"")),
)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([b"", b"a", b'a{x="1"}', b"9", b"0.0"]), NUMBERS), max_size=12))
def test_numbers_are_read_as_their_texts_are(lines):
    """In its place among others every number is what `parse_numbers` reads of it alone, to the bit."""
    body = b"".join(b"%b %b\n" % line for line in lines)
    ends = line_starts(body)[1:] - 1
    begins = ends - np.array([len(text) for _, text in lines], np.int64)
    values = numbers_at(body, begins, ends)
    alone = [parse_numbers(text, 1) for _, text in lines]
    if any(each is None for each in alone) or any(len(text) > 64 for _, text in lines):
        # Long texts are allowed among short ones, or not; what is said of them is the same.
        assert values is None or not any(each is None for each in alone)
    else:
        assert values is not None
    if values is not None:
        assert values.tobytes() == b"".join(each.tobytes() for each in alone)


def test_a_list_over_two_texts_is_no_number():
    body = b"x [1\nx 2],3\nx 4\n"
    starts = line_starts(body)
    assert numbers_at(body, starts[:-1] + 2, starts[1:] - 1) is None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.text("ab", max_size=300), st.text("ab", max_size=6)), min_size=1, max_size=12), st.data())
def test_texts_stand_where_every_line_begins_with_its_own(lines, data):
    body = "".join(f"{text}{rest}\n" for text, rest in lines).encode()
    starts = line_starts(body)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(lines) - 1))))
    texts = [(place, lines[place][0].encode()) for place in chosen]
    assert not Texts(texts).fallen(body, starts)
    if chosen and data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(texts) - 1))
        line, text = texts[place]
        at = data.draw(st.integers(0, len(text)))
        texts[place] = line, text[:at] + data.draw(st.sampled_from([b"c", b"\n", b"\0"])) + text[at + 1 :]
        expected = [line for line, text in texts if not body[starts[line] :].startswith(text)]
        assert sorted(Texts(texts).fallen(body, starts)) == expected


@pytest.mark.parametrize("size", [1, 15, 16, 17, 255, 256, 257, 5000])
def test_a_text_of_any_length_is_compared_to_its_last_byte(size):
    text = b"a" * size
    many = [(line, b"b") for line in range(5)]
    body = b"b\n" * 5 + text
    texts = Texts([*many, (5, text)])
    starts = line_starts(body + b"\n")
    assert texts.fallen(body + b"\n", starts) == []
    assert texts.fallen(body[:-1] + b"c\n", starts) == [5]
    assert texts.fallen(body[:-1] + b"\n", starts) == [5]
