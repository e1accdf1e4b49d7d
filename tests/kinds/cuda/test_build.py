"""Candidates become cubins, or text that is emulated; and what their code says."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.te import workloads
from tilework import te
from tilework.errors import ScheduleError, TargetError
from tilework.graph import extract_tasks, zoo
from tilework.kinds.cuda import build as building
from tilework.kinds.cuda import facts as facts_module
from tilework.kinds.cuda.build import BUILDER, build
from tilework.kinds.cuda.geometry import geometry
from tilework.kinds.cuda.launches import FORMAT, launches_from_json
from tilework.kinds.cuda.source import nvrtc
from tilework.kinds.cuda.source.cubin import resources
from tilework.kinds.cuda.source.elf import read_cubin
from tilework.kinds.cuda.source.nvrtc import BuildError
from tilework.kinds.cuda.tiling import form_of
from tilework.lower.protocol import builder_of
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

needs_nvrtc = pytest.mark.usefixtures("needs_nvrtc")
ARCHS = ("sm_80", "sm_90", "sm_100", "sm_120")


def a_task(target: str = "cuda -model=a100") -> SearchTask:
    return SearchTask(
        te.ComputeDAG(workloads.conv2d_relu(1, 8, 8, 16, 32)), Target(target), "conv"
    )


def a_row(task: SearchTask, sketch: int = 0, seed: int = 0) -> tuple[int, ...]:
    rows = SearchSpace.of(task).sketches[sketch].sample(np.random.default_rng(seed), 1)
    return tuple(int(v) for v in rows[0])


@needs_nvrtc
def test_a_kernel_holds_its_launches_and_cubins():
    task = a_task()
    row = a_row(task)
    kernel = build(task, 0, row)
    (symbol, plan), *functions = kernel.objects
    launches = launches_from_json(plan)
    assert symbol == kernel.symbol
    assert {launch.entry for launch in launches} == {name for name, _ in functions}
    for name, cubin in functions:
        assert read_cubin(cubin).arch == 80 and set(resources(cubin)) == {name}
    inputs, outputs = task.compute_dag.inputs, task.compute_dag.outputs
    assert [a.role for a in kernel.args] == ["input"] * len(inputs) + ["output"] * len(outputs)
    assert kernel.thread_workspace == 0 and not kernel.unfit
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    again = build(task, 0, row)
    assert again == kernel


@needs_nvrtc
def test_facts_of_a_kernel():
    task = a_task()
    facts = build(task, 0, a_row(task)).facts
    assert 16 <= facts["registers"] <= 255 and facts["spill_bytes"] == 0
    assert facts["blocks_per_sm"] >= 1 and facts["ffma"] > 0 and facts["hmma"] == 0
    assert facts["predicted_s"] > 0 and facts["seconds_dram_0"] > 0
    assert build(a_task("cuda -arch=sm_80 -run=simulated"), 0, a_row(task)).facts == facts


@needs_nvrtc
def test_known_registers_change_the_outlook(monkeypatch):
    def greedy(name, text, arch):
        code = facts_module.code_of(name, text, arch)
        return replace(code, resources=replace(code.resources, registers=255))

    task = SearchTask(
        te.ComputeDAG(workloads.conv2d_relu(1, 112, 112, 64, 64)),
        Target("cuda -model=a100"),
        "conv",
    )
    row = a_row(task, seed=3)
    usual = build(task, 0, row)
    monkeypatch.setattr(building, "code_of", greedy)
    worse = build(task, 0, row)
    assert worse.outlook <= usual.outlook
    assert worse.facts["predicted_s"] >= usual.facts["predicted_s"]
    assert worse.facts["blocks_per_sm"] < usual.facts["blocks_per_sm"]


@needs_nvrtc
def test_a_kernel_that_spills_is_unfit(monkeypatch):
    def spilling(name, text, arch):
        return replace(facts_module.code_of(name, text, arch), spilled=24)

    monkeypatch.setattr(building, "code_of", spilling)
    task = a_task()
    kernel = build(task, 0, a_row(task))
    assert "store and load 24 bytes" in kernel.unfit and kernel.facts["spill_bytes"] == 24


def test_emulated_kernels_hold_their_text():
    task = a_task("cuda -model=a100 -run=emulated")
    kernel = build(task, 0, a_row(task))
    (_, plan), *functions = kernel.objects
    texts = {name: code.decode() for name, code in functions}
    assert all(f" {name}(" in text for name, text in texts.items())
    assert {launch.entry for launch in launches_from_json(plan)} == set(texts)
    assert kernel.facts == {} and kernel.outlook == 1 and not kernel.unfit
    linked = BUILDER.link([], [kernel, kernel], task.target)
    names = {f"{kernel.symbol}.json", *(f"{name}.cu" for name in texts)}
    assert set(linked.code) == names and linked.needs == (FORMAT, "sm_80")


@needs_nvrtc
def test_kernels_of_a_network_share_functions():
    task = a_task()
    kernels = [build(task, 0, a_row(task, seed=seed)) for seed in (0, 1, 0)]
    linked = BUILDER.link([], kernels, task.target)
    ends = [name.rpartition(".")[2] for name in linked.code]
    assert ends.count("json") == 2 and ends.count("cubin") == 2
    assert builder_of(task.target) is BUILDER


def test_nothing_is_linked_for_a_simulated_device():
    with pytest.raises(TargetError, match="compile for 'cuda -model=a100'"):
        BUILDER.link([], [], Target("cuda -model=a100 -run=simulated"))


def test_errors_of_building(monkeypatch):
    task = a_task()
    with pytest.raises(ScheduleError):
        build(task, 0, (1, 2))
    monkeypatch.setattr(nvrtc, "_available", lambda: "compiling needs X: pip install X")
    with pytest.raises(TargetError, match="pip install X"):
        build(a_task("cuda -arch=sm_89"), 0, a_row(task))


@needs_nvrtc
def test_what_the_compiler_refuses_names_the_function(monkeypatch):
    monkeypatch.setattr(nvrtc, "_header", lambda: "")
    with pytest.raises(BuildError, match=r"^k_\w+ for sm_75: .*error"):
        build(a_task("cuda -arch=sm_75"), 0, a_row(a_task("cuda -arch=sm_75")))


# --- every kind of kernel ------------------------------------------------------------------------


def one_of_each_kind(networks, arch: str) -> dict[str, tuple[SearchTask, int]]:
    """A task and a sketch for every combination of forms of kernels."""
    found: dict[str, tuple[SearchTask, int]] = {}
    for name in networks:
        for task in extract_tasks(zoo.get(name), f"cuda -arch={arch}")[0]:
            for sketch in SearchSpace.of(task).sketches:
                forms = " ".join(form_of(block) for block in sketch.blocks)
                found.setdefault(forms, (task, sketch.id))
    return found


def check_kinds(networks, arch: str, rows: int) -> set[str]:
    """Builds rows of each; shared memory is what was predicted. The kinds that were built."""
    kinds = one_of_each_kind(networks, arch)
    for task, sketch_id in kinds.values():
        sketch = SearchSpace.of(task).sketch(sketch_id)
        for row in sketch.sample(np.random.default_rng(0), rows):
            kernel = build(task, sketch_id, tuple(int(v) for v in row))
            predicted = [int(geometry(n).shared[0]) for n in sketch.nests(row[None])]
            assert kernel.facts["shared_bytes"] == max(predicted)
            assert bool(kernel.unfit) == (kernel.facts["spill_bytes"] > 0)
    return set(kinds)


@needs_nvrtc
def test_kinds_of_a_network_have_cubins():
    kinds = check_kinds(["mlp"], "sm_80", 1)
    assert any("tiled" in kind for kind in kinds)


@needs_nvrtc
@pytest.mark.cuda_full
@pytest.mark.parametrize("arch", ARCHS)
def test_every_kind_has_cubins(arch):
    networks = ["resnet-18", "mobilenet", "squeezenet_v1.1", "mlp", "encoder-1-64-2-32"]
    kinds = check_kinds([n for n in networks if n in zoo.names() or n[0] != "e"], arch, 3)
    assert {"tiled", "direct"} <= {form for kind in kinds for form in kind.split()}
