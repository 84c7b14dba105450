"""Credentials from kubeconfig files, and that nothing of Kubernetes is imported without --kubernetes."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_asyncio.config import incluster_config

from observer.kube.credentials import LoadedCredentials
from observer.kube.identity import CredentialsError
from tests.fakes.authority import Authority


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> str:
    path = folder / "config"
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(value))
    return str(path)


async def test_a_token_and_a_ca(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    data = base64.b64encode(Path(authority.ca_file).read_bytes()).decode()
    config = kubeconfig(
        tmp_path, {"token": "secret"}, **{"certificate-authority-data": data, "tls-server-name": "kube"}
    )
    credentials = await LoadedCredentials.load(config)
    context, name = credentials.tls()
    assert (credentials.server, credentials.proxy, name) == ("https://127.0.0.1:6443", None, "kube")
    assert await credentials.headers() == {"Authorization": "Bearer secret"}
    assert context is not None
    assert context.cert_store_stats()["x509_ca"] == 1
    assert credentials.tls()[0] is context, "connections are kept while files stay"


async def test_a_client_certificate_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("admin")
    user = {"client-certificate": cert, "client-key": key}
    credentials = await LoadedCredentials.load(
        kubeconfig(tmp_path, user, **{"certificate-authority": authority.ca_file, "proxy-url": "http://127.0.0.1:3128"})
    )
    before = credentials.tls()[0]
    assert (await credentials.headers(), credentials.proxy) == ({}, "http://127.0.0.1:3128")
    authority.issue("admin")
    assert credentials.tls()[0] is not before
    Path(key).write_text("nonsense")
    with pytest.raises(CredentialsError, match="certificates of kubeconfig"):
        credentials.tls()


async def test_an_exec_plugin_is_run_and_run_again_on_refresh(tmp_path: Path) -> None:
    count = tmp_path / "count"
    plugin = tmp_path / "plugin"
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t%d"}}'
    plugin.write_text(f"#!/bin/sh\necho x >> {count}\nprintf '{answer}' $(wc -l < {count})\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    credentials = await LoadedCredentials.load(kubeconfig(tmp_path, user))
    assert await credentials.headers() == {"Authorization": "Bearer t1"}
    await credentials.refresh()
    assert await credentials.headers() == {"Authorization": "Bearer t2"}


async def test_an_in_cluster_token_is_read_again_on_refresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", Authority(tmp_path).ca_file)
    credentials = await LoadedCredentials.load()
    assert (credentials.server, await credentials.headers()) == ("https://[::1]:443", {"Authorization": "Bearer first"})
    token.write_text("second")
    await credentials.refresh()
    assert await credentials.headers() == {"Authorization": "Bearer second"}
    token.write_text("")
    with pytest.raises(CredentialsError, match="Token file exists but empty"):
        await credentials.refresh()
    assert await credentials.headers() == {"Authorization": "Bearer second"}, "what worked last stays"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "kubeconfig"),
        ("a: [", "kubeconfig"),
        ("[]", "kubeconfig"),
        ("current-context: x\ncontexts: []\nclusters: []\n", "Expected object with name x"),
    ],
)
async def test_a_malformed_file_is_one_error_that_names_it(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(CredentialsError, match=words) as raised:
        await LoadedCredentials.load(str(path))
    assert str(path) in str(raised.value)


async def test_a_missing_file_and_no_cluster_around_us_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="found no such file, wanted a kubeconfig"):
        await LoadedCredentials.load(str(tmp_path / "absent"))
    with pytest.raises(CredentialsError, match="the in-cluster service account: Service host/port is not set"):
        await LoadedCredentials.load()


def test_without_kubernetes_nothing_of_it_is_imported() -> None:
    program = "import sys, observer.cli; print([name for name in sys.modules if 'kubernetes_asyncio' in name])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
