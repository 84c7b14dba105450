"""The doctor's rows about reaching a target: before it starts, names, connections, and who listens."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from observer.judge.diagnosis_row import POLICY, Row, yes
from router_contract.diagnosis import Certainty, Elsewhere, Facts, Reach

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def _reach(facts: Facts) -> Reach | None:
    return facts.dial.reach if facts.dial is not None else None


def other_connects(facts: Facts) -> bool:
    """Whether another port of the same member accepts connections."""
    return any(each.reach is Reach.CONNECTED and each.port != facts.port for each in facts.elsewhere)


def found_elsewhere(facts: Facts) -> Elsewhere | None:
    """Where else the program's metrics are, with the most of its names."""
    return max((each for each in facts.elsewhere if each.own), key=lambda each: each.own, default=None)


def _loopback_only(facts: Facts) -> Mapping[str, object] | None:
    if _reach(facts) is not Reach.REFUSED:
        return None
    if facts.loopback is not None and facts.loopback.reach is Reach.CONNECTED:
        return {"evidence": f"127.0.0.1:{facts.port} on the same machine accepts"}
    told = _bound(facts.arguments)
    return {"evidence": f"its command line says {told}"} if told else None


def _bound(arguments: tuple[str, ...]) -> str:
    """The part of a command line that binds the server to loopback."""
    for word, value in pairwise((*arguments, "")):
        name, _, inline = word.partition("=")
        if name in {"--host", "--prometheus-host"} and (inline or value) in _LOOPBACK:
            return f"{name} {inline or value}"
    return ""


def _wrong_port(facts: Facts) -> Mapping[str, object] | None:
    found = found_elsewhere(facts)
    if found is None or _reach(facts) not in {Reach.REFUSED, Reach.TIMEOUT, Reach.NO_ROUTE} or found.port == facts.port:
        return None
    return {"found_port": found.port, "found_path": found.path, "found_names": found.own}


def _greeted(facts: Facts) -> Mapping[str, object] | None:
    greeting = facts.dial.greeting if facts.dial is not None else b""
    return yes(is_zmq(greeting))


def is_zmq(greeting: bytes) -> bool:
    """Whether a socket's first bytes are ZeroMQ's."""
    return len(greeting) >= 10 and greeting[0] == 0xFF and greeting[9] & 1 == 1


