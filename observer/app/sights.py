"""How the targets of a deployment stand now, told so that what was made of one before is known to hold or not."""

from __future__ import annotations

import math
from typing import Protocol

import msgspec

from exporters.protocols import Sight, Sights
from observer.fleet import Policy, Record
from observer.store import Store
from router_contract.readings import Instant
from router_contract.targets import Deployment, DeploymentKey, Target, TargetKey


class Sheds(Protocol):
    """Tells which targets are left out: `observer.collect.scrape.TargetPool`."""

    @property
    def shed(self) -> tuple[TargetKey, ...]:
        """The wanted targets that are left out because there are too many."""
        ...


class _Seen(Sight, frozen=True, eq=False, gc=False):
    """A target whose age is above ``least`` and at most ``most`` seconds: until then its values stay as they are.

    Every read and failure counts in ``reads``; another target, or the same anew, is another object. The record itself is
    not held: it would keep all of an old read.
    """

    target: Target
    first_seen: Instant
    reads: int
    shed: bool
    least: float
    most: float

    def holds(self, record: Record, age: float | None, *, shed: bool) -> bool:
        """Whether a target that is known as this and so old (seconds) is still shown as it was."""
        return (
            self.reads == record.reads
            and self.target is record.target
            and self.first_seen is record.first_seen
            and self.shed is shed
            and (age is None or self.least < age <= self.most)
        )


class _Last(msgspec.Struct, eq=False):
    """A deployment's targets, and how they stood last."""

    deployment: Deployment
    keys: tuple[TargetKey, ...]
    seen: list[_Seen | None]


class SightBook:
    """Remembers how targets stood when somebody looked last."""

    def __init__(self, store: Store, pool: Sheds) -> None:
        self._store = store
        self._pool = pool
        self._last: dict[DeploymentKey, _Last] = {}

    def keys(self, key: DeploymentKey) -> tuple[TargetKey, ...]:
        """The targets of a deployment; empty for one that is not there."""
        last = self._known(key)
        return () if last is None else last.keys

    def of(self, key: DeploymentKey, now: Instant) -> Sights | None:
        """How a deployment's targets stand; ``None`` when no such deployment exists."""
        last = self._known(key)
        if last is None:
            return None
        shed = frozenset(self._pool.shed)
        seen: list[_Seen] = []
        ages: list[float | None] = []
        for place, each in enumerate(last.keys):
            record = self._store.record(each)
            if record is None:  # the store has one for each target of a deployment
                raise LookupError(f"target {each} has no record")
            age = None if record.read_at is None else now.mono - record.read_at.mono
            out, known = each in shed, last.seen[place]
            if known is None or not known.holds(record, age, shed=out):
                known = _seen(record, age, self._store.policy, shed=out)
            seen.append(known)
            ages.append(age)
        last.seen = [*seen]
        return Sights(last.deployment, now, seen, ages)

    def _known(self, key: DeploymentKey) -> _Last | None:
        deployment, last = self._store.deployment(key), self._last.get(key)
        if deployment is None:
            self._last.pop(key, None)
            return None
        if last is None or last.deployment is not deployment:
            keys = tuple(target.key for target in deployment.targets())
            known = {each.key: each for each in last.seen if each is not None} if last is not None else {}
            last = self._last[key] = _Last(deployment, keys, [known.get(each) for each in keys])
        return last


def _seen(record: Record, age: float | None, policy: Policy, *, shed: bool) -> _Seen:
    """A target as it stands at an age, with the bounds between which its values do not change."""
    bounds = {policy.fresh, policy.expire, policy.longest} if age is not None else set()
    return _Seen(
        key=record.target.key,
        target=record.target,
        first_seen=record.first_seen,
        reads=record.reads,
        shed=shed,
        least=max((bound for bound in bounds if age is not None and bound < age), default=-math.inf),
        most=min((bound for bound in bounds if age is not None and bound >= age), default=math.inf),
    )
