"""The one mapping from errors to kinds, as a table."""

from __future__ import annotations

import errno
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from observer.collect.failures import Failure, Progress, classify, redirected, timed_out
from router_contract.readings import FailureKind
from router_contract.targets import Address

ADDRESS = Address(host="engine", port=8000)
KEY = ConnectionKey("engine", 8000, False, True, None, None, None)


def connector(number: int) -> aiohttp.ClientConnectorError:
    return aiohttp.ClientConnectorError(KEY, OSError(number, "text"))


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def verify(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    error.verify_message = "why"
    return error


CASES: dict[str, tuple[BaseException, FailureKind, str]] = {
    "refused": (connector(errno.ECONNREFUSED), FailureKind.REFUSED, "nothing listens"),
    "no route": (connector(errno.EHOSTUNREACH), FailureKind.UNREACHABLE, "no route to the host"),
    "no network": (connector(errno.ENETUNREACH), FailureKind.UNREACHABLE, "no route to its network"),
    "no port left": (connector(errno.EADDRNOTAVAIL), FailureKind.UNREACHABLE, "no local address"),
    "no descriptor": (connector(errno.EMFILE), FailureKind.UNREACHABLE, "limit of open files"),
    "forbidden": (connector(errno.EPERM), FailureKind.UNREACHABLE, "policy or firewall"),
    "timed out by the kernel": (connector(errno.ETIMEDOUT), FailureKind.TIMEOUT, "timed out"),
    "uvloop: gone while connecting": (
        RuntimeError("closed Transport handle and unset waiter"),
        FailureKind.UNREACHABLE,
        "engine:8000: the connection was lost while it was being made",
    ),
    "uvloop: handle closed while connecting": (
        RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"),
        FailureKind.UNREACHABLE,
        "lost while it was being made",
    ),
    "uvloop: descriptor not free yet": (
        RuntimeError("File descriptor 7 is used by transport <TCPTransport>"),
        FailureKind.UNREACHABLE,
        "lost while it was being made",
    ),
    "unknown number": (connector(errno.ENOTSOCK), FailureKind.UNREACHABLE, "engine:8000"),
    "reset before an answer": (
        aiohttp.ClientOSError(errno.ECONNRESET, "reset"),
        FailureKind.TRUNCATED,
        "without an answer",
    ),
    "plain reset": (ConnectionResetError(errno.ECONNRESET, "reset"), FailureKind.TRUNCATED, "without an answer"),
    "pipe": (BrokenPipeError(errno.EPIPE, "pipe"), FailureKind.TRUNCATED, "without an answer"),
    "disconnected": (aiohttp.ServerDisconnectedError(), FailureKind.TRUNCATED, "without an answer"),
    "connection lost without number": (
        aiohttp.ClientConnectionError("lost"),
        FailureKind.TRUNCATED,
        "without an answer",
    ),
    "name": (
        aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "Name or service not known")),
        FailureKind.DNS,
        "not known",
    ),
    "self-signed": (verify(18), FailureKind.TLS, "self-signed"),
    "name mismatch": (verify(62), FailureKind.TLS, "`tls.serverName`"),
    "unknown verification code": (verify(99), FailureKind.TLS, "why"),
    "alert in a cause": (
        caused(aiohttp.ClientOSError(1, "x"), ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] x")),
        FailureKind.TLS,
        "`tls.certFile`",
    ),
    "unknown alert": (ssl.SSLError(1, "[SSL: SOMETHING] x"), FailureKind.TLS, "SOMETHING"),
    "no HTTP": (
        aiohttp.ClientResponseError(
            aiohttp.RequestInfo(URL("http://x/"), "GET", None, URL("http://x/")), (), message="bad\nline"
        ),  # type: ignore[arg-type]  # headers are not looked at
        FailureKind.MALFORMED,
        "(bad line)",
    ),
    "cut": (
        caused(aiohttp.ClientPayloadError("x"), aiohttp.http_exceptions.ContentLengthError("Not enough data")),
        FailureKind.TRUNCATED,
        "before the end",
    ),
    "bad chunk": (
        caused(aiohttp.ClientPayloadError("x"), aiohttp.http_exceptions.TransferEncodingError("zz")),
        FailureKind.MALFORMED,
        "frames its body wrongly",
    ),
}


@pytest.mark.parametrize(("error", "kind", "words"), CASES.values(), ids=CASES.keys())
def test_each_error_has_one_kind_and_names_the_place(error: BaseException, kind: FailureKind, words: str) -> None:
    failure = classify(error, Progress(), ADDRESS)
    assert failure is not None
    assert failure.kind is kind
    assert words in failure.detail
    assert "engine" in failure.detail
    assert "\n" not in failure.detail


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), RuntimeError("x")])
def test_a_bug_is_no_failure_of_the_target(error: Exception) -> None:
    assert classify(error, Progress(), ADDRESS) is None


def test_a_handle_that_uvloop_closed_after_the_connection_is_truncated() -> None:
    progress = Progress()
    progress.connected = True
    found = classify(RuntimeError("unable to perform operation; the handler is closed"), progress, ADDRESS)
    assert found is not None
    assert found.kind is FailureKind.TRUNCATED


def test_a_reset_after_the_answer_began_is_truncated_with_its_bytes() -> None:
    progress = Progress()
    progress.connected = progress.answered = True
    progress.received = 7
    failure = classify(ConnectionResetError(errno.ECONNRESET, "x"), progress, ADDRESS)
    assert failure is not None
    assert "after 7 bytes" in failure.detail


@pytest.mark.parametrize(
    ("facts", "kind", "words"),
    [
        ({"resolving": True}, FailureKind.DNS, "was not resolved within 2s"),
        ({}, FailureKind.TIMEOUT, "no connection"),
        ({"connected": True}, FailureKind.TIMEOUT, "did not answer within 2s"),
        ({"connected": True, "answered": True, "received": 5}, FailureKind.TIMEOUT, "sent 5 bytes"),
    ],
)
def test_a_timeout_tells_how_far_it_came(facts: dict[str, object], kind: FailureKind, words: str) -> None:
    progress = Progress()
    for name, value in facts.items():
        setattr(progress, name, value)
    failure = timed_out(progress, 2.0, ADDRESS)
    assert (failure.kind, words in failure.detail) == (kind, True)


@pytest.mark.parametrize(
    "location", ["http://u:s3cret@h/p?k=s3cret#s3cret", "/x?k=s3cret", "http://[s3cret", "", "http://h/\r\nX"]
)
def test_a_redirect_tells_where_without_secrets(location: str) -> None:
    failure: Failure = redirected(302, location, ADDRESS)
    assert "s3cret" not in failure.detail
    assert "\n" not in failure.detail
