"""The doctor's rows about what answers: status, kind of body, framing, and whose metrics they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from observer.judge.diagnosis_reach import found_elsewhere
from observer.judge.diagnosis_row import MESH, Row, yes
from router_contract.diagnosis import Answer, Certainty, Contents, Facts
from router_contract.readings import FailureKind

_GATEWAY = frozenset({502, 503, 504})
_TURN_ON = {
    "vllm": "start vLLM without `--disable-log-stats`; with several API processes set PROMETHEUS_MULTIPROC_DIR to an empty folder",
    "sglang": "start SGLang with `--enable-metrics`",
}
"""How a program's own metrics are turned on."""


def _answer(facts: Facts) -> Answer:
    return facts.answer if facts.answer is not None else Answer()


def _status(*codes: int) -> Callable[[Facts], Mapping[str, object] | None]:
    return lambda facts: yes(_answer(facts).status in codes)


def _kind(kind: FailureKind) -> Callable[[Facts], Mapping[str, object] | None]:
    return lambda facts: yes(_answer(facts).failure is kind)


def _unauthorized(given: bool) -> Callable[[Facts], Mapping[str, object] | None]:
    return lambda facts: yes(_answer(facts).status == 401 and facts.credentials is given)


def _moved(facts: Facts) -> Mapping[str, object] | None:
    """The program's metrics are on another port or path that was tried."""
    found = found_elsewhere(facts)
    contents = _answer(facts).contents
    if found is None or (contents is not None and contents.own):
        return None
    return {"found_port": found.port, "found_path": found.path, "found_names": found.own}


def _body(test: Callable[[str, str], bool]) -> Callable[[Facts], Mapping[str, object] | None]:
    """A 200 whose body is something else, by its content type and its first characters in lower case."""

    def when(facts: Facts) -> Mapping[str, object] | None:
        answer = _answer(facts)
        good = answer.failure is FailureKind.NOT_EXPOSITION and answer.size > 0
        return yes(good and test(answer.content_type.lower(), answer.head.lstrip().lower()))

    return when


def _read(
    test: Callable[[Contents, Facts], Mapping[str, object] | None],
) -> Callable[[Facts], Mapping[str, object] | None]:
    def when(facts: Facts) -> Mapping[str, object] | None:
        contents = _answer(facts).contents
        return None if contents is None else test(contents, facts)

    return when


def _empty(facts: Facts) -> Mapping[str, object] | None:
    answer = _answer(facts)
    nothing = answer.failure is FailureKind.NOT_EXPOSITION and answer.size == 0
    none = answer.contents is not None and answer.contents.names == 0
    return _how(facts) if nothing or none else None


def _how(facts: Facts) -> Mapping[str, object]:
    return {"turn_on": _TURN_ON.get(facts.software, "turn the program's metrics on in its command line")}


def _wrong_program(contents: Contents, _: Facts) -> Mapping[str, object] | None:
    if contents.own or not contents.claims:
        return None
    name, count = contents.claims[0]
    return {"found_software": name, "found_names": count}


def _unknown_program(contents: Contents, facts: Facts) -> Mapping[str, object] | None:
    if contents.known_software or not facts.software:
        return None
    return {"found_software": contents.claims[0][0] if contents.claims else "no program that is known"}


def _no_program(contents: Contents, facts: Facts) -> Mapping[str, object] | None:
    if contents.own or contents.claims or not contents.names:
        return None
    return {"names": contents.names, **_how(facts)}


def _old_names(contents: Contents, _: Facts) -> Mapping[str, object] | None:
    if not contents.lost:
        return None
    return {"lost": ", ".join(contents.lost[:5]), "lost_count": len(contents.lost)}


