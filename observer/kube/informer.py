"""Follows one resource for ever: list in pages, watch from the list's version, and whatever `watching` says next.

What is held stays while the server is away; `Health` says how old it is and what is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Generic

import msgspec

from observer.clock import Clock
from observer.kube.answers import Answer, Outcome, error_event, no_answer
from observer.kube.cache import Cache, Change
from observer.kube.client import ApiClient
from observer.kube.records import R, VersionOnly, Watched
from observer.kube.watching import Ending, Phase, WatchTuning, direction, ended, plan
from router_contract.readings import Instant

_log = logging.getLogger(__name__)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How an informer does. ``synced`` is True from the first whole list on, and stays.

    ``heard_at`` is when the server last said anything (a list, an event, a bookmark, a watch that served its time).
    ``trouble`` is empty while all is well. ``unread`` objects of the last list or of events since could not be read,
    so absence is no evidence while it is not 0. ``lists`` counts whole lists, ``endings`` what ended each phase.
    """

    synced: bool = False
    heard_at: Instant | None = None
    trouble: str = ""
    outcome: Outcome | Ending = Outcome.OK
    unread: int = 0
    lists: int = 0
    endings: tuple[tuple[str, int], ...] = ()

    @property
    def complete(self) -> bool:
        """Whether what is not held does not exist, as far as the last word of the server goes."""
        return self.synced and not self.unread


class _Page(msgspec.Struct):
    metadata: _PageMeta
    items: list[msgspec.Raw] | None = None


class _PageMeta(VersionOnly, rename="camel"):
    continue_: str = msgspec.field(default="", name="continue")


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Versioned(msgspec.Struct):
    metadata: VersionOnly


