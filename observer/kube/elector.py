"""Holds a Lease: reads, takes, renews and gives it up, as `electing` decides. Times come from our clock only.

`Elector.leads` is a comparison with the clock, so it turns False by itself even if this task hangs in a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from observer.clock import Clock
from observer.kube.answers import Answer, Outcome
from observer.kube.client import ApiClient
from observer.kube.electing import (
    LeaseRecord,
    Standing,
    Step,
    Timing,
    call_limit,
    held,
    next_step,
    pause,
    released,
    seen,
    spec_of,
)
from observer.kube.resources import LEASES

_log = logging.getLogger(__name__)
_NONE: Mapping[str, str] = MappingProxyType({})


class Elector:
    """One participant in the election of one Lease.

    ``on_change`` is called with True when we begin to lead and with False when we stop; ``chance`` draws from [0, 1).
    ``labels`` are those of a Lease that we make.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        on_change: Callable[[bool], None],
        chance: Callable[[], float],
        timing: Timing = Timing(),  # noqa: B008 - frozen
        labels: Mapping[str, str] = _NONE,
    ) -> None:
        self._client = client
        self._labels = dict(labels)
        self._poked = asyncio.Event()
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._on_change = on_change
        self._chance = chance
        self._timing = timing
        self._standing = Standing(identity=identity)
        self._document: dict[str, Any] = {}
        self._led = False
        self.trouble = ""
        """What the last failed call said, empty while calls succeed."""

    @property
    def leads(self) -> bool:
        """Whether we lead at this very moment."""
        return self._standing.leads(self._clock.now().mono, self._timing)

    @property
    def holder(self) -> str:
        """Who holds the Lease by the last reading, empty for nobody or not known."""
        record = self._standing.record
        return (record.holder_identity or "") if record is not None else ""

    async def run(self) -> None:
        """Take part until cancelled. Cancelling gives nothing up: call `release` once the leader's work has stopped."""
        while True:
            await self._turn()
            self._tell()
            now = self._clock.now().mono
            wait = pause(self._standing, now, self._timing, self._chance())
            if self._standing.renewed_at is not None:
                # Woken at the deadline at the latest, so that the end of leading is told when it comes.
                wait = min(wait, max(0.0, self._standing.renewed_at + self._timing.deadline - now))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._poked.wait()
            self._poked.clear()
            self._tell()

    def poke(self) -> None:
        """Try now instead of after the pause: somebody saw the Lease change hands."""
        self._poked.set()

    async def release(self) -> bool:
        """Give the Lease up, so that another need not wait for it to run out. Whether that was done.

        A renewal that was cancelled on its way may have been taken: then the version is read once more.
        """
        done = False
        for _ in range(2):
            record = released(self._standing, self._clock.now().wall)
            if record is None:
                break
            answer = await self._write("PUT", record, self._timing.retry)
            done = answer.ok
            if answer.outcome is not Outcome.CONFLICT or not await self._read():
                break
        self._standing = msgspec.structs.replace(self._standing, renewed_at=None)
        self._tell()
        return done

    async def _turn(self) -> None:
        """One try: a leader renews blind by the version it knows and reads only when that fails."""
        leading = self._standing.leads(self._clock.now().mono, self._timing)
        if leading and await self._hold("PUT"):
            return
        if not await self._read():
            return
        step = next_step(self._standing, self._clock.now().mono)
        if step is not Step.WAIT:
            await self._hold("POST" if step is Step.CREATE else "PUT")

    async def _read(self) -> bool:
        now = self._clock.now().mono
        path = LEASES.path(self._name, self._namespace)
        answer = await self._client.request(
            "GET", path, seconds=call_limit(self._standing, now, self._timing), urgent=True
        )
        if answer.outcome is Outcome.NOT_FOUND:
            self._document = {}
            self._standing = seen(self._standing, None, "", self._clock.now().mono)
            return True
        return self._take_in(answer)

    async def _hold(self, method: str) -> bool:
        """Write that we hold it. The renewal counts from before the call: the server may have taken it at once."""
        begun = self._clock.now()
        record = held(self._standing, begun.wall, self._timing)
        answer = await self._write(method, record, call_limit(self._standing, begun.mono, self._timing))
        if answer.ok:
            self._standing = msgspec.structs.replace(self._standing, renewed_at=begun.mono)
        return answer.ok

    async def _write(self, method: str, record: LeaseRecord, seconds: float) -> Answer:
        fresh = {"name": self._name, "namespace": self._namespace, "labels": self._labels}
        metadata = self._document.get("metadata") or fresh
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": spec_of(record, self._document.get("spec") or {}),
        }
        create = method == "POST"
        path = LEASES.collection(self._namespace) if create else LEASES.path(self._name, self._namespace)
        answer = await self._client.request(method, path, body=body, seconds=seconds, urgent=True)
        self._take_in(answer)
        return answer

    def _take_in(self, answer: Answer) -> bool:
        """Keep the Lease of an answer. Whether it was one."""
        if not answer.ok:
            # That somebody was faster is how elections go, and no trouble.
            if answer.outcome is not Outcome.CONFLICT:
                self._failed(f"{answer.outcome}: {answer.message}")
            return False
        try:
            lease = _lease(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._failed(f"cannot be read: {error}")
            return False
        self.trouble = ""
        self._document = answer.document()
        version = str(self._document.get("metadata", {}).get("resourceVersion", ""))
        self._standing = seen(self._standing, lease.spec, version, self._clock.now().mono)
        return True

    def _failed(self, trouble: str) -> None:
        if trouble != self.trouble:
            _log.warning("Lease %s/%s: %s", self._namespace, self._name, trouble)
        self.trouble = trouble

    def _tell(self) -> None:
        leads = self.leads
        if leads != self._led:
            self._led = leads
            verb = "leads" if leads else "does not lead any more"
            _log.info("%s %s by Lease %s/%s", self._standing.identity, verb, self._namespace, self._name)
            self._on_change(leads)


class _Lease(msgspec.Struct):
    spec: LeaseRecord = LeaseRecord()


_lease = msgspec.json.Decoder(_Lease).decode
