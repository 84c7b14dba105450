"""Replicas of one shard as the chart runs them, each at an address of its own, and who routes to them: a stand-in for the
kubelet's probe and the endpoint controller, which writes the EndpointSlice that the aggregator reads.
"""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.chart.rendering import one, rendered
from tests.cluster.aggregated import GROUP
from tests.cluster.control_plane import ControlPlane

HOME, SERVICE, TOKEN = "observer", "observer-api", "a-token-of-the-test"
DURATION, PERIOD, GRACE = 6.0, 1.0, 2.0
"""Of the Lease, of the scrapes, and how long one that ends passes questions on."""
VALUES: dict[str, Any] = {
    "apiService": {"enabled": True},
    "settings": {
        "scrape": {"period": f"{PERIOD:g}s", "timeout": "0.5s"},
        "routers": {"viewPeriod": "1s", "viewTimeout": "0.5s", "viewValid": "5s"},
        "judging": {"period": "0.2s"},
        "windows": {"span": "10s"},
        "security": {"allowCIDRs": ["127.0.0.0/8"]},
        "aggregated": {"reread": "0.5s", "drainGrace": f"{GRACE:g}s"},
        "kubernetes": {
            "lease": {"duration": f"{DURATION:g}s", "deadline": "5s", "retry": "0.5s"},
            "status": {
                "interval": "0.5s", "dwellToTrue": "0s", "dwellFromTrue": "0s", "startSpread": "0s", "orphanAfter": "1s",
            },
        },
    },
}  # fmt: skip
RIGHTS = {
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "Secret",
    "Service",
    "APIService",
}
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{HOME}/endpointslices"
CLIENT = ssl.create_default_context()
CLIENT.check_hostname, CLIENT.verify_mode = False, ssl.CERT_NONE
"""Whom we talk to on a Pod's port is not what these tests are about."""


def install(plane: ControlPlane) -> list[dict[str, Any]]:
    """The release's objects that an API server acts on. What the chart renders."""
    plane.namespace(HOME)
    objects = rendered(VALUES, namespace=HOME)
    file = plane.folder / "release.json"
    chosen = [each for each in objects if each["kind"] in RIGHTS]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": chosen}), "utf-8")
    plane.kubectl("apply", "--server-side", "-f", str(file))
    return objects


def kubeconfig(plane: ControlPlane) -> Path:
    """A kubeconfig of the release's ServiceAccount."""
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/observer/token"
    token = plane.call("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    file = plane.folder / "replica.kubeconfig"
    server = {"server": plane.server, "certificate-authority": plane.authority.ca_file}
    value = {
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "observer"}}],
        "clusters": [{"name": "test", "cluster": server}], "users": [{"name": "observer", "user": {"token": token}}],
    }  # fmt: skip
    file.write_text(json.dumps(value), "utf-8")
    return file


