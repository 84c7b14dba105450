"""Windows over reads: deltas, resets, baselines, layouts that change, reads that fail for one family."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.measure.extract import Extractor
from observer.measure.window import Chain, ChainLimits
from router_contract.catalog import TABLES
from router_contract.readings import Instant, MissingCode, Window
from router_contract.targets import Component
from router_contract.vocabulary import Term
from tests.measure.compare import RECORDINGS
from tests.measure.table import TABLE, histogram

WALL = 1_000_000.0


def at(seconds):
    return Instant(mono=seconds, wall=WALL + seconds)


def prompt(value, rest=b""):
    return b"# TYPE toy:prompt_total counter\ntoy:prompt_total %s\n" % str(value).encode() + rest


def chain(*reads, extractor=None, **options):
    """A chain over ``(seconds, body, push options?)`` rows."""
    extractor = extractor or Extractor(TABLE, **options)
    found = Chain.empty()
    for seconds, body, *more in reads:
        found = found.push(extractor.read(body), at(seconds), **(more[0] if more else {}))
    return found


def window(found, signal="prompt-tokens", labels=(), now=None, **options):
    moment = at(now) if now is not None else found.at or at(0)
    return found.window(signal, labels, moment, **options)


def increase(found, *args, **options):
    result = window(found, *args, **options)
    return (result.increase, result.seconds, result.lossy) if isinstance(result, Window) else result


SIMPLE = [
    ("never read", [], MissingCode.NEVER_READ),
    ("one read", [(0, prompt(100))], MissingCode.AWAITING_SECOND_SAMPLE),
    ("two reads", [(0, prompt(100)), (15, prompt(175))], (75.0, 15.0, False)),
    ("nothing moved", [(0, prompt(100)), (15, prompt(100))], (0.0, 15.0, False)),
    (
        "a restart by a lower number",
        [(0, prompt(100)), (15, prompt(175)), (30, prompt(20)), (45, prompt(35))],
        (110.0, 45.0, True),
    ),
    (
        "a restart by incarnation alone",
        [(0, prompt(100), {"incarnation": 1}), (15, prompt(175), {"incarnation": 2})],
        (175.0, 15.0, True),
    ),
    (
        "an incarnation that becomes known",
        [(0, prompt(100)), (15, prompt(175), {"incarnation": 2})],
        (75.0, 15.0, False),
    ),
    (
        "an incarnation unknown for a while",
        [(0, prompt(1), {"incarnation": 1}), (15, prompt(2)), (30, prompt(5), {"incarnation": 2})],
        (6.0, 30.0, True),
    ),
    (
        "a restart by the start that the platform tells",
        [(0, prompt(100), {"started": WALL - 500}), (15, prompt(175), {"started": WALL + 9})],
        (175.0, 15.0, True),
    ),
    (
        "a clock that wobbles is no restart",
        [(0, prompt(100), {"started": WALL - 500}), (15, prompt(175), {"started": WALL - 499.5})],
        (75.0, 15.0, False),
    ),
    ("counted from zero since a start within the window", [(20, prompt(100), {"started": WALL})], (100.0, 20.0, False)),
    ("a start before the window", [(90, prompt(100), {"started": WALL})], MissingCode.AWAITING_SECOND_SAMPLE),
    ("a start in the future", [(20, prompt(100), {"started": WALL + 21})], MissingCode.AWAITING_SECOND_SAMPLE),
    ("the same moment twice", [(0, prompt(100)), (0, prompt(175))], MissingCode.AWAITING_SECOND_SAMPLE),
    ("one long pair", [(0, prompt(100)), (200, prompt(175))], (75.0, 200.0, False)),
    ("a pair that is too long", [(0, prompt(100)), (301, prompt(175))], MissingCode.AWAITING_SECOND_SAMPLE),
    ("a restart in a pair that is too long", [(0, prompt(100)), (301, prompt(17))], MissingCode.COUNTER_RESET),
    ("only the last minute", [(15 * n, prompt(10 * n)) for n in range(20)], (40.0, 60.0, False)),
    ("reads that come late", [(15.3 * n, prompt(10 * n)) for n in range(20)], (40.0, pytest.approx(61.2), False)),
    ("reads that are slow", [(40 * n, prompt(10 * n)) for n in range(9)], (20.0, 80.0, False)),
    (
        "a restart that has left the window",
        [(0, prompt(9)), *((15 * n, prompt(n)) for n in range(1, 9))],
        (4.0, 60.0, False),
    ),
    ("a large step", [(0, prompt(1)), (15, prompt(2**40 + 1))], (2.0**40, 15.0, False)),
    ("a step of fractions", [(0, prompt(0.25)), (15, prompt(300.75))], (300.5, 15.0, False)),
    ("all fractions are kept", [(0, prompt(0)), (15, prompt(0.1)), (30, prompt(0.2))], (0.2, 30.0, False)),
    ("a last digit is no restart", [(0, prompt(0.30000000000000004)), (15, prompt(0.3))], (0.0, 15.0, False)),
]


@pytest.mark.parametrize(("reads", "expected"), [row[1:] for row in SIMPLE], ids=[row[0] for row in SIMPLE])
def test_one_counter(reads, expected):
    assert increase(chain(*reads)) == expected


def test_the_start_that_the_program_exports_decides():
    def body(value, start):
        return prompt(value, b"process_start_time_seconds %f\n" % start)

    assert increase(chain((20, body(7, WALL + 10), {"started": WALL - 900}))) == (7.0, 10.0, False)
    restarted = chain((20, body(7, WALL - 500)), (35, body(9, WALL + 30)))
    assert increase(restarted) == (9.0, 15.0, True)
    assert restarted.resets == 1


def test_a_start_that_the_program_tells_is_not_compared_with_its_platforms():
    def body(value, start):
        return prompt(value, b"process_start_time_seconds %s\n" % start)

    told = b"%f" % (WALL - 480)
    for hidden in (b"NaN", b"soon"):
        first = (0, body(100, hidden), {"started": WALL - 500})
        found = chain(first, (15, body(175, told)), (30, body(180, hidden)), (45, body(190, told)))
        assert increase(found) == (90.0, 45.0, False)
        assert (found.resets, found.process_start) == (0, WALL - 480)
        later = chain(first, (15, body(175, told)), (30, body(180, b"%f" % (WALL + 20))))
        assert later.resets == 1


def test_an_old_window_expires_and_a_window_needs_a_counter():
    found = chain((0, prompt(1, b"toy:running 5\n")), (15, prompt(2, b"toy:running 5\n")))
    assert window(found, now=315) == Window(increase=1.0, seconds=15.0)
    assert window(found, now=315.1) is MissingCode.EXPIRED
    assert window(found, "requests-running") is MissingCode.ABSENT
    assert window(found, "prompt-tokens", (("rank", "1"),)) is MissingCode.ABSENT


def test_the_span_asked_for_is_the_span_given():
    found = chain(*((15 * n, prompt(n)) for n in range(9)))
    assert increase(found, span_seconds=30) == (2.0, 30.0, False)
    assert increase(found, span_seconds=1) == (1.0, 15.0, False)
    assert increase(found, max_seconds=50) == (3.0, 45.0, False)
    kept = Chain.empty()
    for n in range(9):
        kept = kept.push(Extractor(TABLE).read(prompt(n)), at(15 * n), None, ChainLimits(window_seconds=600, links=4))
    assert increase(kept, span_seconds=600) == (4.0, 60.0, False)


TTFT = b"# TYPE toy:ttft_seconds histogram\n"


def ttft(low, mid, high, total=1.0, bounds=("1", "2", "+Inf")):
    return TTFT + histogram("toy:ttft_seconds", dict(zip(bounds, (low, mid, high), strict=True)), total)


def counts(found, signal="time-to-first-token"):
    result = window(found, signal)
    return result.histogram.counts if isinstance(result, Window) else result


def test_a_restart_is_decided_for_the_whole_family():
    # Each bucket alone would give 5, 20, 100: the family gives 5, 120, 200.
    found = chain((0, ttft(90, 100, 100)), (15, ttft(5, 120, 200, 250.0)))
    result = window(found, "time-to-first-token")
    assert (result.histogram.counts, result.lossy) == ((5.0, 120.0, 200.0), True)
    assert result.mean == 1.25
    assert dict(result.quantiles)[0.5].value == pytest.approx(1.82, abs=0.01)
    assert found.resets == 1


def test_a_restart_of_one_family_leaves_the_others():
    found = chain((0, prompt(5, ttft(9, 9, 9, 9))), (15, prompt(6, ttft(1, 1, 1, 1))))
    assert increase(found) == (1.0, 15.0, False)
    assert counts(found) == (1.0, 1.0, 1.0)


def test_other_bounds_are_a_new_baseline():
    reads = [(0, ttft(1, 2, 3)), (15, ttft(2, 3, 4)), (30, ttft(2, 3, 5, bounds=("1", "3", "+Inf")))]
    found = chain(*reads)
    assert counts(found) is MissingCode.AWAITING_SECOND_SAMPLE
    found = chain(*reads, (45, ttft(2, 4, 6, bounds=("1", "3", "+Inf"))))
    assert window(found, "time-to-first-token").histogram.bounds == (1.0, 3.0, math.inf)
    assert counts(found) == (0.0, 1.0, 1.0)


def test_other_bounds_and_fewer_observations_are_a_restart():
    found = chain((0, ttft(1, 2, 9)), (15, ttft(2, 3, 4, bounds=("1", "3", "+Inf"))))
    result = window(found, "time-to-first-token")
    assert (result.histogram.counts, result.lossy) == ((2.0, 3.0, 4.0), True)


@pytest.mark.parametrize("first", [True, False], ids=["the sum goes", "the sum comes"])
def test_a_histogram_with_and_without_a_sum_are_not_added_up(first):
    def read(total, *counted):
        buckets = dict(zip(("1", "2", "+Inf"), counted, strict=True))
        return TTFT + histogram("toy:ttft_seconds", buckets, 1.0 if total else None)

    found = chain((0, read(first, 5, 6, 7)), (15, read(first, 6, 7, 8)), (30, read(not first, 1, 2, 3)))
    result = window(found, "time-to-first-token")
    assert (result.histogram.counts, result.seconds, result.lossy) == ((1.0, 2.0, 3.0), 15.0, True)
    assert math.isnan(result.histogram.sum) is first
    kept = chain((0, read(first, 5, 6, 7)), (15, read(not first, 6, 7, 8)), (30, read(not first, 7, 8, 9)))
    assert counts(kept) == (1.0, 1.0, 1.0)


def test_no_observation_has_no_mean_and_no_quantiles():
    result = window(chain((0, ttft(1, 2, 3)), (15, ttft(1, 2, 3))), "time-to-first-token")
    assert (result.increase, result.mean, result.quantiles) == (0.0, None, ())


def done(**reasons):
    lines = (f'toy:done_total{{why="{why}"}} {value}\n' for why, value in reasons.items())
    return ("# TYPE toy:done_total counter\n" + "".join(lines)).encode()


def test_a_new_layout_keeps_the_windows_of_unchanged_series():
    found = chain((0, prompt(1)), (15, prompt(2, b"toy:running 5\n")), (30, prompt(4, done(stop=3))))
    assert increase(found) == (3.0, 30.0, False)


def test_a_new_series_counts_from_zero_only_where_its_table_says_so():
    found = chain((0, done(stop=3)), (15, done(stop=4, abort=2)))
    # `aborted-requests` appears with its first use, and `requests-finished` was read before: it was 0.
    assert increase(found, "aborted-requests") == (2.0, 15.0, False)
    # The same line as a reason of `requests-finished` might have been hidden: its first read is a baseline.
    assert increase(found, "requests-finished", (("reason", "abort"),)) is MissingCode.AWAITING_SECOND_SAMPLE
    assert increase(found, "requests-finished", (("reason", "stop"),)) == (1.0, 15.0, False)


def test_a_new_series_is_no_zero_where_its_pair_was_not_read():
    preempted = b"toy:preempted_total 5\n"
    assert (
        increase(chain((0, b"toy:running 1\n"), (15, prompt(3, preempted))), "preemptions")
        is MissingCode.AWAITING_SECOND_SAMPLE
    )
    assert increase(chain((0, prompt(3)), (15, prompt(3, preempted))), "preemptions") == (5.0, 15.0, False)
    broken = b"toy:preempted_total five\n"
    assert (
        increase(chain((0, prompt(3, broken)), (15, prompt(3, preempted))), "preemptions")
        is MissingCode.AWAITING_SECOND_SAMPLE
    )


FIRST_USE = {
    "as long as the window of its pair": (
        [(0, prompt(1)), (15, prompt(2)), (30, prompt(3, b"toy:preempted_total 5\n"))],
        (5.0, 30.0, False),
    ),
    "and further with every read": (
        [
            (0, prompt(1)),
            (15, prompt(2)),
            (30, prompt(3, b"toy:preempted_total 5\n")),
            (45, prompt(3, b"toy:preempted_total 6\n")),
        ],
        (6.0, 45.0, False),
    ),
    "no longer than the span": (
        [*((15 * n, prompt(n)) for n in range(9)), (135, prompt(9, b"toy:preempted_total 5\n"))],
        (5.0, 60.0, False),
    ),
    "not into the life before": (
        [
            (0, prompt(1), {"incarnation": 1}),
            (15, prompt(2), {"incarnation": 1}),
            (30, prompt(1), {"incarnation": 2}),
            (45, prompt(2, b"toy:preempted_total 5\n"), {"incarnation": 2}),
        ],
        (5.0, 15.0, False),
    ),
    "not past a read that had it": (
        [
            (0, prompt(1, b"toy:preempted_total 4\n")),
            (15, prompt(2, b"toy:preempted_total 4\n")),
            (30, prompt(2)),
            (45, prompt(2)),
            (60, prompt(3, b"toy:preempted_total 5\n")),
        ],
        (5.0, 30.0, False),
    ),
}


@pytest.mark.parametrize(("reads", "wanted"), FIRST_USE.values(), ids=FIRST_USE)
def test_a_series_that_begins_at_its_first_use_was_zero_in_the_reads_before(reads, wanted):
    """So what is added to it, or divided by it, has the same window."""
    assert increase(chain(*reads), "preemptions") == wanted


def test_a_new_series_after_a_restart_was_counted_since():
    found = chain((0, done(stop=3), {"incarnation": 1}), (15, done(stop=4, length=2), {"incarnation": 2}))
    assert increase(found, "requests-finished", (("reason", "length"),)) == (2.0, 15.0, True)


def test_a_series_that_is_gone_is_closed_and_begins_anew():
    reads = [(0, done(stop=3, length=1)), (15, done(stop=4)), (30, done(stop=5, length=9))]
    length = (("reason", "length"),)
    assert increase(chain(*reads[:2]), "requests-finished", length) is MissingCode.ABSENT
    assert increase(chain(*reads), "requests-finished", length) is MissingCode.AWAITING_SECOND_SAMPLE
    assert increase(chain(*reads), "requests-finished", (("reason", "stop"),)) == (2.0, 30.0, False)


@pytest.mark.parametrize(
    "bad",
    [ttft(3, 2, 1), b"toy:ttft_seconds_bucket nonsense\n", b"toy:running 1\n# TY"],
    ids=["torn", "broken", "cut"],
)
def test_an_unreadable_family_keeps_its_older_read(bad):
    good = chain((0, prompt(1, ttft(1, 2, 3))), (15, prompt(2, bad)))
    assert counts(good) is MissingCode.UNREADABLE
    assert increase(good) == (1.0, 15.0, False) or increase(good) is MissingCode.UNREADABLE
    twice = chain(
        (0, prompt(1, ttft(1, 2, 3))), (15, prompt(2, bad)), (30, prompt(3, bad)), (45, prompt(4, ttft(2, 4, 6)))
    )
    assert counts(twice) == (1.0, 2.0, 3.0)
    assert increase(twice, "time-to-first-token") == (3.0, 45.0, False)
    assert increase(twice) == (3.0, 45.0, False)
    more = chain(
        (0, prompt(1, ttft(1, 2, 3))),
        (15, prompt(2, bad)),
        (30, prompt(3, ttft(2, 4, 6))),
        (45, prompt(4, ttft(3, 5, 7))),
    )
    assert increase(more, "time-to-first-token") == (4.0, 45.0, False)


def test_a_restart_while_a_family_was_unreadable_is_lossy_and_counts_from_zero():
    found = chain(
        (0, prompt(1, ttft(1, 2, 3)), {"incarnation": 1}),
        (15, prompt(1, ttft(3, 2, 1)), {"incarnation": 2}),
        (30, prompt(2, ttft(5, 6, 7)), {"incarnation": 2}),
    )
    assert increase(found, "time-to-first-token") == (7.0, 30.0, True)


def test_a_first_read_that_is_torn_is_no_baseline():
    torn = ttft(3, 2, 1)
    found = chain((0, torn, {"started": WALL - 5}), (15, ttft(1, 2, 3)), (30, ttft(2, 3, 4)))
    assert increase(found, "time-to-first-token") == (1.0, 15.0, False)
    assert counts(chain((0, prompt(1, torn)))) is MissingCode.AWAITING_SECOND_SAMPLE


def test_a_torn_read_within_the_window_is_bridged():
    found = chain((0, ttft(1, 2, 3)), (15, ttft(2, 3, 4)), (30, ttft(3, 2, 1)), (45, ttft(4, 5, 6)))
    assert increase(found, "time-to-first-token") == (3.0, 45.0, False)


def test_not_finite_counters_are_bridged_too():
    found = chain((0, prompt(1)), (15, prompt("NaN")), (30, prompt(5)))
    assert increase(found) == (4.0, 30.0, False)


def test_when_a_signal_last_moved():
    assert Chain.empty().moved_at("prompt-tokens") is None
    found = chain((0, prompt(1, done(stop=1))), (15, prompt(1, done(stop=2, length=1))))
    assert (found.moved_at("prompt-tokens"), found.moved_at("requests-finished")) == (None, 15.0)
    assert found.moved_at("no-such-signal") is None
    found = chain((0, prompt(1)), (15, prompt(2)), (30, prompt(2)), (45, prompt(2, b"toy:running 1\n")))
    assert found.moved_at("prompt-tokens") == 15.0
    assert found.moved_at("requests-running") is None
    assert chain((20, prompt(3), {"started": WALL})).moved_at("prompt-tokens") == 20.0
    assert found.first_at == at(0)


def test_another_name_on_the_wire_is_another_count():
    table = msgspec.structs.replace(
        TABLE,
        terms=(
            Term(signal="prompt-tokens", name="toy:prompt_total"),
            Term(signal="prompt-tokens", name="toy:old_total", preference=1),
        ),
    )
    old = b"toy:old_total 500\n"
    found = chain((0, old), (15, prompt(7, old)), extractor=Extractor(table))
    assert increase(found) is MissingCode.AWAITING_SECOND_SAMPLE
    assert found.resets == 0
    found = chain((0, old), (15, prompt(7, old)), (30, prompt(9, old)), extractor=Extractor(table))
    assert increase(found) == (2.0, 15.0, False)


def test_a_body_without_counters_has_a_chain_too():
    found = chain((0, b"toy:running 1\n"), (15, b"toy:running 2\n"), (30, prompt(3)))
    assert increase(found) is MissingCode.AWAITING_SECOND_SAMPLE
    assert found.at == at(30)


def test_ranks_have_their_own_windows():
    def body(one, two):
        return f'toy:prompt_total{{engine="0"}} {one}\ntoy:prompt_total{{engine="1"}} {two}\n'.encode()

    found = chain((0, body(1, 5)), (15, body(4, 6)))
    assert increase(found, "prompt-tokens", (("rank", "0"),)) == (3.0, 15.0, False)
    assert increase(found, "prompt-tokens", (("rank", "1"),)) == (1.0, 15.0, False)
    # One wire family: a restart of one engine behind it is a restart of both.
    found = chain((0, body(4, 5)), (15, body(1, 6)))
    assert increase(found, "prompt-tokens", (("rank", "1"),)) == (6.0, 15.0, True)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 14))
def test_a_window_is_what_a_plain_walk_says(seed, steps):
    """A process that works, restarts and fails to render one family, against arithmetic on a list."""
    rng = random.Random(seed)
    extractor, found = Extractor(TABLE), Chain.empty()
    value, life = rng.randrange(50), 0
    reads = []
    for step in range(steps):
        if rng.random() < 0.2:
            life, value = life + 1, rng.randrange(5)
        value += rng.choice([0, 1, 7, 300, 0.5])
        readable = rng.random() < 0.85
        extra = b"" if rng.random() < 0.7 else b"toy:running 1\n"
        body = prompt(value if readable else "NaN", extra)
        found = found.push(extractor.read(body), at(15 * step), life)
        reads.append((15 * step, float(value) if readable else None, life))
    pairs, before = [], None
    for place, (moment, now, alive) in enumerate(reads):
        if now is None:
            continue
        if before is None and place and reads[place - 1][2] != alive:
            pairs.append((reads[place - 1][0], moment, now, True))
        elif before is not None:
            reset = alive != before[2] or now < before[1]
            pairs.append((before[0], moment, now if reset else now - before[1], reset))
        before = (moment, now, alive)
    result = increase(found)
    if reads[-1][1] is None or not pairs:
        assert isinstance(result, MissingCode)
        return
    total, start, resets = 0.0, pairs[-1][1], 0
    for begin, end, grew, reset in reversed(pairs):
        if start != pairs[-1][1] and pairs[-1][1] - begin - 60 > (end - begin) / 2:
            break
        total, start, resets = total + grew, begin, resets + reset
    if resets > 2:
        assert result is MissingCode.COUNTER_RESET
    else:
        assert result == (pytest.approx(total), pairs[-1][1] - start, resets > 0)


@pytest.mark.parametrize("rest", [b"", b"toy:ttft_seconds 1\n"], ids=["one sum", "link by link"])
@pytest.mark.parametrize(("resets", "rate"), [(1, True), (2, True), (3, False), (4, False)])
def test_a_number_that_keeps_falling_has_no_rate(resets, rate, rest):
    reads = [(10 * step, prompt(1000 - step if step <= resets else 1000 - resets)) for step in range(5)]
    if rest:
        reads[2] = (20, reads[2][1] + b"# TYPE toy:running gauge\ntoy:running 1\n")
    found = window(chain(*reads))
    assert isinstance(found, Window) is rate
    assert found.lossy if rate else found is MissingCode.COUNTER_RESET
    # Once the falls are out of the window there is a rate again.
    later = chain(*reads, *((50 + 10 * step, prompt(2000 + step)) for step in range(8)))
    assert increase(later) == (pytest.approx(6.0), 60.0, False)


def test_recorded_load_has_the_windows_that_its_counters_say():
    extractor = Extractor(TABLES[Component.ENGINE]["vllm"], version="0.32.0")
    found = Chain.empty()
    frames = []
    for number, name in enumerate(("03", "04", "05")):
        frame = extractor.read((RECORDINGS / "vllm-0.32.0" / f"metrics-{name}-load.prom").read_bytes())
        frames.append(frame)
        found = found.push(frame, at(15 * number))
    moved = 0
    for signal in ("prompt-tokens", "generation-tokens", "time-to-first-token", "requests-finished"):
        for first, last in zip(frames[0].series(signal), frames[-1].series(signal), strict=True):
            assert increase(found, signal, last.labels) == (pytest.approx(last.value - first.value), 30.0, False)
            moved += last.value - first.value
    assert moved > 0
    assert found.nbytes < 15_000


def test_a_restarted_recording_is_a_reset():
    extractor = Extractor(TABLES[Component.ENGINE]["vllm"], version="0.32.0")
    before, after = (
        extractor.read((RECORDINGS / "lmcache-0.5.6" / f"vllm-metrics-{name}.prom").read_bytes())
        for name in ("02-after-store", "03-restarted")
    )
    found = Chain.empty().push(before, at(0)).push(after, at(15))
    labels = after.series("prompt-tokens")[0].labels
    assert increase(found, "prompt-tokens", labels) == (after.series("prompt-tokens")[0].value, 15.0, True)
    assert found.resets == 1
