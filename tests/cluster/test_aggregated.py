"""The aggregated API behind a real kube-apiserver, asked with the real kubectl and past kube-apiserver at its own port."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporters.aggregated.resources import RESOURCES
from tests.cluster.aggregated import BASE, GROUP, Served, available, direct, reports, serving, wait_for
from tests.cluster.control_plane import ControlPlane, program

pytestmark = pytest.mark.cluster
MDM = f"{BASE}/namespaces/prod/modeldeploymentmetrics/chat"


@pytest.fixture(scope="module")
def served(cluster: ControlPlane) -> Iterator[Served]:
    path = cluster.define("worker.gpustack.ai", "modeldeployments", "ModelDeployment")
    body = {"apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment", "metadata": {"name": "chat"}}
    for namespace in ("prod", "demo"):
        cluster.namespace(namespace)
        cluster.call("POST", f"{path}/namespaces/{namespace}/modeldeployments", body)
    with serving(cluster, reports()) as it:
        index = lambda: GROUP.encode() in cluster.raw("GET", "/openapi/v3")  # noqa: E731 - asked again and again
        print(f"figure: OpenAPI known after {wait_for(index, lambda: 'no schema', 90):.1f} s")
        yield it


@pytest.fixture(scope="module")
def alice(cluster: ControlPlane, served: Served) -> str:
    """The kubeconfig of a user without any right; `token` is of a ServiceAccount of her name."""
    cluster.call("POST", "/api/v1/namespaces/prod/serviceaccounts", {"metadata": {"name": "alice"}})
    return cluster.user("alice")


def token(cluster: ControlPlane) -> str:
    path = "/api/v1/namespaces/prod/serviceaccounts/alice/token"
    return str(cluster.call("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"])


def test_the_plain_name_stays_the_crds(cluster: ControlPlane, served: Served) -> None:
    found = json.loads(cluster.kubectl("get", "modeldeployments", "chat", "-n", "prod", "-o", "json"))
    assert found["apiVersion"] == "worker.gpustack.ai/v1alpha1"
    assert GROUP in cluster.kubectl("get", f"modeldeployments.{GROUP}", "chat", "-n", "prod", "-o", "yaml")


def test_no_request_of_kube_apiserver_was_refused(cluster: ControlPlane, served: Served) -> None:
    """Its callers without groups are known too: discovery and OpenAPI answer them, and it is available."""
    assert available(cluster) == (True, "Passed: all checks passed")
    assert served.api is not None
    refused = {code: count for code, count in served.api.server.answered.items() if code >= 400 and code != 404}
    assert (refused, served.api.access.refused) == ({}, {})


def test_two_resources_one_kind_does_not_happen_in_kubectl(cluster: ControlPlane, served: Served) -> None:
    lines = cluster.kubectl("api-resources", f"--api-group={GROUP}", "--no-headers").splitlines()
    kinds = [line.split()[-1] for line in lines]
    assert kinds == [each.kind for each in RESOURCES]
    assert "mdm" in lines[0]


def test_a_table_is_sorted_filtered_and_paged_by_kubectl(cluster: ControlPlane, served: Served) -> None:
    def names(*arguments: str) -> list[str]:
        text = cluster.kubectl("get", "mdm", "-A", "--no-headers", *arguments)
        return ["/".join(line.split()[:2]) for line in text.splitlines()]

    assert names() == ["demo/chat", "lab/chat", "prod/chat", "prod/code"]
    assert names("-l", "team in (red,blue),tier!=gold") == ["prod/code"]
    assert names("--field-selector", "metadata.namespace=prod,metadata.name!=code") == ["prod/chat"]
    assert names("--sort-by", ".metadata.name") == ["demo/chat", "lab/chat", "prod/chat", "prod/code"]
    assert names("--chunk-size=1") == ["demo/chat", "lab/chat", "prod/chat", "prod/code"]
    assert "team=red" in cluster.kubectl("get", "mdm", "chat", "-n", "prod", "--show-labels")


REFUSED = [
    (("get", "mdm", "-A", "--field-selector", "spec.x=1"), "field label not supported: spec.x"),
    (("get", "mdm", "-A", "-w"), "cannot be watched"),
    (("get", "mdm", "gone", "-n", "prod"), 'modeldeploymentmetrics.metrics.modeldeployment.io "gone" not found'),
    (("delete", "mdm", "chat", "-n", "prod"), "MethodNotAllowed"),
    (("get", f"modeldeployments.{GROUP}", "-n", "prod"), "can only be asked for by name"),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=[" ".join(each[0]) for each in REFUSED])
def test_kubectl_shows_what_is_refused_and_why(
    cluster: ControlPlane, served: Served, arguments: tuple[str, ...], words: str
) -> None:
    assert words in cluster.kubectl(*arguments, check=False)


def test_a_user_without_rights_is_403_through_the_aggregator(cluster: ControlPlane, served: Served, alice: str) -> None:
    text = cluster.kubectl("get", "mdm", "chat", "-n", "prod", kubeconfig=alice, check=False)
    assert 'User "alice" cannot get resource "modeldeploymentmetrics"' in text


def test_a_user_without_rights_is_403_from_us_on_the_pod_port_and_gets_in_with_a_role(
    cluster: ControlPlane, served: Served, alice: str
) -> None:
    bearer = {"Authorization": f"Bearer {token(cluster)}"}
    status, body = direct(cluster, served, MDM, bearer)
    assert status == 403
    told = json.loads(body)["message"]
    assert 'User "system:serviceaccount:prod:alice" cannot get resource "modeldeploymentmetrics"' in told
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/prod"
    rule = {"apiGroups": [GROUP], "resources": ["modeldeploymentmetrics", "modeldeployments"], "verbs": ["get"]}
    cluster.call("POST", f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "alice", "namespace": "prod"}],
    }
    cluster.call("POST", f"{rbac}/rolebindings", binding)
    seconds = wait_for(lambda: direct(cluster, served, MDM, bearer)[0] == 200, lambda: "still refused", 20)
    print(f"figure: a new right counts after {seconds:.1f} s on the Pod port")
    observed = f"{BASE}/namespaces/prod/modeldeployments/chat"
    assert direct(cluster, served, observed, bearer)[0] == 200
    assert direct(cluster, served, f"{observed}/metrics", bearer)[0] == 403, "a subresource is granted on its own"


FORGED = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}


def test_forged_front_proxy_headers_are_401_on_the_pod_port(cluster: ControlPlane, served: Served, alice: str) -> None:
    assert direct(cluster, served, MDM, FORGED)[0] == 401
    bearer = {"Authorization": f"Bearer {token(cluster)}"}
    assert direct(cluster, served, MDM, {**FORGED, **bearer})[0] == 401
    assert direct(cluster, served, MDM, {"Authorization": "Bearer nobody"})[0] == 401
    assert direct(cluster, served, MDM)[0] == 401
    wrong = cluster.front_proxy.issue("somebody-else")
    assert direct(cluster, served, MDM, FORGED, wrong)[0] == 401, "the right CA and another name"
    right = cluster.front_proxy.issue("front-proxy-client")
    assert direct(cluster, served, MDM, FORGED, right)[0] == 200


def test_the_certificate_is_our_own_and_the_api_service_trusts_it(cluster: ControlPlane, served: Served) -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.metrics.modeldeployment.io"
    spec = cluster.call("GET", path)["spec"]
    assert spec["caBundle"]
    assert "insecureSkipTLSVerify" not in spec
    secret = cluster.call("GET", "/api/v1/namespaces/observer/secrets/observer-api-certificate")
    assert set(secret["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert secret["data"]["ca.crt"] == spec["caBundle"]


def test_partial_metadata_and_json_reach_clients_unchanged(cluster: ControlPlane, served: Served) -> None:
    text = cluster.kubectl("get", "mdm", "chat", "-n", "prod", "-o", "jsonpath={.metadata.labels.team} {.partial}")
    assert text == "red true"
    assert cluster.raw("GET", "/apis/metrics.modeldeployment.io").startswith(b'{"kind":"APIGroup"')


ROOT = Path(__file__).resolve().parents[2]


def readme_lines() -> list[str]:
    """The commands of the README's table, each as it stands there."""
    section = (ROOT / "README.md").read_text().partition("\n## In a cluster\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .* \| `(kubectl [^`]+)` \|$", section, re.MULTILINE)
    return [row.replace("\\|", "|") for row in rows]


