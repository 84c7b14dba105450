"""What a Pod's Ready proves on a role: that the engine answered, or only that a process started."""

from __future__ import annotations

from observer.judge.argv import Occurrence, Option, parse_integer, read_options
from observer.judge.parallelism import engine_family
from router_contract.platform_facts import PlatformFacts
from router_contract.status import Readiness, ReadinessMeaning
from router_contract.targets import Role

_LISTENER = (Option("host", ("--host",)), Option("port", ("--port",)))
_CERTIFICATES = (Option("certfile", ("--ssl-certfile",)), Option("keyfile", ("--ssl-keyfile",)))
_CLIENT = Option("certreqs", ("--ssl-cert-reqs",))
_NO_CLIENT_CERTIFICATE = frozenset({0, 1})
"""CERT_NONE and CERT_OPTIONAL: a probe without a certificate passes."""
# neighbours that argparse would also match: a prefix they share is ambiguous and resolves to nothing
_NEIGHBOURS = (
    Option("cacerts", ("--ssl-ca-certs",)),
    Option("ciphers", ("--ssl-ciphers",)),
    Option("refresh", ("--enable-ssl-refresh",), takes_value=False),
    Option("password", ("--ssl-keyfile-password",)),
)
_ALL = (*_LISTENER, *_CERTIFICATES, _CLIENT, *_NEIGHBOURS)


def read_listener(role: Role) -> dict[str, Occurrence]:
    """The last occurrence of each listener and TLS option in the role's own arguments."""
    vllm = engine_family(role.engine) == "vllm"
    return {item.option.dest: item for item in read_options(role.arguments, _ALL, underscores=vllm)}


def serves_tls(role: Role) -> bool:
    """Whether the role turns its scheme to https: a certificate or a key does, nothing else of the family."""
    found = read_listener(role)
    return "certfile" in found or "keyfile" in found


def readiness(role: Role, facts: PlatformFacts) -> Readiness:
    """The meaning of Ready on a role and the sentence why.

    Where an operator renders the gates the role's spec decides; elsewhere the Pods' own probes do.
    """
    if facts.ready_by_reading:
        return _answered("the observer reads the engine itself")
    if facts.managed:
        why = _ungated(role)
        return _started(why) if why else _answered("the gates read the engine's own /health on the serving port")
    members = [member for member in role.members() if member.serves]
    ungated = [member.name for member in members if not member.readiness_gated]
    if not members:
        return _started("no serving Pod was observed, so no gate was")
    return _started(f"{ungated[0]} carries no readiness gate") if ungated else _answered("every Pod carries a gate")


def _answered(why: str) -> Readiness:
    return Readiness(meaning=ReadinessMeaning.ENGINE_ANSWERED, why=why)


def _started(why: str) -> Readiness:
    return Readiness(meaning=ReadinessMeaning.PROCESS_STARTED, why=why)


def _ungated(role: Role) -> str:
    """Why a managed role carries no gates, or nothing when it does."""
    if role.command:
        return "the role replaces its command"
    if role.port_protocol.upper() != "TCP":
        return f"the role declares its port as {role.port_protocol}"
    found = read_listener(role)
    for dest in ("host", "port"):
        if dest in found:
            return f"the role moves its listener with {found[dest].flag}"
    if "certreqs" in found and ("certfile" in found or "keyfile" in found):
        return _client_certificate(found["certreqs"])
    return ""


def _client_certificate(item: Occurrence) -> str:
    if item.value is None:
        return f"{item.flag} has no value"
    number = parse_integer(item.value)
    if number is None:
        return f"{item.flag} is {item.value!r}, which is not a number"
    if number in _NO_CLIENT_CERTIFICATE:
        return ""
    return f"{item.flag} {number} demands a client certificate that a probe does not have"
