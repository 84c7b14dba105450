"""The stream machine: each situation of a publisher's life, by injected time, and what it says of itself."""

from __future__ import annotations

import pytest

from observer.measure.stream_memory import Checksums, Held
from observer.measure.stream_table import TABLE, Action, Event
from observer.measure.stream_values import StreamLimits
from router_contract.kv_streams import Approximation, History, StreamState
from tests.fakes.kv_world import World

S, E, A = StreamState, Event, Action


def chain(world: World, first: int, last: int) -> None:
    """Publish blocks first..last, each the parent of the next, one a batch."""
    for number in range(first, last + 1):
        world.send(world.publisher.store([number], number - 1 or None))


def deliver_all(world: World) -> None:
    while world.wire:
        world.deliver()


def joined(count: int = 0, **options: object) -> World:
    world = World(**options)
    chain(world, 1, count)
    world.connect()
    world.answer()
    return world


def test_a_late_join_within_the_buffer_is_complete():
    world = joined(5)
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.COMPLETE)
    assert world.held() == dict(world.publisher.held)


def test_a_late_join_beyond_the_buffer_is_live_and_partial_without_alarm():
    world = joined(9, buffer_steps=4)
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.PARTIAL)
    assert not world.stream.approximate
    assert world.stream.counts["missed"] == 0
    assert len(world.held()) == 4
    assert len(world.blocks.holder.loose) == 4


def test_first_sequence_seven_without_replay_is_partial():
    world = World(replay=False)
    chain(world, 1, 7)
    world.connect()
    chain(world, 8, 8)
    deliver_all(world)
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.PARTIAL)


def test_an_idle_fresh_publisher_is_complete_and_empty():
    world = joined(0)
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.COMPLETE)


def test_live_batches_wait_while_replaying_and_overlap_is_dropped():
    world = World()
    chain(world, 1, 3)
    world.connect()
    chain(world, 4, 5)
    deliver_all(world)
    assert world.held() == {}
    world.answer()
    assert world.held() == dict(world.publisher.held)
    assert world.stream.counts["duplicates"] == 0


@pytest.mark.parametrize("lost", [1, 3])
def test_a_gap_is_replayed(lost):
    world = joined(2)
    chain(world, 3, 2 + lost)
    world.wire.clear()
    chain(world, 3 + lost, 4 + lost)
    deliver_all(world)
    assert world.stream.state is S.GAP
    world.answer()
    assert world.stream.state is S.LIVE
    assert world.held() == dict(world.publisher.held)
    assert world.stream.counts["gaps"] == 1
    assert world.stream.counts["repaired"] == lost + 2
    assert not world.stream.approximate


def test_a_gap_older_than_the_buffer_is_unrepaired_until_a_clear():
    world = joined(2, buffer_steps=3)
    chain(world, 3, 9)
    world.wire.clear()
    chain(world, 10, 10)
    deliver_all(world)
    world.answer()
    assert world.stream.state is S.UNREPAIRED
    assert world.stream.approximate == {Approximation.UNREPAIRED}
    assert world.stream.counts["missed"] == 5
    world.send(world.publisher.clear())
    deliver_all(world)
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.COMPLETE)
    assert not world.stream.approximate


def test_a_gap_without_a_replay_endpoint_is_unrepaired_at_once():
    world = joined(0, replay=False)
    chain(world, 1, 2)
    chain(world, 3, 3)
    deliver_all(world)
    chain(world, 4, 4)
    world.wire.clear()
    chain(world, 5, 5)
    deliver_all(world)
    assert world.stream.state is S.UNREPAIRED
    assert world.stream.counts["missed"] == 1


def test_a_replay_that_never_answers_is_given_up_after_three_requests():
    world = joined(2)
    chain(world, 3, 3)
    world.wire.clear()
    chain(world, 4, 4)
    deliver_all(world)
    world.wait(6.25)
    assert world.stream.state is S.UNREPAIRED
    assert dict(world.stream.replays)["timed-out"] == 3
    assert len(world.asks) == 3


def test_a_slow_reader_of_replay_asks_again_until_it_has_everything():
    world = World(buffer_steps=1000)
    chain(world, 1, 900)
    world.connect()
    world.answer(keep=250, end=False)
    for _ in range(3):
        world.wait(2.25)
        assert world.asks[-1].start == world.stream.last
        world.answer(keep=251, end=False)
    world.wait(2.25)
    world.answer()
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.COMPLETE)
    assert world.held() == dict(world.publisher.held)
    assert not world.stream.approximate