@pytest.fixture(scope="module")
def terminal(cluster: ControlPlane, served: Served, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of somebody at a terminal: kubectl and its plugin on the PATH, a kubeconfig, no colours."""
    folder = tmp_path_factory.mktemp("path")
    plugin = folder / "kubectl-modeldeployment"
    plugin.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m observer.cli.plugin "$@"\n')
    plugin.chmod(0o755)
    path = os.pathsep.join([str(folder), str(Path(program("kubectl")).parent), os.environ["PATH"]])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OBSERVER_")}
    return {
        **kept,
        "PATH": path,
        "KUBECONFIG": cluster.admin,
        "KUBECACHEDIR": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
    }


def test_the_readmes_table_is_there() -> None:
    assert len(readme_lines()) >= 12


@pytest.mark.parametrize("line", readme_lines())
def test_each_line_of_the_readmes_table_answers(terminal: dict[str, str], line: str) -> None:
    done = subprocess.run(shlex.split(line), env=terminal, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    print(f"$ {line}\n{done.stdout[:600]}")


def test_the_plugin_and_the_cli_say_the_same_words_of_the_same_report(terminal: dict[str, str]) -> None:
    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "observer.cli.plugin", *arguments]
        done = subprocess.run(command, env=terminal, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "1 of 2 replicas are ready" in said("status", "chat", "-n", "demo")
    assert json.loads(said("explain", "chat", "-n", "demo", "-o", "json"))["sentences"] == ["One.", "Two.", "Three."]
    assert json.loads(said("metrics", "chat", "-n", "demo", "-o", "json"))["kind"] == "ModelDeploymentMetrics"


def test_the_plugin_says_what_to_do_about_a_missing_right(
    cluster: ControlPlane, terminal: dict[str, str], alice: str
) -> None:
    command = [sys.executable, "-m", "observer.cli.plugin", "status", "chat", "-n", "demo", "--kubeconfig", alice]
    done = subprocess.run(command, env=terminal, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"Ask for the right to get modeldeployments in the API group {GROUP}" in done.stderr
