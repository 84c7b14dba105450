"""KV events and the index of blocks. Reports 73 to 88, and what the sheet names beside them."""

from __future__ import annotations

import msgspec
import pytest

from observer.measure.ledger import Ledger
from observer.measure.residency import BlockIndex
from observer.measure.stream_values import StreamLimits
from observer.measure.streams import Stream
from router_contract.kv_streams import Approximation, HashSpace, History, StreamState
from tests.fakes.kv_world import DEPLOYMENT, World, source
from tests.measure.test_residency import NOW, SPACE, joined, payload
from tests.measure.test_streams import chain, deliver_all
from tests.measure.test_streams import joined as connected
from tests.reports.rows import row

S = StreamState
CLEARED = msgspec.msgpack.encode([1.0, [["AllBlocksCleared"]]])


@row(73)
def test_sequence_1_2_5_is_a_gap_that_a_replay_closes() -> None:
    world = connected(3)
    chain(world, 4, 5)
    world.wire.clear()
    chain(world, 6, 6)
    deliver_all(world)
    assert world.stream.state is S.GAP
    world.answer()
    assert world.stream.state is S.LIVE
    assert (world.stream.counts["gaps"], world.stream.counts["repaired"]) == (1, 3)
    assert world.held() == dict(world.publisher.held)


@row(74)
@pytest.mark.parametrize("replay", [True, False])
def test_sequence_49_then_0_then_1_is_another_life(replay: bool) -> None:
    world = connected(0, replay=replay)
    chain(world, 1, 50)
    deliver_all(world)
    world.publisher.restart()
    chain(world, 901, 902)
    deliver_all(world)
    world.answer()
    world.wait(3, answer=True)
    deliver_all(world)
    assert world.held() == dict(world.publisher.held), "no block of the old life is shown"
    assert len(world.held()) == 2


@row(75)
@pytest.mark.parametrize("replay", [True, False])
def test_a_first_sequence_of_seven_is_replayed_or_said_to_be_incomplete(replay: bool) -> None:
    world = World(replay=replay)
    chain(world, 1, 7)
    world.connect()
    chain(world, 8, 8)
    world.answer()
    deliver_all(world)
    assert world.stream.history is (History.COMPLETE if replay else History.PARTIAL)
    assert len(world.held()) == (8 if replay else 1)


@row(78)
def test_removing_known_unknown_known_removes_both() -> None:
    world = connected(3)
    world.send(world.publisher.remove([1, 777, 3]))
    deliver_all(world)
    assert {key for key, *_ in world.held()} == {2}
    assert world.stream.state is S.LIVE


@row(80)
def test_a_hundred_events_queued_for_a_pod_that_left_are_never_applied() -> None:
    ledger = Ledger()
    blocks, stream = joined(ledger, "a")
    stream.message(0, payload([1, 2, 3]), NOW)
    ledger.leave(blocks)
    for number in range(1, 101):
        stream.message(number, payload([number * 10]), NOW)
    while ledger.clean(1000):
        pass
    assert ledger.lookup(DEPLOYMENT, [1, 2, 10, 20], [], NOW).holdings == ()
    again, _ = joined(ledger, "a")
    assert [medium.blocks for medium in again.media_blocks()] in ([], [0])


@row(81)
def test_a_clear_clears_its_rank_and_no_other() -> None:
    ledger = Ledger()
    made = []
    for rank in range(2):
        blocks = ledger.join(source("a", rank))
        stream = Stream(blocks, NOW, replay=False, limits=StreamLimits())
        stream.attach(NOW)
        stream.connected(NOW)
        stream.message(0, payload([*range(10)]), NOW)
        made.append((blocks, stream))
    made[0][1].message(1, CLEARED, NOW)
    counts = [sum(medium.blocks for medium in blocks.media_blocks()) for blocks, _ in made]
    assert counts == [0, 10]


