"""What discovery on a platform yields for one deployment: the fleet's view of it, the platform's words, its object."""

from __future__ import annotations

import msgspec

from router_contract.platform_facts import PlatformFacts
from router_contract.targets import Deployment


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    """One Kubernetes object by its full name. ``plural`` is the resource; a re-created object has another ``uid``."""

    group: str
    version: str
    kind: str
    plural: str
    namespace: str
    name: str
    uid: str

    @property
    def api_version(self) -> str:
        """``group/version``, or ``version`` alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Discovered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One deployment as a platform shows it.

    ``target`` is the platform's own object, ``None`` where a platform has none (plain Pods by labels). ``labels`` and
    ``annotations`` are those of the object (trimmed). ``conditions_map`` says whether the object's status conditions
    are a list-map, so that conditions of ours may be applied beside the operator's; ``None`` is not known.
    """

    deployment: Deployment
    facts: PlatformFacts
    target: ObjectReference | None = None
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    conditions_map: bool | None = None
