"""Who the replicas of a release are: each keeps a Lease of its own with its addresses, and watches those of all.

Whether a replica lives, or still holds its shard, is decided by our own monotonic clock, from when we saw its Lease
change; nobody's wall clock is believed. Only who may write Leases in our namespace can be a replica.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from observer.clock import Clock
from observer.kube.answers import Outcome
from observer.kube.cache import Change, ChangeKind
from observer.kube.client import APPLY, ApiClient
from observer.kube.electing import Timing, micro_time
from observer.kube.informer import Informer
from observer.kube.records import Document, watched_documents
from observer.kube.resources import LEASES
from observer.kube.watching import WatchTuning

_log = logging.getLogger(__name__)

PREFIX = "observer.modeldeployment.io/"
RELEASE, SHARD, KIND = f"{PREFIX}release", f"{PREFIX}shard", f"{PREFIX}lease"
"""Labels of our Leases: whose they are, which shard they are about, and `OF_SHARD` or `OF_MEMBER`."""
OF_SHARD, OF_MEMBER = "shard", "member"
API, HTTP, DRAINING, HANDED = f"{PREFIX}api", f"{PREFIX}http", f"{PREFIX}draining", f"{PREFIX}handed"
"""Annotations of a replica's Lease: URLs of its two listeners, that it is about to end, and what it hands over."""
MANAGER = "modeldeployment-observer"
_NO_NAME = re.compile(r"[^a-z0-9.-]")
DEAD_AFTER = 20.0
"""After so many durations of silence a replica's Lease is deleted by whoever leads its shard."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as its Lease says. ``handed`` is the SHA-256 (hex) of what it hands over now, empty for nothing."""

    identity: str
    shard: int
    api: str = ""
    http: str = ""
    draining: bool = False
    handed: str = ""


def lease_name(name: str, shard: int, identity: str = "") -> str:
    """The Lease of a shard, or of one replica of it."""
    whole = f"{name}-{shard}-{identity}" if identity else f"{name}-{shard}"
    return _NO_NAME.sub("-", whole.lower())[:253].rstrip("-.")


def labels_of(name: str, shard: int, kind: str) -> dict[str, str]:
    """The labels of a Lease of ours."""
    return {RELEASE: name, SHARD: str(shard), KIND: kind}


def member_of(body: Mapping[str, Any]) -> Member | None:
    """The replica that a Lease is about; ``None`` for another kind of Lease and for one that cannot be read."""
    meta, spec = body.get("metadata") or {}, body.get("spec") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    shard, identity = str(labels.get(SHARD, "")), str(spec.get("holderIdentity") or "")
    if labels.get(KIND) != OF_MEMBER or not shard.isdecimal() or not identity:
        return None
    return Member(
        identity=identity,
        shard=int(shard),
        api=str(notes.get(API, "")),
        http=str(notes.get(HTTP, "")),
        draining=notes.get(DRAINING) == "true",
        handed=str(notes.get(HANDED, "")),
    )


