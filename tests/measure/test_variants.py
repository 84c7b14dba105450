"""Bodies that differ from others in few label values: read quickly, held cheaply, and never told otherwise than in full."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.measure.budget import LayoutBudget
from observer.measure.exposition import Limits, Reader
from observer.measure.extract import Extractor
from observer.measure.window import Chain
from router_contract import catalog
from router_contract.readings import Instant
from router_contract.targets import Component
from tests.measure import test_layout
from tests.measure.compare import RECORDINGS, outcome, same
from tests.measure.table import TABLE

VLLM = catalog.lookup(Component.ENGINE, "vllm")
SEED = (RECORDINGS / "vllm-0.32.0" / "metrics-02-warm.prom").read_bytes()
INFO = b'toy:config_info{blocks="5",model="m"}'
LORA = b'toy:running{adapters="",engine="1",model="m"}'
BODY = (
    b"# TYPE toy:config_info gauge\n"
    + INFO
    + b" 1.0\n# TYPE toy:other gauge\n"
    + b"".join(b'toy:other{n="%d"} 1\n' % n for n in range(9))
    + b"# TYPE toy:running gauge\n"
    + b'toy:running{adapters="",engine="0",model="m"} 4\n'
    + LORA
    + b" 5\n# TYPE toy:done_total counter\n"
    + b"".join(b'toy:done_total{engine="%d",model="m",why="stop"} 7\n' % n for n in range(40))
)
NAMES = ("toy:config_info", "toy:running", "toy:done_total")


def agree(reader, body, hint=None):
    """The shape of a body that is read with a hint, which says what a fresh reader says that reads it in full."""
    fresh = Reader(reader.wanted, limits=reader.limits, layouts=0)
    assert outcome(reader, body, hint=hint) == outcome(fresh, body)
    reading = reader.read(body, hint=hint)
    return getattr(reading, "shape", None)


def primed(**options):
    reader = Reader(NAMES, **options)
    assert reader.read(BODY).shape.layout.most_own == 5
    return reader


def info(labels):
    return BODY.replace(INFO, b"toy:config_info{%s}" % labels)


def test_a_body_with_few_texts_of_its_own_shares_the_layout_and_all_families_but_one():
    reader = primed()
    base, body = reader.read(BODY).shape, info(b'blocks="7",model="m"')
    full = reader.full_reads
    one = agree(reader, body)
    assert one.layout is base.layout
    assert one.base is base
    assert [name for name in NAMES if one.families[name] is not base.families[name]] == ["toy:config_info"]
    # Whoever has the same texts has the same shape, and may be told it as a hint or not.
    assert reader.read(body.replace(b" 7\n", b" 8\n"), hint=one).shape is one
    assert reader.read(body).shape is one
    assert agree(reader, BODY, hint=one) is base
    assert agree(reader, info(b'blocks="8",model="m"'), hint=one).base is base
    assert reader.full_reads == full
    assert reader._shapes == [base]


def test_a_variant_lives_as_long_as_somebody_holds_it():
    reader = primed()
    for blocks in range(100, 130):
        held = reader.read(info(b'blocks="%d",model="m"' % blocks)).shape
    assert list(reader._variants._living.values()) == [held]
    del held
    gc.collect()
    assert not reader._variants._living


FAULTS = [
    ("a label twice", info(b'blocks="7",blocks="8"')),
    ("a reserved label", info(b'__blocks="7"')),
    ("no quotes", info(b"blocks=7")),
    ("a comma at the end", info(b'blocks="7",')),
    ("an escape", info(b'blocks="7\\n",model="\\"m"')),
    ("a blank in a value", info(b'blocks="7 # {",model="} 5"')),
    ("no labels in the braces", info(b"")),
    ("no labels", BODY.replace(INFO, b"toy:config_info")),
    ("a blank before the braces", BODY.replace(INFO, b'toy:config_info {blocks="7"}')),
    ("a tab before the number", BODY.replace(INFO + b" ", b'toy:config_info{blocks="7"}\t')),
    ("two blanks before the number", BODY.replace(INFO, INFO.replace(b"5", b"6") + b" ")),
    ("a timestamp", BODY.replace(INFO + b" 1.0", INFO.replace(b"5", b"6") + b" 1.0 1700000000000")),
    ("an exemplar", BODY.replace(INFO + b" 1.0", INFO.replace(b"5", b"6") + b' 1.0 # {t="u"} 1')),
    ("no number", BODY.replace(INFO + b" 1.0", INFO.replace(b"5", b"6") + b" ")),
    ("an underscore", BODY.replace(INFO + b" 1.0", INFO.replace(b"5", b"6") + b" 1_0")),
    ("a NaN", BODY.replace(INFO + b" 1.0", INFO.replace(b"5", b"6") + b" NaN")),
    ("not UTF-8", info(b'blocks="\xff"')),
    ("other letters", info('blocks="ü"'.encode())),
    ("a long value", info(b'blocks="%s"' % (b"7" * 300))),
    ("a long line", info(b'blocks="%s"' % (b"7" * 2000))),
    ("many labels", info(b",".join(b'l%d="1"' % n for n in range(12)))),
    ("another name", BODY.replace(b"toy:config_info{", b"toy:config_inf_{")),
    ("another family's name", BODY.replace(b"toy:config_info{", b"toy:done_total{")),
    ("a longer name", BODY.replace(b"toy:config_info{", b"toy:config_info_total{")),
    ("a quoted name", BODY.replace(INFO, b'{"toy:config_info",blocks="7"}')),
    ("a comment", BODY.replace(INFO, b"# " + INFO)),
    ("a leading blank", BODY.replace(INFO, b" " + INFO)),
    ("a series twice", BODY.replace(LORA, LORA.replace(b'"1"', b'"0"'))),
    ("a series twice and equal", BODY.replace(LORA + b" 5", LORA.replace(b'"1"', b'"0"') + b" 4")),
    ("a series twice in another order", BODY.replace(LORA, b'toy:running{engine="0",adapters="",model="m"}')),
    ("another order", BODY.replace(LORA, b'toy:running{engine="1",adapters="",model="m"}')),
    ("two lines changed places", BODY.replace(b'engine="3"', b'engine="x"').replace(b'engine="4"', b'engine="3"')),
    ("many texts of its own", BODY.replace(b'why="stop"', b'why="end"')),
    ("another type", info(b'blocks="7"').replace(b"config_info gauge", b"config_info counter")),
    ("a wanted line under an unwanted name", info(b'blocks="7"').replace(b'toy:other{n="3"}', b'toy:running{n="3"}')),
    ("no last newline", info(b'blocks="7"')[:-1]),
    ("an end", info(b'blocks="7"') + b"# EOF\n"),
]


@pytest.mark.parametrize("body", [row[1] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_text_of_its_own_is_read_as_a_full_read_reads_it(body):
    limits = Limits(label_value=200, labels=8, line_bytes=1500)
    reader = primed(limits=limits)
    known = reader.read(info(b'blocks="9"')).shape
    for hint in (None, known, reader.read(BODY).shape):
        again = agree(reader, body, hint)
        agree(reader, body, again)
        agree(reader, BODY, again)


@pytest.mark.parametrize("body", [row[1] for row in test_layout.CHANGES], ids=[row[0] for row in test_layout.CHANGES])
def test_no_change_of_a_small_body_is_mistaken_where_every_line_may_have_its_own_text(body, monkeypatch):
    monkeypatch.setattr("observer.measure.layout._OWN_SHARE", 1)
    reader = test_layout.primed(limits=Limits(line_bytes=1500))
    hint = agree(reader, body)
    agree(reader, test_layout.BODY, agree(reader, body, hint))


@settings(max_examples=300, deadline=None)
@given(st.lists(test_layout.mutations(), min_size=1, max_size=4))
def test_no_mutation_is_mistaken_with_the_hint_of_another(bodies):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("observer.measure.layout._OWN_SHARE", 1)
        reader = test_layout.primed()
        hint = None
        for body in [*bodies, *reversed(bodies)]:
            hint = agree(reader, body, hint)


PIECES = {
    b'num_gpu_blocks="16384"': [
        b'num_gpu_blocks="%s"' % text for text in (b"7", b"8000", b"None", b"x", b"-1", b"0", b"-0", b"\\n")
    ],
    b',block_size="128"': [b',block_size="16"', b',block_size=""', b',block="128"', b',sizes="1",block_size="64"'],
    b"vllm:cache_config_info{": [b'vllm:cache_config_info{a="b",'],
    b'version="3.11.7"': [b'version="3.12.1"'],
    b'finished_reason="stop"': [b'finished_reason="halt"'],
}


@st.composite
def pods(draw):
    """What to replace in a recording for each of a few Pods, and the order in which they are read."""
    choices = st.tuples(*(st.sampled_from([old, *news]) for old, news in PIECES.items()))
    chosen = draw(st.lists(choices, min_size=2, max_size=4))
    return [chosen[each] for each in draw(st.lists(st.integers(0, len(chosen) - 1), min_size=3, max_size=8))]


def pod(chosen, step):
    """The recording with these labels, some work later."""
    body = SEED.replace(b" 1.0\n", b" %d\n" % (step + 1))
    for old, new in zip(PIECES, chosen, strict=True):
        body = body.replace(old, new)
    return body


def told(frame):
    """All that a frame says, as plain values."""
    plan = frame.plan
    series = {
        name: [(each.labels, repr(each.value), repr(each), each.info) for each in frame.series(name)]
        for name in plan.terms
    }
    gaps = {name: (frame.gaps(name), frame.missing(name), len(frame.numbers(name))) for name in plan.terms}
    parts = (plan.starts, plan.checks, plan.copies, plan.absent, plan.unreadable, plan.terms, plan.families)
    numbers = [same(each) for each in (*frame.cumulative.tolist(), *frame.levels.tolist())]
    return (
        series,
        gaps,
        parts,
        repr(plan.series),
        plan.unknown_families,
        plan.version,
        numbers,
        frame.problems,
        frame.torn,
    )


@settings(max_examples=40, deadline=None)
@given(pods(), st.booleans())
def test_what_is_read_with_hints_in_any_order_is_what_a_fresh_program_reads(chosen, any_hint):
    extractor, frames = Extractor(VLLM), {}
    for step, each in enumerate(chosen):
        body = pod(each, step)
        frame = extractor.read(body, previous=frames.get("any" if any_hint else each))
        frames["any"] = frames[each] = frame
        assert told(frame) == told(Extractor(VLLM).read(body))
    assert extractor.reader.full_reads <= 2


def test_windows_go_on_over_texts_that_change_and_are_those_of_frames_that_share_nothing():
    extractor = Extractor(VLLM)
    mine, theirs, last = Chain.empty(), Chain.empty(), None
    for step in range(6):
        body = SEED.replace(b'num_gpu_blocks="16384"', b'num_gpu_blocks="%d"' % (7000 + step // 2))
        body = body.replace(b" 1.0\n", b" %d\n" % (step + 1 if step != 4 else 1))
        frame, alone = extractor.read(body, previous=last), Extractor(VLLM).read(body)
        assert mine.tail is None or frame.columns is mine.tail.columns
        now = Instant(15.0 * step, 15.0 * step)
        mine, theirs, last = mine.push(frame, now), theirs.push(alone, now), frame
        assert mine.tail.plan is frame.plan
        for signal, labels in frame.columns.where:
            assert repr(mine.window(signal, labels, now)) == repr(theirs.window(signal, labels, now))
            assert repr(mine.total(signal, labels)) == repr(theirs.total(signal, labels))
            assert mine.moved_at(signal) == theirs.moved_at(signal)
        assert mine.resets == theirs.resets
        assert np.array_equal(mine.totals.packed.floats(), theirs.totals.packed.floats())
    assert mine.resets == 1
    assert extractor.reader.full_reads == 1


def test_pods_of_one_kind_share_columns_levels_and_what_is_equal_in_their_plans():
    extractor = Extractor(VLLM)
    bodies = [SEED.replace(b'num_gpu_blocks="16384"', b'num_gpu_blocks="%d"' % blocks) for blocks in range(5)]
    first, *others = [extractor.read(body) for body in bodies]
    for blocks, frame in enumerate(others, 1):
        assert [each.value for each in frame.series("kv-capacity-blocks")] == [float(blocks)]
        assert frame.columns is first.columns
        assert frame.view.levels.rows is first.view.levels.rows
        shared = [
            name for name in frame.plan.__struct_fields__ if getattr(frame.plan, name) is getattr(first.plan, name)
        ]
        assert {"starts", "checks", "copies", "terms", "families", "absent"} <= set(shared)
        levels = frame.view.levels.of_signal
        changed = {name for name, each in levels.items() if each is not first.view.levels.of_signal[name]}
        assert changed == {"kv-capacity-blocks", "cache-config"}


def test_a_column_that_is_checked_otherwise_is_not_shared():
    extractor = Extractor(TABLE)
    first = extractor.read(BODY)
    renamed = extractor.read(
        BODY.replace(b'engine="7",model="m",why', b'engine="7",model="m",pid="1",why'), previous=first
    )
    assert renamed.columns is first.columns
    split = extractor.read(BODY.replace(b'engine="7",', b'engine="77",'), previous=renamed)
    assert split.columns is not first.columns
    assert ("requests-finished", (("model", "m"), ("rank", "77"), ("reason", "stop"))) in split.columns.where


def pods_of_many_layouts(count):
    return [b"".join(b'a{pod="%d",n="%d"} 1\n' % (pod, n) for n in range(40)) for pod in range(count)]


def test_the_bytes_of_layouts_are_bounded_whoever_holds_them():
    budget = LayoutBudget(40_000)
    reader, bodies = Reader(["a"], budget=budget), pods_of_many_layouts(30)
    held = [reader.read(body).shape for body in bodies]
    made = [shape for shape in held if shape.layout is not None]
    assert 1 < len(made) < 30
    assert budget.used == sum(shape.layout.nbytes for shape in made) <= budget.most
    assert budget.refused == 30 - len(made)
    full = reader.full_reads
    for body, shape in zip(bodies, held, strict=True):
        agree(reader, body, shape)
    assert reader.full_reads - full == 2 * (30 - len(made))
    assert budget.used <= budget.most
    # Nobody's layouts take no room.
    reader.forget()
    del held, made, shape
    gc.collect()
    assert budget.used == 0
    assert reader.read(bodies[-1]).shape.layout is not None


def test_what_only_a_reader_keeps_makes_room_for_others():
    budget = LayoutBudget(40_000)
    old, new = Reader(["a"], budget=budget), Reader(["a"], budget=budget)
    for body in pods_of_many_layouts(30):
        old.read(body)
    gc.collect()
    budget.most = budget.used
    body = pods_of_many_layouts(31)[-1]
    found = [new.read(body).shape.layout is not None for _ in range(257)]
    assert any(found)
    assert old.layout_bytes == 0


def test_a_reader_without_room_says_the_same():
    reader = Reader(NAMES, budget=LayoutBudget(0))
    for body in (BODY, info(b'blocks="7"'), BODY):
        assert agree(reader, body).layout is None
    assert reader.layout_reads == 0
    assert reader._budget.refused == 6


def stamped(body):
    """The body with a time behind every number: such a one has no layout."""
    return b"".join(
        line if line.startswith(b"#") else line[:-1] + b" 1700000000000\n" for line in body.splitlines(True)
    )


def test_targets_whose_bodies_have_no_layout_share_what_is_equal_too():
    extractor = Extractor(VLLM)
    one, two = (extractor.read(stamped(SEED)) for _ in range(2))
    assert one.shape.layout is None
    assert two.view is one.view
    assert all(two.shape.families[name] is family for name, family in one.shape.families.items())
    other = extractor.read(stamped(SEED.replace(b'num_gpu_blocks="16384"', b'num_gpu_blocks="7"')))
    assert other.columns is one.columns
    assert other.plan.starts is one.plan.starts
    changed = [name for name, family in one.shape.families.items() if other.shape.families[name] is not family]
    assert changed == ["vllm:cache_config_info"]
    assert told(other) == told(Extractor(VLLM).read(stamped(SEED.replace(b'blocks="16384"', b'blocks="7"'))))
    # The place of a problem is a body's own: what begins a line later is not told by the view of another target.
    odd = b"# TYPE toy:running counter\ntoy:running 1 1\n"
    toy = Extractor(TABLE)
    first, later = toy.read(odd), toy.read(b"# by the way\n" + odd)
    assert [each.line for each in (*first.plan.problems, *later.plan.problems)] == [2, 3]
    # Nor by its own of the read before.
    moved = toy.read(b"# by the way\n# and so\n" + odd, previous=later)
    assert [each.line for each in moved.plan.problems] == [4]
