"""The simulator against the recordings: families, labels and buckets; what differs equals a committed list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulate.harness import bench
from tests.simulate.shapes import differences
from tests.simulate.stories import STORIES

COMMITTED = Path(__file__).parent / "differences.json"


@pytest.mark.parametrize("story", STORIES)
async def test_shape_equals_recording_but_for_the_committed_differences(story: str, recordings: Path) -> None:
    async with bench() as made:
        bodies = await STORIES[story](made)
    found = {name: sorted(differences((recordings / name).read_text(), body)) for name, body in sorted(bodies.items())}
    committed = json.loads(COMMITTED.read_text())
    assert found == {name: sorted(committed.get(name, {})) for name in found}


def test_every_committed_difference_has_a_reason() -> None:
    committed = json.loads(COMMITTED.read_text())
    assert all(reason.strip() for entries in committed.values() for reason in entries.values())


def test_a_difference_is_seen() -> None:
    recorded = '# TYPE a gauge\na{x="1"} 1\n# TYPE h histogram\nh_bucket{le="1"} 1\nh_bucket{le="+Inf"} 1\n'
    simulated = recorded.replace('x="1"', 'y="1"').replace('le="1"', 'le="2"')
    assert differences(recorded, simulated) == {
        "recording only: labels a x",
        "simulator only: labels a y",
        "recording only: buckets h 1 +Inf",
        "simulator only: buckets h 2 +Inf",
    }
    assert not differences(recorded, recorded)
