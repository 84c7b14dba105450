"""What an engine tells a KV-event publisher when its prefix cache changes; the publisher lives in its own module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from router_contract.targets import KvEventSource


class KvEventHook(Protocol):
    """Receives prefix-cache changes of one engine, all ranks. Calls come from the event loop and must not block.

    Block hashes are unsigned 64-bit for vLLM and signed 64-bit for SGLang, a function of the tokens from the start of
    the prompt, so equal prompts give equal hashes on every engine of a kind. ``token_ids`` has ``block_size`` entries
    for each hash.
    """

    def started(self) -> None:
        """A new process life begins: sequence numbers start at 0 again and nothing is held."""
        ...

    def stopped(self) -> None:
        """The process is gone; sockets close and nothing is announced."""
        ...

    def closed(self) -> None:
        """No life follows; ports are given back."""
        ...

    def stored(
        self, rank: int, hashes: Sequence[int], parent: int | None, token_ids: Sequence[int], block_size: int
    ) -> None:
        """Blocks are now held. ``parent`` is the hash before the first one, ``None`` at the start of a prompt."""
        ...

    def removed(self, rank: int, hashes: Sequence[int]) -> None:
        """Blocks were evicted."""
        ...

    def cleared(self, rank: int) -> None:
        """Every block of the rank is gone."""
        ...

    def sources(self) -> Sequence[KvEventSource]:
        """Where each rank's publisher can be reached; engines show it in their own discovery endpoint."""
        ...


class NoKvEvents:
    """An engine that publishes nothing."""

    def started(self) -> None:
        """Nothing to do."""

    def stopped(self) -> None:
        """Nothing to do."""

    def closed(self) -> None:
        """Nothing to do."""

    def stored(
        self, rank: int, hashes: Sequence[int], parent: int | None, token_ids: Sequence[int], block_size: int
    ) -> None:
        """Nothing to do."""

    def removed(self, rank: int, hashes: Sequence[int]) -> None:
        """Nothing to do."""

    def cleared(self, rank: int) -> None:
        """Nothing to do."""

    def sources(self) -> Sequence[KvEventSource]:
        """No publishers."""
        return ()
