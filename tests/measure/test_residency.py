"""The block index: who holds what, copies, loose blocks, budgets, leaving in slices, longest prefixes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.judge.attachment import CacheEvidence, cache_attached
from observer.measure.ledger import Ledger
from observer.measure.residency import BlockIndex
from observer.measure.stream_values import StreamLimits
from observer.measure.streams import Stream
from router_contract.kv_streams import Approximation, HashSpace
from router_contract.readings import Instant
from tests.fakes.kv_world import DEPLOYMENT, source

SPACE = HashSpace("vllm", "0.32.0", "uint64", "tiny", 16)
NOW = Instant(100.0, 1.8e9)


def index(**options: int) -> BlockIndex:
    return BlockIndex(options.get("budget", 1 << 30))


def prefixes(blocks: BlockIndex, hashes: list, *media: str) -> dict:
    return dict(blocks.prefixes([blocks.planes[SPACE, medium, 0] for medium in media or ("GPU",)], hashes))


def test_the_longest_held_prefix_of_each_member():
    blocks = index()
    for name, held in {"a": [1, 2, 3, 4], "b": [1, 2], "c": [2, 3], "d": [1, 3, 4]}.items():
        blocks.store(blocks.hold(blocks.join(name), SPACE, "GPU", 0, signed=False), held, None)
    assert prefixes(blocks, [1, 2, 3, 4, 5]) == {"a": 4, "b": 2, "d": 1}
    assert prefixes(blocks, [9]) == {}
    assert prefixes(blocks, []) == {}


def test_prefixes_over_several_media_together():
    blocks = index()
    holder = blocks.join("a")
    blocks.store(blocks.hold(holder, SPACE, "GPU", 0, signed=False), [1, 2], None)
    blocks.store(blocks.hold(holder, SPACE, "CPU", 0, signed=False), [2, 3], 1)
    assert prefixes(blocks, [1, 2, 3, 4], "GPU", "CPU") == {"a": 3}
    assert prefixes(blocks, [1, 2, 3, 4], "GPU") == {"a": 2}


@given(
    st.lists(st.tuples(st.integers(0, 70), st.integers(0, 200)), max_size=20),
    st.integers(0, 130),
)
def test_prefixes_equal_a_plain_search(held, asked):
    blocks = index()
    holds = {name: blocks.hold(blocks.join(name), SPACE, "GPU", 0, signed=False) for name in range(71)}
    truth = dict.fromkeys(holds, 0)
    for name, length in held:
        blocks.store(holds[name], list(range(1000, 1000 + length)) or [1], None)
        truth[name] = max(truth[name], length)
    wanted = {name: min(length, asked) for name, length in truth.items() if min(length, asked)}
    assert prefixes(blocks, list(range(1000, 1000 + asked))) == wanted


def test_copies_are_counted_and_held_until_the_last_is_removed():
    blocks = index()
    hold = blocks.hold(blocks.join("a"), SPACE, "GPU", 0, signed=False)
    for _ in range(3):
        blocks.store(hold, [5], None)
    assert hold.copies == {5: 3}
    assert [blocks.remove(hold, [5]) for _ in range(4)] == [0, 0, 1, 0]
    assert hold.copies == {}
    assert hold.held == 0
    assert hold.plane.masks == {}


def test_removing_known_unknown_known_removes_both_known():
    blocks = index()
    hold = blocks.hold(blocks.join("a"), SPACE, "GPU", 0, signed=False)
    blocks.store(hold, [1, 2], None)
    assert blocks.remove(hold, [1, 99, 2]) == 2


@pytest.mark.parametrize(
    ("signed", "stored", "asked"),
    [
        (False, [2**64 - 1], [2**64 - 1]),
        (True, [-(2**63)], [-(2**63)]),
        (False, [-5], [2**64 - 5]),
        (True, [2**64 - 5], [-5]),
        (True, [b"\x01" * 32], [b"\x01" * 32]),
        (False, [7, b"\x01" * 32], [7, b"\x01" * 32]),
    ],
)
def test_hashes_of_any_kind_are_found_and_removed(signed, stored, asked):
    blocks = index()
    hold = blocks.hold(blocks.join("a"), SPACE, "GPU", 0, signed=signed)
    blocks.store(hold, stored, None)
    assert prefixes(blocks, asked) == {"a": len(asked)}
    assert blocks.remove(hold, asked) == len(asked)


def test_a_member_that_leaves_is_gone_at_once_and_its_bit_is_used_again_when_clean():
    blocks = index()
    holders = [blocks.join(name) for name in "ab"]
    for holder in holders:
        blocks.store(blocks.hold(holder, SPACE, "GPU", 0, signed=False), list(range(1, 101)), None)
    blocks.retire(holders[0])
    assert prefixes(blocks, [1, 2]) == {"b": 2}
    assert blocks.cleaning == 100
    slices = 1
    while blocks.clean(30):
        slices += 1
    assert slices >= 4
    assert blocks.cleaning == 0
    assert blocks.join("c").bit == holders[0].bit
    assert prefixes(blocks, [1, 2]) == {"b": 2}
    assert blocks.planes[SPACE, "GPU", 0].shared == 0


def test_blocks_without_a_known_parent_are_loose_until_it_arrives():
    blocks = index()
    holder = blocks.join("a")
    hold = blocks.hold(holder, SPACE, "GPU", 0, signed=False)
    blocks.store(hold, [3, 4], 2)
    blocks.store(hold, [5], 4)
    assert len(holder.loose) == 3
    blocks.store(hold, [2], 1)
    assert len(holder.loose) == 4
    blocks.store(hold, [1], None)
    assert holder.loose == {}
    assert holder.children == {}


def test_a_loose_block_that_is_removed_is_no_longer_loose():
    blocks = index()
    holder = blocks.join("a")
    hold = blocks.hold(holder, SPACE, "GPU", 0, signed=False)
    blocks.store(hold, [3, 4], 2)
    blocks.remove(hold, [3])
    assert set(holder.loose) == {(SPACE, 4)}
    blocks.remove(hold, [4])
    assert holder.children == {}


def test_a_parent_on_another_medium_is_known():
    blocks = index()
    holder = blocks.join("a")
    blocks.store(blocks.hold(holder, SPACE, "GPU", 0, signed=False), [1], None)
    blocks.store(blocks.hold(holder, SPACE, "CPU", 0, signed=False), [2], 1)
    assert holder.loose == {}


def test_the_budget_refuses_and_says_so():
    blocks = index(budget=10_000)
    hold = blocks.hold(blocks.join("a"), SPACE, "GPU", 0, signed=False)
    answers = [blocks.store(hold, list(range(number, number + 10)), None) for number in range(0, 1000, 10)]
    assert answers[0]
    assert not answers[-1]
    assert len(hold.plane.masks) < 110


def test_a_hundred_members_on_one_block_cost_one_entry():
    blocks = index()
    for name in range(100):
        blocks.store(blocks.hold(blocks.join(name), SPACE, "GPU", 0, signed=False), [1], None)
    assert len(blocks.planes[SPACE, "GPU", 0].masks) == 1
    assert blocks.bytes < 2_000


def test_a_log_stays_near_the_size_of_what_is_held():
    blocks = index()
    hold = blocks.hold(blocks.join("a"), SPACE, "GPU", 0, signed=False)
    for number in range(100_000):
        blocks.store(hold, [number % 500], None)
        blocks.remove(hold, [number % 500])
    assert len(hold.log) + len(hold.old_log) < 20_000
    blocks.store(hold, list(range(300)), None)
    blocks.retire(hold.holder)
    while blocks.clean(1000):
        pass
    assert blocks.planes == {}
    assert blocks.bytes == 0


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("store"),
            st.integers(0, 3),
            st.lists(st.integers(0, 30), min_size=1, max_size=5),
            st.one_of(st.none(), st.integers(0, 30)),
        ),
        st.tuples(st.just("remove"), st.integers(0, 3), st.lists(st.integers(0, 30), min_size=1, max_size=5)),
        st.tuples(st.just("leave"), st.integers(0, 3)),
        st.tuples(st.just("clean"), st.integers(1, 20)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(OPERATIONS)
def test_the_index_equals_counting_by_hand(operations):
    blocks = index()
    holders = [blocks.join(name) for name in range(4)]
    truth: list[dict[int, int]] = [{} for _ in range(4)]
    for operation in operations:
        match operation:
            case ("store", name, hashes, parent):
                blocks.store(blocks.hold(holders[name], SPACE, "GPU", 0, signed=False), hashes, parent)
                for value in hashes:
                    truth[name][value] = truth[name].get(value, 0) + 1
            case ("remove", name, hashes):
                blocks.remove(blocks.hold(holders[name], SPACE, "GPU", 0, signed=False), hashes)
                for value in hashes:
                    left = truth[name].get(value, 0) - 1
                    truth[name].pop(value, None)
                    truth[name] |= {value: left} if left > 0 else {}
            case ("leave", name):
                blocks.retire(holders[name])
                holders[name], truth[name] = blocks.join(name), {}
            case ("clean", entries):
                blocks.clean(entries)
    while blocks.clean(50):
        pass
    for name, holder in enumerate(holders):
        for hold in holder.holds.values():
            held = {key: hold.copies.get(key, 1) for key, mask in hold.plane.masks.items() if mask & hold.bit}
            assert held == truth[name]
            assert hold.held == len(held)
        assert set(holder.loose) <= {(SPACE, value) for value in truth[name]}
    for plane in blocks.planes.values():
        holders_of = [sum(value in held for held in truth) for value in set().union(*truth)]
        assert plane.shared == sum(count > 1 for count in holders_of)
        assert len(plane.masks) == len(holders_of)
    for holder in holders:
        blocks.retire(holder)
    while blocks.clean(50):
        pass
    assert blocks.bytes == 0


def payload(hashes: list, *, parent: object = None, size: int = 16, medium: str | None = "GPU", rank: int = 0) -> bytes:
    event = {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, "block_size": size}
    return msgspec.msgpack.encode([1.0, [event | ({"medium": medium} if medium else {})], rank])


def joined(ledger: Ledger, name: str, **options: object) -> tuple:
    blocks = ledger.join(source(name, **options))
    stream = Stream(blocks, NOW, replay=False, limits=StreamLimits())
    stream.attach(NOW)
    stream.connected(NOW)
    return blocks, stream


def test_spaces_are_never_compared():
    ledger = Ledger()
    vllm, sglang = joined(ledger, "a"), joined(ledger, "b", engine="sglang")
    vllm[1].message(0, payload([1, 2]), NOW)
    sglang[1].message(0, payload([1, 2]), NOW)
    vllm[1].message(1, payload([b"\x01" * 32]), NOW)
    vllm[1].message(2, payload([1], size=32), NOW)
    found = ledger.lookup(DEPLOYMENT, [1, 2], [vllm, sglang], NOW)
    assert [
        (item.member, item.space.engine, item.space.block_size, item.blocks, item.tokens) for item in found.holdings
    ] == [
        ("a", "vllm", 16, 2, 32),
        ("b", "sglang", 16, 2, 32),
        ("a", "vllm", 32, 1, 32),
    ]
    summary = ledger.index_summary(DEPLOYMENT)
    assert len(summary.residency) == 4
    assert all(item.shared == 0 for item in summary.residency)


def test_a_missing_medium_is_the_device():
    ledger = Ledger()
    blocks, stream = joined(ledger, "a")
    stream.message(0, payload([1], medium=None), NOW)
    assert [(medium.medium, medium.blocks) for medium in blocks.media_blocks()] == [("GPU", 1)]


def test_redundancy_is_unknown_where_members_may_hash_differently_until_a_hash_is_shared():
    ledger = Ledger()
    members = []
    for name in "ab":
        unseeded = msgspec.structs.replace(source(name, engine="sglang"), seeded=None)
        blocks = ledger.join(unseeded)
        stream = Stream(blocks, NOW, replay=False, limits=StreamLimits())
        stream.attach(NOW)
        stream.connected(NOW)
        members.append((blocks, stream))
    members[0][1].message(0, payload([1, 2]), NOW)
    assert ledger.index_summary(DEPLOYMENT).residency[0].redundancy == 1.0
    members[1][1].message(0, payload([3]), NOW)
    assert ledger.index_summary(DEPLOYMENT).residency[0].redundancy is None
    members[1][1].message(1, payload([2]), NOW)
    found = ledger.index_summary(DEPLOYMENT).residency[0]
    assert (found.unique, found.total, found.shared) == (3, 4, 1)
    assert found.redundancy == pytest.approx(4 / 3)


def test_past_the_budget_the_member_is_approximate_and_a_clear_heals_it():
    ledger = Ledger(deployment_bytes=3_000)
    blocks, stream = joined(ledger, "a")
    for number in range(10):
        stream.message(number, payload([number * 10 + k for k in range(10)]), NOW)
    assert stream.approximate == {Approximation.BUDGET}
    stream.message(10, msgspec.msgpack.encode([1.0, [{"type": "AllBlocksCleared"}]]), NOW)
    assert not stream.approximate
    while ledger.clean(1000):
        pass
    stream.message(11, payload([1]), NOW)
    assert not stream.approximate
    assert blocks.summary(stream, NOW).blocks == 1


def test_the_process_budget_stops_every_index():
    ledger = Ledger(process_bytes=500)
    _, stream = joined(ledger, "a")
    stream.message(0, payload(list(range(20))), NOW)
    ledger.clean(1)
    stream.message(1, payload([100]), NOW)
    assert stream.approximate == {Approximation.BUDGET}


def test_a_thousand_clears_cost_nothing_that_stays():
    ledger = Ledger()
    blocks, stream = joined(ledger, "a")
    for number in range(0, 2000, 2):
        stream.message(number, payload([number]), NOW)
        stream.message(number + 1, msgspec.msgpack.encode([1.0, [["AllBlocksCleared"]]]), NOW)
        ledger.clean(100)
    summary = blocks.summary(stream, NOW)
    assert dict(summary.counters.events)["cleared"] == 1000
    assert summary.blocks == 0
    assert blocks.holder.bit < 1 << 4


def test_a_summary_tells_age_churn_and_a_wrong_rank():
    ledger = Ledger()
    blocks, stream = joined(ledger, "a")
    stream.message(0, payload([1, 2], rank=3), NOW)
    later = Instant(NOW.mono + 30, NOW.wall + 30)
    stream.message(1, msgspec.msgpack.encode([1.0, [["BlockRemoved", [1, 2], "GPU"]], 3]), later)
    summary = blocks.summary(stream, later)
    assert summary.last_event == later
    assert summary.wrong_rank == 3
    assert summary.churn_blocks_per_second == pytest.approx(2 / 60)
    much_later = Instant(NOW.mono + 120, NOW.wall + 120)
    assert blocks.summary(stream, much_later).churn_blocks_per_second == 0
    assert [(medium.medium, medium.blocks, medium.last_stored) for medium in summary.media] == [("GPU", 0, NOW)]


def test_a_stream_that_was_never_synced_is_unknown_in_a_look_up():
    ledger = Ledger()
    blocks = ledger.join(source("a"))
    stream = Stream(blocks, NOW, replay=True, limits=StreamLimits())
    stream.attach(NOW)
    found = ledger.lookup(DEPLOYMENT, [1], [(blocks, stream)], NOW)
    assert found.unknown == (blocks.source.key,)
    assert found.holdings == ()


def apart(stream: Stream, seconds: float) -> None:
    """Its connection is lost, and that long ago."""
    stream.disconnected(NOW)
    stream.tick(Instant(mono=NOW.mono + seconds, wall=NOW.wall + seconds))


def counts(ledger: Ledger, *members) -> list[tuple[object, ...]]:
    found = ledger.index_summary(DEPLOYMENT, members).residency
    return [
        (each.unique, each.total, each.shared, each.redundancy, [(one.member, one.blocks) for one in each.stale])
        for each in found
    ]


def test_blocks_of_a_stream_without_a_connection_are_told_apart_and_counted_in_nothing():
    ledger = Ledger()
    a, b, c = (joined(ledger, name) for name in "abc")
    a[1].message(0, payload([1, 2, 3, 4]), NOW)
    b[1].message(0, payload([1, 2, 5]), NOW)
    c[1].message(0, payload([1, 6]), NOW)
    assert counts(ledger, a, b, c) == [(6, 9, 2, 1.5, [])]
    apart(a[1], 1.0)
    assert counts(ledger, a, b, c) == [(6, 9, 2, 1.5, [])], "a moment without a connection is no doubt yet"
    apart(a[1], 3.0)
    assert counts(ledger, a, b, c) == [(4, 5, 1, 1.25, [("a", 4)])]
    (plane,) = ledger.index_summary(DEPLOYMENT, [a, b, c]).residency
    assert plane.stale[0].since == NOW
    assert a[0].summary(a[1], NOW).stale_since == NOW
    assert b[0].summary(b[1], NOW).stale_since is None
    apart(b[1], 3.0)
    assert counts(ledger, a, b, c) == [(2, 2, 0, 1.0, [("a", 4), ("b", 3)])]
    apart(c[1], 3.0)
    assert counts(ledger, a, b, c) == [(None, None, None, None, [("a", 4), ("b", 3), ("c", 2)])]


@given(
    st.lists(st.lists(st.integers(0, 12), unique=True, max_size=12), min_size=2, max_size=4),
    st.sets(st.integers(0, 3)),
)
def test_counts_are_those_of_the_connected_members_alone(held, lost):
    ledger, alone = Ledger(), Ledger()
    members = [joined(ledger, str(number)) for number in range(len(held))]
    for number, (member, blocks) in enumerate(zip(members, held, strict=True)):
        if blocks:
            member[1].message(0, payload(blocks), NOW)
            if number in lost:
                apart(member[1], 3.0)
            else:
                joined(alone, str(number))[1].message(0, payload(blocks), NOW)
    want = counts(alone)
    found = counts(ledger, *members)
    if want:
        assert [each[:3] for each in found] == [each[:3] for each in want]
    else:
        assert all(each[:4] == (None, None, None, None) for each in found)


def test_too_many_stale_blocks_to_compare_leave_distinct_and_shared_unknown(monkeypatch):
    monkeypatch.setattr("observer.measure.resident.MOST_COMPARED", 3)
    ledger = Ledger()
    a, b = joined(ledger, "a"), joined(ledger, "b")
    a[1].message(0, payload([1, 2, 3, 4]), NOW)
    b[1].message(0, payload([1, 5]), NOW)
    apart(a[1], 3.0)
    assert counts(ledger, a, b) == [(None, 2, None, None, [("a", 4)])]


def test_a_plane_that_only_departed_lives_told_of_is_not_shown_as_empty():
    ledger = Ledger()
    a, b = joined(ledger, "a"), joined(ledger, "b")
    a[1].message(0, payload([1, 2, 3]), NOW)
    ledger.leave(a[0])
    assert ledger.index_summary(DEPLOYMENT, [b]).cleaning == 3
    assert counts(ledger, b) == [], "b has not told of such blocks, so nobody says that there are none"


def test_what_awaits_cleaning_is_never_less_than_nothing(monkeypatch):
    monkeypatch.setattr("observer.measure.residency._REBUILD_SLACK", 2)
    ledger = Ledger()
    blocks, stream = joined(ledger, "a")
    for number in range(60):
        gone = {"type": "BlockRemoved", "block_hashes": [7 * number + k for k in range(6)], "medium": "GPU"}
        stream.message(2 * number, payload([7 * number + k for k in range(7)]), NOW)
        stream.message(2 * number + 1, msgspec.msgpack.encode([1.0, [gone], 0]), NOW)
        if any(hold.cursor for hold in blocks.holder.holds.values()):
            break
    else:
        pytest.fail("no log was ever being shortened")
    ledger.leave(blocks)
    left = [ledger.index_size(DEPLOYMENT).cleaning]
    while ledger.clean(1):
        left.append(ledger.index_size(DEPLOYMENT).cleaning)
    assert left == list(range(left[0], 0, -1))


def test_a_hash_that_two_lives_of_one_member_share_does_not_prove_that_members_hash_alike():
    ledger = Ledger()
    members = []
    for name in "ab":
        blocks = ledger.join(msgspec.structs.replace(source(name, engine="sglang"), seeded=None))
        stream = Stream(blocks, NOW, replay=False, limits=StreamLimits())
        stream.attach(NOW)
        stream.connected(NOW)
        members.append((blocks, stream))
    members[0][1].message(0, payload([1, 2]), NOW)
    members[1][1].message(0, payload([3]), NOW)
    members[0][0].forget()
    members[0][0].apply(payload([1, 2]), NOW)
    assert ledger.index_summary(DEPLOYMENT).cleaning
    assert ledger.index_summary(DEPLOYMENT).residency[0].redundancy is None


def test_the_rank_that_a_former_life_stated_is_not_said_of_the_next_one():
    blocks, stream = joined(Ledger(), "a")
    stream.message(0, payload([1], rank=3), NOW)
    stream.message(1, msgspec.msgpack.encode([1.0, [{"type": "AllBlocksCleared"}], 3]), NOW)
    assert blocks.summary(stream, NOW).wrong_rank == 3, "a clear is of the same life"
    stream.message(0, payload([2], rank=0), NOW)
    assert stream.counts["resets"] == 1
    assert blocks.summary(stream, NOW).wrong_rank is None


def _late(stream: Stream) -> None:
    stream.message(7, payload([1]), NOW)


def _damaged(stream: Stream) -> None:
    stream.message(0, b"\x93damaged", NOW)


def _lost(stream: Stream) -> None:
    stream.message(0, payload([1]), NOW)
    stream.message(5, payload([2]), NOW)


def _over_budget(stream: Stream) -> None:
    for number in range(40):
        stream.message(number, payload([number * 10 + k for k in range(10)]), NOW)


@pytest.mark.parametrize(
    ("history", "known"),
    [(lambda stream: stream.message(0, payload([1]), NOW), True)]
    + [(each, False) for each in (_late, _damaged, _lost, _over_budget)],
    ids=["whole", "late-join", "undecodable", "unrepaired", "budget"],
)
def test_absence_is_not_read_as_not_held_where_not_all_is_known(history, known):
    ledger = Ledger(deployment_bytes=2_000)
    blocks, stream = joined(ledger, "a")
    history(stream)
    found = ledger.lookup(DEPLOYMENT, [999_999], [(blocks, stream)], NOW)
    assert found.holdings == ()
    assert found.unknown == (() if known else (blocks.source.key,))


def test_absence_says_nothing_while_missing_batches_are_being_read():
    ledger = Ledger()
    blocks = ledger.join(source("a"))
    stream = Stream(blocks, NOW, replay=True, limits=StreamLimits())
    stream.attach(NOW)
    stream.connected(NOW)
    members, key = [(blocks, stream)], blocks.source.key
    stream.reply(stream.outbox[-1].token, 0, payload([1]), NOW)
    assert ledger.lookup(DEPLOYMENT, [2], members, NOW).unknown == (key,), "the replay goes on"
    stream.reply_end(stream.outbox[-1].token, NOW)
    assert ledger.lookup(DEPLOYMENT, [2], members, NOW).unknown == ()
    stream.message(2, payload([3]), NOW)
    assert ledger.lookup(DEPLOYMENT, [2], members, NOW).unknown == (key,), "batch 1 is asked for"


@pytest.mark.parametrize(
    ("ago", "age"),
    [
        (7200.0, 7200.0),
        (0.0, 0.0),
        (-50.0, 0.0),
        (NOW.wall + 9e9, NOW.wall),
        (float("nan"), 0.0),
        (float("inf"), NOW.wall),
    ],
    ids=["hours-ago", "now", "clock-ahead", "before-1970", "no-time", "endless"],
)
def test_what_a_replay_tells_is_as_old_as_its_publisher_says(ago, age):
    ledger = Ledger()
    blocks = ledger.join(source("a"))
    stream = Stream(blocks, NOW, replay=True, limits=StreamLimits())
    stream.attach(NOW)
    stream.connected(NOW)
    token = stream.outbox[-1].token
    stored = {"type": "BlockStored", "block_hashes": [1, 2], "block_size": 16, "medium": "STORAGE"}
    gone = {"type": "BlockRemoved", "block_hashes": [1], "medium": "STORAGE"}
    stream.reply(token, 0, msgspec.msgpack.encode([NOW.wall - ago, [stored, gone], 0]), NOW)
    stream.reply_end(token, NOW)
    (medium,) = blocks.summary(stream, NOW).media
    assert NOW.mono - medium.last_stored.mono == pytest.approx(age)
    assert NOW.wall - medium.last_stored.wall == pytest.approx(age)
    evidence = CacheEvidence(attached=True, ready_replicas=1, streams=(blocks.summary(stream, NOW),))
    assert cache_attached(evidence, NOW).reason == ("CacheActive" if age < 300 else "NoObservationAvailable")
    later = Instant(NOW.mono + 200, NOW.wall + 200)
    stream.message(1, msgspec.msgpack.encode([NOW.wall - ago, [stored], 0]), later)
    (medium,) = blocks.summary(stream, later).media
    assert medium.last_stored == later, "a live batch is of the moment it arrives, whatever its publisher's clock says"


def test_what_a_replay_removed_long_ago_is_no_churn_of_now():
    blocks = Ledger().join(source("a"))
    now = Instant(100_000.0, 1.8e9)
    stream = Stream(blocks, now, replay=True, limits=StreamLimits())
    stream.attach(now)
    stream.connected(now)
    token = stream.outbox[-1].token
    gone = msgspec.msgpack.encode([now.wall - 600, [["BlockRemoved", [1, 2], "GPU"]], 0])
    stream.reply(token, 0, payload([1, 2]), now)
    stream.reply(token, 1, gone, now)
    stream.reply_end(token, now)
    assert blocks.removed_blocks == 2
    assert blocks.summary(stream, now).churn_blocks_per_second == 0


def test_bytes_of_streams_add_up_to_the_index_whatever_is_shared_loose_or_copied():
    ledger = Ledger()
    members = [joined(ledger, str(number)) for number in range(20)]
    assert members[0][0].index.share() == 1.0
    for _, stream in members:
        stream.message(0, payload(list(range(1, 201))), NOW)
    blocks, stream = members[0]
    stream.message(1, payload([500, 501], parent=499), NOW)
    stream.message(2, payload([1, 2]), NOW)
    size = ledger.index_size(DEPLOYMENT).estimated_bytes
    share = blocks.index.share()
    told = [medium for blocks, stream in members for medium in blocks.summary(stream, NOW, share).media]
    assert sum(medium.estimated_bytes for medium in told) == pytest.approx(size, abs=len(told))
