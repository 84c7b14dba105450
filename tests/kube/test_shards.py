"""Shards: the hash is the published one, shards are of a size, one more moves only its share."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.kube.shards import fnv1a, jump, shard_of

KEYS = st.integers(0, (1 << 64) - 1)
UIDS = [str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128))) for number in range(4000)]


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
    ids=["nothing", "a", "foobar"],
)
def test_the_hash_is_fnv_1a_of_64_bits(data: bytes, value: int) -> None:
    assert fnv1a(data) == value


@pytest.mark.parametrize(
    ("key", "count", "bucket"),
    [(1, 1, 0), (42, 57, 43), (0xDEAD10CC, 666, 361), (256, 1024, 520), (0, 60, 0), (1, 60, 55), (2, 60, 46)],
    ids=str,
)
def test_the_bucket_is_that_of_jump_consistent_hash(key: int, count: int, bucket: int) -> None:
    assert jump(key, count) == bucket


@given(KEYS, st.integers(1, 256))
def test_a_bucket_is_one_of_them(key: int, count: int) -> None:
    assert 0 <= jump(key, count) < count


@given(KEYS, st.integers(1, 255))
def test_one_more_shard_takes_its_share_and_moves_nothing_else(key: int, count: int) -> None:
    before, after = jump(key, count), jump(key, count + 1)
    assert after in {before, count}


@pytest.mark.parametrize("count", [2, 3, 8, 16])
def test_shards_are_of_about_the_same_size(count: int) -> None:
    sizes = Counter(shard_of(uid, count) for uid in UIDS)
    assert len(sizes) == count
    mean = len(UIDS) / count
    assert max(sizes.values()) < 1.25 * mean
    assert min(sizes.values()) > 0.75 * mean


@pytest.mark.parametrize("count", [1, 2, 7])
def test_about_one_in_n_moves_to_a_new_shard(count: int) -> None:
    moved = sum(shard_of(uid, count) != shard_of(uid, count + 1) for uid in UIDS)
    assert moved == pytest.approx(len(UIDS) / (count + 1), rel=0.15)


def test_no_shard_is_an_error() -> None:
    with pytest.raises(ValueError, match="wanted at least 1"):
        jump(1, 0)
