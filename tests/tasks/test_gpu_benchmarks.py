"""The benchmarks of GPUs run from their first line to their last on devices that are not there."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kinds.cuda.conftest import needs_compiler, needs_nvrtc  # noqa: F401 (fixtures)

SCRIPTS = Path(__file__).parents[2] / "benchmarks" / "gpu"


def run(folder, script, *options):
    """What a dry run prints, and the document that it writes."""
    out = folder / "out.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), "--dry-run", "--json", str(out), *options],
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(out.read_text())


@pytest.mark.usefixtures("needs_compiler")
def test_machine_parameters(tmp_path):
    told, found = run(tmp_path, "machine.py")
    assert told.startswith("cuda -model=a100 -run=emulated: emulated: ")
    assert found["run"] == "emulated"
    assert set(found["model"]) < set(found["measured"]) and "graph_gap_us" in found["measured"]
    assert all(value > 0 for value in found["measured"].values())


@pytest.mark.usefixtures("needs_compiler")
def test_the_ladder(tmp_path):
    told, found = run(tmp_path, "sgemm_ladder.py")
    assert "pairs of the six that the draft orders as measured: " in told
    assert len(found["rungs"]) == 7 and all(r["seconds"] for r in found["rungs"].values())


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_compiler")
def test_products_on_tensor_cores(tmp_path):
    told, found = run(tmp_path, "tensor_cores.py")
    assert "| 64 cubed | bf16 |" in told and len(found["products"]) == 6
    assert all(one["ok"] == one["of"] == 2 for one in found["products"].values())


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_nvrtc")
def test_rank_correlation(tmp_path):
    told, found = run(tmp_path, "rank_correlation.py")
    assert "median of" in told and "(simulated)" in told
    assert len(found["tasks"]) == 4


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_nvrtc")
def test_tuning(tmp_path):
    told, found = run(tmp_path, "tune_resnet18.py")
    assert "nothing is compiled, checked or timed" in told
    assert found["trials"] == 8 and len(found["tasks"]) == 4


@pytest.mark.cuda_full
@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")
@pytest.mark.usefixtures("needs_compiler")
def test_peers(tmp_path):
    told, found = run(tmp_path, "peers.py")
    assert "compare nothing" in told
    assert {row["engine"] for row in found["rows"]} > {"Tilework", "PyTorch, graph, TF32"}
    assert all(row["difference"] < 1e-3 for row in found["rows"] if "TF32" not in row["engine"])


@pytest.mark.cuda_full
@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")
@pytest.mark.usefixtures("needs_compiler")
def test_encoders(tmp_path):
    told, found = run(tmp_path, "encoders.py")
    assert "compare nothing" in told
    assert [row["precision"] for row in found["rows"]] == ["f32", "tf32", "bf16"]
    bounds = {"f32": 1e-5, "tf32": 1e-3, "bf16": 2e-2}
    assert all(row["differences"][0] < bounds[row["precision"]] for row in found["rows"])


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_nvrtc")
def test_a_search_on_a_simulated_device(tmp_path):
    """Killed and resumed it finds what it finds in one go; another batch size starts warm."""
    out = tmp_path / "out.json"
    options = ["--network", "mlp", "--trials", "24", "--json", str(out)]
    done = subprocess.run(
        [sys.executable, str(SCRIPTS.parent / "cuda_simulated.py"), *options,
         "--parts", "killed,whole,warm"],
        cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["killed"]["resumed"] == found["killed"]["kept"] >= 1
    assert found["whole"]["equal"] and found["whole"]["records"][0] >= 24
    assert found["warm"]["warm"]["total_ms"] <= 1.05 * found["warm"]["cold"]["total_ms"]
