"""A real control plane on loopback: etcd and kube-apiserver from `scripts/cluster_tools.py`, with certificates made here.

There is no kubelet, scheduler or controller-manager: Pods are plain objects whose status a test writes, nothing is
garbage-collected, and a namespace has no `default` ServiceAccount unless the test makes it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.fakes.authority import Authority

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import cluster_tools

START_SECONDS = 60.0
STOP_SECONDS = 15.0
MASTERS = "system:masters"


def program(name: str) -> str:
    """The path of a cluster's program; without it the test is skipped by name, and fails where CI=true."""
    found = cluster_tools.program(name)
    if found is not None:
        return str(found)
    message = f"{name} is not built: run scripts/cluster_tools.py"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def free_port() -> int:
    """A port that nothing uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Program:
    """One process that may be stopped, killed and started again with the same arguments. Its words go to a file."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [program(name), *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._out: BinaryIO | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self._out = self.log.open("ab")
        self._process = subprocess.Popen(self._command, stdout=self._out, stderr=subprocess.STDOUT, cwd=self.log.parent)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it and wait; one that does not end in its time is killed."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        if self._out is not None:
            self._out.close()

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


class ControlPlane:
    """etcd and kube-apiserver, with more ``flags`` of the latter. ``server`` is the API's URL, ``admin`` the kubeconfig of a member of system:masters."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self._flags = flags
        self.authority = Authority(folder, "cluster")
        self.front_proxy = Authority(folder, "front-proxy")
        port = free_port()
        self.server = f"https://127.0.0.1:{port}"
        self.etcd = self._etcd()
        self.apiserver = self._apiserver(port)
        self.admin = self.user("admin", MASTERS)
        context = ssl.create_default_context(cafile=self.authority.ca_file)
        context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({})
        )

    def _etcd(self) -> Program:
        client, peer = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        self._etcd_url = client
        return Program(
            self.folder, "etcd", f"--data-dir={self.folder / 'etcd-data'}", "--unsafe-no-fsync",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        )  # fmt: skip

    def _apiserver(self, port: int) -> Program:
        cert, key = self.authority.issue(
            "kube-apiserver", names=("127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1")
        )
        proxy_cert, proxy_key = self.front_proxy.issue("front-proxy-client")
        account_cert, account_key = self.authority.issue("service-accounts")
        return Program(
            self.folder, "kube-apiserver", f"--etcd-servers={self._etcd_url}", f"--secure-port={port}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--cert-dir={self.folder}",
            f"--tls-cert-file={cert}", f"--tls-private-key-file={key}", f"--client-ca-file={self.authority.ca_file}",
            f"--requestheader-client-ca-file={self.front_proxy.ca_file}",
            "--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-uid-headers=X-Remote-Uid",
            f"--proxy-client-cert-file={proxy_cert}", f"--proxy-client-key-file={proxy_key}",
            f"--service-account-issuer={self.server}", f"--service-account-key-file={account_cert}",
            f"--service-account-signing-key-file={account_key}", "--service-cluster-ip-range=10.96.0.0/24",
            "--authorization-mode=RBAC", "--endpoint-reconciler-type=none", *self._flags,
        )  # fmt: skip

    def start(self) -> float:
        """Start both and wait until the API is ready. The seconds that took; `AssertionError` with the log's end."""
        begun = time.monotonic()
        self.etcd.start()
        self.apiserver.start()
        self.wait_ready()
        return time.monotonic() - begun

    def stop(self) -> None:
        self.apiserver.stop()
        self.etcd.stop()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for each in (self.etcd, self.apiserver):
                assert each.running, f"{each.name} ended: {each.tail()}"
            try:
                if self.raw("GET", "/readyz") == b"ok":
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"not ready in {START_SECONDS:g} s: {self.apiserver.tail()}")

    def user(self, name: str, *groups: str) -> str:
        """A kubeconfig whose client certificate makes its bearer this user in these groups."""
        cert, key = self.authority.issue(name, groups=groups)
        path = self.folder / f"{name}.kubeconfig"
        value = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [
                {"name": "test", "cluster": {"server": self.server, "certificate-authority": self.authority.ca_file}}
            ],
            "users": [{"name": name, "user": {"client-certificate": cert, "client-key": key}}],
        }
        path.write_text(json.dumps(value))
        return str(path)

    def raw(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> bytes:
        """One request as admin. Raises `OSError` (`urllib.error.HTTPError` for a status from 400 on)."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, {"Content-Type": content_type}, method=method)
        with self._opener.open(request, timeout=20) as response:
            return bytes(response.read())

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """As `raw`, with the answer as JSON."""
        return json.loads(self.raw(method, path, body, content_type))

    def kubectl(self, *arguments: str, kubeconfig: str | None = None, check: bool = True) -> str:
        """What kubectl prints; it keeps its discovery cache in this control plane's folder."""
        done = subprocess.run(
            [
                program("kubectl"),
                f"--kubeconfig={kubeconfig or self.admin}",
                f"--cache-dir={self.folder / 'cache'}",
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 or not check, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    def namespace(self, name: str) -> str:
        """Make a namespace for one test; nothing deletes it, for nothing here could finish that."""
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
        return name

    def define(self, group: str, plural: str, kind: str, *, conditions: str = "map", version: str = "v1alpha1") -> str:
        """Make a namespaced CRD whose status has ``phase``, ``conditions`` (``map`` or ``atomic``) and named roles, and
        wait until it is established. Its collection's base path.
        """
        merging = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        text = {"type": "string"}
        condition = {
            "type": "object",
            "required": ["type", "status", "reason"],
            "properties": {
                **dict.fromkeys(("type", "status", "reason", "message"), text),
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer"},
            },
        }
        status = {
            "type": "object",
            "properties": {
                "phase": text,
                "lastObserved": text,
                "conditions": {"type": "array", "items": condition, **(merging if conditions == "map" else {})},
            },
        }
        spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        name = f"{plural}.{group}"
        served = {
            "name": version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        }
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
                "versions": [served],
            },
        }
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        try:
            self.call("POST", path, body)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            found = self.call("GET", f"{path}/{name}").get("status", {}).get("conditions") or []
            if any(each["type"] == "Established" and each["status"] == "True" for each in found):
                return f"/apis/{group}/{version}"
            time.sleep(0.05)
        raise AssertionError(f"{name} is not established")
