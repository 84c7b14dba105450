"""The blocking entry of ``serve --kubernetes``: who we are to the API server, the observer, and the cluster it watches."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from exporters.live import console
from observer.app.canary_cluster import ClusterCanaries
from observer.app.cluster import Cluster, identity_of, namespace_of
from observer.app.direct import MOST_AT_ONCE, Direct
from observer.app.pauses import Pauses
from observer.app.relay import HttpRelay
from observer.app.replicas import Replicas, ShardError, shard_told
from observer.app.run import describe_watch, run_blocking, until_stopped
from observer.app.told import listen_of, package_version
from observer.app.watcher import Watcher
from observer.clock import Clock, SystemClock
from observer.collect.fetch import Fetcher
from observer.collect.recording import Recorder
from observer.discover.platforms import Platform, PlatformError, load_platforms
from observer.discover.watch import FileWatch
from observer.kube.client import ApiClient
from observer.kube.identity import Credentials, CredentialsError
from observer.kube.sharing import ShardOwnership
from observer.settings import Configuration, Settings, SettingsError, load_files

_log = logging.getLogger(__name__)


class ClusterError(Exception):
    """A cluster cannot be watched; the text says why and what was wanted."""


def run_serve_cluster(
    files: Sequence[Path],
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    listen: str | None = None,
    record: Path | None = None,
) -> None:
    """Watch a cluster, and what files name, until stopped. ``kubeconfig`` ``None`` means the Pod we run in.

    Raises `SettingsError`, `ListenError`, `RecordingError` or `ClusterError` before anything begins.
    """
    configuration = load_files(files) if files else Configuration()
    try:
        platforms = load_platforms([Path(each) for each in configuration.settings.kubernetes.platforms])
        shard = shard_told(configuration.settings.kubernetes)
    except (PlatformError, ShardError) as error:
        raise ClusterError(str(error)) from error
    run_blocking(_serve(files, configuration, platforms, kubeconfig, context, listen, record, shard))


async def _credentials(kubeconfig: str | None, context: str | None) -> Credentials:
    try:
        from observer.kube.credentials import LoadedCredentials  # noqa: PLC0415 - 70 MB that only a cluster needs
    except ImportError as error:
        raise ClusterError(
            f"found no {error.name}, wanted it installed: pip install 'modeldeployment-observer[kubernetes]'"
        ) from error
    try:
        return await LoadedCredentials.load(kubeconfig, context)
    except CredentialsError as error:
        raise ClusterError(f"{error}; outside a cluster name a file with --kubeconfig") from error


async def _serve(
    files: Sequence[Path],
    configuration: Configuration,
    platforms: Sequence[Platform],
    kubeconfig: str | None,
    context: str | None,
    listen: str | None,
    record: Path | None,
    shard: int | None,
) -> None:
    clock = SystemClock()
    settings = configuration.settings
    out = console(stderr=True)
    credentials = await _credentials(kubeconfig, context)
    async with AsyncExitStack() as stack:
        recorder = None
        if record is not None:
            told = msgspec.to_builtins(settings)
            recorder = stack.enter_context(
                Recorder(record, writer=package_version(), started=clock.now(), settings=told)
            )
        stop = await stack.enter_async_context(until_stopped())
        client = await stack.enter_async_context(ApiClient(credentials, clock))
        leaving: list[Replicas] = []
        stack.push_async_callback(_leave, leaving)
        watcher = await stack.enter_async_context(Watcher(settings, clock, listen=listen, recorder=recorder))
        replicas = None
        if shard is not None:
            replicas = _replicas(client, clock, settings, watcher, shard, listen)
            leaving.append(replicas)
        ownership = None if replicas is None else replicas.ownership
        cluster = Cluster(
            watcher, client, platforms, settings, clock, static=configuration.deployments, ownership=ownership
        )
        elsewhere = None
        if replicas is not None:
            elsewhere = await stack.enter_async_context(_sharing(replicas, cluster, watcher, settings, clock, listen))
        cluster.start()
        _follow_canaries(client, clock, watcher, cluster, settings, ownership)
        aggregated = None
        if settings.aggregated.enabled:
            from observer.app.aggregated import beside  # noqa: PLC0415 - a library that only this API needs

            joined = beside(
                watcher,
                cluster,
                client,
                settings,
                clock,
                replicas=replicas,
                credentials=credentials,
                elsewhere=elsewhere,
            )
            aggregated = await stack.enter_async_context(joined)
            out.print(f"the aggregated API answers on port {aggregated.port}")
        watcher.supervise("keep collections short", Pauses(clock, watcher.tally).run)
        if files:
            watcher.supervise("follow the configuration files", _files(files, configuration, cluster, clock).run)
        for line in _notices(configuration):
            out.print(line)
        out.print(f"watching the cluster at {credentials.server}; answering at {watcher.url}")
        await stop.wait()
        watcher.source.gates.insert(0, lambda: (False, "shutting down"))
        watcher.server.drain()
        if aggregated is not None:
            aggregated.drain()
        if replicas is not None:
            await replicas.hand_over(cluster.let_go, watcher.supervisor)
            if aggregated is None:  # which waits itself when it is left
                await asyncio.sleep(settings.aggregated.drain_grace)


def _notices(configuration: Configuration) -> Iterator[str]:
    """What whoever starts us should know."""
    for notice in configuration.notices:
        yield f"notice: {notice}"
    if configuration.canaries:
        yield "notice: canary analyses of files are not judged beside a cluster's; apply them as objects"
    if configuration.deployments:
        yield f"files name {describe_watch(configuration.deployments)}"


def _follow_canaries(
    client: ApiClient,
    clock: Clock,
    watcher: Watcher,
    cluster: Cluster,
    settings: Settings,
    ownership: ShardOwnership | None,
) -> None:
    """Judge the cluster's analyses of the deployments that are ours."""
    canaries = ClusterCanaries(
        client,
        clock,
        watcher.canaries,
        owns=cluster.owns,
        chance=random.random,
        namespaces=settings.kubernetes.watch.namespaces,
    )
    watcher.supervise("follow canary analyses", canaries.run)
    if ownership is not None:
        ownership.subscribe(canaries.changed)


