"""Every page over a real socket: HTML that escapes, JSON twins, the content policy, limits, and what may be asked."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from exporters.page import mapping
from exporters.page.protocols import RawBody
from exporters.page.static import Assets
from router_contract.readings import MissingCode, State
from router_contract.targets import DeploymentKey
from router_contract.verdicts import TargetState
from tests.exporters import canaries
from tests.exporters.judged import EVERYTHING, judged
from tests.exporters.page_world import PageWorld, serving
from tests.exporters.reports import NOW, Pods, gauge, gone, report

HOSTILE = "<script>alert(1)</script>\"'&"
CHAT = "/deployments/prod/chat"
TARGET = "/targets/prod/chat/engine/uid-p0/8000"
CANARY = "/canary/demo/chat-2"
PAGES = ("/", "/targets", "/routers", "/kv", "/canary", "/mapping", CHAT, TARGET, CANARY)
HTML = {"Accept": "text/html"}


class Reader(HTMLParser):
    """Collects tags, and the ids that appear."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def hostile() -> PageWorld:
    """Every text that others choose is a piece of HTML."""
    pods = Pods(HOSTILE, software=HOSTILE).pod(HOSTILE, gone("requests-running", MissingCode.ABSENT))
    pods.pod("failing", state=TargetState.FAILING)
    target = pods.targets[1]
    pods.targets[1] = replace(target, status=replace(target.status, last_error=HOSTILE, version=HOSTILE, url=HOSTILE))
    base = report(pods, Pods(HOSTILE, "Router", "vllm_router").pod(HOSTILE + "r"), model=HOSTILE)
    told = judged()
    names = [field for field in told.__struct_fields__ if field not in {"deployment", "at", "targets", "roles"}]
    made = replace(base, **{name: getattr(told, name) for name in names})
    explanation = replace(told.explanation, sentences=(HOSTILE,))
    conditions = tuple(replace(each, message=HOSTILE, reason=HOSTILE) for each in told.conditions)
    groups = tuple(
        replace(group, message=HOSTILE, members=tuple(replace(m, name=HOSTILE, detail=HOSTILE) for m in group.members))
        for group in told.role_status[0].groups
    )
    status = replace(told.role_status[0], name=HOSTILE, groups=groups)
    made = replace(made, explanation=explanation, conditions=conditions, role_status=(status,), phase_message=HOSTILE)
    world = PageWorld(made)
    shown = world.canaries.views[0]
    result = replace(
        canaries.PASSED, name=HOSTILE, message=HOSTILE, query=HOSTILE, missing_pods=(HOSTILE,), infos=(HOSTILE,)
    )
    told = replace(canaries.status(results=(result,)), message=HOSTILE)
    world.canaries.views = (replace(shown, status=told, warnings=(HOSTILE,), problems=(HOSTILE,)),)
    world.page.trail.turn()
    world.bodies.kept = RawBody(at=NOW, text=HOSTILE, kept=99, size=99, content_type=HOSTILE)
    return world


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_opens_under_a_strict_policy(path: str) -> None:
    async with serving(PageWorld(EVERYTHING)) as session, session.get(path, headers=HTML) as answer:
        html = await answer.text()
        policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200, html
    assert answer.content_type == "text/html"
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    tags = read(html).tags
    assert not [attrs for tag, attrs in tags if tag == "script" and "src" not in attrs]
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on") or name == "style"]
    assert not [attrs for tag, attrs in tags if tag == "style"]
    assert [tag for tag, _ in tags].count("main") == 1
    assert [tag for tag, _ in tags].count("h1") == 1
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    assert len(ids) == len(set(ids)), f"ids twice: {sorted({each for each in ids if ids.count(each) > 1})}"
    sources = [str(attrs.get("src") or attrs.get("href")) for tag, attrs in tags if tag in {"script", "link", "img"}]
    assert all(source.startswith("/static/") for source in sources)


