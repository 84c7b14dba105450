"""Who is believed and who may ask: front proxy, tokens, access reviews, over real TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from multidict import CIMultiDict

from exporters.aggregated.identity import BadFrontProxyError, FrontProxy, Identity, from_headers, front_proxy
from tests.exporters.aggregated.serving import BASE, HOST, USER, asking, named, serving
from tests.fakes.authority import Authority

MDM = f"{BASE}/namespaces/prod/modeldeploymentmetrics/chat"


async def test_system_authenticated_missing_is_added_by_us(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        status, _, _ = await client.ask(BASE, {"X-Remote-User": "system:aggregator"})
    assert status == 200
    assert world.rights.asked[0][0].groups == ("system:authenticated",)


def test_nobody_anonymous_is_authenticated_and_groups_are_not_doubled() -> None:
    proxy = FrontProxy(ca="x")
    told = from_headers(proxy, CIMultiDict([("X-Remote-User", "system:anonymous")]))
    assert told is not None
    assert told.groups == ()
    twice = CIMultiDict([("X-Remote-User", "a"), ("X-Remote-Group", "system:authenticated")])
    assert from_headers(proxy, twice) == Identity(user="a", groups=("system:authenticated",))


def test_repeated_group_headers_all_count() -> None:
    headers = CIMultiDict(
        [("X-Remote-User", "a"), ("X-Remote-Group", "dev"), ("x-remote-group", "ops"), ("X-Remote-Group", "dev")]
    )
    found = from_headers(FrontProxy(ca="x"), headers)
    assert found is not None
    assert found.groups == ("dev", "ops", "dev", "system:authenticated")


def test_percent_encoded_extra_keys_are_decoded_after_lower_case() -> None:
    headers = CIMultiDict(
        [
            ("X-Remote-User", "a"),
            ("X-Remote-Extra-Example.Com%2Froles", "x"),
            ("x-remote-extra-example.com%2froles", "y"),
            ("X-Remote-Extra-Scopes", "z"),
        ]
    )
    found = from_headers(FrontProxy(ca="x"), headers)
    assert found is not None
    assert found.extra == (("example.com/roles", ("x", "y")), ("scopes", ("z",)))


def test_a_uid_counts_only_where_the_cluster_names_its_header() -> None:
    headers = CIMultiDict([("X-Remote-User", "a"), ("X-Remote-Uid", "7")])
    plain, named_uid = (from_headers(FrontProxy(ca="x", uid_headers=uids), headers) for uids in ((), ("x-remote-uid",)))
    assert plain is not None
    assert named_uid is not None
    assert (plain.uid, named_uid.uid) == ("", "7")


CA = "-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n"
OTHER = CA.replace("AAA", "BBB")


def test_allowed_names_empty_is_every_name_but_not_with_the_clients_ca() -> None:
    assert front_proxy({"requestheader-client-ca-file": CA, "client-ca-file": OTHER}).allowed_names == ()
    with pytest.raises(BadFrontProxyError, match="could claim to be anybody"):
        front_proxy(
            {"requestheader-client-ca-file": OTHER + CA, "client-ca-file": CA, "requestheader-allowed-names": "[]"}
        )
    same = {"requestheader-client-ca-file": CA, "client-ca-file": CA, "requestheader-allowed-names": '["proxy"]'}
    assert front_proxy(same).allowed_names == ("proxy",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "requestheader-client-ca-file: found nothing"),
        ({"requestheader-client-ca-file": CA, "requestheader-allowed-names": "proxy"}, "wanted a JSON list"),
    ],
)
def test_a_config_map_that_cannot_be_used_is_named(data: dict[str, str], words: str) -> None:
    with pytest.raises(BadFrontProxyError, match=words):
        front_proxy(data)


async def test_allowed_names_empty_admits_every_certificate_of_the_ca(tmp_path: Path) -> None:
    async with serving(tmp_path) as world:
        async with asking(world, world.client(world.proxy, "somebody")) as client:
            assert (await client.get(MDM))[0] == 401
        world.trust(world.proxy)
        async with asking(world, world.client(world.proxy, "somebody")) as client:
            assert (await client.get(MDM))[0] == 200


FORGERIES = {
    "user": {"X-Remote-User": "alice"},
    "master": {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"},
    "group alone": {"x-remote-group": "system:masters"},
    "extra alone": {"X-Remote-Extra-Scopes": "all"},
    "beside a token": {"X-Remote-User": "alice", "Authorization": "Bearer good"},
}


@pytest.mark.parametrize("headers", FORGERIES.values(), ids=FORGERIES)
async def test_forged_headers_without_the_proxys_certificate_are_401_and_said_loudly(
    tmp_path: Path, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as world, asking(world, world.client()) as client:
        status, _, body = await client.ask(MDM, headers)
    assert (status, body["reason"]) == (401, "Unauthorized")
    said = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "not believed: the connection has no client certificate" in said[0].getMessage()
    assert world.rights.asked == []


async def test_a_401_that_hides_a_ca_mismatch_is_explained_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The proxy's CA changed while its connection stayed open: its requests are 401, and the log says why."""
    async with serving(tmp_path) as world, asking(world) as client:
        assert (await client.get(MDM))[0] == 200
        world.trust(world.other, names=("front-proxy-client",))
        status, headers, _ = await client.get(MDM)
    assert status == 401
    assert headers["Connection"] == "close"
    assert "extension-apiserver-authentication do not agree" in caplog.text


