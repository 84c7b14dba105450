"""The `status.router` contract that an operator publishes: which roles a router serves, by what selectors, and where.

It names sources and is no live sample. `decode_router` reads the parsed JSON object of a status: strict about what it
understands, tolerant of keys it does not know, which it lists. Any fault means no contract, with every fault named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from router_contract.targets import RoleKind, role_kind

MAX_TEXT = 512
"""Longest endpoint, in characters."""
MAX_ROLES = 64
MAX_SELECTOR = 64

_ROLE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ENDPOINT = re.compile(r"(?P<scheme>[a-z]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s/:@\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class KvEvents(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a role publishes KV events. The address is a Service: one connection reaches one Pod of several."""

    endpoint: str
    replay_endpoint: str = ""
    topic: str = ""


class ContractRole(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One role as the router is told of it. ``selector`` is in the order published."""

    name: str
    kind: str = RoleKind.SERVER
    selector: tuple[tuple[str, str], ...]
    endpoint: str
    kv_events: KvEvents | None = None


class MetricNames(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which engine series the router reads, and the one serving port that all roles share."""

    port: int
    queued_requests: str
    running_requests: str
    kv_cache_utilization: str


class RouterContract(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A deployment's published router contract. Empty ``pool_endpoint``: no cache pool, or not found."""

    name: str
    endpoint: str
    pool_endpoint: str = ""
    roles: tuple[ContractRole, ...]
    metrics: MetricNames | None = None


class Fault(msgspec.Struct, frozen=True, gc=False):
    """One thing wrong: where (``roles[1].endpoint``), the value found, the value wanted."""

    path: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.path}: found {self.found}, want {self.wanted}"


class Decoded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What decoding gave: a contract, or none with its faults (none and no fault: nothing is published).

    ``unknown`` are the paths of keys that were not understood and left out.
    """

    contract: RouterContract | None = None
    faults: tuple[Fault, ...] = ()
    unknown: tuple[str, ...] = ()


def _shown(value: object) -> str:
    """A value for people, short: a broken status must not flood a log."""
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class _Reader:
    """One object of the status at a path: takes known keys, collects faults, remembers what nobody took."""

    def __init__(self, path: str, value: object, faults: list[Fault], unknown: list[str]) -> None:
        self._path = path
        self._faults = faults
        self._unknown = unknown
        self._taken: set[str] = set()
        self.ok = isinstance(value, Mapping)
        self._values: Mapping[object, object] = value if isinstance(value, Mapping) else {}
        if not self.ok:
            self.fault("", value, "an object")

    def at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path and key else self._path or key or "status.router"

    def fault(self, key: str, found: object, wanted: str) -> None:
        self._faults.append(Fault(self.at(key), "nothing" if found is None else _shown(found), wanted))

    def take(self, key: str) -> object:
        self._taken.add(key)
        return self._values.get(key)

    def child(self, key: str) -> _Reader | None:
        """The optional object at a key; a null reads as absent."""
        value = self.take(key)
        return None if value is None else _Reader(self.at(key), value, self._faults, self._unknown)

    def children(self, key: str) -> Iterator[_Reader]:
        """The objects of the list at a key, up to the limit."""
        value = self.take(key)
        if not isinstance(value, list | tuple) or not value:
            self.fault(key, value, "a list of at least one role")
            return
        if len(value) > MAX_ROLES:
            self.fault(key, value, f"at most {MAX_ROLES} roles")
        for index, item in enumerate(value[:MAX_ROLES]):
            yield _Reader(f"{self.at(key)}[{index}]", item, self._faults, self._unknown)

    def text(self, key: str, wanted: str, accepts: Callable[[str], bool], *, optional: bool = False) -> str:
        """The text at a key; ``""`` and a fault where it is not as wanted; ``""`` where optional and empty."""
        value = self.take(key)
        if optional and (value is None or value == ""):
            return ""
        if not isinstance(value, str) or not accepts(value):
            self.fault(key, value, wanted)
            return ""
        return value

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """The text-to-text object at a key, in its order."""
        value = self.take(key)
        if not isinstance(value, Mapping) or not value:
            self.fault(key, value, "an object of label values")
            return ()
        if len(value) > MAX_SELECTOR:
            self.fault(key, value, f"at most {MAX_SELECTOR} labels")
            return ()
        for label, text in value.items():
            if not isinstance(label, str) or not isinstance(text, str):
                self.fault(f"{key}[{_shown(label)}]", text, "text")
        return tuple((str(label), str(text)) for label, text in value.items())

    def done(self) -> None:
        """Remember the keys that nobody took."""
        self._unknown.extend(self.at(str(key)) for key in self._values if key not in self._taken)


def _is_endpoint(schemes: frozenset[str], *, port: bool) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        match = _ENDPOINT.fullmatch(text)
        if match is None or len(text) > MAX_TEXT or match["scheme"] not in schemes:
            return False
        return not port if match["port"] is None else 1 <= int(match["port"]) <= 65535

    return accepts


_HTTP = _is_endpoint(frozenset({"http", "https"}), port=False)
_TCP = _is_endpoint(frozenset({"tcp"}), port=True)
_WANT_HTTP = f"http(s)://host[:port] of at most {MAX_TEXT} characters"
_WANT_TCP = f"tcp://host:port of at most {MAX_TEXT} characters"


def _short(text: str) -> bool:
    return len(text) <= MAX_TEXT


def _kv_events(reader: _Reader) -> KvEvents:
    events = KvEvents(
        endpoint=reader.text("endpoint", _WANT_TCP, _TCP),
        replay_endpoint=reader.text("replayEndpoint", _WANT_TCP, _TCP, optional=True),
        topic=reader.text("topic", f"text of at most {MAX_TEXT} characters", _short, optional=True),
    )
    reader.done()
    return events


def _role(reader: _Reader) -> ContractRole:
    events = reader.child("kvEvents")
    role = ContractRole(
        name=reader.text("name", "a role name (lower case, digits, -)", lambda t: _ROLE_NAME.fullmatch(t) is not None),
        kind=role_kind(reader.text("kind", f"text of at most {MAX_TEXT} characters", _short, optional=True)),
        selector=reader.pairs("selector"),
        endpoint=reader.text("endpoint", _WANT_HTTP, _HTTP),
        kv_events=None if events is None else _kv_events(events),
    )
    reader.done()
    return role


def _metrics(reader: _Reader) -> MetricNames:
    port = reader.take("port")
    if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65535:
        reader.fault("port", port, "a port, 1 to 65535")
        port = 0

    def name(key: str) -> str:
        return reader.text(key, "a metric name", lambda text: _METRIC.fullmatch(text) is not None)

    names = MetricNames(
        port=port,
        queued_requests=name("queuedRequests"),
        running_requests=name("runningRequests"),
        kv_cache_utilization=name("kvCacheUtilization"),
    )
    reader.done()
    return names


def decode_router(value: object) -> Decoded:
    """The contract in a parsed `status.router`; ``None`` reads as nothing published. Raises nothing."""
    if value is None:
        return Decoded()
    faults: list[Fault] = []
    unknown: list[str] = []
    reader = _Reader("", value, faults, unknown)
    if not reader.ok:
        return Decoded(faults=tuple(faults))
    roles = tuple(_role(role) for role in reader.children("roles") if role.ok)
    for name, count in Counter(role.name for role in roles if role.name).items():
        if count > 1:
            reader.fault("roles", name, "a name that no other role has")
    metrics = reader.child("metrics")
    contract = RouterContract(
        name=reader.text("name", "a router's name", lambda text: bool(text) and _short(text)),
        endpoint=reader.text("endpoint", _WANT_HTTP, _HTTP),
        pool_endpoint=reader.text("poolEndpoint", f"text of at most {MAX_TEXT} characters", _short, optional=True),
        roles=roles,
        metrics=None if metrics is None else _metrics(metrics),
    )
    reader.done()
    return Decoded(contract=None if faults else contract, faults=tuple(faults), unknown=tuple(unknown))
