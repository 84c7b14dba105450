"""Every way a read can fail, mapped in one place to a `FailureKind` and a sentence that names what to do.

No detail carries a header value, a token or a query: they may be secret.
"""

from __future__ import annotations

import errno
import re
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import aiohttp
import msgspec

from observer.yamldoc.quantities import show_duration, show_size
from router_contract.readings import FailureKind
from router_contract.targets import Address


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A read that gave nothing: its kind, one sentence for people, and the HTTP status where one was received."""

    kind: FailureKind
    detail: str
    status: int | None = None


class Progress:
    """How far a read came, so that its failure can be told apart: resolving, connected, answered, bytes received."""

    __slots__ = ("answered", "connected", "received", "resolving")

    def __init__(self) -> None:
        self.resolving = False
        self.connected = False
        self.answered = False
        self.received = 0


_OS_ERRORS: dict[int, tuple[FailureKind, str]] = {
    errno.ECONNREFUSED: (FailureKind.REFUSED, "nothing listens there: the process is down, or the port is wrong"),
    errno.EHOSTUNREACH: (
        FailureKind.UNREACHABLE,
        "no route to the host: the Pod or its node is gone, or a policy rejects us",
    ),
    errno.ENETUNREACH: (FailureKind.UNREACHABLE, "no route to its network: check the address family and the routes"),
    errno.EHOSTDOWN: (FailureKind.UNREACHABLE, "the host is down"),
    errno.EADDRNOTAVAIL: (FailureKind.UNREACHABLE, "no local address or port is left for the connection"),
    errno.EACCES: (FailureKind.UNREACHABLE, "the connection is forbidden here: a policy or firewall rejects it"),
    errno.EPERM: (FailureKind.UNREACHABLE, "the connection is forbidden here: a policy or firewall rejects it"),
    errno.EINVAL: (FailureKind.UNREACHABLE, "the address cannot be dialled: check it"),
    errno.EMFILE: (FailureKind.UNREACHABLE, "the observer has no file descriptor left: raise its limit of open files"),
    errno.ENFILE: (FailureKind.UNREACHABLE, "the machine has no file descriptor left"),
    errno.ETIMEDOUT: (FailureKind.TIMEOUT, "the connection timed out: a policy may drop it, or the host hangs"),
}
_TOGETHER = re.compile(r"\[Errno (\d+)\]")
"""The errors of a name's several addresses, where they differ: the connecting library tells them in one text only."""
_TELLING = (errno.ETIMEDOUT, errno.ECONNREFUSED)
"""Of several, what is said: that something may hang there; else that nothing listens; else the first."""
_CLOSED = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN}

_CLOSED_WORDS = ("closed Transport handle and unset waiter", "the handler is closed", "is used by transport")
"""What uvloop's `RuntimeError` says of a socket that went away, or whose descriptor is not free yet, while connecting."""

_VERIFY: dict[int, str] = {
    10: "its certificate has expired: renew it",
    9: "its certificate is not valid yet: check both clocks",
    18: "its certificate is self-signed: give it as `tls.caFile`",
    19: "its chain ends in an authority we do not trust: give that as `tls.caFile`",
    20: "its authority is not trusted here: give it as `tls.caFile`",
    21: "its authority is not trusted here: give it as `tls.caFile`",
    62: "its certificate is for another name: set `tls.serverName` to the name it carries",
    64: "its certificate is for another address: set `tls.serverName` to a name it carries",
}
"""By OpenSSL's verification code."""

