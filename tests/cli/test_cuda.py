"""CUDA targets on the command line: every command with one store, and bad input in one line."""

from __future__ import annotations

import pytest

from flows.settings import TuneSettings
from tilework.kinds.cuda import target as cuda_target
from tilework.kinds.cuda.probe import Found, FoundDevice
from tilework.measure import Measurer

SIMULATED = "cuda -model=a100 -run=simulated"
EMULATED = "cuda -model=a100 -run=emulated"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("cuda -arch=sm_81", "unknown architecture 'sm_81'; did you mean sm_8"),
        ("cuda -model=a10000", "unknown model 'a10000'; did you mean a100"),
        ("cuda -model=a100 -run=simulate", "did you mean simulated"),
        ("cuda -model=a100 -arch=sm_90", "-model=a100 is a device of sm_80, not of sm_90"),
        ("cuda -model=a100 -num-cores=2", "unknown option '-num-cores'"),
    ],
)
@pytest.mark.parametrize("command", ["tune", "extract", "compile", "bench"])
def test_a_target_that_makes_no_sense(cli, command, target, said):
    assert said in cli.error(command, "mlp", "--target", target)


@pytest.mark.parametrize(
    "why", ["there is no NVIDIA driver", "the driver is for CUDA 11.4, which is too old"]
)
def test_no_device_and_why(cli, monkeypatch, why):
    monkeypatch.setattr(cuda_target, "look", lambda: Found(why_none=why))
    line = cli.error("tune", "mlp", "--target", "cuda")
    assert why in line and "-run=emulated" in line and "\n" not in line


def test_a_device_that_is_not_the_target_s(cli, monkeypatch):
    here = FoundDevice("NVIDIA A100", "sm_80", 108, 1.41, 40 << 20)
    monkeypatch.setattr(cuda_target, "look", lambda: Found((here,), (13, 0)))
    line = cli.error("tune", "mlp", "--target", "cuda -model=h100")
    assert "a CUDA device of sm_90" in line and "\n" not in line


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("busy", "another program has the device for itself"),
        ("old", "the NVIDIA driver is too old"),
        ("none", "there is no CUDA device"),
    ],
)
def test_a_device_that_is_not_to_be_had(cli, monkeypatch, state, said):
    fake = "tests.kinds.cuda.fake_driver"

    def measurer(settings: TuneSettings) -> Measurer:
        return Measurer(
            settings.resolved_target(), builder=f"{fake}:BUILDER", device=f"{fake}:DEVICE",
            build_processes=1,
        )  # fmt: skip

    monkeypatch.setattr(TuneSettings, "measurer", measurer)
    monkeypatch.setenv("FAKE_GPU", state)
    line = cli.error("tune", "mlp", "--target", "cuda -model=a100", "--trials", 4)
    assert said in line and "\n" not in line


def test_a_precision_that_the_tensor_cores_lack(cli):
    line = cli.error("extract", "mlp", "--target", "cuda -arch=sm_75", "--precision", "bf16")
    assert "needs tensor cores of sm_80 or later" in line


@pytest.mark.usefixtures("needs_nvrtc")
def test_a_simulated_run_is_marked_everywhere_and_compiles_nothing(cli, tmp_path):
    where = ["--target", SIMULATED]
    done = cli("tune", "mlp", *where, "--trials", 8, "--no-prefect")
    assert done.exit_code == 0, done.output
    assert "nothing is compiled, checked or timed" in done.output
    assert "simulated: no program is run" in done.output and "ms (simulated)" in done.output
    assert not list(tmp_path.glob("*.tw"))
    again = cli("tune", "mlp", *where, "--trials", 8, "--no-prefect")
    assert "finished rounds of this run" in again.output

    assert "-run=simulated are simulated" in cli("records", "show").output
    best = cli("records", "best")
    assert "-run=simulated are simulated" in best.output and " regs" in best.output
    assert "(simulated)" in cli("records", "plot", "mlp", *where).output
    for command in ("compile", "bench"):
        assert "is simulated, so nothing can be compiled" in cli.error(command, "mlp", *where)
    told = cli("explain", "mlp:0", *where).output
    for word in ("simulated:", "registers", "occupancy", "bound by", "__global__", "kernel: "):
        assert word in told, word


@pytest.mark.usefixtures("needs_compiler")
def test_one_store_holds_cpus_and_gpus(cli, tmp_path):
    for target in ("llvm -mcpu=native -num-cores=1", EMULATED):
        done = cli("tune", "mlp", "--target", target, "--trials", 8, "--no-prefect")
        assert done.exit_code == 0, done.output
        assert "maximum relative error" in done.output and "(ok)" in done.output
    assert "rows not used: they are of target llvm" in done.output
    assert "emulated: programs run on a CPU" in done.output
    for command in ("compile", "bench"):
        done = cli(command, "mlp", "--target", EMULATED)
        assert done.exit_code == 0 and "tuned" in done.output, done.output
    targets = {row["target"] for row in cli.json("records", "best")}
    assert {t.split()[0] for t in targets} == {"llvm", "cuda"}
    assert cli("records", "distill", "best").exit_code == 0
    assert cli("records", "merge", "records", "--store", "merged").exit_code == 0
    assert len(cli.json("records", "best", "--store", "merged")) == len(
        cli.json("records", "best", "--store", "best")
    )


def test_the_doctor_says_why_there_is_no_gpu(cli, monkeypatch):
    monkeypatch.setattr(cuda_target, "look", lambda: Found(why_none="there is no NVIDIA driver"))
    found = cli.json("doctor")
    assert "there is no NVIDIA driver" in found["GPU"]["CUDA"]
