"""Zoo files and the settings of flows over many networks: read well, refused in one line."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from flows.zoo_settings import (
    ReleaseSettings,
    SettingsError,
    ZooNetwork,
    ZooSettings,
    parse_network,
    read_zoo,
)


def write(folder, text, name="zoo.yaml"):
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_file_names_networks_with_defaults_and_paths_of_its_own_folder(tmp_path):
    path = write(
        tmp_path,
        """
        defaults: {threads: 2, target: llvm -mcpu=znver4}
        networks:
          - resnet-18
          - {network: mobilenet, use: 5, threads: 1}
          - {network: models/net.onnx, precision: bf16}
        """,
    )
    first, second, third = read_zoo(path)
    assert (first.network, first.use, first.threads) == ("resnet-18", 1.0, 2)
    assert (second.use, second.threads, second.target) == (5.0, 1, "llvm -mcpu=znver4")
    assert third.network == str(tmp_path / "models/net.onnx")
    assert third.precision == "bf16"


def test_json_says_the_same(tmp_path):
    document = {"networks": ["mlp", {"network": "resnet-18", "use": 2}]}
    yaml = write(tmp_path, "networks: [mlp, {network: resnet-18, use: 2}]")
    assert read_zoo(write(tmp_path, json.dumps(document), "zoo.json")) == read_zoo(yaml)


def test_samples_lie_beside_the_file(tmp_path):
    text = "networks: [{network: mlp, precision: int8, calibrate: s.npz}, mlp]"
    first, second = read_zoo(write(tmp_path, text))
    assert (first.network, first.calibrate) == ("mlp", str(tmp_path / "s.npz"))
    assert (first.spec().precision, first.spec().calibrate) == ("int8", first.calibrate)
    assert second.calibrate == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("networks: [", "line 2: neither YAML nor JSON"),
        ("- mlp", "it needs a list `networks`"),
        ("networks: mlp", "it needs a list `networks`"),
        ("networks: []", "it names no network"),
        ("networks: [mlp]\nbudget: 3", "unknown budget"),
        ("networks: [mlp]\ndefaults: 3", "`defaults` is a mapping"),
        ("networks: [mlp, 3]", "network 2 is neither a name nor a mapping"),
        ("networks: [{network: mlp, use: 0}]", "network 1: use: Input should be greater than 0"),
        ("networks: [{network: mlp, usage: 1}]", "network 1: usage: Extra inputs"),
        ("networks: [{use: 1}]", "network 1: network: Field required"),
        ("networks: [{network: mlp, output: ../x}]", "name a file, not a path"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path, text, said):
    path = write(tmp_path, text + "\n")
    with pytest.raises(SettingsError) as error:
        read_zoo(path)
    assert said in str(error.value)
    assert path in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(SettingsError, match=r"gone\.yaml: No such file.*name a YAML or JSON file"):
        read_zoo(str(tmp_path / "gone.yaml"))


def test_loading_a_file_executes_nothing(tmp_path):
    path = write(tmp_path, f"networks: [!!python/object/apply:os.mkdir ['{tmp_path}/made']]")
    with pytest.raises(SettingsError):
        read_zoo(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("settings", [ZooSettings, ReleaseSettings])
def test_networks_come_from_one_source(settings):
    network = ZooNetwork(network="mlp")
    assert settings(networks=[network]).members() == (network,)
    for given in ({}, {"file": "zoo.yaml", "networks": [network]}):
        with pytest.raises(ValidationError, match="one of the two"):
            settings(**given)


@pytest.mark.parametrize(
    ("text", "name", "use"),
    [
        ("mlp", "mlp", 1.0),
        ("mlp=2.5", "mlp", 2.5),
        ("./a=b.onnx", "./a=b.onnx", 1.0),
        ("./a=b.onnx=3", "./a=b.onnx", 3.0),
    ],
)
def test_a_network_on_the_command_line_may_say_its_use(text, name, use):
    found = parse_network(text, threads=1)
    assert (found.network, found.use, found.threads) == (name, use, 1)


@pytest.mark.parametrize("text", ["mlp=0", "mlp=-1", "mlp=1e", "=2"])
def test_a_use_that_is_none_is_refused(text):
    with pytest.raises(SettingsError, match=text):
        parse_network(text)


def test_modules_of_one_network_have_names_that_tell_them_apart():
    def name(**given):
        return ZooNetwork(network="models/net.onnx", **given).file_name()

    target = "llvm -mcpu=znver4"
    assert name(target=target, threads=2) == "net-llvm-znver4-x2.tw"
    assert name(target=target, threads=1, precision="bf16") == "net-bf16-llvm-znver4-x1.tw"
    assert name(target=target, threads=1, batch=8) == "net-b8-llvm-znver4-x1.tw"
    assert name(target="cuda -model=a100") == "net-cuda-a100.tw"
    assert name(output="mine.tw") == "mine.tw"


def test_a_network_is_found_as_it_would_be_alone():
    spec = ZooNetwork(network="mlp", use=3, threads=1, batch=4, sparse="0.5").spec()
    assert (spec.network, spec.batch, spec.label) == ("mlp", 4, "mlp-sparse")


def test_budgets_of_an_effort_are_for_one_network_and_given_ones_for_all():
    network = ZooNetwork(network="mlp")
    draft = ZooSettings(networks=[network], effort="draft")
    assert draft.tuning_options(3).num_measure_trials == 3 * 320
    assert draft.tuning_options(3).seconds == 3 * 37
    given = ZooSettings(networks=[network], effort="draft", trials=100).tuning_options(3)
    assert (given.num_measure_trials, given.seconds) == (100, None)
