"""Paths, templates and values: tables of cases, and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.discover.platforms.members import moment
from observer.discover.platforms.paths import BadPathError, check_template, every, fill, first, parse, whole
from observer.discover.platforms.taking import Scope, arguments, count, present, text
from observer.discover.platforms.values import Count, Take
from observer.kube.records import Container, Pod, Port

BODY = {
    "spec": {
        "roles": [{"name": "a", "n": 1, "ports": [{"port": 1}, {"port": 2}]}, {"name": "b", "on": True}],
        "empty": {},
        "blank": "",
        "nothing": None,
    },
    "metadata": {"labels": {"x.y/z": "v"}, "annotations": {"k": "w"}},
}
PATHS = [
    ("spec.roles[].name", ["a", "b"]),
    ("spec.roles[name=b].on", [True]),
    ("spec.roles[on=true].name", ["b"]),
    ("spec.roles[0].ports[].port", [1, 2]),
    ("spec.roles[].ports[1].port", [2]),
    ("spec.roles[9].name", []),
    ('metadata.labels["x.y/z"]', ["v"]),
    ("spec.nothing", []),
    ("spec.nothing.more", []),
    ("spec.blank.more", []),
    ("spec.roles.name", []),
    ("spec[]", []),
    ("absent", []),
]


@pytest.mark.parametrize(("path", "wanted"), PATHS)
def test_paths(path, wanted):
    assert every(BODY, path) == wanted
    assert first(BODY, path) == (wanted[0] if wanted else None)


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "a[", "a]", "a[x", "a[]b", 'a["b', "a[-1]", "a.[0]"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(BadPathError):
        parse(path)


@pytest.mark.parametrize("role", ["a]b", "a.b[", "{name}", 'x"', "]", "a=b", "."])
def test_what_fills_a_hole_is_one_text_and_never_a_step(role):
    """Roles are named by whoever writes the object: a name must not bend a path, nor make it none."""
    body = {"roles": [{"name": "other", "n": 1}, {"name": role, "n": 2}], role: {"n": 3}}
    scope = Scope(body=body, holes={"name": "chat"}).of_role(role, {role: 4})
    assert scope.field("roles[name={role}].n") == 2
    assert scope.field("{role}.n") == 3
    assert text((Take(item="{role}"),), scope) == "4"


@pytest.mark.parametrize(
    "value", [10**18, -(10**18), 1e300, float("inf"), float("nan"), "9" * 19, True, "-1", "1e3", "٣"]
)
def test_what_is_no_number_that_can_be_published_is_not_known(value):
    assert whole(value) is None


@pytest.mark.parametrize(
    ("value", "times", "plus", "wanted"),
    [
        ("999999999999999999", ("999999999999999999",), 0, None),
        ("3", ("2",), 1, 7),
        ("0", (), -1, None),
        ("1", (), -1, 0),
    ],
    ids=["a product beyond 64 bits", "a product", "less than nothing", "nothing"],
)
def test_a_count_is_published_or_not_known(value, times, plus, wanted):
    rule = Count(value=(Take(fixed=value),), times=tuple(Take(fixed=each) for each in times), plus=plus)
    assert count(rule, Scope(body={}, holes={})) == wanted


@pytest.mark.parametrize(
    "written",
    [
        None,
        "",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+10:00",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "2026-11-01T00:00:00",
        "soon",
    ],
)
def test_a_time_that_stands_for_none_or_cannot_be_published_is_not_known(written):
    assert moment(written) is None
    assert moment("2026-11-01T00:00:00Z") == 1793491200.0


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_refused_and_any_path_reads_anything(text_):
    try:
        parse(text_)
    except BadPathError:
        return
    assert isinstance(every(BODY, text_), list)


@given(st.lists(st.from_regex(r"[a-zA-Z0-9_/\-]{1,8}", fullmatch=True), min_size=1, max_size=5), st.integers())
def test_a_value_is_found_where_it_was_put(keys, value):
    body = value
    for key in reversed(keys):
        body = {key: body}
    assert first(body, ".".join(keys)) == value


def test_templates():
    assert fill("{name}-{role}-{name}", {"name": "a", "role": "b"}) == "a-b-a"
    assert fill("{role}", {}) == "{role}"
    with pytest.raises(BadPathError):
        check_template("{other}")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (3.0, 3),
        (3.5, None),
        ("12", 12),
        ("-1", None),
        (" 1", None),
        ("١", None),
        (True, None),
        (None, None),
        ("9" * 30, None),
    ],
)
def test_whole_numbers(value, number):
    assert whole(value) == number


CONTAINER = Container(
    name="main",
    image="r.example/vllm:v0.11.0-cu12",
    command=("vllm", "serve"),
    args=("--model=x", "--tp", "8", "--flag", "--tp", "4"),
    ports=(Port(8000, "http"),),
)
POD = Pod(
    uid="u",
    namespace="n",
    name="p",
    resource_version="",
    labels=(("l", "1"),),
    annotations=(("k", "p"),),
    containers=(CONTAINER,),
)
TARGET = Scope(body=BODY, holes={"name": "t", "namespace": "n"})
AT = TARGET.of_pod(POD, CONTAINER)
VALUES = [
    (Take(field="spec.roles[0].name"), TARGET, "a"),
    (Take(field="spec.empty"), TARGET, ""),
    (Take(field="spec.nothing"), TARGET, None),
    (Take(label="x.y/z"), TARGET, "v"),
    (Take(label="l"), AT, "1"),
    (Take(label="x.y/z"), AT, None),
    (Take(annotation="k"), TARGET, "w"),
    (Take(annotation="k"), AT, "p"),
    (Take(image=True), AT, "r.example/vllm:v0.11.0-cu12"),
    (Take(image=True), TARGET, None),
    (Take(image=True, pattern=r":v?([0-9.]+)"), AT, "0.11.0"),
    (Take(image=True, pattern=r"(sglang)"), AT, None),
    (Take(argument="--model"), AT, "x"),
    (Take(argument="--tp"), AT, "4"),
    (Take(argument="--flag"), AT, ""),
    (Take(argument="--absent"), AT, None),
    (Take(port="http"), AT, "8000"),
    (Take(port="other"), AT, None),
    (Take(fixed="{name}-x"), AT, "t-x"),
    (Take(label="l", map=(("1", "one"),)), AT, "one"),
    (Take(label="l", map=(("2", "two"),)), AT, "1"),
    (Take(label="l", map=(("2", "two"),), only_mapped=True), AT, None),
]


@pytest.mark.parametrize(("take", "scope", "wanted"), VALUES)
def test_values(take, scope, wanted):
    assert text((take,), scope) == wanted
    assert text((Take(field="absent"), take), scope) == wanted


def test_presence_is_not_truth():
    assert present((Take(field="spec.empty"),), TARGET)
    assert not present((Take(field="spec.blank"),), TARGET)
    assert not present((Take(field="absent"),), TARGET)


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (Count(value=(Take(field="spec.roles[0].n"),)), 1),
        (Count(value=(Take(field="absent"),)), None),
        (Count(value=(Take(field="absent"),), absent=1), 1),
        (Count(value=(Take(fixed="3"),), times=(Take(fixed="4"),), plus=1), 13),
        (Count(value=(Take(fixed="3"),), times=(Take(field="absent"),)), None),
        (Count(value=(Take(fixed="many"),), absent=1), None),
        (None, None),
    ],
)
def test_counts(rule, wanted):
    assert count(rule, TARGET) == wanted


@pytest.mark.parametrize(
    ("command", "args", "wanted"),
    [
        (("vllm",), ("serve", "m"), ("vllm", "serve", "m")),
        (("/bin/sh", "-c"), ("vllm serve m --tp 2",), ("vllm", "serve", "m", "--tp", "2")),
        (("bash", "-ec"), ("echo 'unfinished",), ("bash", "-ec", "echo 'unfinished")),
        ((), (), ()),
    ],
)
def test_command_lines(command, args, wanted):
    assert arguments(Container(name="m", command=command, args=args)) == wanted
