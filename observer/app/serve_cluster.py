"""The blocking entry of ``serve --kubernetes``: who we are to the API server, the observer, and the cluster it watches."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from exporters.live import console
from observer.app.canary_cluster import ClusterCanaries
from observer.app.cluster import Cluster
from observer.app.run import describe_watch, run_blocking, until_stopped
from observer.app.told import package_version
from observer.app.watcher import Watcher
from observer.clock import Clock, SystemClock
from observer.collect.recording import Recorder
from observer.discover.platforms import Platform, PlatformError, load_platforms
from observer.discover.watch import FileWatch
from observer.kube.client import ApiClient
from observer.kube.identity import Credentials, CredentialsError
from observer.settings import Configuration, SettingsError, load_files

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
    except PlatformError as error:
        raise ClusterError(str(error)) from error
    run_blocking(_serve(files, configuration, platforms, kubeconfig, context, listen, record))


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
        watcher = await stack.enter_async_context(Watcher(settings, clock, listen=listen, recorder=recorder))
        cluster = Cluster(watcher, client, platforms, settings, clock, static=configuration.deployments)
        cluster.start()
        canaries = ClusterCanaries(
            client,
            clock,
            watcher.canaries,
            owns=cluster.owns,
            chance=random.random,
            namespaces=settings.kubernetes.watch.namespaces,
        )
        watcher.supervise("follow canary analyses", canaries.run)
        if settings.aggregated.enabled:
            from observer.app.aggregated import beside  # noqa: PLC0415 - a library that only this API needs

            aggregated = await stack.enter_async_context(beside(watcher, cluster, client, settings, clock))
            out.print(f"the aggregated API answers on port {aggregated.port}")
        if files:
            watcher.supervise("follow the configuration files", _files(files, configuration, cluster, clock).run)
        for notice in configuration.notices:
            out.print(f"notice: {notice}")
        if configuration.canaries:
            out.print("notice: canary analyses of files are not judged beside a cluster's; apply them as objects")
        if configuration.deployments:
            out.print(f"files name {describe_watch(configuration.deployments)}")
        out.print(f"watching the cluster at {credentials.server}; answering at {watcher.url}")
        await stop.wait()


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
