"""The prefix cache: what it matches, what it announces, and that the announcements alone tell what it holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from observer.simulate.kv_hook import NoKvEvents
from observer.simulate.prefix_cache import PrefixCache, block_hashes, tokenize


class Listener(NoKvEvents):
    """Keeps what a subscriber could know."""

    def __init__(self) -> None:
        self.held: dict[int, int | None] = {}
        self.clears = 0

    def stored(self, rank, hashes, parent, token_ids, block_size) -> None:
        assert len(token_ids) == len(hashes) * block_size
        assert list(hashes) == block_hashes(token_ids, block_size, signed=False, parent=parent)
        for block in hashes:
            self.held[block], parent = parent, block

    def removed(self, rank, hashes) -> None:
        for block in hashes:
            del self.held[block]

    def cleared(self, rank) -> None:
        self.held.clear()
        self.clears += 1


def cache(listener: Listener, capacity: int = 8, size: int = 2) -> PrefixCache:
    return PrefixCache(0, size, capacity, signed=False, hook=listener)


@given(st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=30), st.integers(6, 12))
def test_the_announcements_alone_tell_what_is_held(prompts: list[list[int]], capacity: int) -> None:
    listener = Listener()
    made = cache(listener, capacity)
    for prompt in prompts:
        matched = made.match(prompt)
        assert matched % 2 == 0
        assert matched < max(len(prompt), 1)
        made.store(prompt)
        assert set(listener.held) == set(made._held)
        assert len(made) <= capacity


def test_a_stored_prompt_is_matched_but_for_its_last_token() -> None:
    made = cache(Listener())
    made.store([1, 2, 3, 4])
    assert made.match([1, 2, 3, 4]) == 2
    assert made.match([1, 2, 3, 4, 5]) == 4
    assert made.match([9, 2, 3, 4, 5]) == 0


def test_a_clear_is_announced_at_once_or_at_the_next_step() -> None:
    listener = Listener()
    made = cache(listener)
    made.store([1, 2])
    made.clear(at_next_step=True)
    assert listener.clears == 0
    made.store([3, 4])
    assert listener.clears == 1
    assert len(listener.held) == 1
    made.clear(at_next_step=False)
    assert listener.clears == 2


def test_hashes_follow_the_tokens_alone_and_have_their_engines_sign() -> None:
    tokens = tokenize("the same words give the same tokens everywhere and always")
    unsigned, signed = (block_hashes(tokens, 2, signed=sign) for sign in (False, True))
    assert unsigned == block_hashes(tokens, 2, signed=False)
    assert all(0 <= value < 2**64 for value in unsigned)
    assert len(set(unsigned)) == len(tokens) // 2
    assert all(-(2**63) <= value < 2**63 for value in signed)
