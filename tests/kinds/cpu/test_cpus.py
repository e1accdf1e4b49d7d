"""What CPUs have: our table against LLVM's own definition, masked machines, and what LLVM is told.

LLVM does not list the features of a CPU's name; it shows them in the instructions that it chooses.
"""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from tests.lower.check import task_of
from tests.te.workloads import conv2d_relu, softmax
from tilework import te
from tilework.errors import TargetError
from tilework.kinds.cpu import cpus
from tilework.kinds.cpu.build import generate
from tilework.kinds.cpu.code_features import lacking_features, used_features
from tilework.kinds.cpu.jit import llvm
from tilework.kinds.cpu.llvm import assembler
from tilework.kinds.cpu.target import CpuTarget
from tilework.space import SearchSpace
from tilework.target import HOST_PLATFORM, Target

pytestmark = pytest.mark.skipif(not HOST_PLATFORM.endswith("x86_64"), reason="names of x86 CPUs")
X86 = cpus.known_cpus("x86_64")
WIDE = re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|%k[0-7]")
"""Registers that AVX-512 brings."""


def calls(intrinsic: str, kind: str, *more: str) -> str:
    """A function that calls ``llvm.INTRINSIC`` on its arguments of one type."""
    lanes, element = re.fullmatch(r"<?(?:(\d+) x )?(\w+)>?", kind).groups()
    short = f"v{lanes}{element}" if lanes else element
    count = 3 if intrinsic in ("fshl", "fmuladd") else 2 if "max" in intrinsic else 1
    given = [f"{kind} %{'abc'[i]}" for i in range(count)] + list(more)
    types = ", ".join(g.split(" %")[0].split(" false")[0] for g in given)
    name = f"@llvm.{intrinsic}.{short.replace('float', 'f32')}"
    parameters = ", ".join(f"{kind} %{c}" for c in "abc")
    return (
        f"declare {kind} {name}({types})\ndefine {kind} @f({parameters}) #0 {{\n"
        f"  %r = call {kind} {name}({', '.join(given)})\n  ret {kind} %r\n}}\n"
    )


def does(text: str, kind: str, result: str | None = None) -> str:
    """A function of one instruction on ``%a`` and ``%b``."""
    out = result or kind
    return f"define {out} @f({kind} %a, {kind} %b) #0 {{\n  %r = {text}\n  ret {out} %r\n}}\n"


def shuffles(indices: list[int]) -> str:
    kind = f"<{len(indices)} x i8>"
    order = ", ".join(f"i32 {i}" for i in indices)
    return does(f"shufflevector {kind} %a, {kind} poison, <{len(indices)} x i32> <{order}>", kind)


PROBES = {
    "ssse3": (shuffles([5, 1, 9, 3, 15, 0, 2, 7, 4, 6, 8, 11, 10, 13, 12, 14]), "pshufb"),
    "sse4.1": (does("mul <4 x i32> %a, %b", "<4 x i32>"), "pmulld"),
    "sse4.2": (calls("smax", "<2 x i64>"), "pcmpgtq|vpmaxsq"),
    "popcnt": (calls("ctpop", "i32"), "popcntl"),
    "lzcnt": (calls("ctlz", "i32", "i1 false"), "lzcnt"),
    "bmi": (calls("cttz", "i32", "i1 false"), "tzcnt"),
    "bmi2": (does("shl i64 %a, %b", "i64"), "shlx"),
    "f16c": (does("fpext <4 x half> %a to <4 x float>", "<4 x half>", "<4 x float>"), "vcvtph2ps"),
    "fma": (calls("fmuladd", "float"), "vfmadd"),
    "avx": (does("fadd <8 x float> %a, %b", "<8 x float>"), "ymm"),
    "avx2": (does("add <8 x i32> %a, %b", "<8 x i32>"), r"vpaddd\s+%ymm"),
    "gfni": (calls("bitreverse", "<16 x i8>"), "gf2p8"),
    "avx512f": (does("fadd <16 x float> %a, %b", "<16 x float>"), "zmm"),
    "avx512bw": (does("add <64 x i8> %a, %b", "<64 x i8>"), r"vpaddb\s+%zmm"),
    "avx512dq": (does("mul <8 x i64> %a, %b", "<8 x i64>"), "vpmullq"),
    "avx512cd": (calls("ctlz", "<16 x i32>", "i1 false"), "vplzcntd"),
    "avx512vl": (calls("smax", "<4 x i64>"), r"vpmaxsq\s+%ymm"),
    "avx512vbmi": (shuffles([(i * 37 + 11) % 64 for i in range(64)]), "vpermb"),
    "avx512vbmi2": (calls("fshl", "<32 x i16>"), "vpshldvw"),
    "avx512bitalg": (calls("ctpop", "<64 x i8>"), "vpopcntb"),
    "avx512vpopcntdq": (calls("ctpop", "<16 x i32>"), "vpopcntd"),
    "avx512bf16": (
        does("fptrunc <16 x float> %a to <16 x bfloat>", "<16 x float>", "<16 x bfloat>"),
        r"vcvtneps2bf16\s+%zmm",
    ),
    "avx512fp16": (does("fadd <32 x half> %a, %b", "<32 x half>"), "vaddph"),
}
_WIDTH = 'attributes #0 = { "prefer-vector-width"="512" "min-legal-vector-width"="512" }\n'