@pytest.mark.parametrize("path", [*PAGES[:5], CHAT, CANARY, "/targets/prod/chat/engine/uid-failing/8000"])
async def test_names_that_are_html_are_shown_and_not_run(path: str) -> None:
    async with serving(hostile()) as session, session.get(path, headers=HTML) as answer:
        html = await answer.text()
    assert answer.status == 200, html
    assert "<script>alert" not in html
    scripts = [attrs for tag, attrs in read(html).tags if tag == "script"]
    assert len(scripts) == (2 if path in {CHAT, CANARY} else 1)
    if path not in {"/mapping", "/kv"}:
        assert "&lt;script&gt;alert(1)" in html


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("how", ["accept", "query"])
async def test_every_page_has_a_json_twin(path: str, how: str) -> None:
    asked = {"headers": {"Accept": "application/json"}} if how == "accept" else {"params": {"format": "json"}}
    async with serving(PageWorld(EVERYTHING)) as session, session.get(path, **asked) as answer:
        found = await answer.json()
    assert answer.status == 200
    assert answer.headers["Vary"] == "Accept"
    assert found
    if path == "/":
        (item,) = found["items"]
        assert item["counts"]["eligible"]["value"] is None
        assert item["counts"]["eligible"]["why"]
    if path == CHAT:
        assert found["status"]["status"]["phase"] == "Degraded"
        assert found["explanation"]["sentences"] == ["One.", "Two.", "Three."]


async def test_what_is_not_known_is_a_dash_with_its_reason_and_never_a_zero() -> None:
    unread = report(Pods().pod("p0", state=TargetState.PENDING))
    async with serving(PageWorld(unread)) as session, session.get("/", headers=HTML) as answer:
        html = await answer.text()
    cells = re.findall(r'data-label="(Ready|Eligible|Serving|Oldest value)"[^>]*>(.*?)</td>', html, re.DOTALL)
    assert len(cells) == 4
    for name, cell in cells:
        assert 'class="unknown"' in cell, name
        assert 'aria-label="unknown: ' in cell, name
        assert 'tabindex="0"' in cell, name
        assert ">0<" not in cell, name


async def test_stale_values_say_so() -> None:
    pods = Pods().pod("p0", gauge("requests-running", 3.0, state=State.STALE, age=100.0, rank="0"))
    made = replace(judged(), targets=report(pods).targets)
    async with serving(PageWorld(made)) as session, session.get(CHAT, headers=HTML) as answer:
        html = await answer.text()
    assert '<span class="stale">3<span class="mark"> stale</span></span>' in html
    assert ">2 min ago</time>" in html


async def test_the_deployment_page_says_why_in_one_sentence_and_shows_both_voices() -> None:
    async with serving(PageWorld(EVERYTHING)) as session, session.get(CHAT, headers=HTML) as answer:
        html = await answer.text()
    assert '<span class="whynot">p1 stopped</span>' in html
    assert "One. Two. Three." in html
    row = html[html.index('<th scope="row">EndpointEligibility</th>') :]
    row = row[: row.index("</tr>")]
    assert "Revoked" in row
    assert "Qualified" in row
    assert "disagrees" in row


async def test_what_cannot_be_observed_at_all_is_named_in_one_line_and_not_as_an_open_question() -> None:
    async with serving(PageWorld(EVERYTHING)) as session, session.get(CHAT, headers=HTML) as answer:
        html = await answer.text()
    assert "Cannot be observed from here: WeightsReady." in html
    assert "EngineProgressing: NotObserved" in html
    assert "WeightsReady: NotObservable" not in html