def test_a_hole_inside_a_replay_is_asked_for_at_once():
    world = World()
    chain(world, 1, 6)
    world.connect()
    ask = world.asks.pop()
    for sequence, payload in list(world.publisher.buffer)[:2] + list(world.publisher.buffer)[4:]:
        world.stream.reply(ask.token, sequence, payload, world.now)
        world.settle()
    assert [again.start for again in world.asks] == [1]
    world.answer()
    assert world.held() == dict(world.publisher.held)


def test_answers_to_an_older_request_are_late():
    world = World()
    chain(world, 1, 3)
    world.connect()
    late = world.asks.pop()
    world.wait(2.25)
    world.stream.reply(late.token, 0, b"anything", world.now)
    world.stream.reply_end(late.token, world.now)
    assert world.stream.state is S.SYNCING
    world.answer()
    assert world.held() == dict(world.publisher.held)


def test_going_back_with_traffic_leaves_no_block_of_the_old_life():
    world = joined(5)
    world.publisher.restart()
    world.send(world.publisher.store([77], None))
    deliver_all(world)
    assert world.stream.state is S.SYNCING
    assert world.held() == {}
    world.answer()
    assert set(world.held()) == {(77, "GPU", 0)}
    assert world.stream.counts["resets"] == 1


def test_sequence_forty_nine_then_zero_without_replay_is_a_new_life():
    world = World(replay=False)
    world.connect()
    chain(world, 1, 50)
    deliver_all(world)
    world.publisher.restart()
    world.send(world.publisher.store([7], None))
    world.send(world.publisher.store([8], 7))
    deliver_all(world)
    assert set(world.held()) == {(7, "GPU", 0), (8, "GPU", 0)}
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.COMPLETE)


@pytest.mark.parametrize("batches", [0, 3, 20])
def test_a_restart_behind_a_reconnection_is_found_by_comparing_the_last_batch(batches):
    world = joined(6)
    world.disconnect()
    world.publisher.restart()
    for number in range(batches):
        world.publisher.store([100 + number], None)
    world.connect()
    assert world.asks[-1].start == 5
    world.answer()
    world.answer()
    assert world.held() == dict(world.publisher.held)
    assert world.stream.counts["resets"] == 1
    assert not world.stream.approximate


def test_a_silent_restart_is_found_after_sixty_seconds():
    world = joined(6)
    world.wait(1.25)
    world.answer()
    world.publisher.restart()
    world.wait(59)
    assert world.asks == []
    world.wait(2)
    world.answer()
    world.answer()
    assert world.held() == {}
    assert world.stream.state is S.LIVE


def test_silence_that_a_replay_confirms_is_idle():
    world = joined(3)
    world.wait(1.25)
    world.answer()
    before = world.stream.confirmed
    world.wait(62)
    world.answer()
    assert world.stream.confirmed.mono > before.mono + 60
    assert world.stream.state is S.LIVE


def test_a_lost_tail_is_found_and_applied_without_a_further_event():
    world = joined(3)
    world.wait(1.25)
    world.answer()
    chain(world, 4, 8)
    world.wire.clear()
    world.wait(62)
    world.answer()
    assert len(world.held()) == 3
    world.wait(1.25)
    assert world.held() == dict(world.publisher.held)
    assert world.stream.counts["repaired"] == 5
    assert not world.stream.approximate


def test_a_replayed_tail_that_arrives_live_in_time_is_no_loss():
    world = joined(3)
    chain(world, 4, 6)
    world.wait(1.25)
    world.answer()
    deliver_all(world)
    world.wait(2)
    assert world.stream.counts["repaired"] == 0
    assert world.stream.counts["gaps"] == 0
    assert world.held() == dict(world.publisher.held)


def test_a_tail_beyond_the_buffer_is_unrepaired():
    world = joined(3, buffer_steps=4)
    world.wait(1.25)
    world.answer()
    chain(world, 4, 12)
    world.wire.clear()
    world.wait(62)
    world.answer()
    world.wait(1.25)
    world.answer()
    assert world.stream.state is S.UNREPAIRED
    assert world.stream.counts["missed"] == 5


def test_an_undecodable_batch_is_counted_not_asked_for_and_makes_approximate():
    world = joined(1)
    world.publisher.sequence += 1
    world.stream.message(1, b"\x93damage", world.now)
    chain(world, 2, 2)
    deliver_all(world)
    assert world.stream.state is S.LIVE
    assert world.stream.approximate == {Approximation.UNDECODABLE}
    assert world.asks == []
    assert world.stream.last == 2


def test_a_reconnection_without_replay_cannot_be_verified():
    world = World(replay=False)
    world.connect()
    chain(world, 1, 3)
    deliver_all(world)
    world.disconnect()
    world.connect()
    assert world.stream.approximate == {Approximation.UNVERIFIED}
    world.send(world.publisher.clear())
    deliver_all(world)
    assert not world.stream.approximate


