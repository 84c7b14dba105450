"""Our client, informer, writer and elector on a real control plane, started and stopped with a test."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

from observer.clock import SystemClock
from observer.kube.cache import Change
from observer.kube.client import ApiClient, ClientTuning
from observer.kube.credentials import LoadedCredentials
from observer.kube.electing import Timing
from observer.kube.elector import Elector
from observer.kube.informer import Informer
from observer.kube.intent import Key, Stored
from observer.kube.pacing import BackOff
from observer.kube.records import Document, R, Watched
from observer.kube.status_writer import StatusWriter, WriterTuning
from observer.kube.watching import WatchTuning
from observer.kube.writing import WritingRules

QUICK = WatchTuning(page=3, silence=20.0, back_off=BackOff(first=0.05, longest=0.5))
RULES = WritingRules(
    interval=0.2, dwell_to_true=0.1, dwell_from_true=0.2, held=30.0, back_off=BackOff(first=0.05, longest=0.2)
)
LIMITS = ClientTuning(rate=1000.0, burst=1000.0)


@contextlib.asynccontextmanager
async def background(run: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Something that never ends by itself."""
    task = asyncio.ensure_future(run())
    try:
        yield
    finally:
        assert not task.done(), f"it ended: {task}"
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def client_for(kubeconfig: str | None, limits: ClientTuning = LIMITS) -> AsyncIterator[ApiClient]:
    credentials = await LoadedCredentials.load(kubeconfig)
    async with ApiClient(credentials, SystemClock(), limits) as client:
        yield client
    # A request that was cancelled says farewell over TLS in the background; the loop must not end before.
    await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def informer_of(
    client: ApiClient,
    watched: Watched[R],
    on_change: Callable[[Change[R]], None] = lambda _: None,
    tuning: WatchTuning = QUICK,
) -> AsyncIterator[Informer[R]]:
    informer = Informer(
        client, watched, SystemClock(), on_change=on_change, chance=random.Random(1).random, tuning=tuning
    )
    async with background(informer.run):
        yield informer


@contextlib.asynccontextmanager
async def writer_on(
    client: ApiClient, watched: Watched[Document], rules: WritingRules = RULES
) -> AsyncIterator[tuple[StatusWriter, Informer[Document]]]:
    """A writer and the informer that tells it what is stored."""
    held: list[Informer[Document]] = []

    def lookup(key: Key) -> Stored | None:
        found = held[0].get(key[2], key[1])
        return None if found is None else Stored.of(found)

    writer = StatusWriter(
        client,
        SystemClock(),
        lookup=lookup,
        chance=lambda: 0.0,
        tuning=WriterTuning(start=0.0, rate=100.0, rules=rules),
    )

    def changed(change: Change[Document]) -> None:
        writer.changed((watched.resource, change.record.namespace, change.record.name))

    async with informer_of(client, watched, changed) as informer:
        held.append(informer)
        await informer.synced()
        async with background(writer.run):
            yield writer, informer


def elector(client: ApiClient, namespace: str, identity: str, told: list[bool], timing: Timing) -> Elector:
    return Elector(
        client,
        SystemClock(),
        namespace=namespace,
        name="shard-0",
        identity=identity,
        on_change=told.append,
        chance=random.Random(identity).random,
        timing=timing,
    )
