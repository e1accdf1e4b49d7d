"""Records say which code measured, where the version alone would be the same for months."""

import re
import subprocess

import pytest

from tilework import revision
from tilework.version import __version__


@pytest.fixture
def engine(tmp_path, monkeypatch):
    (tmp_path / "tilework").mkdir()
    (tmp_path / "tilework" / "a.py").write_text("a = 1\n")
    monkeypatch.setattr(revision, "_ROOT", tmp_path / "tilework")
    for found in (revision.full_version, revision.code_digest):
        monkeypatch.setattr(revision, found.__name__, found.__wrapped__)
    return tmp_path


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


def test_an_installed_package_is_known_by_its_sources(engine):
    found = revision.full_version()
    assert re.fullmatch(re.escape(__version__) + r"\+b[0-9a-f]{8}", found)
    (engine / "tilework" / "a.py").write_text("a = 2\n")
    assert revision.full_version() != found


def test_a_checkout_is_known_by_its_commit_and_by_what_was_changed_since(engine):
    git(engine, "init", "-q")
    git(engine, "add", ".")
    git(engine, "commit", "-qm", "one")
    commit = git(engine, "rev-parse", "--short=10", "HEAD")
    assert revision.full_version() == f"{__version__}+g{commit}"
    (engine / "tilework" / "b.py").write_text("b = 1\n")
    changed = revision.full_version()
    assert re.fullmatch(re.escape(f"{__version__}+g{commit}.") + "[0-9a-f]{6}", changed)


def test_without_git_the_sources_say_it(engine, monkeypatch):
    (engine / ".git").mkdir()
    monkeypatch.setenv("PATH", "")
    assert "+b" in revision.full_version()
