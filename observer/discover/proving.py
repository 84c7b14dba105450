"""One consistent uncached list of a deployment's engine Pods: the proof that nothing changed while views are lost."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from observer.clock import Clock
from observer.discover.platforms.engine import engine_pods, pod_namespace
from observer.discover.platforms.load import Platform
from observer.discover.platforms.members import readiness
from observer.discover.platforms.ranks import rank_ports
from observer.discover.platforms.select import Wanted
from observer.discover.platforms.taking import Scope
from observer.discover.platforms.world import World
from observer.kube.client import ApiClient
from observer.kube.records import Document, Pod, PodDecoder
from observer.kube.resources import PODS
from router_contract.judging import MembershipProof, ProofMember
from router_contract.targets import rank_uid

_PAGE = 500
MAX_PAGES = 20
"""Most pages of one list; a longer one proves nothing."""


class _Meta(msgspec.Struct, rename="camel"):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _Meta
    items: list[msgspec.Raw] | None = None


_page = msgspec.json.Decoder(_Page).decode


async def prove(client: ApiClient, clock: Clock, platform: Platform, target: Document, world: World) -> MembershipProof:
    """The proof at the moment the list was asked for. Objects beside Pods (owners) are those of ``world``."""
    at = clock.now()
    wants, _ = engine_pods(platform, target, world.with_pods(()))
    # what comes along with a Pod has labels of its own
    asked = "" if platform.document.pods.companions is not None else label_selector(wants)
    listed = await _list(client, pod_namespace(platform, target), asked) if wants else []
    if listed is None:
        return MembershipProof(at=at, members=None)
    _, pods = engine_pods(platform, target, world.with_pods(listed))
    ranks = max(1, len(rank_ports(platform.document.replicas, Scope(body=target.body, holes={}))))
    members = tuple(
        ProofMember(
            uid=rank_uid(pod.uid, rank), ready=readiness(pod, platform.document.ready), terminating=pod.terminating
        )
        for pod in pods
        for rank in range(ranks)
    )
    return MembershipProof(at=at, members=members)


async def _list(client: ApiClient, namespace: str, selector: str) -> list[Pod] | None:
    """Every Pod of a selector as of one version, ``None`` when one page failed or one Pod cannot be read."""
    decode, found, token = PodDecoder(), list[Pod](), ""
    for _ in range(MAX_PAGES):
        query = {"limit": str(_PAGE)}
        query |= {name: value for name, value in (("labelSelector", selector), ("continue", token)) if value}
        answer = await client.request("GET", PODS.collection(namespace), query=query)
        if not answer.ok:
            return None
        try:
            page = _page(answer.body)
            found += [decode(raw) for raw in page.items or ()]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        token = page.metadata.continue_
        if not token:
            return found
    return None


def label_selector(wants: Sequence[Wanted]) -> str:
    """Requirements as the API's label selector."""
    parts = []
    for each in wants:
        values = ",".join(each.values)
        if each.absent:
            parts.append(f"!{each.key}")
        elif each.unless:
            parts.append(f"{each.key} notin ({values})")
        elif each.values and not each.patterns:
            parts.append(f"{each.key}={values}" if len(each.values) == 1 else f"{each.key} in ({values})")
        else:
            parts.append(each.key)
    return ",".join(parts)