def test_a_connection_that_is_away_marks_the_blocks_after_a_bound_and_a_replay_confirms_them():
    world = joined(3)
    world.disconnect()
    world.wait(world.stream.limits.apart - 0.25)
    assert not world.stream.approximate
    world.wait(0.25)
    assert world.stream.approximate == {Approximation.DISCONNECTED}
    world.connect()
    assert (world.stream.state, world.stream.approximate) == (S.SYNCING, {Approximation.DISCONNECTED})
    world.answer()
    assert (world.stream.state, world.stream.approximate) == (S.LIVE, set())
    assert len(world.held()) == 3
    world.wait(30)
    assert not world.stream.approximate


def test_a_connection_that_stays_away_gets_new_sockets_ever_more_rarely_and_keeps_its_age():
    world = joined(3)
    world.disconnect()
    since = world.stream.since
    opened = []
    for _ in range(4 * 200):
        before = len(world.orders)
        world.wait(0.25)
        if world.orders[before:]:
            assert world.orders[before:] == ["close", "open"]
            opened.append(world.mono - since.mono)
    assert opened == [15.0, 45.0, 105.0, 165.0]
    assert (world.stream.state, world.stream.since, world.stream.counts["reconnects"]) == (S.CONNECTING, since, 4)
    world.connect()
    world.answer()
    world.disconnect()
    before = len(world.orders)
    world.wait(15)
    assert world.orders[before:] == ["close", "open"]


def test_what_ends_the_connection_before_a_handshake_is_told_and_not_called_nothing():
    world = World()
    world.stream.disconnected(world.now)
    assert "before a handshake" in world.stream.detail
    world.connect()
    assert world.stream.detail == ""


def test_a_restart_that_is_told_while_away_forgets_at_once():
    world = joined(3)
    world.disconnect()
    world.publisher.restart()
    world.tell_restarted()
    assert (world.held(), world.stream.last, world.stream.confirmed) == ({}, -1, None)
    world.publisher.store([7], None)
    world.connect()
    world.answer()
    assert (world.stream.state, world.stream.history, world.stream.approximate) == (S.LIVE, History.COMPLETE, set())
    assert set(world.held()) == {(7, "GPU", 0)}


def test_a_restart_that_is_told_while_connected_is_unverified_until_the_replay_shows_the_life():
    world = joined(3)
    world.tell_restarted()
    assert (world.stream.state, world.stream.approximate) == (S.LIVE, {Approximation.UNVERIFIED})
    world.answer()
    assert (len(world.held()), world.stream.approximate) == (3, set())
    world.publisher.restart()
    world.publisher.store([7], None)
    world.tell_restarted()
    world.answer()
    world.answer()
    assert (set(world.held()), world.stream.approximate) == ({(7, "GPU", 0)}, set())


def test_a_restart_that_the_stream_saw_itself_is_not_doubted_again():
    world = joined(3)
    world.disconnect()
    world.publisher.restart()
    world.connect()
    world.answer()
    world.answer()
    assert (world.stream.state, world.stream.last) == (S.LIVE, -1)
    chain(world, 1, 1)
    deliver_all(world)
    world.tell_restarted()
    assert (world.stream.state, world.stream.approximate, world.asks) == (S.LIVE, set(), [])


def test_a_batch_held_from_a_former_connection_is_never_applied():
    world = joined(3)
    chain(world, 4, 4)
    world.wire.clear()
    chain(world, 5, 6)
    deliver_all(world)
    assert world.stream.state is S.GAP
    world.disconnect()
    world.publisher.restart()
    world.publisher.store([77], None)
    world.connect()
    world.answer()
    world.answer()
    assert set(world.held()) == {(77, "GPU", 0)}
    assert not world.stream.approximate
    assert world.stream.state is S.LIVE


def test_a_resumption_that_nobody_answers_is_unverified_until_the_same_batch_is_seen_again():
    world = joined(3)
    world.disconnect()
    world.connect()
    world.wait(6.25)
    assert (world.stream.state, world.stream.approximate) == (S.LIVE, {Approximation.UNVERIFIED})
    world.wait(1.25)
    world.answer()
    assert not world.stream.approximate


def test_a_full_buffer_drops_all_and_asks_again():
    limits = StreamLimits(held_batches=5)
    world = World(limits=limits)
    chain(world, 1, 2)
    world.connect()
    chain(world, 3, 12)
    deliver_all(world)
    assert world.stream.counts["held_dropped"] >= 6
    world.come_to_rest()
    assert world.held() == dict(world.publisher.held)
    assert not world.stream.approximate


def test_live_copies_of_a_long_replay_are_duplicates_not_a_new_life():
    world = World(buffer_steps=5000)
    chain(world, 1, 3000)
    copies = list(world.publisher.buffer)
    world.connect()
    world.answer()
    for sequence, payload in copies:
        world.stream.message(sequence, payload, world.now)
    assert world.stream.counts["resets"] == 0
    assert world.stream.counts["duplicates"] == 3000


