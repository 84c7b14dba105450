"""The informer against a real kube-apiserver: pages, watches, 410, restarts, a stopped server, a restored backup."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import time
from pathlib import Path

import msgspec
import pytest
from kubernetes_asyncio.config import incluster_config

from observer.kube.answers import Answer, Outcome
from observer.kube.cache import Change
from observer.kube.records import Document, watched_documents, watched_pods
from observer.kube.resources import PODS, Resource
from observer.kube.watching import Ending
from router_contract.targets import Ready
from tests.cluster.control_plane import ControlPlane
from tests.cluster.running import QUICK, client_for, informer_of
from tests.kube.steady import until

pytestmark = pytest.mark.cluster

CONFIG_MAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")


def pod(name: str, **labels: str) -> dict[str, object]:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "engine:1"}]},
    }


async def test_pods_are_listed_in_pages_and_followed(cluster: ControlPlane) -> None:
    base = f"/api/v1/namespaces/{cluster.namespace('reading')}/pods"
    for number in range(7):
        cluster.call("POST", base, pod(f"p{number}", app="engine"))
    cluster.call("POST", base, pod("other", app="else"))
    told: list[str] = []
    async with client_for(cluster.admin) as client:
        watched = watched_pods("reading", label_selector="app=engine")
        async with informer_of(
            client, watched, lambda change: told.append(f"{change.kind} {change.record.name}")
        ) as it:
            await it.synced()
            assert told == [f"Added p{number}" for number in range(7)]
            assert client.requests[Outcome.OK] >= 3, "pages of three"
            status = {
                "status": {
                    "podIP": "127.0.0.9",
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
            }
            cluster.call("PATCH", f"{base}/p0/status", status, "application/merge-patch+json")
            await until(lambda: (held := it.get("p0", "reading")) is not None and held.ip == "127.0.0.9")
            assert it.get("p0", "reading").ready is Ready.TRUE
            cluster.call("DELETE", f"{base}/p1?gracePeriodSeconds=0")
            await until(lambda: it.get("p1", "reading") is None)
            assert told[-1] == "Deleted p1"
            assert it.health.complete


async def test_410_as_status_and_as_event(cluster: ControlPlane) -> None:
    cluster.define("gone.example.com", "things", "Thing")
    resource = Resource(group="gone.example.com", version="v1alpha1", plural="things", kind="Thing")
    cluster.namespace("gone")
    path = "/apis/gone.example.com/v1alpha1/namespaces/gone/things"
    body = {"apiVersion": resource.api_version, "kind": "Thing", "metadata": {"name": "a"}}
    cluster.call("POST", path, body)
    async with client_for(cluster.admin) as client:
        query = {"watch": "1", "resourceVersion": "1", "timeoutSeconds": "5"}
        async with contextlib.aclosing(client.watch(path, query, 10.0)) as lines:
            items = [line async for line in lines]
        print("a watch from version 1:", items)
        async with informer_of(client, watched_documents(resource)) as it:
            await it.synced()
            # Our position is made too old, then the watch is cut at its own time.
            it._version = "1"
            assert await it._watch() is not None
            ending, answer = await it._watch()
            assert ending is Outcome.EXPIRED, answer


async def test_future_resourceversion_is_silently_empty_and_a_look_tells(cluster: ControlPlane) -> None:
    cluster.namespace("future")
    path = "/api/v1/namespaces/future/configmaps"
    async with client_for(cluster.admin) as client:
        query = {"watch": "1", "resourceVersion": "999999999", "timeoutSeconds": "4", "allowWatchBookmarks": "true"}

        async def read() -> list[bytes | Answer]:
            async with contextlib.aclosing(client.watch(path, query, 10.0)) as lines:
                return [line async for line in lines]

        task = asyncio.create_task(read())
        await asyncio.sleep(0.3)
        cluster.call("POST", path, {"metadata": {"name": "unheard"}})
        items = await task
        assert not [line for line in items if isinstance(line, bytes) and b"unheard" in line], items
        print("a watch from a future version:", items)
        async with informer_of(client, watched_documents(CONFIG_MAPS, "future")) as it:
            await it.synced()
            it._version = "999999999"
            assert await it._look() == (Ending.BACKWARD, None)


async def test_who_may_not_read_is_told_so(cluster: ControlPlane) -> None:
    async with client_for(cluster.user("alice")) as client, informer_of(client, watched_pods()) as it:
        await until(lambda: it.health.outcome is Outcome.FORBIDDEN)
        assert 'User "alice" cannot list resource "pods"' in it.health.trouble
        assert not it.health.synced


async def test_what_is_not_installed_is_told_so_and_found_once_it_is(cluster: ControlPlane) -> None:
    resource = Resource(group="late.example.com", version="v1alpha1", plural="lates", kind="Late")
    async with client_for(cluster.admin) as client, informer_of(client, watched_documents(resource)) as it:
        await until(lambda: it.health.outcome is Outcome.NOT_FOUND)
        cluster.define("late.example.com", "lates", "Late")
        await asyncio.wait_for(it.synced(), 20)
        assert it.health.complete


async def test_api_down_4_s(breakable_cluster: ControlPlane) -> None:
    """kube-apiserver is killed for 4 s: nothing held is lost, and what happened afterwards is heard."""
    cluster = breakable_cluster
    cluster.namespace("down")
    path = "/api/v1/namespaces/down/configmaps"
    for name in ("a", "b"):
        cluster.call("POST", path, {"metadata": {"name": name}})
    told: list[Change[Document]] = []
    watched = watched_documents(CONFIG_MAPS, "down")
    async with client_for(cluster.admin) as client, informer_of(client, watched, told.append) as it:
        await it.synced()
        cluster.apiserver.kill()
        await until(lambda: it.health.outcome is Outcome.NO_ANSWER)
        await asyncio.sleep(4.0)
        assert {each.name for each in it} == {"a", "b"}
        assert it.health.trouble
        cluster.apiserver.start()
        await asyncio.to_thread(cluster.wait_ready)
        ready = time.monotonic()
        await asyncio.to_thread(cluster.call, "DELETE", f"{path}/a")
        await asyncio.to_thread(cluster.call, "POST", path, {"metadata": {"name": "c"}})
        await until(lambda: {each.name for each in it} == {"b", "c"}, 20)
        print(f"followed again {time.monotonic() - ready:.2f} s after the API was ready; {it.health.endings}")
        assert [f"{change.kind} {change.record.name}" for change in told[2:]] == ["Deleted a", "Added c"]
        await until(lambda: not it.health.trouble, 20)


async def test_etcd_restarted(breakable_cluster: ControlPlane) -> None:
    """The store goes away under the API server for 3 s."""
    cluster = breakable_cluster
    cluster.namespace("etcd")
    path = "/api/v1/namespaces/etcd/configmaps"
    cluster.call("POST", path, {"metadata": {"name": "a"}})
    async with client_for(cluster.admin) as client, informer_of(client, watched_documents(CONFIG_MAPS, "etcd")) as it:
        await it.synced()
        cluster.etcd.kill()
        await asyncio.sleep(3.0)
        assert [each.name for each in it] == ["a"]
        cluster.etcd.start()
        await asyncio.to_thread(cluster.wait_ready)
        ready = time.monotonic()
        await asyncio.to_thread(cluster.call, "POST", path, {"metadata": {"name": "b"}})
        await until(lambda: it.get("b", "etcd") is not None, 30)
        print(f"followed again {time.monotonic() - ready:.2f} s after the API was ready; {it.health.endings}")


async def test_a_service_account_token_that_is_replaced_is_read_again(
    cluster: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a Pod: a token that the server refuses is read from its file once more, and then works."""
    cluster.namespace("tokens")
    request = {"spec": {"expirationSeconds": 600}}
    token = cluster.call("POST", "/api/v1/namespaces/tokens/serviceaccounts/default/token", request)["status"]["token"]
    file = tmp_path / "token"
    file.write_text("out.of.date")
    host, port = cluster.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(file))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", cluster.authority.ca_file)
    async with client_for(None) as client:
        assert (await client.request("GET", "/api/v1/namespaces/tokens/pods")).outcome is Outcome.UNAUTHORIZED
        file.write_text(token)
        answer = await client.request("GET", "/api/v1/namespaces/tokens/pods")
        assert answer.outcome is Outcome.FORBIDDEN
        assert "system:serviceaccount:tokens:default" in answer.message


