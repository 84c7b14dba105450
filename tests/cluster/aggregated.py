"""Our aggregated API behind a real kube-apiserver: a replica in a thread of its own, registered with an APIService.

kube-apiserver reaches loopback through a Service of type ExternalName. The replica has a user of its own with exactly
the rights that the chart gives.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from msgspec.structs import replace

from exporters.aggregated.forwarding import Peers
from exporters.aggregated.kv import kv_answers
from observer.app.aggregated import API_SERVICE, AggregatedApi
from observer.clock import SystemClock
from observer.kube.aggregated_options import AggregatedSettings
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport
from tests.cluster.control_plane import ControlPlane
from tests.cluster.running import client_for
from tests.exporters.judged import judged
from tests.exporters.sources import Reports
from tests.exporters.test_kv import Source

NAMESPACE = "observer"
SERVICE = "observer-api"
GROUP = "metrics.modeldeployment.io"
BASE = f"/apis/{GROUP}/v1"
PERIOD = 0.2
LABELS = {("prod", "chat"): {"team": "red", "tier": "gold"}, ("prod", "code"): {"team": "blue"}, ("lab", "chat"): {}}
CREATED = 1_799_990_000.0


def made(namespace: str, name: str, **more: object) -> DeploymentReport:
    """A judged report under another name."""
    found = judged(**more)
    deployment = replace(found.deployment, key=DeploymentKey(namespace, name), created_at=CREATED, model="qwen")
    return replace(found, deployment=deployment)


def labels(key: DeploymentKey) -> dict[str, str]:
    return LABELS.get((key.namespace, key.name), {})


class KvOf(Source):
    """One world's KV events as those of a deployment."""

    def __init__(self, source: Reports) -> None:
        super().__init__()
        self._reports = source

    def kv_deployments(self) -> tuple[DeploymentKey, ...]:
        return self._reports.keys()

    def kv_streams(self, deployment: DeploymentKey | None = None) -> Any:
        return super().kv_streams(None)


class Leading:
    """A replica that is told whether it leads."""

    def __init__(self, *, leads: bool = True) -> None:
        self.leads = leads


class Served:
    """One replica of the aggregated API in a thread. ``port`` is where it listens once `start` returned."""

    def __init__(
        self, kubeconfig: str, source: Reports, *, leading: Leading | None = None, peers: Peers | None = None,
        port: int = 0, grace: float = 0.0, settled: float = 1.0, **settings: Any,
    ) -> None:  # fmt: skip
        self.kubeconfig = kubeconfig
        self.source = source
        self.leading = leading or Leading()
        self.peers = peers
        self.port = port
        self.settled = settled
        self.settings = AggregatedSettings(
            enabled=True, listen=f"127.0.0.1:{port}", service=SERVICE, drain_grace=grace, reread=PERIOD, **settings
        )
        self.api: AggregatedApi | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._opened = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="aggregated API")

    def start(self) -> None:
        self._thread.start()
        assert self._opened.wait(20), "the aggregated API does not open"
        if self._failure is not None:
            raise self._failure

    def call(self, work: Callable[[], None]) -> None:
        """Run something on the replica's loop."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(work)

    def begin_stop(self) -> None:
        """Ask it to end, and do not wait."""
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)

    def stop(self) -> None:
        self.begin_stop()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._opened.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with (
            client_for(self.kubeconfig) as client,
            AggregatedApi(
                self.settings, client, SystemClock(), self.source, leads=lambda: self.leading.leads, namespace=NAMESPACE, version="0.1.0",
                chance=random.Random(1).random, described=labels,
                kv=kv_answers(KvOf(self.source)), peers=self.peers, settled=self.settled,
            ) as api,
        ):  # fmt: skip
            self.api, self.port = api, api.port
            self._opened.set()
            await self._stop.wait()


def grant(cluster: ControlPlane) -> str:
    """The namespace, the user of the replicas with the chart's rights, and the Service; the user's kubeconfig."""
    cluster.namespace(NAMESPACE)
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    user = {"kind": "User", "name": "observer-replica", "apiGroup": "rbac.authorization.k8s.io"}

    def bind(name: str, role: str, kind: str = "Role", namespace: str = "") -> None:
        place, what = (f"/namespaces/{namespace}", "RoleBinding") if namespace else ("", "ClusterRoleBinding")
        body = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [user],
        }
        cluster.call("POST", f"{rbac}{place}/{what.lower()}s", body)

    def role(name: str, rules: list[dict[str, Any]], namespace: str = "") -> None:
        place = f"/namespaces/{namespace}/roles" if namespace else "/clusterroles"
        cluster.call("POST", f"{rbac}{place}", {"metadata": {"name": name}, "rules": rules})

    bind("observer-delegator", "system:auth-delegator", "ClusterRole")
    bind("observer-authentication", "extension-apiserver-authentication-reader", "Role", "kube-system")
    named = {"apiGroups": [""], "resources": ["secrets"]}
    role(
        "certificates",
        [{**named, "resourceNames": ["observer-api-certificate"], "verbs": ["get", "update"]}, {**named, "verbs": ["create"]}],
        NAMESPACE,
    )  # fmt: skip
    bind("certificates", "certificates", "Role", NAMESPACE)
    services = {"apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"], "resourceNames": [API_SERVICE]}
    role("observer-apiservice", [{**services, "verbs": ["get", "patch"]}])
    bind("observer-apiservice", "observer-apiservice", "ClusterRole")
    return cluster.user("observer-replica")


def register(cluster: ControlPlane, port: int, *, bundle: str | None = None) -> None:
    """The Service and the APIService, at this port of loopback."""
    service = {
        "metadata": {"name": SERVICE},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": port}]},
    }
    cluster.call("POST", f"/api/v1/namespaces/{NAMESPACE}/services", service)
    spec: dict[str, Any] = {
        "group": GROUP,
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": NAMESPACE, "name": SERVICE, "port": port},
    }
    if bundle is not None:
        spec["caBundle"] = bundle
    cluster.call(
        "POST", "/apis/apiregistration.k8s.io/v1/apiservices", {"metadata": {"name": API_SERVICE}, "spec": spec}
    )


def unregister(cluster: ControlPlane) -> None:
    """A dead APIService hurts the whole cluster; so it goes with the replica."""
    cluster.call("DELETE", f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}")


def available(cluster: ControlPlane) -> tuple[bool, str]:
    """What the APIService's condition says."""
    found = cluster.call("GET", f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}")
    for each in found.get("status", {}).get("conditions") or ():
        if each["type"] == "Available":
            return each["status"] == "True", f"{each['reason']}: {each['message']}"
    return False, "no condition yet"