@pytest.mark.parametrize(
    ("path", "part"),
    {
        "unknown parameter": ("/?nmespace=x", "'nmespace' is not known here"),
        "unknown phase": ("/?phase=Good", "phase is 'Good'; want one of Starting, Ready"),
        "unknown column": ("/?sort=beauty", "sort is 'beauty'; want one of name, phase"),
        "unknown state": ("/targets?state=Down", "state is 'Down'; want one of Pending, Up"),
        "unknown stream state": ("/kv?state=Odd", "state is 'Odd'; want one of Detached"),
        "unknown answer": ("/routers?converged=Maybe", "converged is 'Maybe'; want one of True, False, Unknown"),
        "too long": (f"/?q={'x' * 201}", "q has 201 characters; at most 200"),
    }.values(),
    ids=lambda value: None,
)
async def test_a_query_that_cannot_be_honoured_is_refused_with_what_is_wanted(path: str, part: str) -> None:
    async with serving(PageWorld(EVERYTHING)) as session:
        async with session.get(path, headers={"Accept": "application/json"}) as answer:
            assert (answer.status, part in (await answer.json())["error"]) == (400, True)
        async with session.get(path, headers=HTML) as answer:
            assert answer.status == 400
            assert 'role="alert"' in await answer.text()


@pytest.mark.parametrize("path", ["/deployments/prod/other", "/targets/prod/chat/engine/nobody/8000"])
async def test_what_is_not_observed_is_not_found_in_both_forms(path: str) -> None:
    async with serving(PageWorld(EVERYTHING)) as session:
        for headers in (HTML, {"Accept": "application/json"}):
            async with session.get(path, headers=headers) as answer:
                assert answer.status == 404


def several() -> PageWorld:
    made = []
    for name, desired in (("b", 2), ("a", 10), ("c", None)):
        base = judged()
        status = replace(base.role_status[0], desired=desired)
        roles = tuple(replace(role, desired=desired) for role in base.deployment.roles)
        deployment = replace(base.deployment, key=DeploymentKey("prod", name), model=f"model-{name}", roles=roles)
        made.append(replace(base, deployment=deployment, role_status=(status,)))
    return PageWorld(*made)


@pytest.mark.parametrize(
    ("query", "names"),
    {
        "as they are": ("", ["a", "b", "c"]),
        "by number": ("?sort=want", ["b", "a", "c"]),
        "the other way, unknown still last": ("?sort=-want", ["a", "b", "c"]),
        "by name, turned": ("?sort=-name", ["c", "b", "a"]),
        "a part of the name": ("?q=prod/B", ["b"]),
        "a part of the model": ("?q=MODEL-c", ["c"]),
        "a namespace": ("?namespace=prod&sort=name", ["a", "b", "c"]),
        "another namespace": ("?namespace=dev", []),
        "a phase": ("?phase=Ready", []),
        "problems": ("?show=problems", ["a", "b", "c"]),
    }.values(),
    ids=lambda value: None,
)
async def test_filters_and_sorts_stand_in_the_url(query: str, names: list[str]) -> None:
    async with serving(several()) as session:
        async with session.get(f"/{query}", headers={"Accept": "application/json"}) as answer:
            assert [item["name"] for item in (await answer.json())["items"]] == names
        async with session.get(f"/{query}", headers=HTML) as answer:
            html = await answer.text()
    assert re.findall(r'<tr id="d-prod-(\w)">', html) == names


async def test_a_heading_links_to_the_sort_and_then_to_its_opposite() -> None:
    async with serving(several()) as session:
        first = await (await session.get("/?q=prod", headers=HTML)).text()
        second = await (await session.get("/?q=prod&sort=want", headers=HTML)).text()
    assert 'href="/?q=prod&amp;sort=want"' in first
    assert "aria-sort" not in first
    assert 'aria-sort="ascending"' in second
    assert 'href="/?q=prod&amp;sort=-want"' in second


