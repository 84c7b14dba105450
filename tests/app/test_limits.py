"""The bound on layouts as people see it: what is used, how often it was met, and that nothing is lost by it."""

from __future__ import annotations

from observer.app.limits import of_layouts
from observer.loads import loads
from observer.measure.budget import LayoutBudget
from router_contract.limit_readings import LimitState
from tests.fleets import HandClock, at, deployment, store
from tests.measure.compare import RECORDINGS

BODY = (RECORDINGS / "vllm-0.32.0" / "metrics-02-warm.prom").read_bytes()


def read_all(kept, pods, reads=2):
    """Pods whose every line has a label value of its own, each read some times."""
    kept.set_deployments([pods], at(0))
    targets = list(pods.targets())
    for turn in range(reads):
        for place, target in enumerate(targets):
            body = BODY.replace(b'model_name="', b'model_name="%d-' % place)
            kept.on_body(target, body, "text/plain", at(15 * turn + place), 0.01)
    return [kept.record(target.key) for target in targets]


def test_layouts_are_a_limit_with_its_use() -> None:
    kept = store(HandClock())
    records = read_all(kept, deployment("a", "b", "c"))
    reading = of_layouts(loads(kept.records(), kept.layouts))
    assert reading.name == "layouts"
    assert reading.limit == 256 << 20
    # What a layout takes is counted when it is made: rather too much.
    taken = sum(record.frame.shape.layout.nbytes for record in records)
    assert 0 < taken <= reading.use <= 1.3 * taken
    assert (reading.reached, reading.state, reading.unit, reading.setting) == (0, LimitState.OK, "bytes", "")
    assert "read in full" in reading.effect


def test_past_the_bound_every_value_is_still_read_and_the_limit_says_how_often_it_was_met() -> None:
    kept, free = store(HandClock()), store(HandClock())
    pods = deployment(*"abcdef")
    every = read_all(free, pods)
    kept.layouts.most = 2 * free.layouts.used // 5
    records = read_all(kept, pods)
    without = [record for record in records if record.frame.shape.layout is None]
    reading = of_layouts(loads(kept.records(), kept.layouts))
    assert 0 < len(without) < 6
    assert reading.reached == 2 * len(without)
    assert 0 < reading.use <= reading.limit
    assert reading.state in {LimitState.OK, LimitState.NEAR}
    for record, other in zip(records, every, strict=True):
        for signal in record.frame.plan.terms:
            assert repr(record.frame.series(signal)) == repr(other.frame.series(signal))


def test_a_full_bound_is_reached() -> None:
    layouts = LayoutBudget(1)
    layouts.used = 1
    assert of_layouts(loads((), layouts)).state is LimitState.REACHED
