"""The doctor's rows about encryption: a mesh, the scheme, authorities, names, client certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from observer.judge.diagnosis_row import MESH, Row, yes
from router_contract.diagnosis import Certainty, Facts
from router_contract.readings import FailureKind

_SHOW = "openssl s_client -connect {host}:{port} -showcerts </dev/null"
_EXPIRED, _NOT_YET, _SELF_SIGNED, _CHAIN = 10, 9, 18, 19
_NO_ISSUER = frozenset({2, 20, 21})
_NAMES = frozenset({62, 64})


def _closed(facts: Facts) -> bool:
    """Whether plaintext was answered by nothing, or by what servers of TLS say to plaintext."""
    answer = facts.answer
    if facts.scheme != "http" or answer is None:
        return False
    return answer.status == 400 or answer.failure in {FailureKind.TRUNCATED, FailureKind.MALFORMED}


def _spiffe(facts: Facts) -> str:
    certificate = facts.tls.certificate if facts.tls is not None else None
    return next((each for each in certificate.identities if each.startswith("spiffe://")), "") if certificate else ""


def _mesh(facts: Facts) -> Mapping[str, object] | None:
    identity = _spiffe(facts)
    if not identity or facts.tls is None:
        return None
    silent = _closed(facts) or facts.tls.demands_client
    return {"identity": identity} if silent else None


def _mesh_likely(facts: Facts) -> Mapping[str, object] | None:
    tls = facts.tls
    return yes(_closed(facts) and tls is not None and tls.spoken and tls.demands_client)


def _code(*codes: int) -> Callable[[Facts], Mapping[str, object] | None]:
    def when(facts: Facts) -> Mapping[str, object] | None:
        tls = facts.tls
        if facts.scheme != "https" or tls is None or tls.verify_code not in codes:
            return None
        certificate = tls.certificate
        names = ", ".join(certificate.names) if certificate is not None and certificate.names else ""
        first = certificate.names[0] if certificate is not None and certificate.names else "NAME"
        return {"names": names or "no name at all", "first": first, "issuer": certificate.issuer if certificate else ""}

    return when


def _client(given: bool) -> Callable[[Facts], Mapping[str, object] | None]:
    def when(facts: Facts) -> Mapping[str, object] | None:
        tls = facts.tls
        wanted = facts.scheme == "https" and tls is not None and tls.demands_client
        return yes(wanted and facts.client_certificate is given)

    return when


ROWS: tuple[Row, ...] = (
    Row(
        cause="MeshStrictMtls",
        said="a service mesh takes only mutual TLS on port {port} (its certificate is {identity}); plaintext is cut off",
        told="Plaintext is closed without an answer, and the certificate on the port carries a mesh identity (spiffe://).",
        change=MESH,
        when=_mesh,
    ),
    Row(
        cause="MutualTlsOnly",
        certainty=Certainty.LIKELY,
        said="port {port} cuts plaintext off and demands a client certificate: a mesh in STRICT mode, or the program's TLS",
        told="Plaintext is closed without an answer; TLS is spoken there and wants a client certificate.",
        change=(*MESH, "without a mesh: set `scheme: https`, `tls.caFile`, `tls.certFile` and `tls.keyFile`"),
        when=_mesh_likely,
    ),
    Row(
        cause="SpeaksTls",
        said="port {port} speaks TLS and is asked in plain HTTP",
        told="Plaintext is refused or closed, and a TLS handshake succeeds.",
        change=("set `scheme: https` (and `tls.caFile` when its authority is not a public one)",),
        when=lambda facts: yes(_closed(facts) and facts.tls is not None and facts.tls.spoken),
    ),
    Row(
        cause="SpeaksPlain",
        said="port {port} speaks plain HTTP and is asked over TLS",
        told="The TLS handshake is answered by something else, and plain HTTP is answered.",
        change=("set `scheme: http`", "or ask the program's TLS port: set `metricsPort`"),
        when=lambda facts: yes(
            facts.scheme == "https"
            and facts.plain is not None
            and (facts.plain.failure is None or facts.plain.status is not None)
        ),
    ),
    Row(
        cause="ClientCertificateWanted",
        said="{host}:{port} demands a client certificate and none is set",
        told="The server ends the handshake, or closes after it, for want of a client certificate.",
        change=("set `tls.certFile` and `tls.keyFile` to a certificate of the authority that the server trusts",),
        when=_client(False),
    ),
    Row(
        cause="ClientCertificateRefused",
        said="{host}:{port} refuses the client certificate that is set",
        told="A client certificate is set and the server ends the handshake, or closes after it, all the same.",
        change=(
            (
                "have `tls.certFile` signed by the authority that the server trusts, and look at its end: "
                "openssl x509 -noout -enddate -issuer -in CERT_FILE"
            ),
        ),
        when=_client(True),
    ),
    Row(
        cause="CertificateExpired",
        said="the certificate of {host}:{port} is not valid at this time",
        told="Verification says expired, or not yet valid.",
        change=("renew the server's certificate", "when it is new: compare the clocks of both machines", _SHOW),
        when=_code(_EXPIRED, _NOT_YET),
    ),
    Row(
        cause="SelfSigned",
        said="the certificate of {host}:{port} is self-signed and not trusted here",
        told="Verification says that the certificate signs itself.",
        change=("save it from the command below and set `tls.caFile` to that file", _SHOW),
        when=_code(_SELF_SIGNED),
    ),
    Row(
        cause="AuthorityUnknown",
        said="the authority of the certificate of {host}:{port} is not trusted here: {issuer}",
        told="Verification says that the chain ends in an authority we do not have.",
        change=("set `tls.caFile` to that authority's certificate (in a cluster often `ca.crt` of the Secret)", _SHOW),
        when=_code(_CHAIN, *_NO_ISSUER),
    ),
    Row(
        cause="CertificateName",
        said="the certificate of {host}:{port} is for another name: {names}",
        told="Verification says that the name does not match.",
        change=("set `tls.serverName: {first}`", "or ask by that name: correct `address`"),
        when=_code(*_NAMES),
    ),
    Row(
        cause="TlsFails",
        certainty=Certainty.LIKELY,
        said="TLS with {host}:{port} fails: {answer_detail}",
        told="The handshake fails for a reason that no other row names.",
        change=(_SHOW, "set `tls.serverName` when the server tells names apart"),
        when=lambda facts: yes(facts.answer is not None and facts.answer.failure is FailureKind.TLS),
    ),
)
