"""The observer itself, as the chart configures it and with no right but what the chart's roles give, on a real API server."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from observer.app.aggregated import API_SERVICE
from observer.clock import SystemClock
from observer.kube.certificate_keeper import CertificateKeeper
from observer.settings import load_files
from tests.chart.rendering import AGGREGATED, ROOT, one, rendered
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gpustack_world import define
from tests.cluster.running import client_for

pytestmark = pytest.mark.cluster
HOME = "roles-only"
RIGHTS = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
TOKEN = "a-token-of-the-test"
OBSERVATIONS = "/apis/observer.modeldeployment.io/v1alpha1/namespaces/{}/modeldeploymentobservations"
TARGETS = "/apis/worker.gpustack.ai/v1alpha1/namespaces/{}/modeldeployments"
WAIT = 60.0
PLATFORMS = json.loads((ROOT / "charts" / "observer" / "files" / "platforms.json").read_text("utf-8"))
NOT_CHOSEN = (
    {kind["group"] for name in PLATFORMS.keys() - {"gpustack"} for kind in PLATFORMS[name]}
    - {kind["group"] for kind in PLATFORMS["gpustack"]}
    - {""}
)
"""Groups of platforms that the chart does not enable unless told."""


def kubeconfig(cluster: ControlPlane, namespace: str, name: str) -> Path:
    """A kubeconfig of a ServiceAccount, with the token that a Pod would be given."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    token = cluster.call("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    file = cluster.folder / f"{namespace}-{name}.kubeconfig"
    context = {"cluster": "test", "user": name, "namespace": namespace}
    server = {"server": cluster.server, "certificate-authority": cluster.authority.ca_file}
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": context}],
        "clusters": [{"name": "test", "cluster": server}],
        "users": [{"name": name, "user": {"token": token}}],
    }
    file.write_text(json.dumps(value), "utf-8")
    return file


