"""The certificate that replicas make themselves: what their Secret holds, and what its keeper does next. Pure.

The keeper never lets a client see a certificate that it cannot verify: a new authority is published beside the old one
first, then the leaf is replaced, and the old authority is dropped last.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = 86_400.0
AUTHORITY_DAYS, AUTHORITY_RENEW_DAYS = 1095, 365
LEAF_DAYS, LEAF_RENEW_DAYS = 90, 30
SETTLED = 60.0
"""How long (s) a new authority is published before a leaf of it is shown: API servers read the bundle a moment later."""
OVERLAP = 3600.0
"""How long (s) an old authority stays published after the last leaf of it was replaced."""
_BACK = dt.timedelta(hours=1)
"""Certificates begin this long ago, for clocks that are behind."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What the Secret holds, PEM. The first certificate of ``authorities`` signs new leaves with ``authority_key``,
    which is empty where somebody else made the first ones and kept it.
    """

    authorities: str
    authority_key: str = ""
    certificate: str
    key: str

    def __repr__(self) -> str:
        """Without the keys."""
        return f"Held({len(_certificates(self.authorities))} authorities)"


class Step(StrEnum):
    """What the keeper does next."""

    CREATE = "Create"
    PUBLISH = "Publish"
    NEW_AUTHORITY = "NewAuthority"
    NEW_LEAF = "NewLeaf"
    DROP_OLD = "DropOld"
    REST = "Rest"


def next_step(held: Held | None, published: str, names: tuple[str, ...], wall: float, settled: float = SETTLED) -> Step:
    """What to do at wall second ``wall``, given the bundle that the APIService has now.

    Without a leaf that is for ``names`` and whose authority is in the bundle, everything is made anew.
    """
    leaf = None if held is None else _leaf(held, names)
    if held is None or leaf is None:
        return Step.CREATE
    authorities = _certificates(held.authorities)
    signer = authorities[0]
    if _bundle(_certificates(published)) != _bundle(authorities):
        return Step.PUBLISH
    current = _issued(leaf, signer)
    leaf_old = _left(leaf, wall) < LEAF_RENEW_DAYS * DAY
    # Who kept the key of the first authority cannot sign for us: then the next leaf comes from one of our own.
    if _left(signer, wall) < AUTHORITY_RENEW_DAYS * DAY or (leaf_old and not _signs(held, signer)):
        return Step.NEW_AUTHORITY
    if leaf_old or not current:
        return Step.NEW_LEAF if current or _age(signer, wall) >= settled else Step.REST
    if len(authorities) > 1 and _age(leaf, wall) >= OVERLAP:
        return Step.DROP_OLD
    return Step.REST


def make(step: Step, held: Held | None, published: str, names: tuple[str, ...], wall: float) -> Held:
    """What the Secret is to hold after a step (all but `Step.PUBLISH` and `Step.REST`, which change nothing)."""
    if step is Step.CREATE or held is None:
        key, authority = _authority(wall)
        # What was published stays so, until the replicas that show its leaf have read the new one.
        known = [each for each in _certificates(published) if _left(each, wall) > 0]
        certificate, leaf_key = _issue(authority, key, names, wall)
        return Held(
            authorities=_bundle([authority, *known[:1]]),
            authority_key=_pem(key),
            certificate=certificate,
            key=leaf_key,
        )
    if step is Step.NEW_AUTHORITY:
        key, authority = _authority(wall)
        older = [each for each in _certificates(held.authorities) if _left(each, wall) > 0]
        return msgspec.structs.replace(held, authorities=_bundle([authority, *older[:1]]), authority_key=_pem(key))
    if step is Step.NEW_LEAF:
        signer = _certificates(held.authorities)[0]
        certificate, leaf_key = _issue(signer, _key(held.authority_key), names, wall)
        return msgspec.structs.replace(held, certificate=certificate, key=leaf_key)
    if step is Step.DROP_OLD:
        return msgspec.structs.replace(held, authorities=_bundle(_certificates(held.authorities)[:1]))
    return held


def same_bundle(one: str, other: str) -> bool:
    """Whether two PEM bundles hold the same certificates in the same order."""
    return _bundle(_certificates(one)) == _bundle(_certificates(other))


def _leaf(held: Held, names: tuple[str, ...]) -> x509.Certificate | None:
    """The leaf, if it and its key belong together, it is for these names, and some authority of the bundle signed it."""
    found = _certificates(held.certificate)
    if not found or not _certificates(held.authorities):
        return None
    leaf = found[0]
    try:
        key = serialization.load_pem_private_key(held.key.encode(), None)
        alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return None
    named = set(names) <= set(alternatives.get_values_for_type(x509.DNSName))
    signed = any(_issued(leaf, authority) for authority in _certificates(held.authorities))
    return leaf if named and signed and _public(key.public_key()) == _public(leaf.public_key()) else None


def _public(key: object) -> bytes:
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(*form)  # type: ignore[attr-defined,no-any-return]  # every kind of public key has it


def _signs(held: Held, authority: x509.Certificate) -> bool:
    try:
        return _public(_key(held.authority_key).public_key()) == _public(authority.public_key())
    except ValueError:
        return False


def _key(pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("found another kind of key, wanted one on an elliptic curve")  # noqa: TRY004 - a bad value
    return key


def _issued(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _age(certificate: x509.Certificate, wall: float) -> float:
    return wall - certificate.not_valid_before_utc.timestamp() - _BACK.total_seconds()


def _left(certificate: x509.Certificate, wall: float) -> float:
    return certificate.not_valid_after_utc.timestamp() - wall


def _certificates(bundle: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(bundle.encode()) if bundle.strip() else []
    except ValueError:
        return []


def _bundle(certificates: list[x509.Certificate]) -> str:
    return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in certificates)


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _authority(wall: float) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    # Its name has the moment in it, so that two authorities of ours are never taken for each other.
    name = _name(f"observer-api-ca-{int(wall)}")
    builder = _builder(name, name, key.public_key(), AUTHORITY_DAYS, wall)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return key, builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def _issue(
    authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey, names: tuple[str, ...], wall: float
) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    # A common name has at most 64 characters; clients read the alternative names.
    builder = _builder(_name(names[0][:64]), authority.subject, key.public_key(), LEAF_DAYS, wall)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = builder.add_extension(alternatives, critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    leaf = builder.add_extension(issuer, critical=False).sign(authority_key, hashes.SHA256())
    return _bundle([leaf]), _pem(key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int, wall: float
) -> x509.CertificateBuilder:
    now = dt.datetime.fromtimestamp(int(wall), dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACK)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
