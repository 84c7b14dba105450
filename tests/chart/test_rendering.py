"""What the chart renders, over a matrix of values: who may do what, what runs and how, and what is refused."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dashboards.rules import EXPORTED, prometheus_rule
from observer.settings import Settings, load_files
from tests.chart.rendering import (
    AGGREGATED,
    CHART,
    EVERYTHING,
    GATE,
    MATRIX,
    NAMESPACED,
    ROOT,
    Refused,
    helm,
    of,
    one,
    rendered,
    rules,
)

pytestmark = pytest.mark.cluster
CASES = pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)


@CASES
def test_helm_finds_nothing_to_say(values: dict[str, Any]) -> None:
    said = helm("lint", "--strict", str(CHART), "--kube-version", "1.36.0", values=values)
    assert "0 chart(s) failed" in said
    assert "[WARNING]" not in said


@CASES
def test_every_object_has_its_place_and_the_labels_of_the_release(values: dict[str, Any]) -> None:
    found = rendered(values)
    ids = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in found]
    assert len(ids) == len(set(ids)), ids
    cluster = {"ClusterRole", "ClusterRoleBinding", "APIService"}
    for each in found:
        assert ("namespace" in each["metadata"]) == (each["kind"] not in cluster), each["metadata"]
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "observer"


@CASES
def test_nobody_is_given_more_than_is_needed(values: dict[str, Any]) -> None:
    for role, rule in rules(rendered(values)):
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]], role
        if "secrets" in rule["resources"]:
            assert rule["resourceNames"], f"{role}: Secrets without names"
            assert set(rule["verbs"]) <= {"get", "update"}, f"{role}: {rule['verbs']} on Secrets"
        if "apiservices" in rule["resources"]:
            assert rule["resourceNames"] == ["v1.metrics.modeldeployment.io"]
        writes = {"create", "update", "patch", "delete", "deletecollection"} & set(rule["verbs"])
        theirs = [group for group in rule["apiGroups"] if not group.endswith("modeldeployment.io")]
        if writes and theirs:
            allowed = {"leases", "events", "secrets", "apiservices"}
            assert all(name in allowed or name.endswith("/status") for name in rule["resources"]), f"{role}: {rule}"


@CASES
def test_pods_run_without_rights_on_a_root_that_cannot_be_written(values: dict[str, Any]) -> None:
    for each in of(rendered(values), "Deployment"):
        spec = each["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert each["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
        assert {probe for probe in container if probe.endswith("Probe")} == {
            "startupProbe", "livenessProbe", "readinessProbe",
        }  # fmt: skip
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}
        assert [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == ["tmp"]


@CASES
def test_the_settings_are_read_by_the_observer_without_a_fault(values: dict[str, Any], tmp_path: Any) -> None:
    """The file as the Pod has it: big numbers, empty lists and the chart's own keys survive the templates."""
    data = one(rendered(values), "ConfigMap", "observer")["data"]
    for name, text in data.items():
        (tmp_path / name).write_text(text, "utf-8")
    settings = load_files([tmp_path]).settings
    assert (
        settings.http.token_file == f"/etc/observer/token/{values.get('auth', {}).get('token', {}).get('key', 'token')}"
    )
    assert settings.kubernetes.watch.namespaces == tuple(values.get("watch", {}).get("namespaces", ()))
    assert settings.kubernetes.shards == values.get("shards", 1) == len(of(rendered(values), "Deployment"))
    assert settings.aggregated.enabled == values.get("apiService", {}).get("enabled", False)
    if values is EVERYTHING:
        assert settings.limits.targets == 1_000_000
        assert len(settings.canary.secrets) == 3


def test_what_settings_say_wins_over_what_the_chart_knows(tmp_path: Any) -> None:
    values = {"settings": {"http": {"listen": "[::]:9480"}, "kubernetes": {"watch": {"namespaces": ["team-c"]}}}}
    found = rendered(values)
    (tmp_path / "settings.yaml").write_text(one(found, "ConfigMap")["data"]["settings.yaml"], "utf-8")
    settings = load_files([tmp_path]).settings
    assert settings.http.listen == "[::]:9480"
    assert settings.http.token_file == "/etc/observer/token/token"
    assert of(found, "ClusterRole") == []  # the roles follow what is watched in fact
    assert {each["metadata"]["namespace"] for each in of(found, "Role")} == {"observer", "team-c"}


