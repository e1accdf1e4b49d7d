"""CUDA targets on the command line: every command with one store, and bad input in one line."""

from __future__ import annotations

import pytest

import tilework as tw
from flows import pipeline
from flows.cli import doctor
from flows.settings import TuneSettings
from storage import RecordStore
from tasks import compare, standing
from tasks.engines import random_inputs
from tilework.errors import ModuleError
from tilework.kinds.cuda import target as cuda_target
from tilework.kinds.cuda.probe import Found, FoundDevice
from tilework.kinds.cuda.source import nvrtc
from tilework.measure import Candidate, Measured, Measurer, to_records
from tilework.model.drafted import draft_schedule
from tilework.record import Status
from tilework.runtime.samples import Samples
from tilework.target import Target

CPU = "llvm -mcpu=native -num-cores=1"
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
    assert "there is no CUDA device of sm_90" in line and "\n" not in line


@pytest.mark.usefixtures("needs_nvrtc")
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
        return Measurer(settings.resolved_target(), device=f"{fake}:DEVICE", build_processes=1)

    monkeypatch.setattr(TuneSettings, "measurer", measurer)
    monkeypatch.setenv("FAKE_GPU", state)
    line = cli.error("tune", "mlp", "--target", "cuda -model=a100", "--trials", 4)
    assert said in line and "\n" not in line


@pytest.mark.usefixtures("needs_nvrtc")
def test_an_architecture_that_the_compiler_does_not_know(cli, monkeypatch, tmp_path):
    monkeypatch.setattr("cupy_backends.cuda.libs.nvrtc.getSupportedArchs", lambda: [75, 80])
    for command in ("tune", "compile"):
        run = " -run=simulated" if command == "tune" else ""
        line = cli.error(command, "mlp", "--target", f"cuda -arch=sm_120{run}")
        assert "makes no code for sm_120 (it knows sm_75 to sm_80)" in line and "\n" not in line
    assert not list(tmp_path.glob("records/round-*"))


def test_a_compiler_that_is_not_installed(cli, monkeypatch):
    monkeypatch.setattr(nvrtc, "_available", lambda: "compiling for CUDA needs CuPy: pip install")
    for target in (SIMULATED, "cuda -model=a100"):
        command = "tune" if target == SIMULATED else "compile"
        assert "needs CuPy: pip install" in cli.error(command, "mlp", "--target", target)


@pytest.mark.usefixtures("needs_nvrtc")
def test_a_module_is_made_where_there_is_no_device(cli, tmp_path):
    done = cli("compile", "mlp", "--target", "cuda -model=h100", "--output", "mlp.tw")
    assert done.exit_code == 0, done.output
    assert "Output not checked: this machine lacks a CUDA device of sm_90" in done.output
    with pytest.raises(ModuleError, match="compiled for sm_90, and no CUDA device is"):
        tw.load_module(tmp_path / "mlp.tw")
    assert "peak on paper" in cli("explain", "mlp:0", "--target", "cuda -model=h100").output


def test_a_precision_that_the_tensor_cores_lack(cli):
    line = cli.error("extract", "mlp", "--target", "cuda -arch=sm_75", "--precision", "bf16")
    assert "needs tensor cores of sm_80 or later" in line


@pytest.mark.usefixtures("needs_nvrtc")
def test_a_simulated_run_is_marked_everywhere_and_compiles_nothing(cli, tmp_path):
    where = ["--target", SIMULATED]
    done = cli("tune", "mlp", *where, "--trials", 8, "--no-prefect")
    assert done.exit_code == 0, done.output
    assert "nothing is compiled, checked or timed" in done.output
    assert "simulated: no program is run" in done.output and "s (simulated)" in done.output
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


@pytest.fixture
def quick(monkeypatch):
    """Engines are timed for a moment only."""

    def briefly(engines, inputs, seconds):
        for engine in engines.values():
            engine.bind(inputs)()
        return {name: Samples((1e-3, 2e-3)) for name in engines}

    monkeypatch.setattr(compare, "time_engines", briefly)
    monkeypatch.setattr(
        standing,
        "time_at_points",
        lambda engines, net, seconds: briefly(engines, random_inputs(net), seconds),
    )
    monkeypatch.setattr(pipeline, "gap_lines", lambda *_: ())


def keep_one_of_a_cpu(path):
    """Put the untuned schedule of the first layer into a store, as if it had been measured."""
    task = tw.extract_tasks(tw.zoo.outline("mlp"), tw.Target(CPU))[0][0]
    choice = draft_schedule(task)
    found = Measured(Candidate(choice.sketch_id, choice.row, 0.0, ""), Status.ok, latency_s=1e-5)
    RecordStore(path).append(to_records(task, [found], run_id="cpu", round=0, network="mlp"))


@pytest.mark.usefixtures("needs_compiler", "quick")
def test_one_store_holds_cpus_and_gpus(cli):
    keep_one_of_a_cpu("records")
    done = cli("tune", "mlp", "--target", EMULATED, "--trials", 4, "--no-prefect")
    assert done.exit_code == 0, done.output
    assert "maximum relative error" in done.output and "(ok)" in done.output
    assert f"are of target {Target(CPU)}: they serve other machines" in done.output
    assert "emulated: programs run on a CPU" in done.output
    for command in ("compile", "bench"):
        for target in (EMULATED, CPU):
            done = cli(command, "mlp", "--target", target)
            assert done.exit_code == 0 and "tuned" in done.output, done.output
            assert ("emulated" in done.output) == (target == EMULATED)
    best = cli.json("records", "best")
    assert {row["target"].split()[0] for row in best} == {"llvm", "cuda"}
    assert "-run=emulated are emulated" in cli("records", "best").output
    assert cli("records", "distill", "best").exit_code == 0
    assert cli("records", "merge", "records", "--store", "merged").exit_code == 0
    for store in ("best", "merged"):
        assert cli.json("records", "best", "--store", store) == best


def test_the_doctor_says_why_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(cuda_target, "look", lambda: Found(why_none="there is no NVIDIA driver"))
    assert "there is no NVIDIA driver" in doctor._gpu()["CUDA"]