async def test_a_certificate_of_an_unknown_ca_ends_the_handshake(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world, world.client(world.other)) as client:
        with pytest.raises(aiohttp.ClientError):
            await client.get(MDM)


async def test_ca_rotation_with_open_connections(tmp_path: Path) -> None:
    """Old and new CA together: the open connection stays; the old one dropped: only the new certificate counts."""
    async with serving(tmp_path) as world:
        fresh = Authority(tmp_path, "fresh")
        async with asking(world) as old:
            assert (await old.get(MDM))[0] == 200
            world.trust(world.proxy, fresh, names=("front-proxy-client",))
            assert (await old.get(MDM))[0] == 200, "verified again on the same connection"
            async with asking(world, world.client(fresh)) as new:
                assert (await new.get(MDM))[0] == 200
                world.trust(fresh, names=("front-proxy-client",))
                assert (await new.get(MDM))[0] == 200
            assert (await old.get(MDM))[0] == 401
        async with asking(world) as old:
            with pytest.raises(aiohttp.ClientError):
                await old.get(MDM)


async def test_the_serving_certificate_is_replaced_without_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as world:
        async with asking(world) as before:
            assert (await before.get(MDM))[0] == 200
            serving_again = Authority(tmp_path, "serving-2")
            assert world.tls.show(world.pair("leaf-2", serving_again))
            assert (await before.get(MDM))[0] == 200, "an open connection stays"
        async with asking(world) as stale:
            with pytest.raises(aiohttp.ClientError):
                await stale.get(MDM)
        world.serving = serving_again
        async with asking(world) as after:
            assert (await after.get(MDM))[0] == 200


