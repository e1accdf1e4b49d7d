"""Systems on which nothing works say so in one line."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

import tilework as tw
from tilework.errors import TargetError
from tilework.systems import require_system


@pytest.fixture(params=["win32", "cygwin"])
def windows(request, monkeypatch):
    monkeypatch.setattr(sys, "platform", request.param)


@pytest.mark.usefixtures("windows")
def test_windows_is_refused(monkeypatch):
    monkeypatch.delitem(vars(tw), "compile", raising=False)  # as at its first use
    with pytest.raises(TargetError, match="runs on Linux, and this is Windows: use it in WSL 2"):
        tw.compile  # noqa: B018


@pytest.mark.usefixtures("windows")
def test_commands_say_it_in_one_line():
    from flows.cli.app import app

    result = CliRunner().invoke(app, ["networks"])
    assert result.exit_code == 2
    assert result.stderr.strip().splitlines() == [
        "error: Tilework runs on Linux, and this is Windows: use it in WSL 2, or in a container"
    ]


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_others_are_let_be(system, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    require_system()
