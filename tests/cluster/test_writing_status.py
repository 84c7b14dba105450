"""Status writing against a real kube-apiserver: what server-side apply really does, and that we keep out of its traps."""

from __future__ import annotations

import asyncio
import urllib.error
from typing import Any

import pytest

from observer.kube.answers import Outcome
from observer.kube.client import APPLY, ApiClient
from observer.kube.intent import MANAGER, Intent, WantedCondition
from observer.kube.records import watched_documents
from observer.kube.resources import CRDS, Resource
from observer.kube.schemas import Conditions, of_definition, of_openapi
from tests.cluster.control_plane import ControlPlane
from tests.cluster.running import client_for, writer_on
from tests.kube.steady import until

pytestmark = pytest.mark.cluster

GROUP = "worker.gpustack.ai"
MD = Resource(group=GROUP, version="v1alpha1", plural="modeldeployments", kind="ModelDeployment")
PREFIX = "observer.modeldeployment.io/"
SERVING = PREFIX + "Serving"
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Owner",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


class Deployed:
    """A ModelDeployment in a namespace of its own, and its owner's hands on it."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        cluster.define(GROUP, MD.plural, MD.kind)
        self.namespace = cluster.namespace(namespace)
        self.path = MD.path("md", namespace)
        self.create()
        self.owner_puts({"conditions": [READY], "phase": "Ready"})

    def create(self) -> None:
        body = {"apiVersion": MD.api_version, "kind": MD.kind, "metadata": {"name": "md"}, "spec": {}}
        self.cluster.call("POST", MD.collection(self.namespace), body)

    @property
    def now(self) -> dict[str, Any]:
        return dict(self.cluster.call("GET", self.path))

    @property
    def uid(self) -> str:
        return str(self.now["metadata"]["uid"])

    @property
    def version(self) -> str:
        return str(self.now["metadata"]["resourceVersion"])

    @property
    def conditions(self) -> dict[str, str]:
        return {each["type"]: each["status"] for each in self.now.get("status", {}).get("conditions", [])}

    def owner_puts(self, status: dict[str, Any]) -> None:
        """What an operator does that replaces the whole status."""
        self.cluster.call("PUT", f"{self.path}/status", {**self.now, "status": status})

    def intent(self, status: str = "True", *types: str, message: str = "all serve", uid: str = "") -> Intent:
        wanted = tuple(
            WantedCondition(type=each, status=status, reason="Serves", message=message) for each in types or (SERVING,)
        )
        return Intent(
            resource=MD,
            namespace=self.namespace,
            name="md",
            uid=uid or self.uid,
            observed_generation=1,
            conditions=wanted,
            prefix=PREFIX,
        )


async def applied(client: ApiClient, path: str, metadata: dict[str, Any], status: dict[str, Any]) -> Any:
    body = {"apiVersion": MD.api_version, "kind": MD.kind, "metadata": metadata, "status": status}
    return await client.request(
        "PATCH", f"{path}/status", query={"fieldManager": MANAGER}, body=body, content_type=APPLY
    )


async def test_only_changes_are_written_and_the_owners_condition_stays(cluster: ControlPlane) -> None:
    md = Deployed(cluster, "changes")
    async with client_for(cluster.admin) as client, writer_on(client, watched_documents(MD, "changes")) as (writer, _):
        writer.submit(md.intent())
        await until(lambda: md.conditions == {"Ready": "True", SERVING: "True"})
        version = md.version
        await asyncio.sleep(0.3)
        for _ in range(5):
            writer.submit(md.intent())
            await asyncio.sleep(0.05)
        assert (md.version, writer.outcomes[Outcome.OK]) == (version, 1)
        first = {each["type"]: each for each in md.now["status"]["conditions"]}[SERVING]
        writer.submit(md.intent(message="other words"))
        await until(lambda: md.version != version)
        second = {each["type"]: each for each in md.now["status"]["conditions"]}[SERVING]
        assert second == {**first, "message": "other words"}, "the transition time stays"
        writer.submit(md.intent("False"))
        await until(lambda: md.conditions[SERVING] == "False")
        managers = {each["manager"] for each in md.now["metadata"]["managedFields"]}
        assert MANAGER in managers


async def test_the_same_content_again_is_no_new_version(cluster: ControlPlane) -> None:
    md = Deployed(cluster, "same")
    condition = {**READY, "type": SERVING}
    async with client_for(cluster.admin) as client:
        versions = set()
        for _ in range(3):
            answer = await applied(client, md.path, {"name": "md"}, {"conditions": [condition]})
            versions.add(answer.document()["metadata"]["resourceVersion"])
        assert len(versions) == 1


async def test_ssa_500_on_undeclared_field(cluster: ControlPlane) -> None:
    md = Deployed(cluster, "undeclared")
    async with client_for(cluster.admin) as client:
        answer = await applied(
            client, md.path, {"name": "md"}, {"novel": 1, "conditions": [{**READY, "type": SERVING}]}
        )
        assert (answer.status, answer.outcome) == (500, Outcome.UNDECLARED)
        assert SERVING not in md.conditions, "the whole apply is lost"
        async with writer_on(client, watched_documents(MD, "undeclared")) as (writer, _):
            ours = Intent(
                resource=MD, namespace=md.namespace, name="md", uid=md.uid, observed_generation=1, conditions=(),
                fields={"phase": "Ready", "novel": 1},
            )  # fmt: skip
            writer.submit(ours)
            await until(lambda: writer.outcomes[Outcome.UNDECLARED])
            await asyncio.sleep(0.3)
            assert writer.outcomes[Outcome.UNDECLARED] == 1
            standing = writer.standing(ours.key)
            assert standing is not None
            assert "field not declared in schema" in standing.reason


async def test_owner_put_wiping_our_condition(cluster: ControlPlane) -> None:
    """An operator that keeps rewriting the whole status starts no duel."""
    md = Deployed(cluster, "wiping")
    watched = watched_documents(MD, "wiping")
    async with client_for(cluster.admin) as client, writer_on(client, watched) as (writer, _):
        writer.submit(md.intent())
        for _ in range(2):
            await until(lambda: SERVING in md.conditions)
            await asyncio.to_thread(md.owner_puts, {"conditions": [READY], "phase": "Ready"})
        await until(writer.stopped)
        for number in range(4):
            writer.submit(md.intent("False"))
            await asyncio.to_thread(md.owner_puts, {"conditions": [READY], "phase": f"Ready{number}"})
            await asyncio.sleep(0.1)
        assert (SERVING in md.conditions, writer.outcomes[Outcome.OK]) == (False, 2)


async def test_stale_write_on_re_created_object(cluster: ControlPlane) -> None:
    md = Deployed(cluster, "stale")
    old = md.now["metadata"]
    cluster.call("DELETE", md.path)
    md.create()
    async with client_for(cluster.admin) as client:
        condition = {**READY, "type": SERVING}
        guarded = {"name": "md", "resourceVersion": old["resourceVersion"]}
        answer = await applied(client, md.path, guarded, {"conditions": [condition]})
        assert (answer.outcome, md.conditions) == (Outcome.CONFLICT, {})
        async with writer_on(client, watched_documents(MD, "stale")) as (writer, _):
            writer.submit(md.intent(uid=old["uid"]))
            await asyncio.sleep(0.3)
            assert md.conditions == {}
            standing = writer.standing(md.intent(uid=old["uid"]).key)
            assert standing is not None
            assert "re-created" in standing.reason
        unguarded = await applied(client, md.path, {"name": "md", "uid": old["uid"]}, {"conditions": [condition]})
        print("an apply with only the old uid:", unguarded.outcome, md.conditions)


async def test_a_condition_that_another_manager_owns_is_left_to_it(cluster: ControlPlane) -> None:
    md = Deployed(cluster, "owned")
    body = {
        "apiVersion": MD.api_version, "kind": MD.kind, "metadata": {"name": "md"},
        "status": {"conditions": [{**READY, "type": SERVING, "status": "False"}]},
    }  # fmt: skip
    cluster.call("PATCH", f"{md.path}/status?fieldManager=somebody", body, APPLY)
    async with client_for(cluster.admin) as client, writer_on(client, watched_documents(MD, "owned")) as (writer, _):
        writer.submit(md.intent())
        await until(lambda: writer.outcomes[Outcome.OWNED])
        standing = writer.standing(md.intent().key)
        assert standing is not None
        assert 'conflicts with "somebody"' in standing.reason
        assert md.conditions[SERVING] == "False"


async def test_two_replicas_same_manager_different_sets(cluster: ControlPlane) -> None:
    """The later apply is the whole truth of the one manager: what only the earlier said is gone, nothing is mixed."""
    md = Deployed(cluster, "two")
    other = PREFIX + "Other"
    watched = watched_documents(MD, "two")
    async with client_for(cluster.admin) as client, writer_on(client, watched) as (one, _):
        one.submit(md.intent("True", SERVING, other))
        await until(lambda: set(md.conditions) == {"Ready", SERVING, other})
        one.withdraw(md.intent().key)
        async with writer_on(client, watched) as (two, _):
            two.submit(md.intent("True", SERVING))
            await until(lambda: set(md.conditions) == {"Ready", SERVING})


async def test_a_busy_owner_does_not_keep_us_from_writing(cluster: ControlPlane) -> None:
    """Versions go by between what the informer holds and what is stored: each conflict is decided anew."""
    md = Deployed(cluster, "busy")
    async with client_for(cluster.admin) as client, writer_on(client, watched_documents(MD, "busy")) as (writer, _):
        writer.submit(md.intent())

        def touch(number: int) -> None:
            cluster.call("PATCH", md.path, {"spec": {"n": number}}, "application/merge-patch+json")

        for number in range(30):
            await asyncio.to_thread(touch, number)
        await until(lambda: SERVING in md.conditions)
        print("writes by outcome:", {key.value: count for key, count in writer.outcomes.items() if count})


async def test_conditions_atomic_crd(cluster: ControlPlane) -> None:
    """Where conditions are one atomic list our apply would conflict with its owner for ever: the schema says so before."""
    cluster.define(GROUP, MD.plural, MD.kind)
    cluster.define("serving.example.com", "isvcs", "Isvc", conditions="atomic")
    atomic = Resource(group="serving.example.com", version="v1alpha1", plural="isvcs", kind="Isvc")
    async with client_for(cluster.admin) as client:
        for resource, wanted in ((MD, Conditions.MAP), (atomic, Conditions.ATOMIC)):
            answer = await client.request("GET", CRDS.path(f"{resource.plural}.{resource.group}"))
            assert of_definition(answer.document(), resource).conditions is wanted
            path = f"/openapi/v3/apis/{resource.group}/{resource.version}"

            async with asyncio.timeout(20):
                # It is published a moment after the definition is established.
                while not (answer := await client.request("GET", path)).ok:
                    await asyncio.sleep(0.2)
            assert of_openapi(answer.document(), resource).conditions is wanted


async def test_a_status_write_of_an_object_that_is_gone_makes_none(cluster: ControlPlane) -> None:
    md = Deployed(cluster, "absent")
    cluster.call("DELETE", md.path)
    async with client_for(cluster.admin) as client:
        answer = await applied(client, md.path, {"name": "md"}, {"phase": "Ready"})
        assert answer.outcome is Outcome.NOT_FOUND
        with pytest.raises(urllib.error.HTTPError):
            cluster.call("GET", md.path)


async def test_who_may_not_write_is_told_so(cluster: ControlPlane) -> None:
    md = Deployed(cluster, "forbidden")
    rules = [{"apiGroups": [GROUP], "resources": [MD.plural], "verbs": ["get", "list", "watch"]}]
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/forbidden"
    cluster.call("POST", f"{rbac}/roles", {"metadata": {"name": "reads"}, "rules": rules})
    subject = {"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "reads", "apiGroup": "rbac.authorization.k8s.io"}
    cluster.call(
        "POST", f"{rbac}/rolebindings", {"metadata": {"name": "reads"}, "subjects": [subject], "roleRef": role}
    )
    watched = watched_documents(MD, "forbidden")
    async with client_for(cluster.user("reader")) as client, writer_on(client, watched) as (writer, _):
        writer.submit(md.intent())
        await until(lambda: writer.outcomes[Outcome.FORBIDDEN])
        standing = writer.standing(md.intent().key)
        assert standing is not None
        assert 'User "reader" cannot patch resource "modeldeployments/status"' in standing.reason
        assert md.conditions == {"Ready": "True"}
