"""The replicas' own certificate through its whole life, on a calendar of the test's own."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from msgspec.structs import replace

from observer.kube.issuing import DAY, OVERLAP, SETTLED, Held, Step, make, next_step

NAMES = ("api.ns.svc", "api.ns.svc.cluster.local")
NOW = 1_790_000_000.0


def made(wall: float = NOW) -> Held:
    return make(Step.CREATE, None, "", NAMES, wall)


def test_a_first_certificate_is_published_and_then_rests() -> None:
    assert next_step(None, "", NAMES, NOW) is Step.CREATE
    held = made()
    assert next_step(held, "", NAMES, NOW) is Step.PUBLISH
    assert next_step(held, held.authorities, NAMES, NOW) is Step.REST


def test_the_leaf_is_renewed_by_the_same_authority() -> None:
    held = made()
    later = NOW + 61 * DAY
    assert next_step(held, held.authorities, NAMES, later) is Step.NEW_LEAF
    renewed = make(Step.NEW_LEAF, held, held.authorities, NAMES, later)
    assert renewed.authorities == held.authorities
    assert renewed.certificate != held.certificate
    assert next_step(renewed, renewed.authorities, NAMES, later) is Step.REST


def test_an_authority_is_rotated_so_that_no_client_ever_sees_a_leaf_that_it_cannot_verify() -> None:
    held = make(Step.NEW_LEAF, made(), "", NAMES, NOW + 700 * DAY)
    published, now = held.authorities, NOW + 731 * DAY
    steps: list[Step] = []
    for _ in range(12):
        step = next_step(held, published, NAMES, now)
        steps.append(step)
        if step is Step.PUBLISH:
            published = held.authorities
        elif step is Step.REST:
            now += max(SETTLED, OVERLAP / 4)
        else:
            held = make(step, held, published, NAMES, now)
        signers = [part for part in held.authorities.split("-----END CERTIFICATE-----\n") if part]
        assert all(step is not Step.NEW_LEAF or signer in published for signer in signers)
    assert steps[:4] == [Step.NEW_AUTHORITY, Step.PUBLISH, Step.REST, Step.NEW_LEAF]
    assert Step.DROP_OLD in steps
    assert steps[-1] is Step.REST
    assert published.count("BEGIN") == 1


def test_an_authority_whose_key_somebody_else_kept_lasts_as_long_as_its_leaf() -> None:
    held = replace(made(), authority_key="")
    assert next_step(held, held.authorities, NAMES, NOW) is Step.REST
    assert next_step(held, held.authorities, NAMES, NOW + 61 * DAY) is Step.NEW_AUTHORITY


BROKEN = {
    "another name": lambda held: (held, ("other.ns.svc",)),
    "no key": lambda held: (replace(held, key="x"), NAMES),
    "another key": lambda held: (replace(held, key=made().key), NAMES),
    "another authority": lambda held: (replace(held, authorities=made(NOW + 1).authorities), NAMES),
    "no certificate": lambda held: (replace(held, certificate="-----BEGIN CERTIFICATE-----\nAA\n"), NAMES),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_shown_is_made_anew(broken) -> None:
    held, names = broken(made())
    assert next_step(held, held.authorities, names, NOW) is Step.CREATE


def test_making_anew_keeps_what_was_published_for_the_replicas_that_still_show_it() -> None:
    before = made(NOW - DAY)
    after = make(Step.CREATE, None, before.authorities, NAMES, NOW)
    assert after.authorities.endswith(before.authorities)
    expired = made(NOW - 2000 * DAY)
    assert make(Step.CREATE, None, expired.authorities, NAMES, NOW).authorities.count("BEGIN") == 1


def test_keys_are_never_shown() -> None:
    assert "PRIVATE" not in repr(made())


def test_openssl_takes_the_pair(tmp_path: Path) -> None:
    held = made()
    (tmp_path / "crt").write_text(held.certificate)
    (tmp_path / "key").write_text(held.key)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "crt", tmp_path / "key")
    ssl.create_default_context(cadata=held.authorities)
