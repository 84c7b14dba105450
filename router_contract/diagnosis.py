"""What a doctor finds out about one silent target, and what it concludes: facts in, findings out.

Facts are what was tried and what came of it; nothing in them is a conclusion. What was not tried is ``None`` or empty,
never a good result.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router_contract.readings import FailureKind


class Reach(StrEnum):
    """What became of one TCP connection."""

    CONNECTED = "Connected"
    REFUSED = "Refused"
    TIMEOUT = "Timeout"
    NO_ROUTE = "NoRoute"
    FORBIDDEN = "Forbidden"
    FAILED = "Failed"


class Certainty(StrEnum):
    """Whether the facts leave no other cause, or only make one likely."""

    CERTAIN = "Certain"
    LIKELY = "Likely"


class Dial(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One connection: to where, what became of it, and the first bytes that the other side sent unasked."""

    port: int
    reach: Reach
    seconds: float = 0.0
    greeting: bytes = b""
    detail: str = ""


class Certificate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a server's certificate says. ``identities`` are its URIs; ``expires`` is wall seconds."""

    names: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    self_signed: bool = False
    expires: float | None = None
    issuer: str = ""


class TlsSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What TLS on a port came to, whoever we trust: ``spoken`` is False when the port does not speak it.

    ``verify_code`` is OpenSSL's, from a handshake with the authorities that we trust; 0 is good, ``None`` was not tried.
    ``demands_client`` says that it closed for want of (or in spite of) our client certificate.
    """

    spoken: bool
    answered: bool = False
    demands_client: bool = False
    verify_code: int | None = None
    reason: str = ""
    certificate: Certificate | None = None


class Contents(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an exposition holds: names of the declared program, of other programs, and signals by its table.

    ``matched`` are signals under the stated version, ``matched_any`` under any; ``lost`` are the wire names that only
    another version's rows read. ``claims`` counts the names of other programs, most first.
    """

    names: int
    own: int = 0
    matched: int = 0
    matched_any: int = 0
    lost: tuple[str, ...] = ()
    claims: tuple[tuple[str, int], ...] = ()
    known_software: bool = True


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one read gave: a failure as the collector says it, or a body with its first bytes and contents.

    ``software`` is the program that the body was read as.
    """

    failure: FailureKind | None = None
    detail: str = ""
    status: int | None = None
    content_type: str = ""
    size: int = 0
    head: str = ""
    software: str = ""
    contents: Contents | None = None


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Another port or path of the same member: whether it can be reached, and how many names of the program it has."""

    port: int
    path: str
    reach: Reach
    own: int = 0


class KvSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One KV-event publisher's sockets."""

    rank: int
    endpoint: str
    events: Dial | None = None
    replay_endpoint: str = ""
    replay: Dial | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything found out about one target. ``here`` says that its address is one of the machine that asks."""

    namespace: str = "default"
    deployment: str = ""
    role: str = ""
    member: str = ""
    component: str = "engine"
    software: str = ""
    version: str | None = None
    scheme: str = "http"
    host: str
    port: int
    path: str = "/metrics"
    arguments: tuple[str, ...] = ()
    started: bool = True
    client_certificate: bool = False
    credentials: bool = False
    local_fault: str = ""
    addresses: tuple[str, ...] = ()
    dns_error: str = ""
    dns_hangs: bool = False
    here: bool = False
    dial: Dial | None = None
    loopback: Dial | None = None
    answer: Answer | None = None
    tls: TlsSeen | None = None
    plain: Answer | None = None
    elsewhere: tuple[Elsewhere, ...] = ()
    kv: tuple[KvSeen, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One conclusion: its cause (a word of a closed list), what was seen, and the exact setting or command to change."""

    cause: str
    certainty: Certainty
    said: str
    seen: tuple[str, ...] = ()
    change: tuple[str, ...] = ()


class Examined(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One target and what was concluded. ``well`` is True only when it was read and understood."""

    namespace: str
    deployment: str
    role: str
    member: str
    component: str
    software: str
    url: str
    well: bool
    findings: tuple[Diagnosis, ...]
