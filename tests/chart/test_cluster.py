"""The chart on a real API server: every object is accepted as it is, releases install, upgrade and go, and the roles allow
what the observer does and nothing beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any

import pytest

from tests.chart.rendering import AGGREGATED, CHART, EVERYTHING, MATRIX, NAMESPACED, rendered
from tests.cluster.control_plane import ControlPlane, program

pytestmark = pytest.mark.cluster
NOT_HERE = {"monitoring.coreos.com", "cert-manager.io", "argoproj.io"}
"""Groups of other projects, whose definitions we do not ship."""


def core(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in objects if each["apiVersion"].split("/")[0] not in NOT_HERE]


def helm_on(cluster: ControlPlane, *arguments: str, values: dict[str, Any] | None = None) -> str:
    """What helm says against the cluster; a failure is an `AssertionError` with its words."""
    folder = cluster.folder / "helm"
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": cluster.admin}
    done = subprocess.run(
        [program("helm"), *arguments, *([] if values is None else ["--values", "-"])],
        input=json.dumps(values), env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_the_server_takes_every_object_as_it_is(cluster: ControlPlane, values: dict[str, Any]) -> None:
    """Strict: a field that the server does not know is an error, not a warning."""
    objects = core(rendered(values))
    file = cluster.folder / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "utf-8")
    said = cluster.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(file))
    assert len(said.splitlines()) == len(objects)


def test_a_field_that_does_not_exist_is_refused(cluster: ControlPlane) -> None:
    """The test above can fail."""
    objects = [each for each in core(rendered({})) if each["kind"] == "Deployment"]
    objects[0]["spec"]["template"]["spec"]["containers"][0]["readonlyRootFilesystem"] = True
    file = cluster.folder / "objects.json"
    file.write_text(json.dumps(objects[0]), "utf-8")
    said = cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(file), check=False
    )
    assert "readonlyRootFilesystem" in said


def test_a_release_installs_upgrades_and_goes(cluster: ControlPlane) -> None:
    def secret(name: str) -> dict[str, str]:
        return dict(cluster.call("GET", f"/api/v1/namespaces/observer/secrets/{name}").get("data") or {})

    helm_on(cluster, "install", "lens", str(CHART), "-n", "observer", "--skip-crds", values=AGGREGATED)
    try:
        token = secret("lens-observer-token")["token"]
        assert len(token) > 40
        # What the replicas do with the Secret that the chart makes for them, and with the APIService.
        kept = {"tls.crt": "Yw==", "tls.key": "aw==", "ca.crt": "YQ=="}
        body = {"data": kept}
        cluster.call(
            "PATCH", "/api/v1/namespaces/observer/secrets/lens-observer-serving", body, "application/merge-patch+json"
        )
        said = helm_on(
            cluster, "upgrade", "lens", str(CHART), "-n", "observer", values={**AGGREGATED, "settings": {"scrape": {"period": "10s"}}}
        )  # fmt: skip
        assert "observer get --server" in said
        assert secret("lens-observer-token")["token"] == token
        assert secret("lens-observer-serving") == kept
        config = cluster.call("GET", "/api/v1/namespaces/observer/configmaps/lens-observer")
        assert "period: 10s" in config["data"]["settings.yaml"]
    finally:
        helm_on(cluster, "uninstall", "lens", "-n", "observer")
    left = cluster.kubectl(
        "get", "all,configmap,secret,role,rolebinding,serviceaccount", "-n", "observer", "-o", "name"
    )
    assert not [line for line in left.splitlines() if "lens" in line]
    assert "lens" not in cluster.kubectl("get", "clusterrole,clusterrolebinding,apiservice", "-o", "name")
    assert "observer.modeldeployment.io" in cluster.kubectl("get", "crd", "-o", "name")  # what was observed stays


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "The aggregated API is off (apiService.enabled)"),
        (NAMESPACED, "system:auth-delegator), and this\ninstall has Roles only"),
        (AGGREGATED, "kubectl delete apiservice v1.metrics.modeldeployment.io"),
        ({"replicas": 1}, "One replica for each shard"),
    ],
    ids=["cluster-wide", "namespaced", "aggregated", "one replica"],
)
def test_the_notes_say_what_was_chosen_and_why(cluster: ControlPlane, values: dict[str, Any], said: str) -> None:
    notes = helm_on(
        cluster, "install", "noted", str(CHART), "-n", "observer", "--skip-crds", "--dry-run=server", values=values
    )
    assert said in notes.split("NOTES:", 1)[1]


class Account:
    """Asks the server what a ServiceAccount may do."""

    def __init__(self, cluster: ControlPlane, namespace: str, name: str = "observer") -> None:
        self._cluster = cluster
        self._user = f"system:serviceaccount:{namespace}:{name}"
        self._groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]

    def may(self, what: str) -> bool:
        """``verb group/plural[/sub] namespace[/name]``; ``-`` is no namespace, the core group is empty."""
        verb, kind, place = what.split()
        group, _, plural = kind.partition("/")
        plural, _, sub = plural.partition("/")
        namespace, _, name = place.partition("/")
        attributes = {
            "verb": verb, "group": group, "resource": plural, "subresource": sub, "name": name,
            "namespace": "" if namespace == "-" else namespace,
        }  # fmt: skip
        review = {"spec": {"user": self._user, "groups": self._groups, "resourceAttributes": attributes}}
        answer = self._cluster.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def wait(self, what: str) -> None:
        """Until the server has seen new roles."""
        deadline = time.monotonic() + 20
        while not self.may(what):
            assert time.monotonic() < deadline, f"never allowed: {what}"
            time.sleep(0.1)


SETS = {
    "cluster-wide": (
        {},
        [
            "list /pods -", "watch /pods team-a", "list worker.gpustack.ai/modeldeployments -",
            "list kueue.x-k8s.io/workloads -", "list apps/replicasets team-b",
            "patch worker.gpustack.ai/modeldeployments/status team-a",
            "create observer.modeldeployment.io/modeldeploymentobservations team-a",
            "delete observer.modeldeployment.io/modeldeploymentobservations team-a",
            "patch observer.modeldeployment.io/modeldeploymentobservations/status team-a",
            "patch observer.modeldeployment.io/canaryanalyses/status team-a",
            "create events.k8s.io/events team-a", "create coordination.k8s.io/leases observer",
        ],
        [
            "get apiextensions.k8s.io/customresourcedefinitions -", "get /secrets team-a/prometheus", "list /secrets observer", "create authentication.k8s.io/tokenreviews -",
            "create authorization.k8s.io/subjectaccessreviews -", "create coordination.k8s.io/leases team-a",
            "get /configmaps kube-system/extension-apiserver-authentication",
            "patch apiregistration.k8s.io/apiservices -/v1.metrics.modeldeployment.io",
        ],
    ),
    "everything": (
        {**EVERYTHING, "certificates": {"mode": "selfManaged"}},
        [
            "get /secrets team-a/prometheus", "get /secrets team-a/other", "get /secrets team-b/prometheus",
            "get /secrets observer/observer-serving", "update /secrets observer/observer-serving",
            "create authentication.k8s.io/tokenreviews -", "create authorization.k8s.io/subjectaccessreviews -",
            "list /configmaps kube-system/extension-apiserver-authentication",
            "watch /configmaps kube-system/extension-apiserver-authentication",
            "patch apiregistration.k8s.io/apiservices -/v1.metrics.modeldeployment.io",
            "list ome.io/inferenceservices -", "create observer.modeldeployment.io/canaryanalyses team-a",
            # A replica asks the owner over the aggregated API.
            "get metrics.modeldeployment.io/modeldeploymentmetrics team-a", "list metrics.modeldeployment.io/modeldeploymentmetrics -",
            "get metrics.modeldeployment.io/modeldeployments/explain team-a",
        ],
        [
            "get /secrets team-b/other", "get /secrets observer/observer-token", "list /secrets team-a",
            "watch /secrets team-a", "update /secrets team-a/prometheus", "get /configmaps kube-system/other",
            "patch apiregistration.k8s.io/apiservices -/v1.apps", "delete apiregistration.k8s.io/apiservices -/v1.metrics.modeldeployment.io",
        ],
    ),
    "namespaced": (
        {"watch": {"namespaces": ["team-a"]}},
        [
            "list /pods team-a", "watch worker.gpustack.ai/modeldeployments team-a",
            "patch worker.gpustack.ai/modeldeployments/status team-a",
            "create observer.modeldeployment.io/modeldeploymentobservations team-a",
            "patch observer.modeldeployment.io/modeldeploymentobservations/status team-a",
            "update coordination.k8s.io/leases roles-only", "create events.k8s.io/events team-a",
        ],
        [
            "list /pods -", "list /pods team-b", "list worker.gpustack.ai/modeldeployments -",
            "get apiextensions.k8s.io/customresourcedefinitions -", "patch worker.gpustack.ai/modeldeployments/status team-b",
            "list /namespaces -", "create observer.modeldeployment.io/modeldeploymentobservations team-b",
        ],
    ),
}  # fmt: skip
"""By install: its values, what its account may do, and what it may not."""
NEVER = [
    "create /pods team-a", "delete /pods team-a", "patch /pods team-a", "create /pods/exec team-a", "create /pods/eviction team-a",
    "update worker.gpustack.ai/modeldeployments team-a", "patch worker.gpustack.ai/modeldeployments team-a",
    "delete worker.gpustack.ai/modeldeployments team-a", "patch apps/deployments team-a", "patch apps/deployments/scale team-a",
    "create rbac.authorization.k8s.io/clusterrolebindings -", "escalate rbac.authorization.k8s.io/clusterroles -",
    "impersonate /users -", "get /nodes -", "list /secrets -", "create /secrets observer", "create /serviceaccounts/token observer",
]  # fmt: skip
"""The observer acts on nothing: whatever the values, none of this."""


@pytest.mark.parametrize("name", SETS)
def test_the_account_may_do_its_work_and_nothing_beside_it(cluster: ControlPlane, name: str) -> None:
    values, allowed, refused = SETS[name]
    home = "roles-only" if name == "namespaced" else "observer"
    kinds = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    objects = [each for each in rendered(values, namespace=home) if each["kind"] in kinds]
    file = cluster.folder / "roles.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "utf-8")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    try:
        account = Account(cluster, home)
        for what in allowed:
            account.wait(what)
        assert [what for what in [*refused, *NEVER] if account.may(what)] == []
    finally:
        cluster.kubectl("delete", "-f", str(file), "--wait=false")
