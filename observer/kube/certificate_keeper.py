"""Keeps the replicas' own serving certificate: its Secret, and the bundle that the APIService trusts.

Every replica reads the Secret; only the leader writes it and patches exactly one APIService.
"""

from __future__ import annotations

import base64
import binascii
import logging
from typing import Any

from observer.clock import Clock
from observer.kube.answers import Answer, Outcome
from observer.kube.client import ApiClient
from observer.kube.issuing import SETTLED, Held, Step, make, next_step
from observer.kube.resources import Resource

_log = logging.getLogger(__name__)

SECRETS = Resource(version="v1", plural="secrets", kind="Secret")
API_SERVICES = Resource(
    group="apiregistration.k8s.io", version="v1", plural="apiservices", kind="APIService", namespaced=False
)
MERGE = "application/merge-patch+json"
_FIELDS = {"authorities": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}
_STEPS = 6
"""More than the longest chain of steps."""


class CertificateKeeper:
    """The Secret and the APIService of one aggregated API. ``trouble`` is empty while all is well."""

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        *,
        namespace: str,
        secret: str,
        service: str,
        api_service: str,
        settled: float = SETTLED,
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._secret = secret
        self._api_service = api_service
        self._settled = settled
        host = f"{service}.{namespace}.svc"
        self._names = (host, f"{host}.cluster.local")
        self.trouble = ""

    async def read(self) -> Held | None:
        """What the Secret holds now; ``None`` without one or when it cannot be read (then ``trouble`` says why)."""
        answer = await self._client.request("GET", SECRETS.path(self._secret, self._namespace))
        if answer.outcome is Outcome.NOT_FOUND:
            return None
        if not answer.ok:
            self._failed("reading the Secret", answer)
            return None
        self._failed("", None)
        return _held(answer.document())

    async def keep(self) -> Held | None:
        """Do every step that is due (leader only); what the Secret holds afterwards."""
        held: Held | None = None
        for _ in range(_STEPS):
            secret = await self._client.request("GET", SECRETS.path(self._secret, self._namespace))
            if not secret.ok and secret.outcome is not Outcome.NOT_FOUND:
                self._failed("reading the Secret", secret)
                return None
            document = secret.document() if secret.ok else {}
            held = _held(document)
            published = await self._published()
            if published is None:
                return held
            wall = self._clock.now().wall
            step = next_step(held, published, self._names, wall, self._settled)
            if step is Step.REST:
                self._failed("", None)
                return held
            _log.info("serving certificate of %s: %s", self._api_service, step.value)
            if step is Step.PUBLISH and held is not None:
                if not await self._publish(held.authorities):
                    return held
            elif not await self._write(make(step, held, published, self._names, wall), document):
                return held
        return held

    async def _published(self) -> str | None:
        """The bundle that the APIService trusts, empty for none (or no APIService yet); ``None`` when it cannot be read."""
        answer = await self._client.request("GET", API_SERVICES.path(self._api_service))
        if answer.outcome is Outcome.NOT_FOUND:
            return ""
        if not answer.ok:
            self._failed("reading the APIService", answer)
            return None
        return _text(answer.document().get("spec", {}).get("caBundle"))

    async def _publish(self, bundle: str) -> bool:
        body = {"spec": {"caBundle": base64.b64encode(bundle.encode()).decode()}}
        answer = await self._client.request(
            "PATCH", API_SERVICES.path(self._api_service), body=body, content_type=MERGE
        )
        if not answer.ok:
            self._failed("patching the APIService", answer)
        return answer.ok

    async def _write(self, held: Held, document: dict[str, Any]) -> bool:
        """Write the Secret over the version that was read; somebody who was faster wins, and is read the next time."""
        data = {key: base64.b64encode(getattr(held, field).encode()).decode() for field, key in _FIELDS.items()}
        metadata = document.get("metadata") or {"name": self._secret, "namespace": self._namespace}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": document.get("type") or "kubernetes.io/tls",
            "metadata": metadata,
            "data": {**(document.get("data") or {}), **data},
        }
        if document:
            path = SECRETS.path(self._secret, self._namespace)
            answer = await self._client.request("PUT", path, body=body)
        else:
            answer = await self._client.request("POST", SECRETS.collection(self._namespace), body=body)
        if not answer.ok and answer.outcome is not Outcome.CONFLICT:
            self._failed("writing the Secret", answer)
        return answer.ok

    def _failed(self, what: str, answer: Answer | None) -> None:
        """Say a new trouble once; without an answer there is none any more."""
        trouble = "" if answer is None else f"{what}: {answer.outcome}: {answer.message}"
        if trouble and trouble != self.trouble:
            _log.error("serving certificate of %s: %s", self._api_service, trouble)
        self.trouble = trouble


def _held(document: dict[str, Any]) -> Held | None:
    """What a Secret holds; ``None`` when a part that every one has is missing or is no text."""
    data = document.get("data") or {}
    found = {field: _text(data.get(key)) for field, key in _FIELDS.items()}
    if not (found["authorities"] and found["certificate"] and found["key"]):
        return None
    return Held(**found)


def _text(encoded: Any) -> str:
    try:
        return base64.b64decode(encoded or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
        return ""
