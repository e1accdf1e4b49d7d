"""`tilework tune-zoo` and `compile-release` as commands."""

from __future__ import annotations

import json

import pytest

from tasks import device_lock

ZOO = """
defaults: {threads: 1}
networks:
  - {network: mlp, use: 2}
  - {network: mlp, batch: 2, output: two.tw}
"""


@pytest.fixture(autouse=True)
def hurried(tmp_path_factory, monkeypatch):
    """Other runs of this machine are not waited for."""
    monkeypatch.setattr(device_lock, "FOLDER", tmp_path_factory.mktemp("locks"))


@pytest.fixture
def zoo(tmp_path):
    (tmp_path / "zoo.yaml").write_text(ZOO)
    return "zoo.yaml"


def test_a_zoo_is_tuned_and_then_its_release_is_unchanged(cli, zoo, tmp_path):
    tuned = cli.json("tune-zoo", zoo, "--trials", 8, "--effort", "draft", "--no-prefect")
    assert tuned["trials"] == 8
    assert [one["state"] for one in tuned["networks"]] == ["made", "made"]
    assert [one["use"] for one in tuned["networks"]] == [2.0, 1.0]
    assert (tmp_path / "modules/two.tw").exists()
    result = cli("compile-release", zoo, "--no-prefect")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("unchanged") == 2
    assert "Mean latency by use" in result.stdout


def test_what_fails_does_not_stop_the_others_and_the_exit_code_says_it(cli):
    result = cli(
        "tune-zoo", "mlp=3", "gone-18", "--threads", 1, "--trials", 4, "--effort", "draft",
        "--folder", "", "--no-prefect",
    )  # fmt: skip
    assert result.exit_code == 1, result.output
    assert result.stderr.strip() == (
        "failed: 1 of 2 networks failed, the others are done: gone-18 for llvm -mcpu=native: "
        "unknown network 'gone-18'; did you mean resnet-18 or resnet3d-18?"
    )
    assert "75 %" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.yaml"], "zoo file missing.yaml: No such file or directory"),
        (["zoo.yaml", "mlp"], "a zoo file comes alone"),
        (["zoo.yaml", "--threads", 2], "belong into the zoo file"),
        (["mlp=0"], "mlp=0: use: Input should be greater than 0"),
    ],
)
@pytest.mark.parametrize("command", ["tune-zoo", "compile-release"])
def test_bad_input_is_one_clear_line(cli, zoo, command, words, said):
    assert said in cli.error(command, *words, "--no-prefect")


def test_a_release_from_a_store_that_is_missing_is_one_clear_line(cli, zoo, tmp_path):
    said = cli.error("compile-release", zoo, "--store", "gone", "--no-prefect")
    assert "gone" in said
    assert not (tmp_path / "gone").exists()
    assert not (tmp_path / "modules").exists()


def test_a_broken_manifest_makes_all_again_and_a_newer_one_is_left_alone(cli, zoo, tmp_path):
    cli.json("tune-zoo", zoo, "--trials", 2, "--effort", "draft", "--no-prefect")
    manifest = tmp_path / "modules/release.json"
    manifest.write_text(manifest.read_text()[:-20])
    made = cli.json("compile-release", zoo, "--no-prefect")
    assert [one["state"] for one in made["networks"]] == ["made", "made"]
    manifest.write_text(json.dumps({"format": 99}))
    assert "newer Tilework" in cli.error("compile-release", zoo, "--no-prefect")
