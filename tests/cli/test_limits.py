"""`observer limits` and `observer bundle` against a real listener."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from aiohttp import web

from exporters.limits import LimitsApi
from observer.cli.main import main
from tests.cli.serving import served
from tests.exporters.test_limits import Fixed


def test_limits_are_a_table_with_dashes_for_what_is_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with served(None, *LimitsApi(Fixed()).routes()) as url:
        assert main(["limits", "--server", url]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert main(["limits", "--server", url, "-o", "json"]) == 0
    assert rows[0] == ["LIMIT", "STATE", "USE", "MOST", "OF", "MET", "SETTING"]
    assert rows[1] == ["c", "Reached", "10", "-", "10", "3", "-"]
    assert rows[5] == ["d", "Unknown", "-", "-", "10", "-", "-"]


def test_a_bundle_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def bundle(request: web.Request) -> web.Response:
        assert request.query["seconds"] == "3"
        return web.json_response({"base64": base64.b64encode(b"zip").decode()})

    file = tmp_path / "out.obsrec"
    with served(None, web.get("/api/v1/bundle", bundle)) as url:
        assert main(["bundle", str(file), "--seconds", "3", "--server", url]) == 0
        assert file.read_bytes() == b"zip"
        assert main(["bundle", str(file), "--seconds", "3", "--server", url]) != 0
    assert "exists already" in capsys.readouterr().err