def test_a_socket_that_cannot_be_made_backs_off_and_tries_again():
    world = World()
    waits = []
    for _ in range(3):
        world.orders.clear()
        world.stream.socket_failed("tcp://nowhere: bad", world.now)
        world.settle()
        assert (world.stream.state, world.orders) == (S.BROKEN, ["close"])
        before = world.mono
        while world.stream.state is S.BROKEN:
            world.wait(0.25)
        waits.append(world.mono - before)
    assert waits == [1.0, 2.0, 4.0]


def test_the_fast_path_is_the_tables_row():
    assert TABLE[S.LIVE, E.NEXT] == (S.LIVE, (A.APPLY,))


def test_the_table_names_every_state_event_and_action():
    states = {state for state, _ in TABLE} | {after for after, _ in TABLE.values()}
    assert states == set(S)
    assert {event for _, event in TABLE} == set(E)
    assert {action for _, actions in TABLE.values() for action in actions} == set(A)


@pytest.mark.parametrize("state", [S.SYNCING, S.LIVE, S.GAP, S.REPLAYING, S.UNREPAIRED])
def test_every_connected_state_answers_every_message(state):
    for event in (E.NEXT, E.DUPLICATE, E.AHEAD, E.OTHER, E.REPLY_NEXT, E.REPLY_OTHER, E.DISCONNECTED, E.SOCKET_FAILED):
        assert (state, event) in TABLE, (state, event)


def test_checksums_keep_the_window_and_more_when_grown():
    sums = Checksums(4, 8)
    for sequence in range(6):
        sums.note(sequence, sequence * 10)
    assert [sums.of(sequence) for sequence in range(7)] == [None, None, 20, 30, 40, 50, None]
    sums.grow(4)
    for sequence in range(6, 10):
        sums.note(sequence, sequence * 10)
    assert [sums.of(sequence) for sequence in (2, 3, 9)] == [20, 30, 90]
    sums.grow(100)
    sums.forget()
    assert (sums.last, sums.of(9)) == (-1, None)


def test_held_batches_are_bounded_in_bytes_too():
    held = Held(100, 10)
    assert held.put(1, 0, b"12345") == 0
    assert held.put(1, 0, b"123456") == 0
    assert held.put(2, 0, b"12345") == 2
    assert len(held) == 0


def test_an_empty_publisher_that_is_gone_for_long_is_not_known_to_hold_nothing():
    world = joined(0)
    assert world.stream.synced
    world.disconnect()
    lost = world.now
    world.wait(3600)
    assert world.stream.approximate == {Approximation.DISCONNECTED}
    assert world.stream.stale_since == lost
    pairs = [(world.blocks, world.stream)]
    assert world.ledger.lookup(world.blocks.source.key.deployment, [1], pairs, world.now).unknown
    world.connect()
    world.answer()
    assert not world.stream.approximate
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.COMPLETE)


def test_an_empty_publisher_whose_replay_does_not_answer_after_a_reconnection_is_not_known():
    world = joined(0)
    world.disconnect()
    world.publisher.store([1], None)
    world.connect()
    world.wait(10)
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.PARTIAL)
    assert world.stream.confirmed is None
    assert not world.stream.synced
    world.wait(62, answer=True)
    assert world.held() == {(1, "GPU", 0): 1}
    assert (world.stream.history, world.stream.approximate) == (History.COMPLETE, set())


def test_an_empty_publisher_known_to_have_restarted_is_not_known_until_it_is_read():
    world = joined(0)
    world.disconnect()
    world.tell_restarted()
    assert not world.stream.synced
    world.publisher.restart()
    world.connect()
    world.answer()
    assert world.stream.synced
    assert world.stream.history is History.COMPLETE


@pytest.mark.parametrize(
    "limits", [StreamLimits(held_batches=3), StreamLimits(held_bytes=200)], ids=["batches", "bytes"]
)
@pytest.mark.parametrize("known", [0, 2], ids=["nothing", "something"])
def test_a_lost_tail_that_is_longer_than_may_wait_is_read_in_order_and_not_taken_for_nothing(limits, known):
    world = joined(known, limits=limits)
    chain(world, known + 1, known + 20)
    world.wire.clear()
    world.wait(61)
    world.answer()
    assert (world.stream.state, world.stream.counts["gaps"]) == (S.GAP, int(known > 0))
    assert world.stream.counts["held_dropped"] > 0
    world.wait(3, answer=True)
    assert (world.stream.state, world.stream.history) == (S.LIVE, History.COMPLETE)
    assert world.held() == dict(world.publisher.held)
    assert not world.stream.approximate
