"""Other modules called ``flows``, ``tasks`` or ``storage``: one line says whose they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilework.shadows import shadowed

ROOT = Path(__file__).parents[1]


def run(folder, *words):
    left = {k: v for k, v in os.environ.items() if k != "TILEWORK_NO_PACKAGES"}
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True, text=True, timeout=60, cwd=folder,
        env={**left, "PYTHONPATH": path},
    )  # fmt: skip


@pytest.mark.parametrize("name", ["flows.py", "tasks.py", "storage/__init__.py", "tasks/x.py"])
def test_the_command_says_which_file_is_in_the_way(name, tmp_path):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("raise RuntimeError('a project of its own')\n")
    done = run(tmp_path, "-m", "tilework", "--version")
    if name == "tasks/x.py":  # a folder without __init__.py gives way to a package
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert str(file) in line and "PYTHONPATH" in line


def test_a_session_without_our_storage_says_so(tmp_path):
    (tmp_path / "storage.py").write_text("")
    code = "from tilework.session.records import RecordSource; RecordSource({}).history()"
    done = run(tmp_path, "-c", code.format(""))
    assert done.returncode == 0 and "no packages of records are looked at" in done.stderr
    done = run(tmp_path, "-c", code.format("'records'"))
    assert str(tmp_path / "storage.py") in done.stderr.splitlines()[-1]


def test_nothing_stands_in_our_place_here():
    assert shadowed() is None
