"""One uncached list of a deployment's Pods, when a verdict needs proof that membership did not change meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from observer.clock import Clock
from observer.discover.platforms.select import Wanted, wanted
from observer.kube.client import ApiClient
from observer.kube.records import PodDecoder
from observer.kube.resources import PODS
from router_contract.discovered import Discovered
from router_contract.judging import MembershipProof, ProofMember


class _Pods(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_list = msgspec.json.Decoder(_Pods).decode


def label_selector(labels: Iterable[tuple[str, str]], found: Discovered) -> str:
    """The selector that asks the server for a deployment's Pods. What only a role would fill in is not asked for."""
    key = found.deployment.key

    def fill(text: str) -> str:
        return text.replace("{name}", key.name).replace("{namespace}", key.namespace)

    return ",".join(_term(each) for each in wanted(labels, fill) if "{" not in each.key + "".join(each.values))


def _term(each: Wanted) -> str:
    if each.absent:
        return f"!{each.key}"
    if not each.values:
        return each.key
    return f"{each.key}={each.values[0]}" if len(each.values) == 1 else f"{each.key} in ({','.join(each.values)})"


async def membership(
    client: ApiClient, clock: Clock, found: Discovered, labels: Iterable[tuple[str, str]]
) -> MembershipProof:
    """What the server holds now, not what a watch told: the Pods, or that they could not be listed."""
    query = {"labelSelector": label_selector(labels, found)}
    answer = await client.request("GET", PODS.collection(found.deployment.key.namespace), query=query)
    at = clock.now()
    if not answer.ok:
        return MembershipProof(at=at, members=None)
    decode = PodDecoder()
    try:
        pods = [decode(raw) for raw in _list(answer.body).items or ()]
    except msgspec.DecodeError:
        return MembershipProof(at=at, members=None)
    return MembershipProof(
        at=at, members=tuple(ProofMember(uid=pod.uid, ready=pod.ready, terminating=pod.terminating) for pod in pods)
    )
