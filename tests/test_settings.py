"""Configuration files: what they may say, and every fault with its file, line and column."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from observer.settings import Settings, SettingsError, check_files, describe, load_files
from observer.yamldoc.decode import MAX_VISITS
from observer.yamldoc.shape import shape

HEAD = "apiVersion: observer.modeldeployment.io/v1alpha1\n"
SETTINGS = HEAD + "kind: Settings\n"
FLEET = HEAD + "kind: Fleet\n"


def write(folder: Path, text: str | bytes, name: str = "a.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def faults(folder: Path, text: str | bytes) -> list[str]:
    """Every fault as text, the folder cut off."""
    return [str(fault).replace(f"{folder}/", "") for fault in check_files([write(folder, text)])]


def one(folder: Path, text: str | bytes) -> str:
    found = faults(folder, text)
    assert len(found) == 1, found
    return found[0]


def test_defaults_are_those_the_semantics_state() -> None:
    settings = Settings()
    assert (settings.scrape.period, settings.scrape.timeout, settings.scrape.fresh_seconds) == (5.0, 2.0, 12.0)
    assert (settings.scrape.extra_in_flight, settings.scrape.extra_budget) == (32, 8.0)
    assert (settings.routers.view_period, settings.routers.view_valid) == (5.0, 15.0)
    assert (settings.judging.period, settings.judging.stall_after) == (1.0, 60.0)
    assert (settings.windows.span, settings.windows.max, settings.windows.expire_after) == (60.0, 300.0, 300.0)
    assert (settings.limits.body, settings.limits.family, settings.limits.pods_per_document) == (16 << 20, 1 << 20, 0)
    assert settings.http.listen == "127.0.0.1:9480"
    assert settings.security.allow_cidrs == ()


def test_a_settings_document_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    text = (
        SETTINGS + "scrape: {period: 20s, timeout: 250ms}\nlimits: {body: 2MiB}\nsecurity: {allowCIDRs: [10.0.0.0/8]}\n"
    )
    settings = load_files([write(tmp_path, text)]).settings
    assert settings.scrape.period == 20.0
    assert settings.scrape.timeout == 0.25
    assert settings.body_limits.body == 2 << 20
    assert settings.security.allow_cidrs == ("10.0.0.0/8",)
    assert settings.windows == Settings().windows


def test_several_documents_and_files_add_up(tmp_path: Path) -> None:
    one_file = write(tmp_path, SETTINGS + "scrape: {period: 10s}\n---\n" + SETTINGS + "scrape: {timeout: 1s}\n")
    other = write(tmp_path, FLEET + "deployments: []\n---\n" + SETTINGS + "windows: {span: 30s}\n", "b.yaml")
    settings = load_files([one_file, other]).settings
    assert (settings.scrape.period, settings.scrape.timeout, settings.windows.span) == (10.0, 1.0, 30.0)


def test_a_key_set_in_two_files_is_a_fault_that_names_both_places(tmp_path: Path) -> None:
    first = write(tmp_path, SETTINGS + "scrape:\n  period: 10s\n")
    second = write(tmp_path, SETTINGS + "scrape:\n  period: 20s\n", "b.yaml")
    found = check_files([first, second])
    assert [(fault.file, fault.line, fault.path) for fault in found] == [(str(second), 4, "scrape.period")]
    assert f"First at {first}:4" in found[0].hint


def test_a_folder_stands_for_its_yaml_files(tmp_path: Path) -> None:
    write(tmp_path, SETTINGS + "scrape: {period: 10s}\n", "b.yml")
    write(tmp_path, FLEET, "a.yaml")
    write(tmp_path, "not ours", "notes.txt")
    write(tmp_path, "not ours", ".hidden.yaml")
    assert load_files([tmp_path]).settings.scrape.period == 10.0
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "folder without YAML files" in str(check_files([empty])[0])


WHOLE_FILE = {
    "missing file": (None, "a.yaml: found no such file, wanted a readable YAML file"),
    "empty file": ("", "a.yaml: found no document, wanted a document with `apiVersion` and `kind`"),
    "only comments": ("# nothing\n---\n# still\n", "a.yaml: found no document"),
    "not UTF-8": (SETTINGS.encode() + b"x: \xff\n", "a.yaml:3:4: found the byte 0xff, wanted UTF-8 text"),
    "control character": (SETTINGS + 'x: "\x01"\n', "a.yaml:3:5: found the character U+0001"),
    "a list": ("- a\n", "a.yaml:1:1: found a list, wanted a mapping"),
    "plain text": ("hello\n", "a.yaml:1:1: found a plain value"),
    "open bracket": (SETTINGS + "x: [1, 2\n", "a.yaml:4:1: found the end of the document, wanted ',' or ']'"),
    "two colons": (SETTINGS + "scrape: period: 5s\n", "a.yaml:3:15: found a `:` where no value may begin"),
    "tab": (
        SETTINGS + "scrape:\n\tperiod: 5s\n",
        "a.yaml:4:1: found the character '\\t' where a value begins, wanted well-formed YAML. Indent with blanks.",
    ),
    "undefined alias": (SETTINGS + "scrape: *nope\n", "a.yaml:3:9: found undefined alias"),
    "deep nesting": (SETTINGS + "x: " + "[" * 1500 + "\n", "found very deep nesting"),
    "too large": (SETTINGS + "# " + "x" * (2 << 20) + "\n", "a.yaml: found more than 2 MiB"),
    "too many documents": ("---\na: 1\n" * 1001, "a.yaml: found 1001 documents, wanted at most 1000"),
}


@pytest.mark.parametrize(("text", "wanted"), WHOLE_FILE.values(), ids=WHOLE_FILE.keys())
def test_faults_of_a_whole_file(tmp_path: Path, text: str | bytes | None, wanted: str) -> None:
    if text is None:
        found = [str(fault).replace(f"{tmp_path}/", "") for fault in check_files([tmp_path / "a.yaml"])]
    else:
        found = faults(tmp_path, text)
    assert len(found) == 1
    assert wanted in found[0]


ONE_FAULT = {
    "older or foreign apiVersion": ("apiVersion: v1\nkind: Fleet\n", 'a.yaml:1:13: apiVersion: found "v1"'),
    "newer apiVersion": (
        "apiVersion: observer.modeldeployment.io/v1beta1\nkind: Fleet\n",
        "This observer reads v1alpha1; the file is for another release.",
    ),
    "no apiVersion": ("kind: Fleet\n", "apiVersion: found nothing"),
    "wrong kind": (HEAD + "kind: Setings\n", 'a.yaml:2:7: kind: found "Setings"'),
    "no kind": (HEAD, "a.yaml:1:1: kind: found nothing, wanted `Settings` or `Fleet`"),
    "unknown key": (SETTINGS + "scrap: {}\n", 'a.yaml:3:8: scrap: found the unknown key "scrap"'),
    "unknown key, close": (SETTINGS + "scrape: {perod: 1s}\n", 'Did you mean "period"?'),
    "unknown key, snake case": (SETTINGS + "scrape: {extra_budget: 1s}\n", 'Did you mean "extraBudget"?'),
    "a key twice": (SETTINGS + "scrape: {}\nscrape: {}\n", "a.yaml:4:1: scrape: found the key a second time"),
    "bad duration": (SETTINGS + "scrape: {period: 5 seconds}\n", 'a.yaml:3:18: scrape.period: found "5 seconds"'),
    "duration without unit": (SETTINGS + "scrape: {period: 5}\n", "wanted a duration such as `250ms`, `5s` or `2m`"),
    "duration out of bounds": (SETTINGS + "scrape: {period: 10ms}\n", "of at least 200ms and of at most 5m"),
    "null where a value is": (SETTINGS + "scrape:\n  period:\n", "a.yaml:4:3: scrape.period: found nothing"),
    "list where a mapping is": (SETTINGS + "scrape: [1]\n", "scrape: found a list, wanted a mapping with the keys"),
    "text where a list is": (SETTINGS + "security: {allowCIDRs: 10.0.0.0/8}\n", "wanted a list of CIDR"),
    "bad network": (SETTINGS + "security: {allowCIDRs: [10.0.0.1/8]}\n", "a.yaml:3:25: security.allowCIDRs[0]"),
    "bad size": (SETTINGS + "limits: {body: 16MB}\n", 'limits.body: found "16MB", wanted a size such as'),
    "bad boolean": (SETTINGS + "kvEvents: {enabled: yes}\n", 'found "yes", wanted true or false'),
    "bad number": (SETTINGS + "limits: {labels: many}\n", 'limits.labels: found "many", wanted a whole number'),
    "fraction": (SETTINGS + "limits: {labels: 1.5}\n", 'limits.labels: found "1.5", wanted a whole number'),
    "bad listen": (SETTINGS + "http: {listen: 9480}\n", 'http.listen: found "9480", wanted host:port'),
    "timeout not below period": (
        SETTINGS + "scrape: {timeout: 5s}\n",
        "a.yaml:3:19: scrape.timeout: found scrape.timeout of 5s, wanted scrape.timeout below `scrape.period`, 5s",
    ),
    "relation stands where the file speaks": (
        SETTINGS + "scrape:\n  period: 2s\n",
        "a.yaml:4:11: scrape.period: found scrape.timeout of 2s",
    ),
    "expiry below freshness": (SETTINGS + "windows: {expireAfter: 12s}\n", "two periods and a timeout, 12s"),
    "family above body": (SETTINGS + "limits: {body: 64KiB, line: 1KiB}\n", "limits.family of 1MiB"),
    "self-containing alias": (SETTINGS + "scrape: &a {period: 5s, x: *a}\n", "the unknown key"),
    "a list inside itself": (
        FLEET + "deployments: [{name: a, roles: &a [*a]}]\n",
        "deployments[0].roles[0]: found an alias inside its own anchor",
    ),
    "a merge of a list's items": (SETTINGS + "scrape: {<<: [1]}\n", 'scrape: found "1" merged by `<<`'),
    "a mapping merged into itself": (SETTINGS + "scrape: &s {<<: *s}\n", "found a mapping merged by `<<`"),
    "headers as a list": (FLEET + "defaults: {headers: [a]}\n", "defaults.headers: found a list, wanted a mapping"),
    "a header without a value": (
        FLEET + "defaults: {headers: {a: }}\n",
        "defaults.headers.a: found nothing, wanted text",
    ),
    "a list where text is": (SETTINGS + "http: {listen: [a]}\n", "http.listen: found a list, wanted host:port"),
    "a number too long": (SETTINGS + "limits: {labels: " + "9" * 50 + "}\n", "limits.labels: found"),
    "token file beside Authorization": (
        FLEET + "defaults: {headers: {Authorization: x}, bearerTokenFile: a.yaml}\n"
        "deployments: [{name: a, engine: vllm, roles: [{name: r, desired: 0}]}]\n",
        "defaults.bearerTokenFile: found a token file beside",
    ),
    "a mapping as key": (SETTINGS + "? {a: 1}\n: 2\n", "found a mapping as a key"),
}


@pytest.mark.parametrize(("text", "wanted"), ONE_FAULT.values(), ids=ONE_FAULT.keys())
def test_one_fault_is_reported_once_and_in_its_place(tmp_path: Path, text: str, wanted: str) -> None:
    assert wanted in one(tmp_path, text)


def test_every_fault_of_every_file_is_reported_at_once_in_order(tmp_path: Path) -> None:
    first = write(
        tmp_path,
        SETTINGS + "scrape: {period: x, timeout: y}\n---\nbroken: [\n---\n" + FLEET + "deployments: [{name: A}]\n",
    )
    second = write(tmp_path, SETTINGS + "windows: {span: never}\n", "b.yaml")
    found = [(Path(fault.file).name, fault.line, fault.path) for fault in check_files([first, second])]
    assert found == [
        ("a.yaml", 3, "scrape.period"),
        ("a.yaml", 3, "scrape.timeout"),
        ("a.yaml", 5, ""),
        ("a.yaml", 9, "deployments[0].roles"),
        ("a.yaml", 9, "deployments[0].name"),
        ("b.yaml", 3, "windows.span"),
    ]
    with pytest.raises(SettingsError) as caught:
        load_files([first, second])
    assert len(caught.value.faults) == 6
    assert str(caught.value).count("\n") == 5


@pytest.mark.parametrize("merge", [False, True], ids=["aliases", "merge keys"])
def test_an_alias_bomb_ends_at_a_limit(tmp_path: Path, merge: bool) -> None:
    lines = ["deployments:", "- &a0 {name: a, roles: []}"]
    if merge:
        lines += [f"- &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 8)}]}}" for level in range(1, 12)]
    else:
        lines += [f"- &a{level} [{', '.join([f'*a{level - 1}'] * 8)}]" for level in range(1, 12)]
        lines += ["- name: x", "  roles:", *["  - replicas: *a11"] * 3]
    found = check_files([write(tmp_path, FLEET + "\n".join(lines) + "\n")])
    assert found
    if merge:
        assert any(f"more than {MAX_VISITS} values" in fault.found for fault in found)


def test_a_wide_alias_bomb_of_real_values_ends_at_a_limit(tmp_path: Path) -> None:
    members = "&m [" + ", ".join(f"'h{index}:1'" for index in range(1000)) + "]"
    roles = "".join(f"  - {{name: r{index}, addresses: *m}}\n" for index in range(300))
    text = (
        FLEET
        + "deployments:\n- name: a\n  engine: vllm\n  roles:\n  - {name: first, addresses: "
        + members
        + "}\n"
        + roles
    )
    found = [fault for fault in check_files([write(tmp_path, text)]) if "more than" in fault.found]
    assert len(found) == 1


def test_anchors_and_merge_keys_of_honest_size_work(tmp_path: Path) -> None:
    text = SETTINGS + "scrape: &s {period: 20s}\n"
    assert load_files([write(tmp_path, text)]).settings.scrape.period == 20.0
    fleet = (
        FLEET
        + "deployments:\n- &base {name: a, engine: vllm, roles: [{name: r, addresses: ['h:1']}]}\n- {<<: *base, name: b}\n"
    )
    names = [each.key.name for each in load_files([write(tmp_path, fleet)]).deployments]
    assert names == ["a", "b"]


def test_a_byte_order_mark_directives_and_end_marks_are_no_faults(tmp_path: Path) -> None:
    text = "\ufeff%YAML 1.2\n# a comment\n---\n" + SETTINGS + "scrape: {period: 20s}\n...\n"
    assert load_files([write(tmp_path, text)]).settings.scrape.period == 20.0


def test_the_reference_describes_every_key_and_its_default_reads_back() -> None:
    rows = {row.path: row for row in describe()}
    assert rows["Settings.scrape.period"].default == "5s"
    assert rows["Settings.limits.body"].default == "16MiB"
    assert rows["Settings.security.allowCIDRs[]"].type == "list of CIDR"
    assert rows["Fleet.deployments[].roles[].replicas[].members[].address"].default == "required"
    assert [row.path for row in rows.values() if not row.meaning] == []


def test_every_default_satisfies_its_own_bounds() -> None:
    def walk(struct: msgspec.Struct) -> None:
        import typing

        hints = typing.get_type_hints(type(struct), include_extras=True)
        for field in msgspec.structs.fields(struct):
            value = getattr(struct, field.name)
            if isinstance(value, msgspec.Struct):
                walk(value)
            elif value is not None and value != ():
                assert not shape(hints[field.name]).violates(value), field.name

    walk(Settings())