class Running:
    """One observer in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self.log = log

    def said(self) -> str:
        return self.log.read_text("utf-8", errors="replace")

    def url(self) -> str:
        """Where it answers, once it says so."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            found = re.search(r"answering at\s+(http://\S+)", self.said())
            if found:
                return found[1]
            assert self._process.poll() is None, self.said()
            time.sleep(0.1)
        raise AssertionError(f"it never answered: {self.said()}")

    def get(self, path: str, token: str | None = TOKEN) -> tuple[int, bytes]:
        """One request."""
        request = urllib.request.Request(self.url() + path)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@contextmanager
def observer(config: Path, kubeconfig_file: Path, log: Path, arguments: list[str]) -> Iterator[Running]:
    """The command of the chart's container, with a kubeconfig in place of a Pod's own credentials."""
    command = [
        sys.executable,
        "-m",
        "observer",
        *arguments,
        "--listen",
        "127.0.0.1:0",
        "--kubeconfig",
        str(kubeconfig_file),
    ]
    assert f"--config={config}" in command
    environment = os.environ | {
        "POD_NAME": "observer-0-abc",
        "POD_NAMESPACE": HOME,
        "OBSERVER_SHARD": "0",
        "COLUMNS": "400",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=config)
    try:
        yield Running(process, log)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def observed(cluster: ControlPlane, namespace: str) -> dict[str, Any] | None:
    """The only observation of a namespace once it has a phase."""
    try:
        items = cluster.call("GET", OBSERVATIONS.format(namespace))["items"]
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 429:  # the server still makes room for a definition that is new
            raise
        return None
    return next((each for each in items if each.get("status", {}).get("phase")), None)


def test_an_install_by_roles_observes_its_namespaces_and_no_other(cluster: ControlPlane, tmp_path: Path) -> None:
    define(cluster, ROOT / "tests" / "cluster" / "modeldeployments.yaml")
    objects = rendered({"watch": {"namespaces": ["team-a"]}}, namespace=HOME)
    roles = [each for each in objects if each["kind"] in RIGHTS]
    file = cluster.folder / "running.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": roles}), "utf-8")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    role = {"name": "server", "kind": "Server", "replicas": 1, "size": 1}
    target = {
        "apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment", "metadata": {"name": "chat"},
        "spec": {"model": {"name": "tiny"}, "engine": {"name": "vllm", "version": "0.32.0"}, "roles": [role]},
    }  # fmt: skip
    for namespace in ("team-a", "team-b"):
        cluster.call("POST", TARGETS.format(namespace), target)
    config, token = tmp_path / "config", tmp_path / "token"
    config.mkdir()
    token.write_text(f"{TOKEN}\n", "utf-8")
    for name, text in one(objects, "ConfigMap")["data"].items():
        (config / name).write_text(text.replace("/etc/observer/token/token", str(token)), "utf-8")
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    arguments = [each.replace("/etc/observer/config", str(config)) for each in container["args"]]

    with observer(config, kubeconfig(cluster, HOME, "observer"), tmp_path / "log", arguments) as running:
        deadline = time.monotonic() + WAIT
        while (found := observed(cluster, "team-a")) is None:
            assert time.monotonic() < deadline, running.said()
            time.sleep(0.2)
        assert found["spec"]["targetRef"]["name"] == "chat"
        for probe in ("livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            while (answer := running.get(path, token=None))[0] != 200:
                assert time.monotonic() < deadline, answer
                time.sleep(0.2)
        assert running.get("/metrics", token=None)[0] == 401
        assert running.get("/metrics", token="another")[0] == 401
        status, metrics = running.get("/metrics")
        assert status == 200
        assert b'modeldeployment_info{deployment="chat",engine="vllm",model="tiny",namespace="team-a"' in metrics
        assert b'namespace="team-b"' not in metrics
        assert observed(cluster, "team-b") is None
        # What the roles do not give would be told here; Kueue is not installed, which is another matter, and kinds of
        # platforms that the chart was not told of may not be read.
        refused = [line for line in running.said().splitlines() if "forbidden" in line.lower()]
        assert [line for line in refused if not any(group in line for group in NOT_CHOSEN)] == []
        lease = cluster.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/observer-0")
        assert lease["spec"]["holderIdentity"] == "observer-0-abc"
        assert TOKEN not in running.said()


async def test_the_replicas_can_keep_their_certificate_with_the_rights_of_the_chart(cluster: ControlPlane) -> None:
    """The chart's empty Secret is filled and its APIService trusts it; another Secret cannot be touched."""
    objects = [each for each in rendered(AGGREGATED) if each["kind"] in RIGHTS | {"Secret", "Service", "APIService"}]
    file = cluster.folder / "certificate.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "utf-8")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    try:
        config = cluster.folder / "certificate.yaml"
        config.write_text(one(rendered(AGGREGATED), "ConfigMap")["data"]["settings.yaml"], "utf-8")
        settings = load_files([config]).settings.aggregated
        names = {"namespace": "observer", "service": settings.service, "api_service": API_SERVICE}
        async with client_for(str(kubeconfig(cluster, "observer", "observer"))) as client:
            keeper = CertificateKeeper(client, SystemClock(), secret=settings.secret, **names)
            async with asyncio.timeout(WAIT):
                while await keeper.keep() is None or keeper.trouble:
                    await asyncio.sleep(0.2)  # the server has not seen the roles yet
            other = CertificateKeeper(client, SystemClock(), secret="observer-token", **names)
            assert await other.keep() is None
            assert "Forbidden" in other.trouble
        secret = cluster.call("GET", "/api/v1/namespaces/observer/secrets/observer-serving")["data"]
        trusted = cluster.call("GET", f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}")["spec"]["caBundle"]
        assert trusted == secret["ca.crt"]
        certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["tls.crt"]))
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert "observer-api.observer.svc" in alternatives.get_values_for_type(x509.DNSName)
    finally:
        cluster.kubectl("delete", "-f", str(file), "--wait=false")