class Membership:
    """Keeps our Lease and watches the others'. ``heard`` is called whenever a Lease of the release changed."""

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        me: Member,
        timing: Timing,
        chance: Callable[[], float],
        heard: Callable[[], None],
        tuning: WatchTuning = WatchTuning(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._heard = heard
        self._seen: dict[str, float] = {}
        self.me = me
        watched = watched_documents(LEASES, namespace, label_selector=f"{RELEASE}={name}")
        self._informer = Informer(client, watched, clock, on_change=self._changed, chance=chance, tuning=tuning)
        self.trouble = ""
        """Why our own Lease could not be written last, empty while it can."""

    @property
    def runs(self) -> tuple[tuple[str, Callable[[], Awaitable[None]]], ...]:
        """What must be kept running."""
        return (("watch the replicas' Leases", self._informer.run), ("keep this replica's Lease", self._keep))

    def members(self) -> tuple[Member, ...]:
        """The other replicas that live, by name."""
        now = self._clock.now().mono
        found = [
            member
            for lease in self._informer
            if now - self._seen.get(lease.name, now) < self._timing.duration
            and (member := member_of(lease.body)) is not None
            and member.identity != self.me.identity
        ]
        return tuple(sorted(found, key=lambda each: each.identity))

    def member(self, identity: str) -> Member | None:
        """Another replica that lives, by its name."""
        return next((each for each in self.members() if each.identity == identity), None)

    def holder(self, shard: int) -> str:
        """Who holds a shard's Lease and has not let it run out, empty for nobody."""
        lease = self._informer.get(lease_name(self._name, shard), self._namespace)
        spec = lease.body.get("spec") or {} if lease is not None else {}
        seconds = float(spec.get("leaseDurationSeconds") or 0)
        if lease is None or self._clock.now().mono - self._seen.get(lease.name, 0.0) >= seconds:
            return ""
        return str(spec.get("holderIdentity") or "")

    def known(self, shard: int) -> bool:
        """Whether a shard's Lease is there, whoever holds it."""
        return self._informer.get(lease_name(self._name, shard), self._namespace) is not None

    async def announce(self, *, draining: bool | None = None, handed: str | None = None) -> bool:
        """Write our Lease now, with what is new to say. Whether it was taken."""
        changes = {"draining": draining, "handed": handed}
        self.me = msgspec.structs.replace(
            self.me, **{key: value for key, value in changes.items() if value is not None}
        )
        answer = await self._client.request(
            "PATCH",
            LEASES.path(self._own_name, self._namespace),
            query={"fieldManager": MANAGER, "force": "true"},
            body=self._lease(),
            content_type=APPLY,
            seconds=self._timing.deadline,
            urgent=True,
        )
        trouble = "" if answer.ok else f"{answer.outcome}: {answer.message}"
        if trouble and trouble != self.trouble:
            _log.warning("the Lease of this replica, %s/%s: %s", self._namespace, self._own_name, trouble)
        self.trouble = trouble
        return answer.ok

    async def fetch(self, identity: str, shard: int) -> Member | None:
        """A replica as the API server has it at this moment; ``None`` when it has none or does not answer."""
        path = LEASES.path(lease_name(self._name, shard, identity), self._namespace)
        answer = await self._client.request("GET", path, seconds=self._timing.retry, urgent=True)
        try:
            return member_of(answer.document()) if answer.ok else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    async def leave(self) -> None:
        """Delete our Lease: this replica ends."""
        await self._delete(self._own_name)

    async def sweep(self) -> None:
        """Delete the Leases of replicas of our shard that have been silent for long."""
        now, bound = self._clock.now().mono, DEAD_AFTER * self._timing.duration
        for lease in list(self._informer):
            member = member_of(lease.body)
            silent = now - self._seen.get(lease.name, now) > bound
            if member is not None and member.shard == self.me.shard and silent and member.identity != self.me.identity:
                await self._delete(lease.name)

    @property
    def _own_name(self) -> str:
        return lease_name(self._name, self.me.shard, self.me.identity)

    def _lease(self) -> dict[str, Any]:
        me = self.me
        notes = {API: me.api, HTTP: me.http, DRAINING: "true" if me.draining else "", HANDED: me.handed}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": self._own_name,
                "labels": labels_of(self._name, me.shard, OF_MEMBER),
                "annotations": {key: value for key, value in notes.items() if value},
            },
            "spec": {
                "holderIdentity": me.identity,
                "leaseDurationSeconds": int(self._timing.duration),
                "renewTime": micro_time(self._clock.now().wall),
            },
        }

    async def _keep(self) -> None:
        while True:
            await self.announce()
            await asyncio.sleep(self._timing.duration / 3)

    async def _delete(self, name: str) -> None:
        answer = await self._client.request(
            "DELETE", LEASES.path(name, self._namespace), seconds=self._timing.retry, urgent=True
        )
        if not answer.ok and answer.outcome is not Outcome.NOT_FOUND:
            _log.info("the Lease %s/%s is left: %s: %s", self._namespace, name, answer.outcome, answer.message)

    def _changed(self, change: Change[Document]) -> None:
        if change.kind is ChangeKind.DELETED:
            self._seen.pop(change.record.name, None)
        else:
            self._seen[change.record.name] = self._clock.now().mono
        self._heard()