class Replica:
    """The command of the chart's container, with the environment of its Pod."""

    def __init__(
        self, plane: ControlPlane, objects: list[dict[str, Any]], credentials: Path, name: str, address: str
    ) -> None:
        self.name, self.address = name, address
        self._log = plane.folder / f"{name}.log"
        config = plane.folder / f"config-{name}"
        config.mkdir(exist_ok=True)
        token = plane.folder / "token"
        token.write_text(TOKEN, "utf-8")
        text = one(objects, "ConfigMap")["data"]["settings.yaml"]
        text = text.replace("/etc/observer/token/token", str(token)).replace("0.0.0.0:", f"{address}:")
        (config / "settings.yaml").write_text(text, "utf-8")
        (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        arguments = [each.replace("/etc/observer/config", str(config)) for each in container["args"]]
        self._command = [sys.executable, "-m", "observer", *arguments, "--kubeconfig", str(credentials)]
        told = {each["name"]: each["value"] for each in container["env"] if "value" in each}
        self._environment = {
            **os.environ, **told, "POD_NAME": name, "POD_NAMESPACE": HOME, "POD_IP": address, "COLUMNS": "300",
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as out:
            self.process = subprocess.Popen(self._command, stdout=out, stderr=out, env=self._environment)

    def send(self, how: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(how)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> int:
        """End it; what it ended with."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(how)
        code = self.process.wait(30)
        self.process = None
        return code

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8", errors="replace")

    def plain(self, path: str, timeout: float = 5.0) -> tuple[int, str]:
        """One GET of the plain listener, status 0 when nothing answers."""
        request = urllib.request.Request(
            f"http://{self.address}:9480{path}", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        return _ask(request, timeout)

    def api(self, path: str, token: str, timeout: float = 8.0) -> tuple[int, str]:
        """One GET of the aggregated API on the Pod's own port."""
        request = urllib.request.Request(
            f"https://{self.address}:10250{path}", headers={"Authorization": f"Bearer {token}"}
        )
        return _ask(request, timeout)

    def exports(self) -> bool:
        """Whether it exports what is observed."""
        return "\nmodeldeployment_info{" in self.plain("/metrics")[1]


def _ask(request: urllib.request.Request, timeout: float) -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=CLIENT), urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Endpoints:
    """Asks each replica for its readiness, as a kubelet does, and keeps the EndpointSlice: once in ``every`` seconds."""

    def __init__(self, plane: ControlPlane, every: float = 0.3) -> None:
        self._plane, self._every = plane, every
        self.replicas: list[Replica] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="endpoints")
        self.ready: dict[str, bool] = {}

    def __enter__(self) -> Self:
        body = self._slice()
        self._plane.call("POST", SLICES, body)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(20)

    def _slice(self) -> dict[str, Any]:
        endpoints = [
            {"addresses": [each.address], "conditions": {"ready": self.ready.get(each.name, False)}}
            for each in self.replicas
        ]
        return {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": f"{SERVICE}-1", "labels": {"kubernetes.io/service-name": SERVICE}},
            "ports": [{"name": "https", "port": 10250, "protocol": "TCP"}], "endpoints": endpoints,
        }  # fmt: skip

    def _run(self) -> None:
        written: dict[str, Any] = {}
        while not self._end.wait(self._every):
            self.ready = {each.name: each.plain("/readyz", 1.0)[0] == 200 for each in list(self.replicas)}
            body = self._slice()
            if body != written:
                self._plane.call("PUT", f"{SLICES}/{SERVICE}-1", body)
                written = body


class Answers:
    """GETs of one object through the aggregator, one after another; every answer with its moment."""

    def __init__(self, plane: ControlPlane, path: str) -> None:
        self._plane, self._path = plane, path
        self.good: list[tuple[float, dict[str, Any]]] = []
        self.failures: list[tuple[float, str]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="answers")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._end.wait(0.03):
            at = time.monotonic()
            try:
                self.good.append((at, self._plane.call("GET", self._path)))
            except urllib.error.HTTPError as error:
                with error:
                    self.failures.append((at, f"{error.code} {error.read()[:300]!r}"))
            except OSError as error:
                self.failures.append((at, str(error)))

    def since(self, moment: float) -> list[dict[str, Any]]:
        return [answer for at, answer in self.good if at >= moment]


def windowless(answer: dict[str, Any]) -> list[str]:
    """What lacks its window because a second read is awaited."""
    return [
        f"{each.get('pod')} {each.get('source')}"
        for each in answer.get("missing", ())
        if "second" in each.get("reason", "") or each.get("code") == "AwaitingSecondSample"
    ]


def holder(plane: ControlPlane) -> str:
    """Who holds the shard's Lease."""
    try:
        spec = plane.call("GET", f"{LEASES}/observer-0")["spec"]
    except urllib.error.HTTPError as error:
        error.close()
        return ""
    return str(spec.get("holderIdentity") or "")


def bearer(plane: ControlPlane) -> str:
    """A token of the release's ServiceAccount."""
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/observer/token"
    return str(plane.call("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"])


def addresses() -> set[str]:
    """The addresses of this network namespace."""
    said = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"inet (\S+)/", said))


API = f"/apis/{GROUP}/v1"