async def test_half_open_connection_75_s(breakable_cluster: ControlPlane) -> None:
    """The server stops without closing anything; here the silence is 1 s. Once it runs again we are at its version."""
    cluster = breakable_cluster
    cluster.namespace("half")
    path = "/api/v1/namespaces/half/configmaps"
    tuning = msgspec.structs.replace(QUICK, silence=1.0)
    watched = watched_documents(CONFIG_MAPS, "half")
    async with client_for(cluster.admin) as client, informer_of(client, watched, tuning=tuning) as it:
        await it.synced()
        process = cluster.apiserver._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            await until(lambda: dict(it.health.endings).get("WatchSilent"), 10)
        finally:
            process.send_signal(signal.SIGCONT)
        await asyncio.to_thread(cluster.call, "POST", path, {"metadata": {"name": "heard"}})
        await until(lambda: it.get("heard", "half") is not None, 20)


async def test_future_resourceversion_after_a_restored_backup(breakable_cluster: ControlPlane) -> None:
    """etcd comes back with nothing in it: the server's versions start anew, below ours."""
    cluster = breakable_cluster
    cluster.namespace("before")
    path = "/api/v1/namespaces/before/configmaps"
    cluster.call("POST", path, {"metadata": {"name": "lost"}})
    for number in range(600):
        cluster.call("PATCH", f"{path}/lost", {"data": {"n": str(number)}}, "application/merge-patch+json")
    async with client_for(cluster.admin) as client, informer_of(client, watched_documents(CONFIG_MAPS)) as it:
        await it.synced()
        assert it.get("lost", "before") is not None
        cluster.apiserver.kill()
        cluster.etcd.stop()
        shutil.rmtree(cluster.folder / "etcd-data")
        cluster.etcd.start()
        cluster.apiserver.start()
        await asyncio.to_thread(cluster.wait_ready)
        await until(lambda: it.get("lost", "before") is None, 30)
        print(it.health.endings)
        assert dict(it.health.endings).get("LookBackward") == 1
        cluster.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "new"}})
        await until(lambda: it.get("new", "default") is not None, 20)


def test_the_core_resource_names_are_those_of_the_server(cluster: ControlPlane) -> None:
    found = cluster.call("GET", "/api/v1")["resources"]
    assert any(each["name"] == PODS.plural and each["kind"] == PODS.kind for each in found)