@row(83)
def test_a_hundred_pods_on_one_block_and_a_budget_in_bytes() -> None:
    index = BlockIndex(1 << 30)
    holds = [index.hold(index.join(f"pod-{place}"), SPACE, "GPU", 0, signed=False) for place in range(100)]
    for hold in holds:
        index.store(hold, [5], None)
    (plane,) = index.planes.values()
    assert len(plane.masks) == 1, "one entry, whoever holds it"
    ledger = Ledger(deployment_bytes=3_000)
    _, stream = joined(ledger, "a")
    for number in range(50):
        stream.message(number, payload([number * 10 + place for place in range(10)]), NOW)
    assert stream.approximate == {Approximation.BUDGET}
    assert ledger.index_summary(DEPLOYMENT).estimated_bytes <= 3_000 * 1.25


@row(84)
def test_of_two_ranks_only_one_speaks() -> None:
    ledger = Ledger()
    spoken, silent = source("a", 0), source("a", 1)
    assert spoken.key != silent.key, "the rank is part of who a stream is"
    pairs = []
    for each in (spoken, silent):
        blocks = ledger.join(each)
        stream = Stream(blocks, NOW, replay=False, limits=StreamLimits())
        stream.attach(NOW)
        stream.connected(NOW)
        pairs.append((blocks, stream))
    pairs[0][1].message(0, payload([1, 2]), NOW)
    summaries = [blocks.summary(stream, NOW) for blocks, stream in pairs]
    assert [summary.blocks for summary in summaries] == [2, 0]
    assert summaries[0].last_batch is not None
    assert summaries[1].last_batch is None, "a rank that never spoke is no rank that holds nothing"


@row(87)
def test_a_thousand_clears_are_counted_and_cost_nothing_that_stays() -> None:
    ledger = Ledger()
    blocks, stream = joined(ledger, "a")
    for number in range(0, 2000, 2):
        stream.message(number, payload([number, number + 1]), NOW)
        stream.message(number + 1, CLEARED, NOW)
        ledger.clean(100)
    while ledger.clean(1000):
        pass
    summary = blocks.summary(stream, NOW)
    assert dict(summary.counters.events)["cleared"] == 1000
    assert summary.blocks == 0
    assert ledger.index_summary(DEPLOYMENT).estimated_bytes < 10_000


@row(87)
def test_one_event_may_remove_many() -> None:
    world = connected(40)
    world.send(world.publisher.remove(list(range(1, 40))))
    deliver_all(world)
    assert {key for key, *_ in world.held()} == {40}


@row(88)
def test_the_same_tokens_under_two_seeds_are_not_compared() -> None:
    ledger = Ledger()
    one, two = joined(ledger, "a"), joined(ledger, "b", engine="sglang")
    one[1].message(0, payload([1, 2]), NOW)
    two[1].message(0, payload([1, 2]), NOW)
    found = ledger.lookup(DEPLOYMENT, [1, 2], [one, two], NOW)
    assert {(item.member, item.space.engine) for item in found.holdings} == {("a", "vllm"), ("b", "sglang")}
    assert all(item.shared == 0 for item in ledger.index_summary(DEPLOYMENT).residency)
    assert {"engine", "hash_type", "model", "block_size"} <= set(HashSpace.__struct_fields__), (
        "how it is hashed is shown"
    )


@row("outage", "recovery")
def test_what_an_outage_lost_is_found_and_until_then_it_is_not_live() -> None:
    world = connected(3)
    world.disconnect()
    chain(world, 4, 9)
    assert world.stream.state is not S.LIVE
    world.connect()
    assert world.stream.state is not S.LIVE
    world.answer()
    world.wait(2, answer=True)
    assert world.stream.state is S.LIVE
    assert world.held() == dict(world.publisher.held)


@row("duplicates")
def test_a_block_stored_twice_is_held_until_its_second_removal() -> None:
    world = connected(1)
    world.send(world.publisher.store([1], None))
    world.send(world.publisher.remove([1]))
    deliver_all(world)
    assert {key for key, *_ in world.held()} == {1}
    world.send(world.publisher.remove([1]))
    deliver_all(world)
    assert world.held() == {}