def test_ports_follow_where_the_settings_listen() -> None:
    settings = {"http": {"listen": "0.0.0.0:8088"}, "aggregated": {"listen": "[::]:8443"}}
    found = rendered({**AGGREGATED, "settings": settings, "networkPolicy": {"enabled": True}})
    (container,) = one(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {"http": 8088, "https": 8443}
    policy = one(found, "NetworkPolicy")["spec"]
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == {8088, 8443}
    for service in of(found, "Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= {"http", "https"}


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_whoever_asks_does_so_by_the_scheme_of_the_settings(scheme: str) -> None:
    files = {"certFile": "/etc/observer/secrets/http/tls.crt", "keyFile": "/etc/observer/secrets/http/tls.key"}
    values = {
        "settings": {"http": {"tls": files}} if scheme == "https" else {},
        "secretMounts": [{"name": "http", "secretName": "observer-http"}],
        "serviceMonitor": {"enabled": True, "tlsConfig": {"serverName": "observer"}},
        "gates": {"argoRollouts": [GATE], "examples": True},
    }
    found = rendered(values)
    (container,) = one(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {(probe["scheme"], probe["port"]) for probe in probes} == {(scheme.upper(), "http")}
    (endpoint,) = one(found, "ServiceMonitor")["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == (scheme, {"serverName": "observer"})
    url = one(found, "AnalysisTemplate")["spec"]["metrics"][0]["provider"]["web"]["url"]
    assert url.startswith(f"{scheme}://observer.observer.svc:9480/api/v1/canary/demo/chat-2/engine")
    for text in one(found, "ConfigMap", "observer-gates")["data"].values():
        assert re.findall(r"(\w+)://observer.observer", text) == [scheme] * text.count("://observer.observer")


def test_namespaces_need_roles_in_them_and_nothing_of_the_cluster() -> None:
    found = rendered(NAMESPACED, crds=False)
    assert not {each["kind"] for each in found} & {"ClusterRole", "ClusterRoleBinding", "APIService"}
    places = {each["metadata"]["namespace"] for each in of(found, "Role")}
    assert places == {"observer", "team-a", "team-b"}
    for binding in of(found, "RoleBinding"):
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "observer", "namespace": "observer"}]
    assert not [rule for _, rule in rules(found) if "customresourcedefinitions" in rule["resources"]]


def test_a_kind_that_is_off_is_in_no_role_and_not_read(tmp_path: Any) -> None:
    def granted(values: dict[str, Any]) -> set[str]:
        return {name for _, rule in rules(rendered(values)) for name in rule["resources"]}

    assert "workloads" in granted({})
    off = {"informers": {"workloads": False}}
    assert granted({}) - granted(off) == {"workloads"}
    (tmp_path / "settings.yaml").write_text(one(rendered(off), "ConfigMap")["data"]["settings.yaml"], "utf-8")
    read = load_files([tmp_path]).settings.kubernetes.optional
    assert read is not None
    assert "workloads" not in read
    assert "bindings" in read


@pytest.mark.parametrize(
    ("status", "lost"),
    [
        ({"conditionsOnTarget": "Never"}, {"modeldeployments/status"}),
        ({"events": False}, {"events"}),
        ({"enabled": False}, {"modeldeployments/status", "events", "modeldeploymentobservations/status"}),
    ],
    ids=["no conditions on the target", "no events", "nothing is written"],
)
def test_what_settings_do_not_write_may_not_be_written(status: dict[str, Any], lost: set[str]) -> None:
    def granted(values: dict[str, Any]) -> set[str]:
        found = rendered(values)
        observer = [each for each in of(found, "ClusterRole") if each["metadata"]["name"].endswith("-watch")]
        writing = {"create", "update", "patch", "delete"}
        return {name for _, rule in rules(observer) if writing & set(rule["verbs"]) for name in rule["resources"]}

    assert lost <= granted({})
    assert granted({}) - granted({"settings": {"kubernetes": {"status": status}}}) >= lost


def test_secrets_are_read_only_where_and_as_settings_name_them() -> None:
    found = {
        each["metadata"]["namespace"]: each["rules"] for each in of(rendered(EVERYTHING), "Role") if each["metadata"]["name"] == "observer-secrets"
    }  # fmt: skip
    assert {place: [(rule["resourceNames"], rule["verbs"]) for rule in made] for place, made in found.items()} == {
        "team-a": [(["other", "prometheus"], ["get"])],
        "team-b": [(["prometheus"], ["get"])],
    }


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an API service of one replica": ({**AGGREGATED, "replicas": 1}, "apiService.enabled needs replicas of at least 2, found 1"),
    "an API service by roles": ({**AGGREGATED, **NAMESPACED}, "an install by Roles only does not have"),
    "a certificate without its authority": (
        {**AGGREGATED, "certificates": {"mode": "existingSecret", "existingSecret": {"name": "mine"}}},
        "certificates.existingSecret.caBundle is empty",
    ),
    "an own certificate without a name": (
        {**AGGREGATED, "certificates": {"mode": "existingSecret", "existingSecret": {"caBundle": "PEM"}}},
        "certificates.existingSecret.name is empty",
    ),
    "an aggregated API behind the chart's back": ({"settings": {"aggregated": {"enabled": True}}}, "Set apiService.enabled: true"),
    "no service account": ({"serviceAccount": {"create": False}}, "serviceAccount.name is empty"),
    "a key that settings lack": ({"settings": {"scrape": {"peroid": "5s"}}}, "additional properties 'peroid' not allowed"),
    "a duration that is none": ({"settings": {"scrape": {"period": "5"}}}, "does not match pattern"),
    "a number beyond its bound": ({"settings": {"limits": {"targets": 0}}}, "minimum: got 0, want 1"),
    "a value that the chart lacks": ({"replica": 3}, "additional properties 'replica' not allowed"),
    "a root user": ({"runAsUser": 0}, "minimum: got 0, want 1"),
    "a priority above that of CRDs": ({"apiService": {"priority": 2000}}, "maximum: got 2,000, want 999"),
    "a token's key that is a path": ({"auth": {"token": {"key": "../settings.yaml"}}}, "does not match pattern"),
    "a token's key that is the folder above": ({"auth": {"token": {"key": ".."}}}, "'not' failed"),
    "settings twice": ({"extraConfig": {"settings.yaml": "x"}}, "extraConfig has settings.yaml"),
    "a platform nobody knows": ({"platforms": {"nobody": True}}, "additional properties 'nobody' not allowed"),
}  # fmt: skip


@pytest.mark.parametrize("key", ["on", "null", "1.0", "0x1f", "token"])
def test_a_token_s_key_is_a_text_whatever_it_looks_like(key: str) -> None:
    found = rendered({"auth": {"token": {"key": key}}, "serviceMonitor": {"enabled": True}})
    (secret,) = [each for each in found if each["kind"] == "Secret"]
    assert list(secret["data"]) == [key]
    (monitor,) = [each for each in found if each["kind"] == "ServiceMonitor"]
    assert monitor["spec"]["endpoints"][0]["authorization"]["credentials"]["key"] == key


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_with_a_sentence(name: str) -> None:
    values, said = REFUSED[name]
    with pytest.raises(Refused) as refusal:
        rendered(values)
    assert said in str(refusal.value)


def test_each_shard_stands_alone() -> None:
    found = rendered({"shards": 3, "replicas": 2})
    deployments = of(found, "Deployment")
    assert [each["metadata"]["name"] for each in deployments] == ["observer-0", "observer-1", "observer-2"]
    selectors = [json.dumps(each["spec"]["selector"], sort_keys=True) for each in deployments]
    assert len(set(selectors)) == 3
    for each in deployments:
        assert each["spec"]["replicas"] == 2
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
        term = each["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
        (preferred,) = term["preferredDuringSchedulingIgnoredDuringExecution"]
        assert preferred["podAffinityTerm"]["labelSelector"] == each["spec"]["selector"]
        budget = one(found, "PodDisruptionBudget", each["metadata"]["name"])
        assert budget["spec"]["selector"] == each["spec"]["selector"]
        assert budget["spec"]["minAvailable"] == 1
    service = one(found, "Service")
    assert all(service["spec"]["selector"].items() <= each["spec"]["template"]["metadata"]["labels"].items() for each in deployments)  # fmt: skip


def test_one_replica_has_no_budget_that_would_keep_its_node() -> None:
    assert of(rendered({"replicas": 1}), "PodDisruptionBudget") == []


@pytest.mark.parametrize("mode", ["selfManaged", "certManager", "existingSecret"])
def test_the_serving_certificate_comes_from_where_it_was_said(mode: str) -> None:
    values = {
        **AGGREGATED,
        "certificates": {"mode": mode, "existingSecret": {"name": "mine", "caBundle": "PEM"}},
    }
    found = rendered(values)
    api = one(found, "APIService")
    assert api["spec"]["service"] == {"name": "observer-api", "namespace": "observer", "port": 443}
    assert api["spec"]["groupPriorityMinimum"] == 100
    assert "insecureSkipTLSVerify" not in api["spec"]
    volumes = {each["name"] for each in one(found, "Deployment")["spec"]["template"]["spec"]["volumes"]}
    if mode == "selfManaged":
        secret = one(found, "Secret", "observer-serving")
        assert "data" not in secret  # the replicas fill it
        assert "caBundle" not in api["spec"]
        assert "serving" not in volumes
        role = one(found, "Role", "observer-serving")["rules"]
        assert role == [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["observer-serving"], "verbs": ["get", "update"]}]  # fmt: skip
    else:
        assert "serving" in volumes
        assert of(found, "Role", "observer-serving") == []
    if mode == "certManager":
        certificate = one(found, "Certificate", "observer-api")
        assert certificate["spec"]["dnsNames"][0] == "observer-api.observer.svc"
        assert certificate["spec"]["issuerRef"]["name"] == "observer-api-ca"  # a CA, not a self-signed issuer
        assert api["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == "observer/observer-api"
    if mode == "existingSecret":
        assert api["spec"]["caBundle"] == "UEVN"
    settings = Settings()
    assert settings.aggregated.enabled is False  # off unless asked for
    delegates = [each["roleRef"]["name"] for each in of(found, "ClusterRoleBinding")]
    assert "system:auth-delegator" in delegates


@pytest.mark.parametrize("honoured", [True, False], ids=["honoured", "renamed"])
def test_the_rules_are_the_repository_s(honoured: bool) -> None:
    values = {
        "prometheusRule": {
            "enabled": True,
            "runbooks": "https://books.example/run/",
            "grafana": "https://grafana.example",
        },
        "serviceMonitor": {"enabled": True, "honorLabels": honoured},
    }
    found = rendered(values)
    rule = one(found, "PrometheusRule")
    told = {"runbooks": "https://books.example/run", "grafana": "https://grafana.example"}
    wanted = prometheus_rule("observer", "observer", **({} if honoured else {"labels": EXPORTED}), **told)  # type: ignore[arg-type]  # one dict, two types
    assert rule["spec"] == json.loads(json.dumps(wanted["spec"]))
    monitor = one(found, "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["honorLabels"] is honoured
    assert endpoint["authorization"]["credentials"] == {"name": "observer-token", "key": "token"}
    service = one(found, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]


def test_the_dashboards_are_the_repository_s() -> None:
    found = [each for each in of(rendered({"dashboards": {"enabled": True}}), "ConfigMap") if "grafana_dashboard" in each["metadata"]["labels"]]  # fmt: skip
    shipped = {path.name: path.read_text("utf-8") for path in (ROOT / "dashboards" / "grafana").glob("*.json")}
    assert {name: text for each in found for name, text in each["data"].items()} == shipped
    assert len(found) == len(shipped) == 6


def test_the_gate_s_manifests_are_those_of_the_docs() -> None:
    found = rendered(EVERYTHING)
    template = one(found, "AnalysisTemplate")
    shipped = YAML(typ="safe").load((ROOT / "docs/canary/argo-rollouts.yaml").read_text("utf-8"))
    assert template["spec"] == shipped["spec"]
    assert template["metadata"]["name"] == shipped["metadata"]["name"]
    examples = one(found, "ConfigMap", "observer-gates")["data"]
    assert examples == {path.name: path.read_text("utf-8") for path in (ROOT / "docs" / "canary").glob("*.yaml")}
    other = {**GATE, "analysis": "code-7", "namespace": "team", "component": "decode", "revision": "9"}
    moved = rendered({"gates": {"argoRollouts": [other]}}, release="lens", namespace="ops")
    url = one(moved, "AnalysisTemplate")["spec"]["metrics"][0]["provider"]["web"]["url"]
    assert url.startswith("http://lens-observer.ops.svc:9480/api/v1/canary/team/code-7/decode?revision=9&")


def test_the_network_policy_opens_what_is_read_and_no_more() -> None:
    policy = one(rendered(EVERYTHING), "NetworkPolicy")["spec"]
    opened = {(port["protocol"], port["port"]) for rule in policy["egress"] for port in rule["ports"]}
    assert {
        ("UDP", 53),
        ("TCP", 53),
        ("TCP", 443),
        ("TCP", 6443),
        ("TCP", 5557),
        ("TCP", 5558),
        ("TCP", 9090),
    } <= opened
    assert all(rule["ports"] for rule in [*policy["egress"], *policy["ingress"]])
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == {9480, 10250}
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_two_releases_share_no_name_of_the_cluster() -> None:
    def names(namespace: str) -> set[tuple[str, str]]:
        return {
            (each["kind"], each["metadata"]["name"]) for each in rendered({}, namespace=namespace) if "namespace" not in each["metadata"]
        }  # fmt: skip

    assert names("one")
    assert not names("one") & names("two")


def test_what_the_install_page_says_of_values_renders() -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        assert rendered(YAML(typ="safe").load(block))
    for command in re.findall(r"helm (?:install|upgrade) .*", page):
        assert "charts/observer" in command


def test_a_packed_chart_holds_what_the_links_point_to(tmp_path: Path) -> None:
    helm("package", str(CHART), "--destination", str(tmp_path))
    (archive,) = tmp_path.glob("observer-*.tgz")
    with tarfile.open(archive) as packed:
        assert all(member.isfile() for member in packed.getmembers())
        names = set(packed.getnames())
    for folder, kept in (
        ("dashboards/grafana", "dashboards"),
        ("dashboards/rules", "rules"),
        ("docs/canary", "canary"),
    ):
        for path in (ROOT / folder).iterdir():
            assert f"observer/files/{kept}/{path.name}" in names
    assert archive.stat().st_size < 500_000  # a release is kept in a Secret, which holds 1 MiB
