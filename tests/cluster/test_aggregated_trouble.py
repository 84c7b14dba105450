"""The aggregated API while things go wrong: authorities and certificates rotated under load, and we are down."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from observer.kube.answers import Outcome, answered
from observer.kube.issuing import DAY, Step, make
from tests.cluster.aggregated import (
    BASE,
    GROUP,
    NAMESPACE,
    SERVICE,
    Leading,
    Load,
    Served,
    available,
    grant,
    register,
    reports,
    unregister,
    wait_available,
    wait_for,
)
from tests.cluster.control_plane import ControlPlane, Program, free_port
from tests.fakes.authority import Authority

pytestmark = pytest.mark.cluster
MDM = f"{BASE}/namespaces/prod/modeldeploymentmetrics/chat"
HOST = f"{SERVICE}.{NAMESPACE}.svc"
NAMES = (HOST, f"{HOST}.cluster.local")


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that these tests may hurt."""
    plane = ControlPlane(tmp_path_factory.mktemp("hurt"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="module")
def kubeconfig(hurt: ControlPlane) -> str:
    return grant(hurt)


def certificate_shown(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 5) as plain:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain, server_hostname=HOST) as shown:
            return shown.getpeercert(binary_form=True) or b""


def test_the_serving_authority_is_rotated_under_load_without_one_failure(hurt: ControlPlane, kubeconfig: str) -> None:
    """An old authority with an old leaf: a new one is published beside it, then the leaf is replaced."""
    now = time.time()
    held = make(Step.CREATE, None, "", NAMES, now - 800 * DAY)
    held = make(Step.NEW_LEAF, held, "", NAMES, now - 70 * DAY)
    data = {"ca.crt": held.authorities, "ca.key": held.authority_key, "tls.crt": held.certificate, "tls.key": held.key}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    body = {"metadata": {"name": "observer-api-certificate"}, "type": "kubernetes.io/tls", "data": encoded}
    hurt.call("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", body)
    leading = Leading(leads=False)
    served = Served(kubeconfig, reports(), leading=leading, settled=2.0)
    served.start()
    try:
        register(hurt, served.port, bundle=encoded["ca.crt"])
        wait_available(hurt)
        before = certificate_shown(served.port)
        with Load(hurt, MDM) as load:
            leading.leads = True
            seconds = wait_for(lambda: certificate_shown(served.port) != before, lambda: "the same certificate", 30)
            settled = load.answers
            wait_for(lambda: load.answers > settled + 50, lambda: load.failures, 30)
        assert load.failures == []
        bundle = hurt.call("GET", f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{GROUP}")["spec"]["caBundle"]
        assert base64.b64decode(bundle).count(b"BEGIN") == 2, (
            "old and new are both trusted until the old one is dropped"
        )
        print(f"figure: serving authority rotated in {seconds:.1f} s, {load.answers} answers, no failure")
    finally:
        unregister(hurt)
        served.stop()
        hurt.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}")


def test_ca_rotation_with_open_connections_behind_a_real_front_proxy(hurt: ControlPlane, kubeconfig: str) -> None:
    """kube-apiserver's front-proxy CA becomes old and new, its certificate the new one's; nobody notices."""
    served = Served(kubeconfig, reports())
    served.start()
    try:
        register(hurt, served.port)
        wait_available(hurt)
        folder = Path(hurt.front_proxy.ca_file).parent
        fresh = Authority(folder, "front-proxy-2")
        old = Path(hurt.front_proxy.ca_file).read_text()
        assert served.api is not None
        access = served.api.access
        with Load(hurt, MDM) as load:
            begun = time.monotonic()
            Path(hurt.front_proxy.ca_file).write_text(old + Path(fresh.ca_file).read_text())
            wait_for(lambda: access.proxy is not None and access.proxy.ca.count("BEGIN") == 2, lambda: access.proxy, 80)
            told = time.monotonic() - begun
            fresh.issue("front-proxy-client")  # over the files that kube-apiserver follows
            answers = load.answers
            wait_for(lambda: load.answers > answers + 100, lambda: load.failures, 60)
        assert load.failures == []
        only_fresh(served, fresh)
        moved = wait_for(lambda: answers_well(hurt), lambda: access.refused, 90)
        assert access.proxy is not None
        assert access.proxy.ca.count("BEGIN") == 1
        print(
            f"figure: the new front-proxy CA was trusted after {told:.1f} s, {load.answers} answers, no failure; its new "
            f"certificate alone was enough {moved:.1f} s after the old CA was dropped"
        )
    finally:
        unregister(hurt)
        served.stop()
        hurt.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}")