@pytest.mark.parametrize("name", [None, HOST], ids=["without SNI", "with SNI"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: each.name)
async def test_each_handshake_is_moved_to_the_present_context(
    tmp_path: Path, name: str | None, version: ssl.TLSVersion
) -> None:
    def shown(port: int, session: ssl.SSLSession | None) -> tuple[bytes | None, bool, ssl.SSLSession | None]:
        with (
            socket.create_connection(("127.0.0.1", port), 5) as plain,
            context.wrap_socket(plain, server_hostname=name, session=session) as wrapped,
        ):
            wrapped.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert wrapped.recv(100).startswith(b"HTTP/1.1 200")
            return wrapped.getpeercert(binary_form=True), bool(wrapped.session_reused), wrapped.session

    async with serving(tmp_path) as world:
        context = world.client(world.proxy)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        first, _, session = await asyncio.to_thread(shown, world.server.port, None)
        world.tls.show(world.pair("leaf-2"))
        second, reused, _ = await asyncio.to_thread(shown, world.server.port, session)
    assert reused or first != second
    if version is ssl.TLSVersion.TLSv1_3:
        assert not reused, "no ticket is given"


async def test_a_resumed_session_is_not_taken_for_a_verified_one(tmp_path: Path) -> None:
    """TLS 1.2 may resume by session id: then the verdict of the first handshake does not count, the CA is asked again."""
    async with serving(tmp_path) as world:
        context = world.client(world.proxy)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        request = f"GET {MDM} HTTP/1.1\r\nHost: x\r\nX-Remote-User: alice\r\nConnection: close\r\n\r\n".encode()

        def ask(session: ssl.SSLSession | None) -> tuple[bytes, ssl.SSLSession | None]:
            with (
                socket.create_connection(("127.0.0.1", world.server.port), 5) as plain,
                context.wrap_socket(plain, session=session) as wrapped,
            ):
                wrapped.sendall(request)
                return wrapped.recv(12), wrapped.session

        answer, session = await asyncio.to_thread(ask, None)
        assert answer == b"HTTP/1.1 200"
        world.trust(world.other, names=("front-proxy-client",))
        try:
            answer, _ = await asyncio.to_thread(ask, session)
        except OSError:
            answer = b""  # not resumed, and the new handshake was refused
        assert answer in {b"", b"HTTP/1.1 401"}


async def test_a_user_without_rights_is_403_and_both_answers_are_kept_for_a_while(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        for _ in range(3):
            status, _, body = await client.ask(MDM, {"X-Remote-User": "mallory"})
            assert (status, body["reason"]) == (403, "Forbidden")
            assert (await client.get(MDM))[0] == 200
        assert len(world.rights.asked) == 2
        world.rights.allowed.add("mallory")
        assert (await client.ask(MDM, {"X-Remote-User": "mallory"}))[0] == 403
        world.seconds += 10.0
        assert (await client.ask(MDM, {"X-Remote-User": "mallory"}))[0] == 200


async def test_a_subresource_is_granted_on_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        await client.get(f"{BASE}/namespaces/prod/modeldeployments/chat/metrics")
        asked = world.rights.asked[0][1]
    assert (asked.verb, asked.resource, asked.subresource, asked.namespace, asked.name) == (
        "get", "modeldeployments", "metrics", "prod", "chat",
    )  # fmt: skip


async def test_masters_need_no_review_and_nothing_is_granted_while_nobody_can_say(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        world.rights.away = True
        admin = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")]
        assert (await client.ask(MDM, admin))[0] == 200
        status, _, body = await client.get(MDM)
        assert status == 403
        assert "authorization check failed: connection refused" in body["message"]
        world.rights.away = False
        assert (await client.get(MDM))[0] == 200, "that nobody could say is not remembered"


TOKENS = [("good", 200), ("bad", 401), ("", 401)]


@pytest.mark.parametrize(("token", "wanted"), TOKENS)
async def test_direct_callers_bring_a_token(tmp_path: Path, token: str, wanted: int) -> None:
    async with serving(tmp_path) as world, asking(world, world.client()) as client:
        for _ in range(2):
            status, _, _ = await client.ask(MDM, {"Authorization": f"Bearer {token}"})
            assert status == wanted
        assert world.rights.reviewed == (1 if token else 0)


async def test_no_token_is_believed_while_nobody_can_say(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world, world.client()) as client:
        world.rights.away = True
        status, headers, body = await client.ask(MDM, {"Authorization": "Bearer good"})
        assert (status, body["reason"], headers["Retry-After"]) == (503, "ServiceUnavailable", "1")
        assert (await client.ask(MDM))[0] == 401


async def test_before_the_config_map_was_read_nobody_is_served_and_it_is_not_ready(tmp_path: Path) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        world.access.proxy = None
        assert (await client.get(MDM))[0] == 503
        assert (await client.ask("/readyz"))[0] == 503
        assert (await client.ask("/livez"))[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(tmp_path: Path, method: str) -> None:
    async with serving(tmp_path) as world, asking(world) as client:
        status, headers, body = await client.ask(MDM, USER, method, json={})
        assert (status, body["reason"], headers["Allow"]) == (405, "MethodNotAllowed", "GET")
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
        assert world.rights.asked[0][1].verb == verb


REFUSED = {
    "body": (MDM, {}, {"data": b"{}"}, 415),
    "impersonation": (MDM, {"Impersonate-User": "root"}, {}, 403),
    "encoded slash": (f"{BASE}/namespaces/prod/modeldeploymentmetrics/a%2Fb", {}, {}, 400),
    "double slash": (f"{BASE}//modeldeploymentmetrics", {}, {}, 400),
    "long": (f"{BASE}/{'a' * 5000}", {}, {}, 414),
}


@pytest.mark.parametrize(("path", "headers", "more", "wanted"), REFUSED.values(), ids=REFUSED)
async def test_what_could_be_read_in_two_ways_is_refused(
    tmp_path: Path, path: str, headers: dict[str, str], more: dict[str, bytes], wanted: int
) -> None:
    from yarl import URL

    async with serving(tmp_path, named("chat")) as world, asking(world) as client:
        url = URL(world.url + path, encoded=True)
        async with client._session.get(
            url, headers={**USER, **headers}, ssl=client._context, server_hostname=HOST, **more
        ) as answer:
            assert answer.status == wanted
            assert (await answer.json())["kind"] == "Status"