def assembly(text: str, cpu: str, features: str) -> str:
    machine = assembler._machine(cpu, features, "").machine
    module = llvm().parse_assembly(f'target triple = "{machine.triple}"\n{text}{_WIDTH}')
    return machine.emit_assembly(module)


@pytest.mark.parametrize("cpu", X86)
def test_a_name_promises_what_llvm_takes_it_for(cpu):
    found = {f for f, (text, sign) in PROBES.items() if re.search(sign, assembly(text, cpu, ""))}
    assert found == cpus.promised(cpu, "x86_64") & set(PROBES)


@pytest.mark.parametrize("cpu", X86)
def test_llvm_chooses_the_same_when_told_every_feature(cpu):
    task = task_of(te.ComputeDAG(conv2d_relu(1, 9, 9, 8, 24)), f"llvm -mcpu={cpu} -num-cores=1")
    sketch = SearchSpace.of(task).sketches[0]
    for module in generate(task, 0, sketch.sample(np.random.default_rng(0), 1)[0]).modules:
        told = assembler.emit_object(module.text, task.target)
        machine = assembler._machine(task.target.mcpu, "", "").machine
        head = f'target triple = "{machine.triple}"\ntarget datalayout = "{machine.target_data}"\n'
        assert told == machine.emit_object(llvm().parse_assembly(head + module.text))


def test_families_of_features():
    family = cpus.promised("znver4", "x86_64")
    left = cpus.without(family, ["avx512f"])
    assert not [f for f in left if f.startswith("avx512")]
    assert cpus.roots(family - left) == ["avx512f"]
    assert cpus.usable(family - {"avx512bw"}) == cpus.without(family, ["avx512bw"])
    assert cpus.with_needs(["avx512bf16"]) >= {"avx512bw", "avx512f", "avx2", "fma", "sse2"}
    for needs in cpus._NEEDS.values():
        assert all(n in needs for names in needs.values() for n in names)


def test_options_take_features_with_their_families():
    """A dot product of bfloat16 stays no feature of a target without AVX-512."""
    narrow = CpuTarget("llvm -mcpu=znver4 -mattr=-avx512f")
    assert not [f for f in narrow.features if f.startswith("avx512")]
    assert (narrow.vector_bits, narrow.num_vector_registers) == (256, 16)
    assert "-avx512bf16" in narrow.llvm_features()
    wide = CpuTarget("llvm -mcpu=x86-64-v3 -mattr=+avx512bf16,+prefer-256-bit")
    assert wide.vector_bits == 512
    assert wide.llvm_features().endswith(",+prefer-256-bit")


class TestMaskedMachine:
    """A znver5 whose hypervisor hides AVX-512."""

    @pytest.fixture(autouse=True)
    def _masked(self, monkeypatch):
        have = cpus.without(cpus.promised("znver5", "x86_64"), ["avx512f"]) | {"aes", "cx16"}
        monkeypatch.setattr(cpus, "host_cpu", lambda: "znver5")
        monkeypatch.setattr(cpus, "host_features", lambda: have)

    def test_its_text_says_so(self):
        target = Target("llvm -num-cores=2")
        assert str(target) == "llvm -mcpu=znver5 -mattr=-avx512f -num-cores=2"
        assert Target(str(target)) == target
        assert str(target.with_cores(1)) == "llvm -mcpu=znver5 -mattr=-avx512f -num-cores=1"
        assert Target(f"{target} ") == target
        assert str(Target("llvm -mcpu=znver4 -num-cores=2")) == "llvm -mcpu=znver4 -num-cores=2"
        assert (target.vector_bits, target.num_vector_registers) == (256, 16)

    def test_the_bare_name_is_that_of_another_machine(self):
        """A record of an unmasked znver5 is not replayed as one of this machine."""
        other = Target("llvm -mcpu=znver5 -num-cores=2")
        assert str(other) == "llvm -mcpu=znver5 -num-cores=2"
        assert other != Target("llvm -num-cores=2")
        assert other.vector_bits == 512
        assert "avx512f" in other.missing_on_host()

    def test_options_of_the_user_stay_as_they_are_written(self):
        for given, kept in (
            ("-avx2", "-avx2"),
            ("+prefer-256-bit", "+prefer-256-bit,-avx512f"),
            ("-avx512f,-bmi2", "-avx512f,-bmi2"),
        ):
            target = Target(f"llvm -mattr={given} -num-cores=2")
            assert str(target) == f"llvm -mcpu=znver5 -mattr={kept} -num-cores=2"
            assert Target(str(target)) == target

    @pytest.mark.parametrize("tensors", [conv2d_relu(1, 9, 9, 8, 24), softmax(4, 40)])
    def test_its_code_uses_no_register_that_is_not_there(self, tensors):
        task = task_of(te.ComputeDAG(tensors), "llvm -mcpu=native")
        for sketch in SearchSpace.of(task).sketches:
            for row in sketch.sample(np.random.default_rng(0), 2):
                source = generate(task, sketch.id, row)
                text = "".join(
                    assembler.emit_assembly(m.text, task.target) for m in source.modules
                )
                assert not WIDE.search(text)

    def test_nor_do_registers_run_out_into_hidden_ones(self):
        """By the CPU's name alone, some of these kernels would use %ymm16 and more."""
        task = task_of(te.ComputeDAG(conv2d_relu(1, 9, 9, 8, 24)), "llvm -mcpu=native")
        by_name = assembler._machine("znver5", "", "").machine
        used = 0
        for row in SearchSpace.of(task).sketches[0].sample(np.random.default_rng(0), 12):
            for m in generate(task, 0, row).modules:
                used += bool(WIDE.search(by_name.emit_assembly(llvm().parse_assembly(m.text))))
                assert not WIDE.search(assembler.emit_assembly(m.text, task.target))
        assert used

    def test_its_code_is_told_apart(self):
        here, there = Target("llvm"), Target("llvm -mcpu=znver4")
        assert not [f for f in used_features(here) if f.startswith("avx512")]
        assert "avx512f" in there.missing_on_host()
        assert "avx512vl" in lacking_features(used_features(there))
        assert lacking_features(used_features(here)) == here.missing_on_host() == []


