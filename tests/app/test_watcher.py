"""The joints of a running observer: where it listens, what a full disk stops, what it counts, what it keeps at its end."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from exporters.listening import ListenError
from observer.app.run import describe_watch
from observer.app.told import listen_of
from observer.app.watcher import Watcher
from observer.clock import SystemClock
from observer.collect.fetch import Fetched
from observer.collect.options import ScrapeSettings
from observer.collect.recording import Recorder, Recording
from observer.persist import StateFile
from observer.settings import HttpSettings, JudgingSettings, LimitSettings, Settings
from router_contract.readings import FailureKind, ScrapeFailed
from tests.fakes import hostile
from tests.fakes.hostile import reply, serving
from tests.fleets import KEY, HandClock, at, body, deployment, member, routed, target
from tests.whole.world import asking

LISTENS = [
    ("settings", None, ("127.0.0.1", 9480)),
    ("told", "127.0.0.1:0", ("127.0.0.1", 0)),
    ("name", "localhost:8080", ("localhost", 8080)),
    ("IPv6", "[::1]:9480", ("::1", 9480)),
]


def test_the_limit_on_an_answer_reaches_the_listener():
    assert listen_of(Settings(limits=LimitSettings(response=1 << 20)), None).response_bytes == 1 << 20


@pytest.mark.parametrize(("told", "place"), [row[1:] for row in LISTENS], ids=[row[0] for row in LISTENS])
def test_where_to_listen(told: str | None, place: tuple[str, int]) -> None:
    found = listen_of(Settings(http=HttpSettings(request_timeout=3.0)), told)
    assert (found.host, found.port, found.answer_seconds) == (*place, 3.0)


@pytest.mark.parametrize("told", ["nowhere", "host:", "host:port", "host:99999", ":80", "::1:80:"])
def test_a_place_that_is_none_is_said(told: str) -> None:
    with pytest.raises(ListenError, match="want host:port"):
        listen_of(Settings(), told)


class FullDisk(Recorder):
    """A recorder whose disk takes nothing more."""

    def failed(self, _failure: ScrapeFailed) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_full_disk_ends_the_recording_and_not_the_watching(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.obsrec"
    of = deployment("a")
    with FullDisk(path, writer="test", started=at(0)) as recorder:
        async with Watcher(Settings(), HandClock(), listen="127.0.0.1:0", recorder=recorder) as watcher:
            watcher.store.set_deployments((of,), at(0))
            failure = ScrapeFailed(target=target(of, "a").key, at=at(1), kind=FailureKind.REFUSED, detail="gone")
            with caplog.at_level(logging.ERROR):
                watcher.on_failure(target(of, "a"), failure)
                watcher.on_failure(target(of, "a"), failure)
            record = watcher.store.record(target(of, "a").key)
    assert record is not None
    assert record.failures == 2
    assert [line.getMessage() for line in caplog.records] == [
        "recording ends here, the file cannot be written: No space left on device"
    ]
    with Recording(path) as recording:
        assert list(recording.events()) == []


QUICK = Settings(scrape=ScrapeSettings(period=0.3, timeout=0.25), judging=JudgingSettings(period=30.0))


async def test_the_last_pass_is_kept_when_the_observer_stops_between_two(tmp_path: Path) -> None:
    """The judging period is long: only the first pass is saved as it goes, the one by hand only at the end."""
    clock = HandClock()
    of = deployment(members=(member("a", hostile.closed_port(), host="127.0.0.1"),))
    with StateFile(tmp_path / "state") as state:
        async with asking(Watcher(QUICK, clock, listen="127.0.0.1:0", state=state)) as asked:
            await asked.watcher.watch((of,))
            await asked.until(lambda: bool(asked.watcher.judging.stored()), "the first pass")
            clock.set(40.0)
            asked.watcher.judging.judge_all(clock.now())
            wanted = asked.watcher.judging.stored()
    with StateFile(tmp_path / "state") as state:
        assert state.load() == wanted


async def test_nothing_is_forgotten_before_the_first_list_is_told(tmp_path: Path) -> None:
    of = routed("a")
    with StateFile(tmp_path / "state") as state:
        async with Watcher(QUICK, HandClock(), listen="127.0.0.1:0", state=state) as watcher:
            await watcher.watch((of,))
            watcher.judging.judge_all(at(0))
    with StateFile(tmp_path / "state") as state:
        kept = state.load()
    assert list(kept) == [KEY]
    with StateFile(tmp_path / "state") as state:
        async with asking(Watcher(QUICK, HandClock(), listen="127.0.0.1:0", state=state)) as asked:
            for _ in range(5):
                async with asked._session.get(f"{asked.watcher.url}/livez") as response:
                    assert response.status == 200
            async with asked._session.get(f"{asked.watcher.url}/readyz") as response:
                assert response.status == 503
    with StateFile(tmp_path / "state") as state:
        assert state.load() == kept


async def test_slots_that_a_slow_read_ran_over_are_counted() -> None:
    settings = Settings(scrape=ScrapeSettings(period=0.2, timeout=0.5))
    async with (
        serving(hostile.never) as slow,
        serving(reply(body())) as good,
        asking(Watcher(settings, SystemClock(), listen="127.0.0.1:0")) as asked,
    ):
        places = (member("slow", slow.port, host="127.0.0.1"), member("good", good.port, host="127.0.0.1"))
        await asked.watcher.watch((deployment(members=places),))
        statuses = asked.watcher.source.targets
        await asked.until(lambda: min(status.reads for status in statuses()) >= 4, "some slow reads")
        samples = dict.fromkeys(("engine",), 0.0) | {
            labels["source"]: value for labels, value in (await asked.metrics())["observer_scrape_overruns_total"]
        }
    assert samples["engine"] >= 2


async def test_an_engine_whose_counters_begin_again_is_told_to_its_kv_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    of = deployment("a")
    told: list[tuple[object, str]] = []
    async with Watcher(Settings(), HandClock(), listen="127.0.0.1:0") as watcher:
        watcher.store.set_deployments((of,), at(0))
        monkeypatch.setattr(watcher.kv.collector, "restarted", lambda *who: told.append(who))
        which = target(of, "a")
        for seconds, tokens in ((0, 100), (5, 150), (900, 7)):
            assert told == []
            fetched = Fetched(
                data=body(tokens=tokens, start=1.0 if seconds < 900 else 800.0), content_type="text/plain"
            )
            watcher.on_body(which, fetched, at(seconds), 0.01)
    assert told == [(of.key, which.key.member_uid)]


def test_what_is_watched_in_one_line() -> None:
    assert describe_watch((routed("a", "b"), deployment("c"))) == "2 deployments, 4 targets"


def test_the_listener_takes_its_token_from_a_file_and_says_which_it_cannot_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n", "utf-8")
    assert listen_of(Settings(http=HttpSettings(token_file=str(file))), "0.0.0.0:9480").token == "s3cret"
    for content, said in ((None, "No such file"), (b" \n", "is empty"), (b"\xff", "no UTF-8")):
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ListenError, match=said):
            listen_of(Settings(http=HttpSettings(token_file=str(file))), None)
