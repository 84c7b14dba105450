"""One Pod as a member: where it listens, whether it serves, what is known of its life."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from urllib.parse import urlsplit

import msgspec

from observer.discover.platforms import paths
from observer.discover.platforms.document import EndpointRule, EventsRule, ReplicaRule
from observer.discover.platforms.taking import Scope, text
from observer.discover.platforms.values import Take
from observer.kube.records import Container, Pod
from router_contract.targets import Address, KvEventSource, Member, Ready, Tls

Refusal = Callable[[str], str | None]
"""Why a discovered address must not be read, ``None`` when it may be."""


def container_of(pod: Pod, names: Sequence[str]) -> Container | None:
    """The serving container: the first of ``names`` that the Pod has, else its first."""
    for name in names:
        for each in pod.containers:
            if each.name == name:
                return each
    return pod.containers[0] if pod.containers else None


_LAST = 253_402_300_800.0
"""The end of the year 9999 in wall seconds."""


def moment(written: str | None) -> float | None:
    """Wall seconds of a time as the API writes it, ``None`` for anything else.

    A time of the year 1 or 1970 is how programs write that they have none.
    """
    if not written:
        return None
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return None
    wall = found.timestamp() if found.tzinfo is not None else 0.0
    return wall if 0.0 < wall < _LAST else None


class Listeners(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for the addresses of one kind of Pod."""

    api: EndpointRule | None = None
    metrics: EndpointRule | None = None
    events: EventsRule = EventsRule()


class MemberBuilder:
    """Builds members; ``refusal`` judges every address."""

    def __init__(self, replicas: ReplicaRule, ready: tuple[str, ...], refusal: Refusal) -> None:
        self._replicas = replicas
        self._ready = ready
        self._refusal = refusal

    def build(
        self, scope: Scope, listeners: Listeners, *, serves: bool, ancillary: bool = False, seat: int | None = None
    ) -> Member:
        """The member of the Pod that ``scope`` is at. Raises nothing: what cannot be read is absent, and said."""
        pod, container = scope.pod, scope.container
        if pod is None:
            raise TypeError("a member is built at a Pod")
        host = pod.ip
        why = "" if serves else ("it is no member of the group" if ancillary else "it follows the replica's leader")
        metrics = api = None
        events: tuple[KvEventSource, ...] = ()
        refused = self._refusal(host) if host else None
        if host and refused is None:
            metrics, wrong = _address(listeners.metrics, scope, host)
            api, wrong_api = _address(listeners.api, scope, host)
            why = why or wrong or wrong_api
            events = _events(listeners.events, scope, host) if serves else ()
        total = text(self._replicas.total, scope)
        return Member(
            uid=pod.uid,
            name=pod.name,
            seat=seat,
            host=host,
            metrics=metrics,
            api=api,
            kv_events=events,
            ready=readiness(pod, self._ready),
            readiness_gated=container is not None and container.readiness_probe,
            serves=serves,
            started=started(pod, container),
            terminating=pod.terminating,
            node=pod.node,
            revision=text(self._replicas.revision, scope),
            restarts=container.restarts if container is not None else None,
            started_at=moment(container.started_at) if container is not None else None,
            declared_total=_total(total, self._replicas),
            skipped_reason=why or refused or "",
            ports=tuple(dict.fromkeys(port.container_port for each in pod.containers for port in each.ports)),
            ancillary=ancillary,
        )


def started(pod: Pod, container: Container | None) -> bool:
    """Whether its container runs, as far as the Pod says."""
    return pod.phase == "Running" and (
        container is None or container.started_at is not None or container.restarts is None
    )


_STATES = {state.value: state for state in Ready}


def readiness(pod: Pod, types: Sequence[str]) -> Ready:
    """Ready when every one of the condition types is True; one False is enough for False."""
    held = dict(pod.conditions)
    types = [kind.removesuffix("?") for kind in types if not kind.endswith("?") or kind.removesuffix("?") in held]
    states = [pod.ready if kind == "Ready" else _STATES.get(held.get(kind, ""), Ready.UNKNOWN) for kind in types]
    if Ready.FALSE in states:
        return Ready.FALSE
    return Ready.TRUE if states and all(state is Ready.TRUE for state in states) else Ready.UNKNOWN


def _total(written: str | None, rule: ReplicaRule) -> int | None:
    """What a Pod says of its replica's size. A text that is no number is a total that cannot be: -1."""
    if written is None:
        return rule.total_absent
    number = paths.whole(written)
    return -1 if number is None else number


def _address(rule: EndpointRule | None, scope: Scope, host: str) -> tuple[Address | None, str]:
    """An address, or none and why."""
    if rule is None:
        return None, ""
    written = text(rule.port, scope)
    port = paths.whole(written)
    if written is None:
        return None, "nothing says on which port it listens"
    if port is None or not 1 <= port <= 65535:
        return None, f"its port is {written!r}, wanted a number from 1 to 65535"
    scheme = (text(rule.scheme, scope) or "http").lower()
    if scheme not in {"http", "https"}:
        return None, f"its scheme is {scheme!r}, wanted http or https"
    path = text(rule.path, scope) or "/metrics"
    if not path.startswith("/"):
        return None, f"its path is {path!r}, wanted one that begins with /"
    tls = Tls(skip_verify=True) if scheme == "https" and rule.skip_verify else None
    return Address(scheme=scheme, host=host, port=port, path=path, tls=tls), ""


def _events(rule: EventsRule, scope: Scope, host: str) -> tuple[KvEventSource, ...]:
    """The member's publisher: the published port at its own address."""
    live = _socket(rule.endpoint, scope, host)
    if live is None:
        return ()
    return (
        KvEventSource(
            endpoint=live, replay_endpoint=_socket(rule.replay, scope, host), topic=text(rule.topic, scope) or ""
        ),
    )


def _socket(takes: Sequence[Take], scope: Scope, host: str) -> str | None:
    written = text(takes, scope)
    port = paths.whole(written)
    if port is None and written:
        try:
            port = urlsplit(written).port
        except ValueError:
            port = None
    if port is None or not 1 <= port <= 65535:
        return None
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