@pytest.mark.parametrize(
    ("headers", "status"),
    {
        "a program": ({}, 303),
        "the page itself": ({"Sec-Fetch-Site": "same-origin", "Origin": "SELF"}, 303),
        "another site": ({"Sec-Fetch-Site": "cross-site"}, 403),
        "another origin": ({"Origin": "http://evil.example"}, 403),
        "no origin at all": ({"Origin": "null"}, 403),
        "another port": ({"Origin": "http://127.0.0.1:1"}, 403),
    }.values(),
    ids=lambda value: None,
)
async def test_only_the_page_itself_may_ask_for_a_read(headers: dict[str, str], status: int) -> None:
    world = PageWorld(EVERYTHING)
    async with serving(world) as session:
        own = str(session._base_url).rstrip("/")
        sent = {name: own if text == "SELF" else text for name, text in headers.items()}
        async with session.post(f"{TARGET}/fetch", headers=sent | HTML, allow_redirects=False) as answer:
            assert answer.status == status
        async with session.get(f"{TARGET}/fetch") as answer:
            assert answer.status in {404, 405}
    assert len(world.fetched) == (1 if status == 303 else 0)


EXPOSITION = b'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0"} 3\nvllm:odd_thing 1\n'


async def test_a_paste_is_read_by_the_chosen_table() -> None:
    async with serving(PageWorld()) as session:
        plain = {"Content-Type": "text/plain", "Accept": "application/json"}
        async with session.post("/mapping?table=engine/vllm", data=EXPOSITION, headers=plain) as answer:
            found = await answer.json()
        form = {"table": "engine/vllm", "version": "", "body": EXPOSITION.decode()}
        async with session.post("/mapping", data=form, headers=HTML) as answer:
            html = await answer.text()
    values = {each["signal"]: each for each in found["values"]}
    assert values["requests-running"]["value"] == 3.0
    assert values["requests-running"]["source"] == "vllm:num_requests_running"
    assert values["requests-waiting"]["missing"] == "Absent"
    assert "value" not in values["requests-waiting"]
    assert answer.status == 200
    assert ">requests-running</th>" in html
    assert "&lt;" not in html.split("<textarea")[1].split("</textarea>")[0]


@pytest.mark.parametrize(
    ("table", "content_type", "body", "status", "part"),
    {
        "no table": ("", "text/plain", b"a 1\n", 400, "table is ''; want one of engine/sglang"),
        "unknown table": ("engine/x", "text/plain", b"a 1\n", 400, "table is 'engine/x'"),
        "nothing": ("engine/vllm", "text/plain", b" \n", 400, "nothing was pasted"),
        "no text": ("engine/vllm", "image/png", b"x", 415, "content type 'image/png'"),
        "too long": ("engine/vllm", "text/plain", None, 413, "longer than 2 MiB"),
    }.values(),
    ids=lambda value: None,
)
async def test_a_paste_that_cannot_be_tried_says_why(
    table: str, content_type: str, body: bytes | None, status: int, part: str
) -> None:
    async with serving(PageWorld()) as session:
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        sent = io.BytesIO(b"x" * (mapping.MOST_BYTES + 1) if body is None else body)
        async with session.post("/mapping", params={"table": table}, data=sent, headers=headers) as answer:
            found = await answer.json()
    assert (answer.status, part in found["error"]) == (status, True), found


async def test_static_files_are_packed_kept_for_ever_and_named_by_their_content() -> None:
    urls = Assets().urls
    assert {"page.css", "page.js", "charts.js", "bokeh/bokeh.min.js"} <= set(urls)
    async with serving(PageWorld()) as session:
        for url in urls.values():
            async with session.get(url) as answer:
                assert answer.status == 200
                assert answer.headers["Content-Encoding"] == "gzip"
                assert "immutable" in answer.headers["Cache-Control"]
        async with session.get("/static/000000000000/page.css") as answer:
            assert answer.status == 404
        async with session.get("/static/x/../../pages.py") as answer:
            assert answer.status == 404


def test_the_wheel_holds_templates_and_static_files(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(root)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    folder = root / "exporters" / "page"
    wanted = {str(path.relative_to(root)) for kind in ("templates", "static") for path in (folder / kind).rglob("*.*")}
    assert len(wanted) > 20
    assert wanted <= held
