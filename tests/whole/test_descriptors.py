"""With 256 descriptors and 500 targets under faults nobody is left unread or unanswered."""

from __future__ import annotations

from pathlib import Path

from tests.whole.few_descriptors import BROKEN, GOOD, HANGING, REFUSING, watch


async def test_few_descriptors_leave_no_target_unread_and_no_probe_unanswered(tmp_path: Path) -> None:
    seen = await watch(tmp_path, 20.0)
    print(f"figure: {seen.line()}")
    assert seen.targets == GOOD + HANGING + REFUSING + BROKEN == 500
    assert seen.unread == 0, seen.line()
    assert seen.unanswered == 0, seen.line()
    assert seen.asked > 45
    assert seen.most_files < 256
    assert seen.peak_memory < 256
    assert seen.closed_idle > 0, "idle connections make room"
    assert seen.states["Up"] + seen.shed >= GOOD
    log = (tmp_path / "log").read_text()
    assert "Too many open files" not in log, log[-2000:]
