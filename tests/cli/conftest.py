from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from flows.cli import app
from tests.flows.still import still_times  # noqa: F401 (fixture)
from tests.kinds.cuda.conftest import needs_compiler, needs_nvrtc  # noqa: F401 (fixtures)


class Cli:
    """Runs commands in this process and returns typer's result."""

    def __init__(self):
        self._runner = CliRunner()

    def __call__(self, *words):
        return self._runner.invoke(app, [str(word) for word in words])

    def json(self, *words):
        """The document that a command prints with --json."""
        result = self(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def error(self, *words):
        """The one line of a command that ends with a user's error."""
        result = self(*words)
        assert result.exit_code == 2, result.output
        lines = result.stderr.strip().splitlines()
        assert lines[0].startswith("error: "), result.stderr
        assert "Traceback" not in result.output
        return result.stderr.strip()


@pytest.fixture
def cli(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Cli()
