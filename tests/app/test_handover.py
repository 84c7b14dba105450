"""What one replica hands to the next: the windows are whole before the next one's first read."""

from __future__ import annotations

import lzma
import random

import msgspec
import pytest
from msgspec.structs import replace

from observer.app.handover import BadHandoverError, kept_reads, pack, unpack
from observer.last_read import LastRead
from observer.store import Store
from router_contract.readings import Instant, MissingCode
from router_contract.targets import TargetKey
from tests.fleets import POLICY, at, body, deployment, one, report, store, take, target

TOKENS, TTFT = "prompt-tokens", "time-to-first-token"
BOTH = deployment("a", "b")


def watched(*reads: tuple[float, int]) -> Store:
    """A store that read one member at some moments, and keeps its last body from then on."""
    kept = store()
    kept.set_deployments((BOTH,), at(0))
    kept.kept = {}
    for seconds, tokens in reads:
        counts = tuple(float(tokens // each) for each in (40, 20, 10))
        take(kept, BOTH, "a", body(tokens=tokens, counts=counts), seconds)
    return kept


def handed(old: Store, sent: float, received: Instant) -> Store:
    """The next owner, once it follows the deployment. Its clock is another one."""
    packed = pack(kept_reads(old, POLICY.span), at(sent))
    new = store()
    new.handed = unpack(packed.data, received)
    new.set_deployments((BOTH,), received)
    return new


def test_windows_are_whole_before_the_first_read_and_go_on_with_it() -> None:
    old = watched((0.0, 100), (5.0, 200), (10.0, 400))
    shift = 5000.0
    new = handed(old, 11.0, at(11.0 + shift))
    before, after = one(report(old, 11.0), "a", TOKENS), one(report(new, 11.0 + shift), "a", TOKENS)
    assert (after.value, after.window, after.age_seconds) == (before.value, before.window, 1.0)
    assert after.window is not None
    assert (after.window.increase, after.window.seconds) == (300.0, 10.0)
    there, here = one(report(old, 11.0), "a", TTFT), one(report(new, 11.0 + shift), "a", TTFT)
    assert here.window == there.window
    take(new, BOTH, "a", body(tokens=500, counts=(10.0, 20.0, 50.0)), 15.0 + shift)
    closed = one(report(new, 15.0 + shift), "a", TOKENS).window
    assert closed is not None
    assert (closed.increase, closed.seconds) == (400.0, 15.0)


def test_what_was_counted_between_two_owners_is_lost_in_no_window() -> None:
    """One read is enough for that: it closes a pair with the next owner's first one."""
    new = handed(watched((0.0, 100)), 1.0, at(1.0))
    assert one(report(new, 2.0), "a", TOKENS).window_missing is MissingCode.AWAITING_SECOND_SAMPLE
    take(new, BOTH, "a", body(tokens=130), 5.0)
    closed = one(report(new, 5.0), "a", TOKENS).window
    assert closed is not None
    assert (closed.increase, closed.seconds) == (30.0, 5.0)


def test_a_restart_in_the_window_is_not_carried_over_as_growth() -> None:
    new = handed(watched((0.0, 100), (5.0, 200), (10.0, 7), (15.0, 9)), 16.0, at(16.0))
    window = one(report(new, 16.0), "a", TOKENS).window
    assert window is not None
    assert (window.increase, window.seconds) == (2.0, 5.0)


def test_a_restart_between_two_owners_is_seen() -> None:
    new = handed(watched((0.0, 100), (5.0, 200)), 6.0, at(6.0))
    take(new, BOTH, "a", body(tokens=3), 10.0)
    window = one(report(new, 10.0), "a", TOKENS).window
    assert window is not None
    assert (window.lossy, window.increase) == (True, 103.0)


def test_what_this_replica_read_itself_is_newer_than_what_it_is_handed() -> None:
    new = store()
    new.set_deployments((BOTH,), at(0))
    take(new, BOTH, "a", body(tokens=900), 10.0)
    new.handed = unpack(pack(kept_reads(watched((0.0, 100)), 60.0), at(1.0)).data, at(11.0))
    new.set_deployments((BOTH,), at(12.0))
    assert one(report(new, 12.0), "a", TOKENS).value == 900.0


def test_a_member_that_moved_meanwhile_begins_anew() -> None:
    packed = pack(kept_reads(watched((0.0, 100)), 60.0), at(1.0))
    moved = replace(BOTH.roles[0].replicas[0].members[0], metrics=replace(target(BOTH, "a").address, host="10.0.0.9"))
    there = deployment(members=(moved,))
    new = store()
    new.handed = unpack(packed.data, at(1.0))
    new.set_deployments((there,), at(1.0))
    assert report(new, 2.0).targets[0].status.reads == 0


def test_a_target_that_failed_since_hands_over_what_was_read_before() -> None:
    old = watched((0.0, 100), (5.0, 200))
    assert len(kept_reads(old, 60.0)) == 1
    assert old.kept is not None
    key = target(BOTH, "a").key
    old.kept[key] = replace(old.kept[key], at=at(3.0))
    assert kept_reads(old, 60.0) == {}, "a body that is not the last read is nobody's"


def reads(count: int, size: int) -> dict[TargetKey, LastRead]:
    noise = random.Random(7)
    return {
        TargetKey(BOTH.key, f"uid-{number}", "engine", 8000): LastRead(
            url="http://10.0.0.1:8000/metrics",
            data=noise.randbytes(size),
            content_type="text/plain",
            version=None,
            at=at(0),
            duration=0.1,
        )
        for number in range(count)
    }


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    packed = pack(reads(20, 10_000), at(1.0), most=64 << 10)
    assert len(packed.data) <= 64 << 10
    assert 3 <= packed.targets <= 6
    assert packed.left_out == 20 - packed.targets
    assert len(unpack(packed.data, at(1.0))) == packed.targets
    assert pack(reads(20, 10_000), at(1.0), kept=50_000).targets == 5
    assert pack({}, at(1.0)).targets == 0


def test_many_alike_bodies_fit() -> None:
    """A fleet of one engine: two hundred bodies of 30 kB that differ in their numbers."""
    lines = "".join(f'vllm:some_metric_{number}{{engine="0"}} %d\n' for number in range(800))
    noise = random.Random(3)
    made = {
        key: replace(last, data=(lines % tuple(noise.randrange(100_000) for _ in range(800))).encode())
        for key, last in reads(200, 1).items()
    }
    packed = pack(made, at(1.0))
    assert packed.left_out == 0
    assert len(packed.data) < 1 << 20


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nothing",
        lzma.compress(b"nothing"),
        lzma.compress(msgspec.msgpack.encode({"version": 2, "reads": []})),
        lzma.compress(msgspec.msgpack.encode({"version": 1, "reads": [{"namespace": "x"}]})),
        lzma.compress(bytes(65 << 20), preset=0),
        pack(reads(1, 100), at(1.0)).data[:-8],
        pack(reads(1, 100), Instant(1e9, 1e9)).data,
    ],
    ids=["empty", "no archive", "no message", "another version", "no read", "a bomb", "cut", "too old"],
)
def test_a_message_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(BadHandoverError):
        unpack(data, at(1.0))