_TLS_REASONS: tuple[tuple[str, str], ...] = (
    ("CERTIFICATE_REQUIRED", "it demands a client certificate: set `tls.certFile` and `tls.keyFile`"),
    ("HANDSHAKE_FAILURE", "it refused the handshake: it may demand a client certificate or another TLS version"),
    ("UNKNOWN_CA", "it does not trust our client certificate: have it signed by the authority it knows"),
    ("BAD_CERTIFICATE", "it rejects our client certificate: check `tls.certFile`"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS on this port: set `scheme: http` or the TLS port"),
    ("RECORD_LAYER_FAILURE", "it does not speak TLS on this port: set `scheme: http` or the TLS port"),
    ("HTTP_REQUEST", "it does not speak TLS on this port: set `scheme: http` or the TLS port"),
    ("PROTOCOL_VERSION", "it speaks no TLS version that is allowed here"),
    ("UNRECOGNIZED_NAME", "it does not know the name we ask for: set `tls.serverName`"),
)

_STATUSES: dict[int, str] = {
    401: "it wants credentials: set `bearerTokenFile` or `headers`",
    403: "the credentials are not enough: allow them to read this path",
    404: "there is no such path: check `metricsPath` and the port, and that the program's metrics are turned on",
    429: "it limits how often it is asked: raise `scrape.period`",
    500: "the program failed while answering: see its own log",
    502: "something in between cannot reach it: ask it directly, not through a proxy or mesh",
    503: "it, or a mesh sidecar before it, says that it is not available now",
    504: "something in between got no answer from it: ask it directly",
}


def http_status(status: int, address: Address) -> Failure:
    """An answer whose status is not 200 and not a redirect."""
    why = _STATUSES.get(status, "only 200 carries an exposition")
    return Failure(kind=FailureKind.HTTP, detail=f"{address.url} answered {status}: {why}", status=status)


def redirected(status: int, location: str, address: Address) -> Failure:
    """An answer that sends us elsewhere; we never go, so that no credential follows."""
    try:
        parts = urlsplit(location)
        there = f"{parts.scheme}://{parts.hostname}{parts.path}" if parts.hostname else parts.path
    except ValueError:
        there = "a place that is no URL"
    shown = "".join(char for char in there[:200] if char.isprintable())
    detail = f"{address.url} redirects ({status}) to {shown}, which is never followed: give the final address instead"
    return Failure(kind=FailureKind.REDIRECT, detail=detail, status=status)


def timed_out(progress: Progress, seconds: float, address: Address) -> Failure:
    """The whole read took longer than allowed; the sentence says how far it came."""
    limit = show_duration(seconds)
    if progress.resolving:
        what = f"the name {address.host} was not resolved within {limit}: check it and the cluster's DNS"
        return Failure(kind=FailureKind.DNS, detail=what)
    if not progress.connected:
        secure = address.scheme == "https"
        kind, reason = (
            ("TLS connection", "does not speak TLS there") if secure else ("connection", "is too busy to accept")
        )
        what = f"no {kind} to {address.authority} within {limit}: a policy drops it, or the program {reason}"
    elif not progress.answered:
        what = f"{address.authority} accepted and did not answer within {limit}: the program is saturated or hangs"
    else:
        what = f"{address.authority} sent {progress.received} bytes and was not done within {limit}"
    return Failure(kind=FailureKind.TIMEOUT, detail=what)


def too_large(limit: int, address: Address) -> Failure:
    """The body, as sent or decoded, is larger than allowed."""
    what = f"the body of {address.url} passes {show_size(limit)} (`limits.body`): find which family grows, or raise it"
    return Failure(kind=FailureKind.TOO_LARGE, detail=what)


def shared_spent(address: Address) -> Failure:
    """The body wanted more than its own allowance while other large bodies held the rest."""
    what = f"the body of {address.url} is large and `limits.sharedBodies` is used up by other large bodies"
    return Failure(kind=FailureKind.TOO_LARGE, detail=what)


def bad_encoding(what: str, address: Address) -> Failure:
    """The body is encoded although plain text was asked for, and cannot be decoded."""
    return Failure(kind=FailureKind.BAD_ENCODING, detail=f"{address.url} sent {what}; plain text was asked for")


def truncated(address: Address, received: int) -> Failure:
    """The body ended before its announced end."""
    what = f"{address.url} closed the connection after {received} bytes, before the end of its answer"
    return Failure(kind=FailureKind.TRUNCATED, detail=what)


def not_http(why: str, address: Address) -> Failure:
    """What answers there does not speak HTTP/1.x; ``why`` in a few words."""
    what = f"{address.authority} does not answer as HTTP does ({why}): check the port and the scheme"
    return Failure(kind=FailureKind.MALFORMED, detail=what)


def misframed(why: str, address: Address) -> Failure:
    """A body whose chunks are not framed as HTTP says."""
    return Failure(kind=FailureKind.MALFORMED, detail=f"{address.url} frames its body wrongly: {why}")


def unresolved(error: OSError, address: Address) -> Failure:
    """The name has no address, or nobody could say."""
    reason = error.strerror or str(error)
    detail = f"the name {address.host} was not resolved ({reason}): check it and the cluster's DNS"
    return Failure(kind=FailureKind.DNS, detail=detail)


def classify(error: BaseException, progress: Progress, address: Address) -> Failure | None:
    """The failure behind an exception of aiohttp, the operating system or TLS; ``None`` when it is none of these."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return unresolved(error.os_error, address)
    secure = next((each for each in _chain(error) if _is_tls(each)), None)
    if isinstance(secure, ssl.SSLError):
        return _tls(secure, address)
    if isinstance(error, aiohttp.ClientPayloadError):
        return _payload(error, progress, address)
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.InvalidURL):
        return not_http(_short(error), address)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return disconnected(progress, address)
    if isinstance(error, RuntimeError):
        return _handle_closed(error, progress, address)
    number = next((each.errno for each in _chain(error) if isinstance(each, OSError) and each.errno is not None), None)
    number = _together(error) if number is None else number
    if number in _CLOSED or (number is None and isinstance(error, aiohttp.ClientConnectionError)):
        return disconnected(progress, address)
    if isinstance(error, OSError | aiohttp.ClientError):
        kind, why = _OS_ERRORS.get(number or 0, (FailureKind.UNREACHABLE, _short(error)))
        return Failure(kind=kind, detail=f"{address.authority}: {why}")
    return None


def _together(error: BaseException) -> int | None:
    """The number that says most among those of a name's addresses; ``None`` when there are none."""
    texts = (str(each) for each in _chain(error) if type(each) is OSError)
    found = [int(number) for text in texts for number in _TOGETHER.findall(text)]
    return next((number for number in _TELLING if number in found), found[0] if found else None)


def _handle_closed(error: RuntimeError, progress: Progress, address: Address) -> Failure | None:
    """What uvloop says of a socket that was closed under it; any other `RuntimeError` is a bug and stays one."""
    if not any(words in str(error) for words in _CLOSED_WORDS):
        return None
    if progress.connected:
        return disconnected(progress, address)
    what = f"{address.authority}: the connection was lost while it was being made"
    return Failure(kind=FailureKind.UNREACHABLE, detail=what)


def disconnected(progress: Progress, address: Address) -> Failure:
    """The connection was closed before the answer was whole; the sentence says how far it came."""
    if progress.answered:
        return truncated(address, progress.received)
    if address.scheme == "https":
        # With TLS 1.3 a server refuses a client only after our side of the handshake; many then close without a word.
        given = address.tls is not None and address.tls.cert_file is not None
        why = "refuses our client certificate" if given else "demands a client certificate (`tls.certFile`)"
        what = f"{address.authority} closed after the TLS handshake without an answer: it {why}, or its process ended"
        return Failure(kind=FailureKind.TLS, detail=what)
    hint = "see the program's log, or set `scheme: https` if it speaks TLS"
    what = f"{address.authority} closed the connection without an answer: {hint}"
    return Failure(kind=FailureKind.TRUNCATED, detail=what)


def _payload(error: aiohttp.ClientPayloadError, progress: Progress, address: Address) -> Failure:
    """A body cut short, or one whose chunks are not framed as HTTP says."""
    texts = " ".join(str(each) for each in _chain(error))
    framing = any(isinstance(each, aiohttp.http_exceptions.HttpProcessingError) for each in _chain(error))
    if framing and "Not enough data" not in texts:
        return misframed(_short(error), address)
    return truncated(address, progress.received)


def _is_tls(error: BaseException) -> bool:
    """Whether this is TLS's own error; aiohttp's wrappers are instances too, but say less."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, aiohttp.ClientError)


def _tls(error: ssl.SSLError, address: Address) -> Failure:
    reason = getattr(error, "reason", None) or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        why = _VERIFY.get(error.verify_code, f"its certificate is not accepted: {error.verify_message}")
    else:
        why = next((text for word, text in _TLS_REASONS if word in reason), f"TLS failed: {reason[:120]}")
    return Failure(kind=FailureKind.TLS, detail=f"{address.authority}: {why}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what caused it, each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        inner = getattr(current, "os_error", None)
        current = inner if isinstance(inner, BaseException) else current.__cause__ or current.__context__


def _short(error: BaseException) -> str:
    """An exception's text on one line, at most 120 characters."""
    text = str(getattr(error, "message", "") or error) or type(error).__name__
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:120]