def only_fresh(served: Served, fresh: Authority) -> None:
    """What the replica does once the ConfigMap has dropped the old authority (kube-apiserver itself only ever adds)."""
    bundle = Path(fresh.ca_file).read_text()
    done = threading.Event()

    def drop() -> None:
        assert served.api is not None
        assert served.api.access.proxy is not None
        served.api.believe(replace(served.api.access.proxy, ca=bundle))
        done.set()

    served.call(drop)
    assert done.wait(10)


def answers_well(plane: ControlPlane) -> bool:
    try:
        plane.raw("GET", MDM)
    except OSError:
        return False
    return True


def test_text_503_from_the_aggregator_while_we_are_down_and_back(hurt: ControlPlane, kubeconfig: str) -> None:
    served = Served(kubeconfig, reports())
    served.start()
    port = served.port
    register(hurt, port)
    wait_available(hurt)
    served.stop()
    try:
        with pytest.raises(urllib.error.HTTPError) as failed:
            hurt.raw("GET", MDM)
        with failed.value as error:
            body = error.read()
        assert (failed.value.code, failed.value.headers["Content-Type"].partition(";")[0]) == (503, "text/plain")
        found = answered(503, body)
        assert (found.outcome, bool(found.message)) == (Outcome.UNAVAILABLE, True)
        text = hurt.kubectl("get", "--raw", MDM, check=False)
        assert "unavailable" in text or "unable to handle the request" in text
        seconds = wait_for(lambda: not available(hurt)[0], lambda: available(hurt), 60)
        again = Served(kubeconfig, reports(), port=port)
        again.start()
        try:
            back = wait_available(hurt)
            assert b"ModelDeploymentMetrics" in hurt.raw("GET", MDM)
        finally:
            again.stop()
        print(f"figure: unavailable {seconds:.1f} s after the end, available {back:.1f} s after the new start")
    finally:
        unregister(hurt)
        hurt.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}")


def test_namespace_deletion_while_we_are_down_hangs_and_ends_when_we_are_back(
    hurt: ControlPlane, kubeconfig: str
) -> None:
    """Why the APIService is off unless two replicas stand behind it."""
    port = free_port()
    register(hurt, port, bundle=None)
    manager = Program(
        hurt.folder, "kube-controller-manager", f"--kubeconfig={hurt.admin}", "--controllers=namespace-controller",
        "--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={hurt.folder}",
    )  # fmt: skip
    manager.start()
    try:
        wait_for(lambda: not available(hurt)[0], lambda: available(hurt))
        hurt.namespace("doomed")
        hurt.call("DELETE", "/api/v1/namespaces/doomed")

        def conditions() -> dict[str, str]:
            found = hurt.call("GET", "/api/v1/namespaces/doomed").get("status", {}).get("conditions") or []
            return {each["type"]: each["message"] for each in found if each["status"] == "True"}

        wait_for(lambda: "NamespaceDeletionDiscoveryFailure" in conditions(), conditions)
        assert GROUP in conditions()["NamespaceDeletionDiscoveryFailure"]
        served = Served(kubeconfig, reports(), port=port)
        served.start()
        try:
            wait_available(hurt)
            seconds = wait_for(lambda: not exists(hurt, "/api/v1/namespaces/doomed"), conditions, 60)
        finally:
            unregister(hurt)
            served.stop()
        print(f"figure: the deletion hung while we were down and ended {seconds:.1f} s after we were available")
    finally:
        manager.stop()


def exists(plane: ControlPlane, path: str) -> bool:
    try:
        plane.raw("GET", path)
    except urllib.error.HTTPError as error:
        with error:
            return error.code != 404
    return True
