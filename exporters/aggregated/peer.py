"""The other end of a TLS connection: its client certificate, and whether the front proxy's CA vouches for it.

The handshake verified the certificate against the CAs of that moment. A connection may be older than the CAs that
count now, so a certificate of another moment is verified again.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from exporters.aggregated.identity import FrontProxy


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Who is connected. ``certificate`` (DER) is ``None`` without one; ``current`` says that the handshake verified it
    against the CAs that count now; ``wall`` is the present in wall seconds.
    """

    address: str
    certificate: bytes | None = None
    current: bool = False
    wall: float = 0.0

    def mistrusted(self, proxy: FrontProxy) -> str:
        """Why this is not the front proxy, empty when it is."""
        if self.certificate is None:
            return "the connection has no client certificate"
        certificate = _certificate(self.certificate)
        if certificate is None:
            return "its client certificate cannot be read"
        if not self.current and not _issued(self.certificate, proxy.ca):
            return "its client certificate is of a CA that the cluster does not name any more"
        moment = dt.datetime.fromtimestamp(self.wall, dt.UTC)
        if not certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc:
            return f"its client certificate is valid until {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}"
        if not _for_clients(certificate):
            return "its certificate is not for clients"
        name = _common_name(certificate)
        if proxy.allowed_names and name not in proxy.allowed_names:
            return f"its certificate is for {name!r}, allowed are {', '.join(proxy.allowed_names)}"
        return ""


@lru_cache(maxsize=256)
def _certificate(der: bytes) -> x509.Certificate | None:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _issued(der: bytes, bundle: str) -> bool:
    """Whether one CA of a bundle signed a certificate itself."""
    certificate = _certificate(der)
    if certificate is None:
        return False
    for authority in authorities(bundle):
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


@lru_cache(maxsize=16)
def authorities(bundle: str) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM bundle; none of one that cannot be read."""
    try:
        return tuple(x509.load_pem_x509_certificates(bundle.encode()))
    except ValueError:
        return ()


def _for_clients(certificate: x509.Certificate) -> bool:
    """Whether a certificate is for clients; without a word about usage it is for everything."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    except ValueError:
        return False
    return ExtendedKeyUsageOID.CLIENT_AUTH in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""