ROWS: tuple[Row, ...] = (
    Row(
        cause="NotStarted",
        said="{member} has no running container, so nothing can listen there",
        told="The platform says that no container of the Pod runs.",
        change=(
            "kubectl -n {namespace} describe pod {member}  # what holds its start: image, volumes, quota, scheduling",
        ),
        when=lambda facts: yes(not facts.started),
    ),
    Row(
        cause="CredentialFile",
        said="a file that the read needs cannot be used: {local_fault}",
        told="A token, authority or certificate file of ours cannot be read; nothing was sent.",
        change=(
            "correct `bearerTokenFile` or `tls` of the member, its role or its deployment, or the file itself",
            "in the cluster: mount the Secret into the observer's Pod",
        ),
        when=lambda facts: yes(bool(facts.local_fault)),
    ),
    Row(
        cause="NameHangs",
        certainty=Certainty.LIKELY,
        said="the name {host} is not answered by the name server: its queries are dropped",
        told="Looking the name up does not end, where a name that does not exist ends at once.",
        change=(
            (
                "allow UDP and TCP 53 to the cluster's DNS in the egress of the observer's namespace: "
                "kubectl -n OBSERVER_NAMESPACE get networkpolicy"
            ),
            "getent hosts {host}  # from the observer's Pod",
        ),
        when=lambda facts: yes(facts.dns_hangs),
    ),
    Row(
        cause="NameUnknown",
        said="no such name: {host} ({dns_error})",
        told="The name server answers that the name has no address.",
        change=(
            "correct `address` of the member (a Service's full name is NAME.{namespace}.svc)",
            "kubectl -n {namespace} get service,endpointslice  # a headless Service has a name only while it has Pods",
        ),
        when=lambda facts: yes(bool(facts.dns_error)),
    ),
    Row(
        cause="WrongPort",
        said="the metrics of {software} are on port {found_port}{found_path}, not on {port}",
        told="The port that is asked does not answer and another one of the member has the program's metrics.",
        change=("set `metricsPort: {found_port}` and `metricsPath: {found_path}`",),
        when=_wrong_port,
    ),
    Row(
        cause="PortDropped",
        certainty=Certainty.LIKELY,
        said="packets to port {port} are dropped while another port of {host} accepts: a network policy leaves it out",
        told="The connection times out (nobody refuses it) and another port of the same Pod connects.",
        change=POLICY,
        when=lambda facts: yes(_reach(facts) is Reach.TIMEOUT and other_connects(facts)),
    ),
    Row(
        cause="HostDropped",
        certainty=Certainty.LIKELY,
        said="packets to {host} are dropped: a network policy denies us, or the Pod or its node is gone",
        told="The connection times out on every port that was tried. A process that is down would refuse.",
        change=("kubectl -n {namespace} get pod {member} -o wide  # is it there, with this address?", *POLICY),
        when=lambda facts: yes(_reach(facts) is Reach.TIMEOUT),
    ),
    Row(
        cause="Rejected",
        certainty=Certainty.LIKELY,
        said="the connection to {host}:{port} is rejected on the way: a policy or firewall answers for it",
        told="The network says that the connection is forbidden (EACCES, EPERM) rather than letting it time out.",
        change=POLICY,
        when=lambda facts: yes(_reach(facts) is Reach.FORBIDDEN),
    ),
    Row(
        cause="NoRoute",
        said="there is no route to {host}",
        told="The network says that host or network cannot be reached.",
        change=(
            "kubectl -n {namespace} get pod {member} -o wide  # is it there, with this address and address family?",
            "ip route get {host}  # from where the observer runs",
        ),
        when=lambda facts: yes(_reach(facts) is Reach.NO_ROUTE),
    ),
    Row(
        cause="LoopbackOnly",
        said="the program listens only on loopback: {evidence}, and {host}:{port} refuses",
        told="The connection is refused, and loopback accepts on the same machine or the command line binds there.",
        change=(
            "start it with `--host 0.0.0.0` (`--host ::` for IPv6); a router's metrics with `--prometheus-host 0.0.0.0`",
        ),
        when=_loopback_only,
    ),
    Row(
        cause="PortClosed",
        certainty=Certainty.LIKELY,
        said="nothing listens on port {port} of {host}, which is up: another port of it accepts",
        told="The connection is refused at once and another port of the same Pod connects.",
        change=(
            "set `metricsPort` to the port that the program serves metrics on",
            "kubectl -n {namespace} exec {member} -- cat /proc/net/tcp /proc/net/tcp6  # 0A in column st is a listener",
            "when it listens on 127.0.0.1 only: start it with `--host 0.0.0.0`",
        ),
        when=lambda facts: yes(_reach(facts) is Reach.REFUSED and other_connects(facts)),
    ),
    Row(
        cause="NothingListens",
        certainty=Certainty.LIKELY,
        said="nothing listens on port {port} of {host}: the program is down or still starts, or the port is wrong",
        told="The connection is refused at once on every port that was tried.",
        change=(
            "kubectl -n {namespace} get pod {member}; kubectl -n {namespace} logs {member} --tail=50",
            "when it runs: set `metricsPort` to the port in its command line (`--port`)",
        ),
        when=lambda facts: yes(_reach(facts) is Reach.REFUSED),
    ),
    Row(
        cause="KvPortAsked",
        said="port {port} speaks ZeroMQ: it publishes KV events and has no metrics",
        told="The other side's first bytes are ZeroMQ's greeting.",
        change=("set `metricsPort` to the API's port, and give tcp://{host}:{port} as `kvEvents` instead",),
        when=_greeted,
    ),
    Row(
        cause="CannotConnect",
        certainty=Certainty.LIKELY,
        said="no connection to {host}:{port}: {dial_detail}",
        told="The operating system says why.",
        change=("correct `address` and `metricsPort` of the member",),
        when=lambda facts: yes(_reach(facts) is Reach.FAILED),
    ),
)
