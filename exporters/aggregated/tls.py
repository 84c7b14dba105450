"""The listener's TLS: one outer context that never changes, and the present one that each handshake is moved to.

So a new certificate or another set of client CAs counts from the next handshake on, and open connections stay.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

import msgspec


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate with its chain, and its key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Without the key."""
        return f"KeyPair({len(self.certificate)} bytes)"


class BadCertificateError(ValueError):
    """A certificate, key or CA bundle that cannot be used; the text says which."""


class ServingTls:
    """What the listener shows and whom it asks for a certificate. Handshakes fail until there is a key pair."""

    def __init__(self) -> None:
        self.outer = _context()
        self.outer.sni_callback = self._choose
        self._current: ssl.SSLContext | None = None
        self._pair: KeyPair | None = None
        self._client_ca = ""
        self.generation = 0
        """How often something changed."""

    @property
    def ready(self) -> bool:
        """Whether handshakes can succeed."""
        return self._current is not None

    @property
    def pair(self) -> KeyPair | None:
        """What is shown now."""
        return self._pair

    def show(self, pair: KeyPair) -> bool:
        """Show this pair from the next handshake on. Whether it is another. Raises `BadCertificateError`."""
        if pair == self._pair:
            return False
        self._replace(pair, self._client_ca)
        return True

    def trust(self, client_ca: str) -> bool:
        """Accept client certificates of exactly this PEM bundle. Whether it is another. Raises `BadCertificateError`."""
        if client_ca == self._client_ca:
            return False
        if self._pair is not None:
            self._replace(self._pair, client_ca)
        else:
            _trusting(_context(), client_ca)
        self._client_ca = client_ca
        return True

    def verified_by_current(self, handshake: ssl.SSLObject | None) -> bool:
        """Whether a connection was opened under what counts now."""
        # A resumed session brings the verdict of the handshake before it along.
        return handshake is not None and handshake.context is self._current and not handshake.session_reused

    def _replace(self, pair: KeyPair, client_ca: str) -> None:
        self._current = _trusting(_loaded(pair), client_ca)
        self._pair = pair
        self.generation += 1

    def _choose(
        self, handshake: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _outer: ssl.SSLContext
    ) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        handshake.context = self._current
        return None


def _context() -> ssl.SSLContext:
    """A server's context. Whether a client is asked for a certificate is not moved with a handshake, so it is the same
    everywhere: asked, and served without.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def _loaded(pair: KeyPair) -> ssl.SSLContext:
    context = _context()
    # The library reads files only: a folder of our own, gone before we return.
    with tempfile.TemporaryDirectory(prefix="observer-tls-") as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(pair.certificate)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair.key)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise BadCertificateError(f"the serving certificate and its key cannot be used: {error}") from error
    return context


def _no_password() -> str:
    """An encrypted key is refused instead of asking at the terminal."""
    raise ValueError("the key is encrypted, wanted one without a password")


def _trusting(context: ssl.SSLContext, bundle: str) -> ssl.SSLContext:
    if bundle:
        try:
            context.load_verify_locations(cadata=bundle)
        except (ssl.SSLError, ValueError) as error:
            raise BadCertificateError(f"the front proxy's CA cannot be used: {error}") from error
    return context
