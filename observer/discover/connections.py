"""How to reach a member: its address and the nearest connection keys around it, checked and made into addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from observer.discover.fleet_document import Connection, KvEventsDocument, MemberDocument, Scheme, TlsDocument
from observer.yamldoc.decode import Tracker
from observer.yamldoc.faults import Fault, shown
from observer.yamldoc.quantities import parse_host_port
from router_contract.targets import Address, KvEventSource, Tls

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Where a member is. ``host`` is empty when its address could not be read; the addresses then are ``None``."""

    host: str = ""
    metrics: Address | None = None
    api: Address | None = None


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """An address as written: what it says and nothing else."""

    host: str
    port: int | None = None
    scheme: Scheme | None = None
    path: str | None = None


class Resolver:
    """Makes addresses for the members of one document and records what contradicts itself.

    Relative file paths are taken from ``folder``. A file that does not exist is a notice: it may appear later.
    """

    def __init__(self, tracker: Tracker, folder: Path, notices: list[Fault]) -> None:
        self._tracker = tracker
        self._folder = folder
        self._notices = notices
        self._checked: set[int] = set()

    def reach(self, member: MemberDocument, around: Sequence[Connection | None], holder: Connection | None) -> Reach:
        """Where a member is, from its address and the connection keys around it, nearest first.

        The nearest port wins: the member's own key, then the address's port, then keys further out. In the short form
        ``holder`` is what lists the addresses; its own ports count as each member's own.
        """
        self.check(member)
        written = self._written(member)
        if written is None:
            return Reach()
        near = (member,) if holder is None else (member, holder)
        chain = [each for each in (member, *around) if each is not None]
        metrics_port = _first(near, "metrics_port") or written.port or _first(chain, "metrics_port")
        api_port = _first(near, "api_port") or written.port or _first(chain, "api_port") or metrics_port
        tls_document: TlsDocument | None = _first(chain, "tls")
        scheme = written.scheme or _first(chain, "scheme") or (Scheme.HTTPS if tls_document else Scheme.HTTP)
        metrics = Address(
            scheme=scheme.value,
            host=written.host,
            port=metrics_port or 0,
            path=_first((member,), "metrics_path") or written.path or _first(chain, "metrics_path") or "/metrics",
            tls=self._tls(tls_document) if scheme is Scheme.HTTPS else None,
            headers=_first(chain, "headers") or (),
            bearer_token_file=self._file(_first(chain, "bearer_token_file")),
        )
        return Reach(
            host=written.host,
            metrics=metrics if metrics_port else None,
            api=msgspec.structs.replace(metrics, port=api_port, path="") if api_port else None,
        )

    def check(self, owner: Connection | None) -> None:
        """Record what is wrong inside one set of connection keys, once."""
        if owner is None or id(owner) in self._checked:
            return
        self._checked.add(id(owner))
        if owner.tls is not None and owner.scheme is Scheme.HTTP:
            self._tracker.fault(owner, "scheme", "`http` beside `tls`", "`https`, or no `tls` here")
        self._headers(owner)
        self._exists(owner, "bearerTokenFile", owner.bearer_token_file)
        if owner.tls is None:
            return
        tls = owner.tls
        if tls.key_file is not None and tls.cert_file is None:
            self._tracker.fault(tls, "keyFile", "a key without a certificate", "`certFile` beside it")
        if tls.skip_verify and (tls.ca_file is not None or tls.server_name is not None):
            wanted = "either `skipVerify`, or what to verify against"
            self._tracker.fault(tls, "skipVerify", "`skipVerify` beside `caFile` or `serverName`", wanted)
        for key, value in (("caFile", tls.ca_file), ("certFile", tls.cert_file), ("keyFile", tls.key_file)):
            self._exists(tls, key, value)

    def kv_events(self, member: MemberDocument, host: str) -> tuple[KvEventSource, ...]:
        """The KV-event sources of a member; ``*`` as an endpoint's host is the member's own host."""
        ranks: set[int] = set()
        sources: list[KvEventSource] = []
        for each in member.kv_events:
            if each.rank in ranks:
                self._tracker.fault(each, "rank", f"rank {each.rank} a second time", "each rank once")
            ranks.add(each.rank)
            endpoint = self._endpoint(each, "endpoint", each.endpoint, host)
            replay = (
                self._endpoint(each, "replayEndpoint", each.replay_endpoint, host) if each.replay_endpoint else None
            )
            sources.append(KvEventSource(endpoint=endpoint, replay_endpoint=replay, topic=each.topic, rank=each.rank))
        return tuple(sources)

    def _endpoint(self, owner: KvEventsDocument, key: str, text: str, host: str) -> str:
        rest = text.removeprefix("tcp://")
        own = f"[{host}]" if ":" in host else host
        dialled = own + rest[1:] if rest.startswith("*:") and host else rest
        try:
            name, port = parse_host_port(dialled)
        except ValueError:
            name, port = "", None
        if rest == text or port is None or not name:
            self._tracker.fault(owner, key, shown(text), "`tcp://host:port`, or `tcp://*:port` for the member's host")
        elif name in {"0.0.0.0", "::"}:  # noqa: S104 - refused here, not bound
            self._tracker.fault(
                owner, key, shown(text), "an address that can be dialled", "Write `*` for the member's host."
            )
        return f"tcp://{dialled}"

    def _written(self, member: MemberDocument) -> _Written | None:
        text = member.address
        wanted = "`host`, `host:port`, `[IPv6]:port` or `http(s)://host:port/path`"
        scheme: Scheme | None = None
        path: str | None = None
        rest = text
        if "://" in text:
            word, _, rest = text.partition("://")
            scheme = next((each for each in Scheme if each.value == word.lower()), None)
            parts = urlsplit(text) if scheme is not None else None
            if parts is None or "@" in rest or parts.query or parts.fragment:
                hint = "Credentials belong in `headers` or `bearerTokenFile`." if "@" in rest else ""
                found = "an address with credentials" if "@" in rest else shown(text)
                self._tracker.fault(member, "address", found, wanted, hint)
                return None
            path = parts.path.rstrip("/") or None
            rest = rest.partition("/")[0]
        try:
            host, port = parse_host_port(rest)
        except ValueError:
            hint = "An IPv6 address with a port needs brackets." if rest.count(":") > 1 and "[" not in rest else ""
            self._tracker.fault(member, "address", shown(text), wanted, hint)
            return None
        return _Written(host=host, port=port, scheme=scheme, path=path)

    def _headers(self, owner: Connection) -> None:
        names: set[str] = set()
        for name, value in owner.headers:
            low = name.lower()
            key = f"headers.{name}"
            if _TOKEN.fullmatch(name) is None or low in _OURS:
                self._tracker.fault(owner, key, f"the header name {shown(name)}", "a header that we may set")
            if low in names:
                self._tracker.fault(owner, key, f"the header {shown(name)} in another case", "each header once")
            names.add(low)
            if not value.isascii() or not value.isprintable():
                self._tracker.fault(owner, key, "a value with control or non-ASCII characters", "plain visible text")
        if "authorization" in names and owner.bearer_token_file is not None:
            self._tracker.fault(
                owner, "bearerTokenFile", "a token file beside an `Authorization` header", "one of the two"
            )

    def _exists(self, owner: msgspec.Struct, key: str, value: str | None) -> None:
        if value is not None and not Path(self._file(value) or "").is_file():
            self._tracker.fault(owner, key, f"no file {shown(value)}", "a file that exists", into=self._notices)

    def _file(self, value: str | None) -> str | None:
        return None if value is None else str(self._folder / value)

    def _tls(self, document: TlsDocument | None) -> Tls | None:
        if document is None:
            return None
        return Tls(
            ca_file=self._file(document.ca_file),
            cert_file=self._file(document.cert_file),
            key_file=self._file(document.key_file),
            server_name=document.server_name,
            skip_verify=document.skip_verify,
        )


def _first(chain: Sequence[Connection], field: str) -> Any:
    """The nearest value that is set."""
    return next((value for each in chain if (value := getattr(each, field))), None)
