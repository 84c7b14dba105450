"""Which deployments are this replica's, by the Lease of its shard, and who owns the others.

Two bounds, because two things can go wrong. Who cannot renew in time *writes* no more, by its own monotonic clock, so two
never write at once. It goes on *observing* until another is seen to hold the Lease: while the API server is away nobody
can take over, and an outage of the control plane must not blind us.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from observer.clock import Clock
from observer.kube.elector import Elector
from observer.kube.membership import Membership
from observer.kube.shards import shard_of

_log = logging.getLogger(__name__)

LOOK = 0.5
"""How often it is looked whether somebody else holds our shard, in seconds: what no event told."""
SWEEP = 60.0
"""How often Leases of replicas that died are looked for, in seconds."""


class ShardOwnership:
    """`observer.kube.ownership.Ownership` of one shard among ``count``."""

    def __init__(self, elector: Elector, membership: Membership, clock: Clock, *, shard: int, count: int) -> None:
        self._elector = elector
        self._membership = membership
        self._clock = clock
        self._shard = shard
        self._count = count
        self._changed: list[Callable[[], None]] = []
        self._gave_up = False
        self.holds = False
        """Whether this replica observes its shard."""

    def owns(self, uid: str) -> bool:
        """Whether a deployment is observed here."""
        return self.holds and shard_of(uid, self._count) == self._shard

    def writes(self) -> bool:
        """Whether anything may be written at this very moment."""
        return self.holds and self._elector.leads

    def owner(self, uid: str) -> str | None:
        """The name of the replica that owns a deployment; ``None`` when it is this one, or nobody is known."""
        if self.owns(uid):
            return None
        found = self._membership.holder(shard_of(uid, self._count))
        return found if found and found != self._membership.me.identity else None

    def owners(self) -> frozenset[str]:
        """Every other replica that owns something."""
        holders = {self._membership.holder(shard) for shard in range(self._count)}
        return frozenset(holders - {"", self._membership.me.identity})

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call this whenever an answer of `owns` may have changed."""
        self._changed.append(changed)

    def standing(self) -> tuple[bool, str]:
        """Whether it is known who owns our shard, and one sentence. Once known, a change of owner is no trouble."""
        if self.holds:
            return True, f"this replica owns shard {self._shard}"
        if self._membership.known(self._shard):
            return True, f"shard {self._shard} is owned by {self._membership.holder(self._shard) or 'nobody'}"
        why = self._elector.trouble or "no answer yet"
        return False, f"it is not known who owns shard {self._shard}: {why}"

    def look(self) -> None:
        """Compare what we hold with what the Lease says; tell when that changed."""
        before = self.holds
        if self._gave_up:
            self.holds = False
        elif self._elector.leads:
            self.holds = True
        elif before:
            me = self._membership.me.identity
            others = {self._elector.holder, self._membership.holder(self._shard)} - {"", me}
            self.holds = not others
        if self.holds != before:
            _log.info("this replica %s shard %d", "owns" if self.holds else "does not own", self._shard)
            for changed in self._changed:
                changed()

    def heard(self) -> None:
        """A Lease changed. One that nobody holds is asked for at once."""
        if not self._gave_up and not self._elector.leads and not self._membership.holder(self._shard):
            self._elector.poke()
        self.look()

    async def run(self) -> None:
        """Look again and again; whoever leads also removes what dead replicas left."""
        swept = self._clock.now().mono
        while True:
            self.look()
            if self.writes() and self._clock.now().mono - swept >= SWEEP:
                swept = self._clock.now().mono
                await self._membership.sweep()
            await asyncio.sleep(LOOK)

    def give_up(self) -> None:
        """Own nothing from now on: the replica ends. The Lease is released by whoever runs the election."""
        self._gave_up = True
        self.look()