def _replicas(
    client: ApiClient, clock: Clock, settings: Settings, watcher: Watcher, shard: int, listen: str | None
) -> Replicas:
    return Replicas(
        client,
        clock,
        settings,
        watcher.store,
        shard=shard,
        identity=identity_of(settings.kubernetes),
        namespace=namespace_of(settings.kubernetes),
        plain=watcher.url,
        listen=listen_of(settings, listen),
        chance=random.random,
    )


@asynccontextmanager
async def _sharing(
    replicas: Replicas, cluster: Cluster, watcher: Watcher, settings: Settings, clock: Clock, listen: str | None
) -> AsyncIterator[Direct]:
    """Take part among the replicas; what this one does not own is passed on from now on, or read directly."""
    replicas.uid = cluster.uid
    fetcher = Fetcher(clock, settings.body_limits, keep_alive=settings.scrape.keep_alive, reads=MOST_AT_ONCE)
    async with fetcher:
        direct = Direct(clock, settings, fetcher, cluster.elsewhere, cluster.all_elsewhere)
        pods = settings.limits.pods_per_document
        async with HttpRelay(replicas, direct, listen_of(settings, listen), replicas.take_over, pods) as relay:
            watcher.server.relay = relay
            watcher.source.gates.append(replicas.ownership.standing)

            def told() -> None:
                watcher.tally.owns(replicas.membership.me.shard, held=replicas.owns_shard())

            replicas.ownership.subscribe(told)
            told()
            replicas.start(watcher.supervisor)
            yield direct


async def _leave(replicas: Sequence[Replicas]) -> None:
    """The Leases of what ended go once nothing runs any more."""
    for each in replicas:
        await each.membership.leave()


def _files(
    files: Sequence[Path], configuration: Configuration, cluster: Cluster, clock: Clock
) -> FileWatch[Configuration]:
    settings = configuration.settings

    async def changed(new: Configuration) -> None:
        if new.settings != settings:
            _log.warning("settings changed: they take effect at the next start; the targets are followed now")
        await cluster.set_static(new.deployments)

    return FileWatch(
        files,
        load=load_files,
        invalid=SettingsError,
        apply=changed,
        clock=clock,
        period=settings.files.watch_period,
    )
