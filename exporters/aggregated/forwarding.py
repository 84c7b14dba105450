"""Asking another replica: which one owns a deployment, and what it answers. A single replica owns everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from exporters.aggregated.refusals import RefusalError
from router_contract.targets import DeploymentKey
from router_contract.verdicts import DeploymentReport

FORWARDED = "Observer-Forwarded"
"""Header of a request from a replica to another, which is answered by whoever gets it: two never ask in a circle."""
FORWARD_SECONDS = 1.5
"""How long a replica waits for another."""


class PeerAnswer(msgspec.Struct, frozen=True):
    """What another replica said: a status and a JSON body."""

    status: int
    body: bytes


class Peers(Protocol):
    """The other replicas."""

    def owner(self, key: DeploymentKey) -> str | None:
        """The name of the replica that owns a deployment, ``None`` when it is this one (or nobody is known)."""
        ...

    def others(self) -> tuple[str, ...]:
        """The replicas that own deployments which this one does not, sorted."""
        ...

    async def ask(self, peer: str, path: str, query: Mapping[str, str]) -> PeerAnswer | None:
        """What a replica answers to a GET with the header `FORWARDED`, within `FORWARD_SECONDS`; ``None`` when it does not."""
        ...


class Elsewhere(Protocol):
    """Deployments that exist and other replicas own: what can be said of them when their owner does not answer."""

    def keys(self) -> tuple[DeploymentKey, ...]:
        """All of them, sorted."""
        ...

    def known(self, key: DeploymentKey) -> DeploymentReport | None:
        """One without anything read of it, ``None`` when it is none of them."""
        ...

    async def read(self, key: DeploymentKey) -> DeploymentReport | None:
        """One as read directly now, values without windows; ``None`` when it is none of them."""
        ...


class Nowhere:
    """This replica owns everything."""

    def keys(self) -> tuple[DeploymentKey, ...]:
        """None."""
        return ()

    def known(self, key: DeploymentKey) -> DeploymentReport | None:
        """None."""
        del key
        return None

    async def read(self, key: DeploymentKey) -> DeploymentReport | None:
        """None."""
        del key
        return None


class Alone:
    """No other replica."""

    def owner(self, key: DeploymentKey) -> str | None:
        """This one."""
        del key
        return None

    def others(self) -> tuple[str, ...]:
        """None."""
        return ()

    async def ask(self, peer: str, path: str, query: Mapping[str, str]) -> PeerAnswer | None:
        """Nobody is there to be asked."""
        del peer, path, query
        return None


async def said_by(peers: Peers, peer: str, path: str, query: Mapping[str, str]) -> dict[str, Any] | None:
    """What a replica says at a path; ``None`` when it cannot be had. Its refusal is raised as ours (`RefusalError`)."""
    answer = await peers.ask(peer, path, query)
    if answer is None or answer.status in {401, 403} or answer.status >= 500:
        return None
    try:
        value = msgspec.json.decode(answer.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if answer.status != 200:
        details = value.get("details") or {}
        raise RefusalError(
            answer.status,
            str(value.get("message", "")),
            plural=str(details.get("kind", "")),
            name=str(details.get("name", "")),
        )
    return value
