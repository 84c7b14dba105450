"""Names of Kubernetes resources and the paths they are served under."""

from __future__ import annotations

from urllib.parse import quote

import msgspec


class Resource(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One resource as the API serves it. ``group`` is empty for the core group, ``plural`` is the path segment."""

    group: str = ""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``group/version`` as objects carry it, the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """``plural.version.group``, the only form that no other group can take over."""
        return f"{self.plural}.{self.version}.{self.group}" if self.group else f"{self.plural}.{self.version}"

    def collection(self, namespace: str | None = None) -> str:
        """The path of the list, of one namespace or of all."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            return f"{base}/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{base}/{self.plural}"

    def path(self, name: str, namespace: str | None = None, subresource: str = "") -> str:
        """The path of one object or of its subresource. Raises `ValueError` when a namespace is needed and missing."""
        if self.namespaced and not namespace:
            raise ValueError(f"{self.full_name} {name!r}: found no namespace, wanted one")
        tail = f"/{subresource}" if subresource else ""
        return f"{self.collection(namespace)}/{quote(name, safe='')}{tail}"


PODS = Resource(version="v1", plural="pods", kind="Pod")
LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease")
CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
)
