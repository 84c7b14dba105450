"""What TLS on a port comes to: whether it is spoken, whom the certificate names, whether a client certificate is wanted.

Two handshakes: one that trusts anything, to look at the certificate and to see whether a request is answered; one that
verifies as a read would, for OpenSSL's reason.
"""

from __future__ import annotations

import asyncio
import ssl
import warnings

from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

from router_contract.diagnosis import Certificate, TlsSeen
from router_contract.targets import Address

_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_EOF", "PACKET_LENGTH_TOO_LONG")
_CLIENT = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "UNKNOWN_CA", "CERTIFICATE_UNKNOWN")
_NAMES_SHOWN = 5


async def look(host: str, address: Address, verifying: ssl.SSLContext | None, seconds: float) -> TlsSeen:
    """Look at TLS on ``address``'s port at the IP ``host``. ``verifying`` is the context a read uses, if it uses TLS."""
    seen = await _open(host, address, _trusting(address), seconds)
    if verifying is None or not seen.spoken:
        return seen
    code = await _verify(host, address, verifying, seconds)
    return TlsSeen(
        spoken=True,
        answered=seen.answered,
        demands_client=seen.demands_client,
        verify_code=code,
        reason=seen.reason,
        certificate=seen.certificate,
    )


def _trusting(address: Address) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    tls = address.tls
    if tls is not None and tls.cert_file is not None:
        # Already loaded once by whoever reads: a file that cannot be used was told before.
        context.load_cert_chain(tls.cert_file, tls.key_file, password="")  # nosec B106 - an encrypted key is refused instead of asked for
    return context


def _name(address: Address) -> str:
    told = address.tls.server_name if address.tls is not None else None
    return told or address.host


async def _open(host: str, address: Address, context: ssl.SSLContext, seconds: float) -> TlsSeen:
    certificate: Certificate | None = None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(
                host, address.port, ssl=context, server_hostname=_name(address)
            )
            try:
                certificate = _certificate(writer)
                writer.write(f"GET {address.path} HTTP/1.1\r\nHost: {address.authority}\r\n\r\n".encode())
                first = await reader.read(1)
            finally:
                writer.transport.abort()
    except TimeoutError:
        return TlsSeen(spoken=certificate is not None, certificate=certificate, reason="no answer in time")
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        spoken = certificate is not None or not any(word in reason for word in _NOT_TLS)
        wants = spoken and any(word in reason for word in _CLIENT)
        return TlsSeen(spoken=spoken, demands_client=wants, reason=reason, certificate=certificate)
    except (OSError, asyncio.IncompleteReadError) as error:
        # After a good handshake with TLS 1.3, many servers close without a word when no client certificate came.
        shaken = certificate is not None
        return TlsSeen(spoken=shaken, demands_client=shaken, reason=str(error), certificate=certificate)
    return TlsSeen(spoken=True, answered=bool(first), demands_client=not first, certificate=certificate)


async def _verify(host: str, address: Address, context: ssl.SSLContext, seconds: float) -> int | None:
    """OpenSSL's code of a verified handshake; ``None`` when it fails for something else than the certificate."""
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, address.port, ssl=context, server_hostname=_name(address))
            writer.transport.abort()
    except ssl.SSLCertVerificationError as error:
        return error.verify_code
    except (OSError, TimeoutError):
        return None
    return 0


def _certificate(writer: asyncio.StreamWriter) -> Certificate | None:
    secure = writer.get_extra_info("ssl_object")
    data = secure.getpeercert(binary_form=True) if secure is not None else None
    if not data:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd certificates are what is looked for
            return _read(x509.load_der_x509_certificate(data))
    except ValueError:
        return Certificate()


def _read(made: x509.Certificate) -> Certificate:
    try:
        alternatives = made.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    except x509.ExtensionNotFound:
        alternatives = x509.SubjectAlternativeName([])
    names: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    if isinstance(alternatives, x509.SubjectAlternativeName):
        addresses = tuple(str(each) for each in alternatives.get_values_for_type(x509.IPAddress))
        names = (*alternatives.get_values_for_type(x509.DNSName), *addresses)[:_NAMES_SHOWN]
        identities = tuple(alternatives.get_values_for_type(x509.UniformResourceIdentifier))[:_NAMES_SHOWN]
    issuer = made.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Certificate(
        names=names,
        identities=identities,
        self_signed=made.issuer == made.subject,
        expires=made.not_valid_after_utc.timestamp(),
        issuer=str(issuer[0].value) if issuer else made.issuer.rfc4514_string(),
    )