def wait_for(done: Callable[[], bool], what: Callable[[], object], seconds: float = 45.0) -> float:
    """Wait until something holds; the seconds that took."""
    begun = time.monotonic()
    while not done():
        assert time.monotonic() - begun < seconds, f"not after {seconds:g} s: {what()}"
        time.sleep(0.1)
    return time.monotonic() - begun


def wait_available(cluster: ControlPlane) -> float:
    return wait_for(lambda: available(cluster)[0], lambda: available(cluster))


@contextmanager
def serving(cluster: ControlPlane, source: Reports, kubeconfig: str | None = None, **more: Any) -> Iterator[Served]:
    """A replica that is registered and available."""
    served = Served(kubeconfig or grant(cluster), source, **more)
    served.start()
    try:
        register(cluster, served.port)
        seconds = wait_available(cluster)
        print(f"figure: APIService available after {seconds:.1f} s")
        yield served
    finally:
        unregister(cluster)
        served.stop()


def reports() -> Reports:
    return Reports(made("demo", "chat"), made("prod", "chat"), made("prod", "code"), made("lab", "chat"))


def direct(
    cluster: ControlPlane,
    served: Served,
    path: str,
    headers: dict[str, str] | None = None,
    cert: tuple[str, str] | None = None,
) -> tuple[int, str]:
    """One request to the Pod's own port, past kube-apiserver: status and body."""
    context = ssl.create_default_context()
    # Whom we talk to is not what such a test is about.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if cert is not None:
        context.load_cert_chain(*cert)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"https://127.0.0.1:{served.port}{path}", headers=headers or {})
    try:
        with opener.open(request, timeout=10) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class Load:
    """GETs through the aggregator, one after another, until it is left. ``failures`` are the answers that were no 200."""

    def __init__(self, cluster: ControlPlane, path: str) -> None:
        self._cluster, self._path = cluster, path
        self.answers = 0
        self.failures: list[str] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._end.wait(0.01):
            try:
                self._cluster.raw("GET", self._path)
                self.answers += 1
            except urllib.error.HTTPError as error:
                with error:
                    self.failures.append(f"{error.code} {error.read()[:200]!r}")
            except OSError as error:
                self.failures.append(str(error))