ROWS: tuple[Row, ...] = (
    Row(
        cause="WrongPath",
        said="the metrics of {software} are at port {found_port}{found_path}, not at {port}{path}",
        told="What is asked gives no metrics of the program, and another port or path of the member has them.",
        change=("set `metricsPort: {found_port}` and `metricsPath: {found_path}`",),
        when=_moved,
    ),
    Row(
        cause="CredentialsWanted",
        said="{url} answers 401: it wants credentials and none are sent",
        told="Status 401 while neither a token nor headers are set.",
        change=(
            "set `bearerTokenFile` to a file with its token, or `headers: {{Authorization: …}}`",
            "vLLM and SGLang started with `--api-key` want it as the bearer token",
        ),
        when=_unauthorized(False),
    ),
    Row(
        cause="CredentialsRefused",
        said="{url} answers 401: it does not accept the credentials that are sent",
        told="Status 401 although a token or headers are set.",
        change=("put the present token into `bearerTokenFile` (it is read again before each use)",),
        when=_unauthorized(True),
    ),
    Row(
        cause="Forbidden",
        said="{url} answers 403: who we are may not read this path",
        told="Status 403: the credentials are known and not enough, or a proxy or mesh policy denies.",
        change=(
            "behind kube-rbac-proxy: a ClusterRole with nonResourceURLs: [{path}], verbs: [get] for the observer's account",
            "in Istio: an AuthorizationPolicy that allows GET {path} on port {port} from the observer's namespace",
        ),
        when=_status(403),
    ),
    Row(
        cause="PathUnknown",
        certainty=Certainty.LIKELY,
        said="{url} answers 404: there is no such path, or the program's metrics are off",
        told="Status 404, and no other port or path that was tried has the program's metrics.",
        change=(
            "set `metricsPath` (and `metricsPort`) to where {software} serves metrics",
            "SGLang serves none without `--enable-metrics`; routers serve them on a port of their own (`--prometheus-port`)",
        ),
        when=_status(404, 405),
    ),
    Row(
        cause="Throttled",
        said="{url} answers 429: it limits how often it may be asked",
        told="Status 429.",
        change=("raise `scrape.period`",),
        when=_status(429),
    ),
    Row(
        cause="ProxyCannotReach",
        certainty=Certainty.LIKELY,
        said="{url} answers {status}: something in between got no answer from the program",
        told="Status 502, 503 or 504, which proxies and sidecars answer for a program they cannot reach.",
        change=("ask the Pod itself rather than a Service or a proxy: correct `address`", *MESH),
        when=lambda facts: yes(_answer(facts).status in _GATEWAY),
    ),
    Row(
        cause="ProgramFails",
        said="{url} answers {status}: the program failed while answering",
        told="Status 500 or another of its kind.",
        change=("kubectl -n {namespace} logs {member} --tail=50",),
        when=lambda facts: yes((_answer(facts).status or 0) >= 500),
    ),
    Row(
        cause="Redirects",
        said="{answer_detail}",
        told="Status 3xx. Redirects are never followed, so that no credential follows.",
        change=("give the final address as `address`, `scheme`, `metricsPort` and `metricsPath`",),
        when=_kind(FailureKind.REDIRECT),
    ),
    Row(
        cause="OtherStatus",
        certainty=Certainty.LIKELY,
        said="{url} answers {status}",
        told="A status that no other row names.",
        change=("curl -v {url}  # from where the observer runs",),
        when=lambda facts: yes(_answer(facts).status is not None),
    ),
    Row(
        cause="Html",
        said="{url} answers a web page: a proxy, a login or another program stands there",
        told="Status 200 with HTML.",
        change=(
            "ask the program itself: correct `address`, `metricsPort` or `metricsPath`",
            "behind a login: ask the Pod's own port, not the published name",
        ),
        when=_body(lambda kind, head: "text/html" in kind or head.startswith(("<!doctype html", "<html"))),
    ),
    Row(
        cause="Json",
        said="{url} answers JSON: it is another interface of some program",
        told="Status 200 with JSON.",
        change=("set `metricsPath` (most programs: `/metrics`)",),
        when=_body(lambda kind, head: "json" in kind or head.startswith(("{", "["))),
    ),
    Row(
        cause="EmptyRegistry",
        said="{url} answers 200 without a single sample: the program's registry is empty",
        told="Status 200 with an empty body, or with comments only.",
        change=("{turn_on}", "kubectl -n {namespace} logs {member} | grep -i -e metric -e prometheus"),
        when=_empty,
    ),
    Row(
        cause="NotExposition",
        said="{url} answers something that is no exposition: {answer_detail}",
        told="Status 200 with a body that no other row names.",
        change=("set `metricsPath` and `metricsPort` to the program's exposition",),
        when=_kind(FailureKind.NOT_EXPOSITION),
    ),
    Row(
        cause="Hangs",
        certainty=Certainty.LIKELY,
        said="{host}:{port} takes the connection and does not answer in time: the program is saturated or hangs",
        told="Connecting succeeds at once and no whole answer comes. A dropped connection would not be accepted.",
        change=(
            "kubectl -n {namespace} logs {member} --tail=50; kubectl -n {namespace} top pod {member}",
            "when it only is slow: raise `scrape.timeout` (and `scrape.period` above it)",
        ),
        when=_kind(FailureKind.TIMEOUT),
    ),
    Row(
        cause="TooLarge",
        said="{answer_detail}",
        told="The body passes the limit.",
        change=(
            "curl -s {url} | cut -d'{{' -f1 | sort | uniq -c | sort -rn | head  # which family grows",
            "raise `limits.body` (or `limits.sharedBodies`)",
        ),
        when=_kind(FailureKind.TOO_LARGE),
    ),
    Row(
        cause="Truncated",
        certainty=Certainty.LIKELY,
        said="{answer_detail}",
        told="The connection ends before the announced end of the answer, or before any answer.",
        change=(
            "kubectl -n {namespace} logs {member} --tail=50  # does its process end while it answers?",
            "ask the Pod itself, not through a proxy that cuts answers off",
        ),
        when=_kind(FailureKind.TRUNCATED),
    ),
    Row(
        cause="BadEncoding",
        said="{answer_detail}",
        told="The body is compressed although plain text was asked for, and cannot be decoded.",
        change=("turn compression off in what stands in between, or ask the Pod itself: correct `address`",),
        when=_kind(FailureKind.BAD_ENCODING),
    ),
    Row(
        cause="NotHttp",
        said="{host}:{port} does not speak HTTP as programs that serve metrics do: {answer_detail}",
        told="What comes back is no HTTP: gRPC, a database, or damaged framing.",
        change=("set `metricsPort` to the HTTP port (gRPC and KV-event ports have no metrics)",),
        when=_kind(FailureKind.MALFORMED),
    ),
    Row(
        cause="UnknownProgram",
        said="no table has the name {software}, so nothing that it tells can be understood",
        told="The declared program is not in the catalog.",
        change=(
            "what answers looks like {found_software}: set the engine's, router's or store's name to that, if it is right",
            "observer check FILE  # names the programs that are known",
            "docs/: how to add an engine, router or store",
        ),
        when=_read(_unknown_program),
    ),
    Row(
        cause="WrongProgram",
        said="the metrics at {url} are those of {found_software} ({found_names} names), not of {software}",
        told="No name belongs to the declared program and some belong to another that is known.",
        change=("set the engine's, router's or store's name to `{found_software}`", "or correct `metricsPort`"),
        when=_read(_wrong_program),
    ),
    Row(
        cause="NoneOfItsOwn",
        said="{url} has {names} names and none of any program that is known",
        told="There are samples, and none belongs to any program that is known.",
        change=("{turn_on}", "or correct `metricsPort`: a sidecar may answer there"),
        when=_read(_no_program),
    ),
    Row(
        cause="OtherVersion",
        said="{lost_count} names at {url} are those of another version than {version}: {lost}",
        told="Under the stated version these names mean nothing, under another one they are read.",
        change=(
            "set the engine's `version` to the one that runs, or leave it out: then what it reports counts",
            "curl -s {scheme}://{host}:{port}/version  # what it says itself",
        ),
        when=_read(_old_names),
    ),
    Row(
        cause="NewNames",
        certainty=Certainty.LIKELY,
        said="{url} has names of {software} and this observer's table knows none of them",
        told="Names have the program's prefix and no row reads them, whatever the version.",
        change=("update the observer", "curl -s {url} | observer read - --{component} {software}"),
        when=_read(lambda contents, _: yes(contents.own > 0 and contents.matched_any == 0)),
    ),
)
