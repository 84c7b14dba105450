"""What shows some signals gets those only, and shows the same as from a report with every value."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters.document import metrics_document
from exporters.encoding import encode
from exporters.families import FAMILIES
from exporters.family import Family
from exporters.kept_documents import KeptDocuments
from exporters.otlp_rows import GEN_AI_SIGNALS, take_gen_ai
from exporters.page.rows import row, twin
from exporters.prometheus import Renderer
from exporters.signals_read import NO_SIGNALS, document_report
from exporters.snapshot import Snapshot, snapshot
from exporters.status import contract_document, explain_document, status_document
from exporters.top import deployment_line
from router_contract.documents import Unavailable
from router_contract.targets import Deployment, DeploymentKey, EndpointType, RouterDeclaration
from tests.app.watched import Watched
from tests.fleets import at, body, deployment, member

RECORDINGS = Path(__file__).parent.parent / "recordings"
ENGINES = {"vllm-0.32.0": "vllm", "vllm-old-modules": "vllm", "sglang-0.5.23": "sglang", "sglang-old-modules": "sglang"}
ROUTERS = {
    "vllm-router-0.1.17": "vllm_router",
    "sglang-router-0.1.9": "sglang_gateway",
    "sglang-router-0.2.4": "sglang_gateway",
    "sglang-router-0.3.2": "sglang_gateway",
    "synthetic": "llm_d",
}
SECONDS = (0.0, 5.0, 9.0, 22.0, 330.0)
"""When it is looked: new, with a window, mixed, stale, expired."""


def bodies(folder: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((RECORDINGS / folder).glob("*.prom"))]


def fleet() -> tuple[tuple[Deployment, list[bytes]], ...]:
    """Each folder of engines with each folder of routers of its kind, and what the engines and the router answer."""
    found = []
    for number, (folder, software) in enumerate(ENGINES.items()):
        key = DeploymentKey("default", f"chat-{number}")
        names = tuple(f"{key.name}-{place}" for place in range(len(bodies(folder))))
        router, program = list(ROUTERS.items())[number + (software == "sglang")]
        declared = RouterDeclaration(name="router", software=program, members=(member(f"router-{number}", 9000),))
        more = {"key": key, "router": declared, "model": "m", "endpoint_type": EndpointType.CHAT}
        found.append((deployment(*names, software=software, **more), [*bodies(folder), bodies(router)[-1]]))
    return tuple(found)


def mismatched() -> tuple[Deployment, list[bytes]]:
    """A role whose members share no finite bound: no signal that is shown, and told all the same."""
    name = "vllm:request_decode_time_seconds"
    texts = [
        f'# TYPE {name} histogram\n{name}_bucket{{engine="0",le="{bound}"}} 1\n'
        f'{name}_bucket{{engine="0",le="+Inf"}} 2\n{name}_count{{engine="0"}} 2\n{name}_sum{{engine="0"}} 3\n'
        for bound in ("0.3", "0.7")
    ]
    key = DeploymentKey("default", "unlike")
    return deployment("unlike-0", "unlike-1", key=key), [body(more=text) for text in texts]


@pytest.fixture(scope="module")
def world() -> Watched:
    return Watched(*(of for of, _ in (*fleet(), mismatched())))


def looked(world: Watched) -> None:
    """Read everything twice, one target of each deployment not again, and judge."""
    for seconds in SECONDS[:2]:
        world.clock.set(seconds)
        for (of, answers), skips in zip((*fleet(), mismatched()), (0, 1, 1, 1, 0), strict=True):
            targets = list(of.targets())
            for place, (target, data) in enumerate(zip(targets, answers, strict=True)):
                if seconds == 0.0 or not (skips and place == 0):
                    world.store.on_body(target, data, "text/plain", at(seconds), 0.01)
        world.judging.judge_all(at(seconds))


def shots(world: Watched, signals: frozenset[str], totals: frozenset[str]) -> tuple[Snapshot, Snapshot]:
    """What is known now with these signals, and with all."""
    keys = world.source.keys()
    few = [report for key in keys if (report := world.source.deployment(key, signals, totals)) is not None]
    every = [report for key in keys if (report := world.source.deployment(key)) is not None]
    return snapshot(few, world.source.targets()), snapshot(every, world.source.targets())


@pytest.fixture(scope="module", params=SECONDS[1:])
def then(world: Watched, request: pytest.FixtureRequest) -> Watched:
    if request.param == SECONDS[1]:
        looked(world)
    world.clock.set(request.param)
    return world


def test_metrics_are_those_of_every_value(then: Watched) -> None:
    one, other = Renderer(FAMILIES), Renderer(FAMILIES)
    few, every = shots(then, one.signals, one.totals)
    body = one.render(few).body
    assert body == other.render(every).body
    assert b'modeldeployment_bucket_mismatch{deployment="unlike"' in body or then.clock.now().mono > 300
    made = sum(len(target.report.values) for target in few.targets)
    assert made < sum(len(target.report.values) for target in every.targets) / 2


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_names_every_signal_that_it_looks_at(then: Watched, family: Family) -> None:
    few, every = shots(then, family.signals, family.totals)
    assert list(family.rows(few)) == list(family.rows(every))


def test_the_genai_names_are_those_of_every_value(then: Watched) -> None:
    few, every = shots(then, NO_SIGNALS, GEN_AI_SIGNALS)
    assert list(take_gen_ai(few)) == list(take_gen_ai(every))


def test_documents_lines_and_summaries_are_those_of_every_value(then: Watched) -> None:
    documents = KeptDocuments(then.source)
    for key in then.source.keys():  # noqa: SIM118 - a source is no mapping
        few, every = document_report(then.source, key), then.source.deployment(key)
        assert few is not None
        assert every is not None
        made = metrics_document(every)
        assert documents.document(key) == (made if isinstance(made, Unavailable) else encode(made))
        assert encode(twin(row(few))) == encode(twin(row(every)))
        assert encode(deployment_line(few)) == encode(deployment_line(every))


def test_statuses_look_at_no_value(then: Watched) -> None:
    for key in then.source.keys():  # noqa: SIM118 - a source is no mapping
        few, every = then.source.deployment(key, NO_SIGNALS), then.source.deployment(key)
        assert few is not None
        assert not any(target.values for target in few.targets)
        assert status_document(few, key) == status_document(every, key)
        assert contract_document(few, key) == contract_document(every, key)
        assert explain_document(few, key, history=True) == explain_document(every, key, history=True)