def test_one_feature_may_be_hidden(monkeypatch):
    have = cpus.promised("znver4", "x86_64") - {"avx512bf16", "avx512vnni", "gfni"}
    monkeypatch.setattr(cpus, "host_cpu", lambda: "znver4")
    monkeypatch.setattr(cpus, "host_features", lambda: have)
    text = "llvm -mcpu=znver4 -mattr=-avx512bf16,-avx512vnni,-gfni -num-cores=2"
    assert str(Target("llvm -num-cores=2")) == text


def test_half_a_family_is_not_used(monkeypatch):
    """AVX-512 is hidden, and something that needs it is not."""
    have = {f: True for f in cpus.promised("znver5", "x86_64") - {"avx512f"}}
    monkeypatch.setattr(cpus, "_host_map", lambda: have)
    cpus.host_features.cache_clear()
    try:
        found = cpus.host_features()
    finally:
        cpus.host_features.cache_clear()
    assert found == cpus.without(have, ["avx512f"])


@pytest.mark.parametrize("permitted", [True, False])
def test_tiles_are_there_where_the_system_permits_them(monkeypatch, permitted):
    have = dict.fromkeys(cpus.promised("sapphirerapids", "x86_64"), True)
    monkeypatch.setattr(cpus, "_host_map", lambda: have)
    monkeypatch.setattr(cpus, "tiles_permitted", lambda: permitted)
    cpus.host_features.cache_clear()
    try:
        found = cpus.host_features() & {"amx-tile", "amx-int8", "amx-bf16"}
    finally:
        cpus.host_features.cache_clear()
    assert bool(found) == permitted and len(found) in (0, 3)


def test_a_machine_that_llvm_cannot_ask(monkeypatch):
    monkeypatch.setattr(cpus, "_host_map", dict)
    monkeypatch.setattr(cpus, "host_cpu", lambda: "haswell")
    cpus.host_features.cache_clear()
    try:
        assert cpus.host_features() == cpus.promised("haswell", "x86_64")
    finally:
        cpus.host_features.cache_clear()


def test_more_than_the_name_promises_is_used_and_not_told(monkeypatch):
    have = cpus.promised("znver4", "x86_64") | {"avxvnni"}
    monkeypatch.setattr(cpus, "host_cpu", lambda: "znver4")
    monkeypatch.setattr(cpus, "host_features", lambda: have)
    target = CpuTarget("llvm -num-cores=2")
    assert str(target) == "llvm -mcpu=znver4 -num-cores=2"
    assert "+avxvnni" in target.llvm_features()


@pytest.mark.parametrize("text", ["llvm", "llvm -mcpu=znver4 -mattr=-avx512f -num-cores=3"])
def test_targets_travel(text):
    target = Target(text)
    again = pickle.loads(pickle.dumps(target))
    assert type(again) is type(target) is CpuTarget
    assert again == target
    assert hash(again) == hash(target)
    assert (str(again), again.features, again.platform) == (
        str(target), target.features, target.platform,
    )  # fmt: skip
    assert CpuTarget(text) == target
    assert target != target.with_cores(7)


def test_the_default_target():
    assert Target() == Target("llvm -mcpu=native") == CpuTarget()
    with pytest.raises(TargetError, match="unknown option '-cores'"):
        CpuTarget("llvm -cores=3")
