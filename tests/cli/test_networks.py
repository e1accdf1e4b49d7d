"""Looking at networks: networks, extract, help."""

from __future__ import annotations

import pytest

COMMANDS = ("networks", "extract", "tune", "compile", "bench", "records", "explain", "doctor")


def test_help_lists_every_command(cli):
    text = cli("--help").stdout
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("networks", "doctor")])
def test_help_teaches_by_example(cli, command):
    subcommand = ["records", "distill"] if command == "records" else [command]
    assert f"tilework {command}" in cli(*subcommand, "--help").stdout


def test_networks_lists_the_zoo(cli):
    found = {n["name"]: n for n in cli.json("networks")}
    assert {"resnet-18", "resnet3d-101", "mobilenet", "squeezenet_v1.1", "mlp"} <= found.keys()
    assert found["resnet-18"]["inputs"] == {"data": [1, 224, 224, 3]}
    assert (found["resnet-18"]["tasks"], found["resnet-18"]["calls"]) == (24, 25)
    assert 3.6e9 < found["resnet-18"]["flops"] < 3.7e9
    assert found["resnet3d-18"]["inputs"] == {"data": [1, 16, 112, 112, 3]}
    assert "inception_v3" in cli("networks").stdout


def test_extract_shows_the_tasks_of_resnet_18(cli):
    tasks = cli.json("extract", "resnet-18")
    assert len(tasks) == 24
    assert {t["id"] for t in tasks} == set(range(24))
    assert all(t["flops"] > 0 and t["weight"] >= 1 for t in tasks)
    assert "24 distinct tasks" in cli("extract", "resnet-18").stdout


def test_extract_show_prints_compute_definitions(cli):
    text = cli("extract", "mlp", "--show").stdout
    assert "========== Task 0  (workload key: [" in text
    assert "p0 = PLACEHOLDER [1, 784]" in text


def test_extract_follows_the_batch(cli):
    assert "PLACEHOLDER [4, 784]" in cli("extract", "mlp", "--show", "--batch", "4").stdout


def test_version(cli):
    assert cli("--version").stdout.startswith("tilework 0.")


def test_doctor_describes_the_machine(cli):
    found = cli.json("doctor")
    assert found["Machine"]["target"].startswith("llvm -mcpu=")
    assert found["Libraries"]["prefect"].startswith("3.")
    assert "server" in found["Prefect"]
