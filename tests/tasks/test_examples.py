"""The examples run as they are, with a small budget, and say what their text promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kinds.cuda.conftest import needs_compiler, needs_nvrtc  # noqa: F401 (fixtures)

EXAMPLES = Path(__file__).parents[2] / "examples"
UNDISTURBED = Path(__file__).parents[1] / "undisturbed.py"


def run(folder: Path, script: str, *options: str, seconds: float = 600) -> str:
    """What the script prints, run in ``folder`` as a user runs it."""
    done = subprocess.run(
        [sys.executable, str(UNDISTURBED), str(EXAMPLES / script), *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_png(path: Path) -> bool:
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_block_is_tuned_and_its_records_analysed(tmp_path):
    told = run(tmp_path, "tune_resnet_block.py", "--seconds", "3", "--store", "store")
    assert "conv2d+add+relu+add" in told and "largest error against NumPy" in told
    assert "untuned:" in told and "tuned:" in told
    assert is_png(tmp_path / "resnet_block.png")

    told = run(tmp_path, "analyse_records.py", "store", "--plot", "plot.png")
    assert "How they ended:" in told and "median / best" in told
    assert is_png(tmp_path / "plot.png")


def test_a_network_is_tuned(tmp_path):
    told = run(tmp_path, "tune_network_x86.py", "mlp", "--seconds", "2")
    assert "Extract tasks..." in told and "Task 3" in told and "PLACEHOLDER" in told
    assert "Evaluate inference time cost..." in told and "[1, 10]" in told


def test_a_decoder_writes_words(tmp_path):
    told = [int(word) for word in run(tmp_path, "decode.py", "--count", "7").split()]
    assert len(told) == 7 and all(0 <= word < 100 for word in told)


def test_a_layer_is_tuned_checked_rebuilt_and_resumed(tmp_path):
    told = run(tmp_path, "tune_conv2d_layer.py", "--trials", "4")
    assert "0 schedules are known" in told and "The output equals NumPy's" in told
    assert "sketch " in told and "Resuming the search:" in told
    assert told.count("Execution time of this operator:") == 2
    told = run(tmp_path, "tune_conv2d_layer.py", "--trials", "2")
    assert "8 schedules are known" in told


@pytest.mark.usefixtures("needs_nvrtc")
def test_a_network_is_tuned_for_a_gpu_that_is_not_there(tmp_path):
    """First as a run is that is killed and goes on; nothing of it is compiled."""
    told = run(tmp_path, "tune_network_cuda.py", "mlp", "--trials", "4")
    first = told.splitlines()[0]
    assert first.startswith(
        "Target: cuda -model=a100 -run=simulated (simulated: no program is run"
    )
    assert "Task scheduler (simulated)" in told and "Estimated total latency:" in told
    assert "kernel: " in told and "occupancy: " in told and "__global__" in told
    assert "Compile..." not in told and "records distill" in told
    again = run(tmp_path, "tune_network_cuda.py", "mlp", "--trials", "6")
    assert "4 trials:" not in again and "Trials: 6 " in again


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_nvrtc")
def test_a_block_for_a_gpu(tmp_path):
    options = ("--target", "cuda -model=h100 -run=simulated", "--seconds", "3")
    told = run(tmp_path, "tune_resnet_block.py", *options)
    assert told.splitlines()[0].startswith("Target: cuda -model=h100 -run=simulated (simulated: ")
    assert "ms (simulated)" in told and "__global__" in told
    assert is_png(tmp_path / "resnet_block.png")


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_compiler")
def test_a_layer_is_tuned_checked_and_resumed_in_emulation(tmp_path):
    told = run(tmp_path, "tune_conv2d_layer_cuda.py", "--trials", "2", seconds=600)
    assert "-run=emulated (emulated: " in told.splitlines()[0]
    assert "The output equals NumPy's" in told and "__global__" in told
    assert told.count("Execution time of this operator:") == 2
    assert "Resuming the search:" in told


def test_a_sparse_network_is_tuned_beside_the_dense_one(tmp_path):
    told = run(tmp_path, "tune_sparse_mlp.py", "--seconds", "2")
    assert told.count("of the blocks stored") == 3 and "15% of 16x1" in told
    assert "Largest error:" in told and "times as fast." in told
