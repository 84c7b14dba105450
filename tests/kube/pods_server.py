"""A server of many Pods as a real API server sends them, about 9 kB each, run as a program: it prints its URL.

python pods_server.py 10000
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import orjson
from aiohttp import web


def pod(number: int) -> dict[str, Any]:
    """One Pod of a deployment of eight, with the managedFields, env and volumes that a real one has."""
    name = f"md-{number // 8}-server-r{number % 8}-m0"
    fields = {f"f:field-{n}": {"f:name": {}, "f:value": {}, ".": {}} for n in range(60)}
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 20}",
            "uid": f"{number:08x}-aaaa-bbbb-cccc-{number:012x}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "app.kubernetes.io/name": "model-deployment",
                "app.kubernetes.io/instance": f"md-{number // 8}",
                "app.kubernetes.io/component": "server",
                "modeldeployment.gpustack.ai/role-kind": "server",
                "modeldeployment.gpustack.ai/pod-ordinal": str(number % 8),
                "modeldeployment.gpustack.ai/member-index": "0",
                "modeldeployment.gpustack.ai/endpoint-eligible": "true",
                "kueue.x-k8s.io/pod-group-name": f"gpustack-fnv64-{number:016x}",
                "kueue.x-k8s.io/queue-name": "gpu",
            },
            "annotations": {
                "kueue.x-k8s.io/pod-group-total-count": "1",
                "kueue.x-k8s.io/role-hash": "server",
                "prometheus.io/scrape": "true",
                "prometheus.io/path": "/metrics",
                "prometheus.io/port": "8000",
                "prometheus.io/scheme": "http",
            },
            "ownerReferences": [
                {
                    "apiVersion": "worker.gpustack.ai/v1alpha1",
                    "kind": "ModelDeployment",
                    "name": f"md-{number // 8}",
                    "uid": f"owner-{number // 8:08x}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": fields}}
                for manager in ("operator", "kubelet")
            ],
        },
        "spec": {
            "nodeName": f"node-{number % 200}",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/engine:0.11.0",
                    "args": ["serve", "/models/llama", "--port", "8000", "--served-model-name", f"md-{number // 8}"],
                    "ports": [{"containerPort": 8000, "name": "http", "protocol": "TCP"}],
                    "env": [{"name": f"VARIABLE_{n}", "value": f"value-{n}"} for n in range(25)],
                    "volumeMounts": [{"name": f"volume-{n}", "mountPath": f"/mnt/{n}"} for n in range(8)],
                    "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
                }
            ],
            "volumes": [{"name": f"volume-{n}", "emptyDir": {"medium": "Memory"}} for n in range(8)],
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "main",
                    "restartCount": number % 3,
                    "state": {"running": {"startedAt": f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z"}},
                    "image": "registry.example.com/engine:0.11.0",
                    "containerID": f"containerd://{number:064x}",
                }
            ],
        },
    }


async def serve(count: int) -> None:
    pods = [orjson.dumps(pod(number)) for number in range(count)]

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(300)
            return response
        start, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        token = str(start + limit) if start + limit < count else ""
        meta = orjson.dumps({"resourceVersion": "99999", "continue": token})
        body = b'{"kind":"PodList","metadata":%s,"items":[%s]}' % (meta, b",".join(pods[start : start + limit]))
        result = web.Response(body=body, content_type="application/json")
        result.enable_compression(web.ContentCoding.gzip)
        return result

    app = web.Application()
    app.router.add_get("/api/v1/pods", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