class Informer(Generic[R]):
    """One resource's objects, as the server has them.

    ``on_change`` is called for each change once the cache holds it; ``chance`` draws jitter from [0, 1).
    """

    def __init__(
        self,
        client: ApiClient,
        watched: Watched[R],
        clock: Clock,
        *,
        on_change: Callable[[Change[R]], None],
        chance: Callable[[], float],
        tuning: WatchTuning = WatchTuning(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._watched = watched
        self._clock = clock
        self._on_change = on_change
        self._chance = chance
        self._tuning = tuning
        self._cache: Cache[R] = Cache()
        self._version = ""
        self._page = tuning.page
        # A list whose token ran out between two pages is asked for in one piece the next time.
        self._whole = False
        self._failures = 0
        self._synced = asyncio.Event()
        self._health = Health()
        self._endings: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._cache)

    def __iter__(self) -> Iterator[R]:
        return iter(self._cache)

    def get(self, name: str, namespace: str = "") -> R | None:
        """The object of this name, ``None`` when none is known."""
        return self._cache.get(name, namespace)

    @property
    def health(self) -> Health:
        """How it does now."""
        return msgspec.structs.replace(self._health, endings=tuple(sorted(self._endings.items())))

    async def synced(self) -> None:
        """Wait for the first whole list."""
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled; it never ends by itself."""
        phase = Phase.LIST
        while True:
            ending, answer = await self._phase(phase)
            self._endings[f"{phase}{ending}"] = self._endings.get(f"{phase}{ending}", 0) + 1
            step = plan(
                phase,
                ending,
                failures=self._failures,
                retry_after=answer.retry_after if answer is not None else None,
                back_off=self._tuning.back_off,
                chance=self._chance(),
            )
            self._judge(phase, ending, answer, failed=step.failures > self._failures)
            self._failures = step.failures
            phase = self._next(step.phase, ending)
            if step.pause:
                await asyncio.sleep(step.pause)

    def _next(self, phase: Phase, ending: Outcome | Ending) -> Phase:
        """The planned phase; but while objects could not be read, a watch that served its time is followed by a list."""
        return Phase.LIST if ending is Ending.SERVED and self._health.unread else phase

    async def _phase(self, phase: Phase) -> tuple[Outcome | Ending, Answer | None]:
        if phase is Phase.LIST:
            answer = await self._list()
            return answer.outcome, answer
        if phase is Phase.LOOK:
            return await self._look()
        return await self._watch()

    def _judge(self, phase: Phase, ending: Outcome | Ending, answer: Answer | None, *, failed: bool) -> None:
        """Say what is wrong, once for each new trouble."""
        name = self._watched.resource.full_name
        if not failed:
            if self._health.trouble and phase is not Phase.LOOK:
                self._well()
            if ending is Ending.BACKWARD:
                _log.warning("%s: the API server went back in time (a restored backup?); listing again", name)
            return
        said = answer.message if answer is not None else "the watch was cut"
        trouble = f"{phase.lower()} of {name}: {ending}: {said}"
        if trouble != self._health.trouble:
            _log.warning("%s", trouble)
        self._health = msgspec.structs.replace(self._health, trouble=trouble, outcome=ending)

    def _well(self) -> None:
        _log.info("%s is followed again", self._watched.resource.full_name)
        self._health = msgspec.structs.replace(self._health, trouble="", outcome=Outcome.OK)

    def _heard(self) -> None:
        self._health = msgspec.structs.replace(self._health, heard_at=self._clock.now())

    def _query(self, **more: str) -> dict[str, str]:
        watched = self._watched
        chosen = {"labelSelector": watched.label_selector, "fieldSelector": watched.field_selector, **more}
        return {key: value for key, value in chosen.items() if value}

    @property
    def _path(self) -> str:
        return self._watched.resource.collection(self._watched.namespace)

    async def _list(self) -> Answer:
        """Read every page, then compare. Nothing changes unless the list was read to its end."""
        records: list[R] = []
        unread, token, version = 0, "", ""
        while True:
            limit = "" if self._whole else str(self._page)
            query = self._query(limit=limit, **{"continue": token})
            answer = await self._client.request("GET", self._path, query=query, seconds=self._tuning.list_timeout)
            if not answer.ok:
                if answer.outcome is Outcome.TOO_LARGE:
                    self._page = max(1, self._page // 2)
                self._whole = answer.outcome is Outcome.EXPIRED
                return answer
            try:
                page = _page(answer.body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                return no_answer(f"the list cannot be read: {error}", Outcome.MALFORMED)
            for raw in page.items or ():
                record = self._decode(raw)
                if record is None:
                    unread += 1
                else:
                    records.append(self._held(record))
            token, version = page.metadata.continue_, page.metadata.resource_version
            if not token:
                break
        self._version, self._whole = version, False
        self._health = msgspec.structs.replace(
            self._health, synced=True, unread=unread, lists=self._health.lists + 1, heard_at=self._clock.now()
        )
        for change in self._cache.replace(records, unread=bool(unread)):
            self._on_change(change)
        self._synced.set()
        return Answer(outcome=Outcome.OK, status=200)

    def _held(self, record: R) -> R:
        """The record already held when it is the same version, so that a list of ten thousand costs no second copy."""
        known = self._cache.get(record.name, record.namespace)
        same = known is not None and known.uid == record.uid and known.resource_version == record.resource_version
        return known if same and known is not None else record

    async def _look(self) -> tuple[Outcome | Ending, Answer | None]:
        answer = await self._client.request("GET", self._path, query=self._query(limit="1"))
        if not answer.ok:
            return answer.outcome, answer
        try:
            version = _versioned(answer.body).metadata.resource_version
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Outcome.MALFORMED, no_answer(f"the list cannot be read: {error}", Outcome.MALFORMED)
        return direction(self._version, version), None

    async def _watch(self) -> tuple[Outcome | Ending, Answer | None]:
        asked = self._tuning.duration(self._chance())
        query = self._query(
            watch="1", allowWatchBookmarks="true", resourceVersion=self._version, timeoutSeconds=str(asked)
        )
        begun = self._clock.now().mono
        async with contextlib.aclosing(
            self._client.watch(self._path, query, self._tuning.silence, self._opened)
        ) as lines:
            async for line in lines:
                if isinstance(line, Answer):
                    return line.outcome, line
                answer = self._event(line)
                if answer is not None:
                    special = answer.outcome in {Outcome.EXPIRED, Outcome.TOO_NEW, Outcome.MALFORMED}
                    return (answer.outcome if special else Ending.ERROR_EVENT), answer
                self._good()
        ending = ended(asked, self._clock.now().mono - begun)
        if ending is Ending.SERVED:
            self._good()
        return ending, None

    def _opened(self) -> None:
        """The server took the watch up: on a quiet resource its first word may be a minute away. No failure is forgiven."""
        self._heard()
        if self._health.trouble:
            self._well()

    def _good(self) -> None:
        self._failures = 0
        self._heard()
        if self._health.trouble:
            self._well()

    def _event(self, line: bytes) -> Answer | None:
        """Take one event in; an answer when the watch is over by it."""
        try:
            event = _event(line)
            if event.type == "ERROR":
                return error_event(event.object)
            version = _versioned(event.object).metadata.resource_version
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return no_answer(f"an event cannot be read: {error}", Outcome.MALFORMED)
        if event.type != "BOOKMARK":
            record = self._decode(event.object)
            if record is None:
                self._health = msgspec.structs.replace(self._health, unread=self._health.unread + 1)
            else:
                changes = self._cache.remove(record) if event.type == "DELETED" else self._cache.put(record)
                for change in changes:
                    self._on_change(change)
        if version:
            self._version = version
        return None

    def _decode(self, raw: msgspec.Raw) -> R | None:
        """One object, ``None`` for one that cannot be read: it costs its neighbours nothing."""
        try:
            return self._watched.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("%s: an object cannot be read: %s", self._watched.resource.full_name, error)
            return None


_page = msgspec.json.Decoder(_Page).decode
_event = msgspec.json.Decoder(_Event).decode
_versioned = msgspec.json.Decoder(_Versioned).decode
