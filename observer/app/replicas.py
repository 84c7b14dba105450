"""One replica among those of its release: its Leases, who owns what, taking over from one that ends, and ending itself.

Ending goes in this order, so that nobody who asks is refused and no window is lost: unready, read everything once more,
hand the reads over, stop writing and reading, give the Lease up, go on passing questions on for a while, close.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import web

from exporters.aggregated.forwarding import FORWARD_SECONDS
from exporters.listening import Listen
from exporters.statuses import failure
from observer.app.handover import MOST_BYTES, BadHandoverError, kept_reads, pack, unpack
from observer.app.relay import HANDOVER_PATH, pinned
from observer.clock import Clock
from observer.kube.client import ApiClient
from observer.kube.elector import Elector
from observer.kube.membership import OF_SHARD, Member, Membership, labels_of, lease_name
from observer.kube.options import KubernetesSettings
from observer.kube.sharing import ShardOwnership
from observer.settings import Settings
from observer.store import Store
from observer.supervise import Child, Supervisor
from router_contract.targets import DeploymentKey

_log = logging.getLogger(__name__)

SHARD = "OBSERVER_SHARD"
"""The environment variable that tells a replica its shard; without it there is only this one."""
SENDER = "Observer-Replica"
"""Header of a hand-over: the name of the replica that ends. Its Lease has the SHA-256 of the body, and only that is taken."""
HANDED_SECONDS = 60.0
"""For how long reads that were handed over wait for this replica to own their deployments."""
MOST_SUCCESSORS = 3
POST_SECONDS = 5.0
LONGEST_LAST_READ = 20.0
"""How long (s) a replica that ends waits at most for a last read of everything."""


class ShardError(Exception):
    """The shard that we were told cannot be; the text says what was found and wanted."""


def shard_told(settings: KubernetesSettings, environment: Mapping[str, str] = os.environ) -> int | None:
    """The shard of this replica, ``None`` when it is the only one. Raises `ShardError`."""
    told = environment.get(SHARD, "")
    if not told:
        if settings.shards > 1:
            raise ShardError(
                f"kubernetes.shards is {settings.shards}: found no {SHARD}, wanted this replica's shard in it"
            )
        return None
    if not told.isdecimal() or int(told) >= settings.shards:
        raise ShardError(f"{SHARD}: found {told!r}, wanted a number below kubernetes.shards, {settings.shards}")
    return int(told)


def reachable(url: str, environment: Mapping[str, str] = os.environ) -> str:
    """A listener's URL as others reach it: the Pod's address in place of a wildcard."""
    found = urlsplit(url)
    host, ours = found.hostname or "", environment.get("POD_IP", "")
    if host in {"0.0.0.0", "::", ""} and ours:  # noqa: S104 - compared, not bound
        host = ours
    return f"{found.scheme}://{f'[{host}]' if ':' in host else host}:{found.port}"


class Replicas:
    """This replica and the others.

    It satisfies `observer.app.peers.Replicas` and `observer.app.relay.Division`. ``plain`` is the URL of our plain
    listener, ``listen`` how that is guarded, ``uid`` gives the UID of a deployment. `start` begins; `leave` ends.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        settings: Settings,
        store: Store,
        *,
        shard: int,
        identity: str,
        namespace: str,
        plain: str,
        listen: Listen,
        chance: Callable[[], float],
    ) -> None:
        told = settings.kubernetes
        self._clock = clock
        self._settings = settings
        self._store = store
        self._listen = listen
        self._shard = shard
        self._election: Child | None = None
        self._expires = 0.0
        self._tls = pinned(listen)
        self._receiving = asyncio.Lock()
        api = reachable(f"https://{settings.aggregated.listen}") if settings.aggregated.enabled else ""
        self.uid: Callable[[DeploymentKey], str] = str
        self.membership = Membership(
            client,
            clock,
            namespace=namespace,
            name=told.lease.name,
            me=Member(identity=identity, shard=shard, api=api, http=reachable(plain)),
            timing=told.lease.timing,
            chance=chance,
            heard=self._heard,
        )
        self.elector = Elector(
            client,
            clock,
            namespace=namespace,
            name=lease_name(told.lease.name, shard),
            identity=identity,
            on_change=self._led,
            chance=chance,
            timing=told.lease.timing,
            labels=labels_of(told.lease.name, shard, OF_SHARD),
        )
        self.ownership = ShardOwnership(self.elector, self.membership, clock, shard=shard, count=told.shards)

    def start(self, supervisor: Supervisor) -> None:
        """Begin to take part."""
        for name, run in self.membership.runs:
            supervisor.start(name, run)
        supervisor.start("look after ownership", self.ownership.run)
        supervisor.start("forget what was handed over", self._expire)
        self._election = supervisor.start("take part in the election", self.elector.run)

    def _heard(self) -> None:
        self.ownership.heard()

    def _led(self, _: bool) -> None:
        self.ownership.look()

    def owner(self, key: DeploymentKey) -> str | None:
        """The replica that owns a deployment, ``None`` for this one or nobody."""
        return self.ownership.owner(self.uid(key))

    def owns_shard(self) -> bool:
        """Whether this replica owns its shard."""
        return self.ownership.holds

    def active(self) -> str | None:
        """The replica that owns our shard, ``None`` for this one or nobody."""
        found = self.membership.holder(self._shard)
        return found if found and found != self.membership.me.identity else None

    def urls(self) -> Mapping[str, str]:
        """The aggregated APIs of the replicas that own something."""
        return self._places(lambda member: member.api)

    def plain_urls(self) -> Mapping[str, str]:
        """The plain listeners of the replicas that own something."""
        return self._places(lambda member: member.http)

    def _places(self, place: Callable[[Member], str]) -> dict[str, str]:
        owners = self.ownership.owners()
        return {
            each.identity: place(each) for each in self.membership.members() if each.identity in owners and place(each)
        }

    async def hand_over(self, let_go: Callable[[], Awaitable[None]], supervisor: Supervisor) -> None:
        """End owning: the next owner gets the last reads, then nothing is read or written here, then the Lease is free.

        ``let_go`` is awaited; on its return nothing is read or written any more.
        """
        await self.membership.announce(draining=True)
        if self.ownership.holds:
            self._store.kept = {}
            scrape = self._settings.scrape
            await asyncio.sleep(min(scrape.period + scrape.timeout, LONGEST_LAST_READ))
            await self._send()
        self.ownership.give_up()
        await let_go()
        if self._election is not None:
            await supervisor.stop(self._election)
        await self.elector.release()

    async def _send(self) -> None:
        """One message to each replica that may be the next owner."""
        reads = kept_reads(self._store, self._settings.windows.span)
        self._store.kept = None
        shard, now = self._shard, self._clock.now()
        others = [each for each in self.membership.members() if each.shard == shard and not each.draining and each.http]
        if not reads or not others:
            _log.info("nothing is handed over: %d targets, %d replicas that could take over", len(reads), len(others))
            return
        packed = await asyncio.to_thread(pack, reads, now)
        if packed.left_out:
            _log.warning(
                "%d of %d targets do not fit into a hand-over of %d bytes: their windows begin anew",
                packed.left_out,
                len(reads),
                MOST_BYTES,
            )
        if not await self.membership.announce(handed=hashlib.sha256(packed.data).hexdigest()):
            _log.warning("nothing is handed over: %s", self.membership.trouble)
            return
        async with aiohttp.ClientSession(trust_env=False) as session:
            answers = await asyncio.gather(
                *(self._post(session, each, packed.data) for each in others[:MOST_SUCCESSORS])
            )
        _log.info("handed %d targets over to %d of %d replicas", packed.targets, sum(answers), len(answers))

    async def _post(self, session: aiohttp.ClientSession, to: Member, data: bytes) -> bool:
        headers = {SENDER: self.membership.me.identity, "Content-Type": "application/octet-stream"}
        if self._listen.token is not None:
            headers["Authorization"] = f"Bearer {self._listen.token}"
        try:
            async with session.post(
                to.http + HANDOVER_PATH,
                data=data,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=POST_SECONDS, sock_connect=FORWARD_SECONDS),
                ssl=self._tls,
            ) as answer:
                if answer.status != 200:
                    said = (await answer.content.read(500)).decode(errors="replace")
                    _log.warning("replica %s does not take what we hand over: %d %s", to.identity, answer.status, said)
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _log.warning("replica %s cannot be handed anything: %s", to.identity, str(error) or type(error).__name__)
            return False

    async def take_over(self, request: web.Request) -> web.StreamResponse:
        """Keep what another replica hands over, if its Lease says that it is its own."""
        sender = request.headers.get(SENDER, "")
        if request.method != "POST":
            return failure(405, f"{request.method} is not possible on {HANDOVER_PATH}; possible: POST")
        if self.membership.member(sender) is None:
            return failure(403, "the sender is no replica of this release")
        async with self._receiving:
            data = bytearray()
            async for chunk in request.content.iter_any():
                data += chunk
                if len(data) > MOST_BYTES:
                    return failure(413, f"the message is longer than {MOST_BYTES} bytes")
            lease = await self.membership.fetch(sender, self._shard)
            if lease is None or not lease.draining or lease.handed != hashlib.sha256(data).hexdigest():
                return failure(403, "the sender's Lease does not say that it hands this over")
            if self.ownership.holds:
                return failure(409, "this replica owns the shard itself")
            try:
                found = await asyncio.to_thread(unpack, bytes(data), self._clock.now())
            except BadHandoverError as error:
                return failure(400, str(error))
        self._store.handed = found
        self._expires = self._clock.now().mono + HANDED_SECONDS
        _log.info("replica %s hands %d targets over", sender, len(found))
        return web.json_response({"targets": len(found)}, dumps=lambda value: msgspec.json.encode(value).decode())

    async def _expire(self) -> None:
        """What nobody needed after a while is old."""
        while True:
            await asyncio.sleep(HANDED_SECONDS / 4)
            if self._store.handed and self._clock.now().mono > self._expires:
                self._store.handed = {}
