"""Packages as a user has them: distilled, compared, signed, installed, found, removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage.packages.folders import shipped_folder
from tests.cli.test_records import STORE, store  # noqa: F401 (a fixture)
from tests.hosts import x86_records
from tilework.kinds.cpu.target import CpuTarget

ZEN4 = shipped_folder() / "zoo-znver4.parquet"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("TILEWORK_NO_PACKAGES")


@pytest.fixture
def package(cli, store):  # noqa: F811
    """Of the store's two nights; `mine` is the key of its maker."""
    told = cli("records", "distill", "p.parquet", *STORE).stdout
    assert told.startswith("p.parquet: 3 records for llvm") and "the best of records" in told
    cli("records", "keygen", "mine")
    return "p.parquet"


def test_from_store_to_store(cli, package):
    assert "is not signed" in cli.error("records", "install", package)
    assert "signed with key" in cli("records", "sign", package, "--key", "mine").stdout
    assert "not trusted here" in cli.error("records", "install", package)
    assert (
        "p: installed, signed by mine.pub"
        in cli("records", "install", package, "--from", "mine.pub").stdout
    )
    assert "me: trusted" in cli("records", "trust", "mine.pub", "--name", "me").stdout
    assert list(cli.json("records", "trust")) == ["me"]
    again = cli.json("records", "install", package)
    assert (again["replaced"], again["signer"], again["records"]) == (True, "me", 3)
    listed = {one["name"]: one for one in cli.json("records", "packages")}
    assert listed["p"]["signer"] == "me" and listed["zoo-znver4"]["shipped"]
    assert "zoo-znver4 (shipped)" in cli("records", "packages").stdout
    merged = cli("records", "merge", package, "--store", "other").stdout
    assert merged == "other: 3 records added from packages\n"
    assert cli("records", "diff", package, "other", "--exit-code").exit_code == 0
    assert cli("records", "uninstall", "p").stdout == "p: removed\n"
    assert "no package 'p' is installed" in cli.error("records", "uninstall", "p")
    Path(package).write_bytes(Path(package).read_bytes()[:-50])
    assert "wrong signature" in cli.error("records", "install", package, "--unsigned")
    Path(package + ".sig").unlink()
    assert "damaged" in cli.error("records", "install", package, "--unsigned")


def test_only_what_is_wanted(cli, store):  # noqa: F811
    assert "name a file OUT.parquet" in cli.error("records", "distill", "--network", "mlp", *STORE)
    told = cli.error("records", "distill", "p.parquet", "--target", "cuda", *STORE)
    assert "no best record of what was asked for" in told and not Path("p.parquet").exists()
    found = cli.json("records", "distill", "p.parquet", "--network", "mlp", "--model", *STORE)
    assert (found["records"], found["networks"], found["models"]) == (3, ["mlp"], [])
    assert "asks for a signature" in cli.error(
        "records", "install", "p.parquet", "--unsigned", "--from", "x"
    )


def test_differences(cli, package, store):  # noqa: F811
    cli("records", "merge", package, ZEN4, "--store", "both.parquet")
    found = cli.json("records", "diff", package, "both.parquet")
    assert found["count"] == {"same": 3, "only in B": 240}
    assert len(found["differences"]) == 240
    told = cli("records", "diff", "both.parquet", package, "--exit-code", "--rows", "2")
    assert told.exit_code == 1 and "238 more rows left out: --rows" in told.stdout
    assert "240 only in A, 3 with the same schedule" in told.stdout
    assert "there is no record store" in cli.error("records", "diff", package, "nowhere")


@x86_records
def test_a_network_of_the_zoo_needs_no_search(cli, monkeypatch):
    """Without options, store or search; the CPU is said to be here, and its code is not run."""
    zen4 = ("--target", "llvm -mcpu=znver4 -num-cores=2", "-o", "")
    monkeypatch.setattr(CpuTarget, "missing_on_host", lambda self: ["a Zen 4"])
    result = cli("compile", "mlp", *zen4, "--json")
    assert "no record store at 'records' yet: packages alone are used" in result.stderr
    found = json.loads(result.stdout)
    assert {task["source"] for task in found["tasks"]} == {"tuned"}
    assert found["packages"] == {"shipped package zoo-znver4": 4}
    without = json.loads(cli("compile", "mlp", *zen4, "--no-packages", "--json").stdout)
    assert {task["source"] for task in without["tasks"]} == {"untuned"} and not without["packages"]
