"""Kernels: identity, arguments, threads, refusals."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.hosts import x86
from tests.lower.check import assert_close, random_inputs, reference, run_kernel, task_of
from tests.te.workloads import conv2d_relu, matmul, softmax
from tilework import ops, te
from tilework.compiler.single import compile_task
from tilework.errors import ModuleError, ScheduleError
from tilework.kinds.cpu import build as codegen_build
from tilework.kinds.cpu.build import build, generate
from tilework.kinds.cpu.decisions import UNROLL_LIMITS
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.kinds.cpu.llvm.lanes import Lane, pieces
from tilework.ops.activations import silu
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.space import SearchSpace

TASK = task_of(te.ComputeDAG(conv2d_relu(1, 9, 9, 8, 24)))
ROW = [1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 8, 3, 3, 4, 3, 32]  # fits the registers of any CPU
SKETCH = 1


@pytest.fixture(scope="module")
def kernel():
    return build(TASK, SKETCH, ROW)


def arguments(kernel) -> list[np.ndarray]:
    return [aligned_empty(a.shape, a.dtype) for a in kernel.args]


class TestIdentity:
    def test_equal_rows_give_equal_code(self, kernel):
        again = build(TASK, SKETCH, np.array(ROW, np.int32))
        assert again.code_hash == kernel.code_hash
        assert again.symbol == kernel.symbol == f"tw_{kernel.code_hash}"
        assert again.objects == kernel.objects
        assert again.objects[0][0] == kernel.symbol

    def test_names_do_not_matter(self):
        one = generate(task_of(te.ComputeDAG(matmul(8, 24, 8))), 0, [1] * 5 + [24, 8, 1, 0])
        other = te.ComputeDAG(matmul(8, 24, 8, names=("x", "y", "z", "q")))
        assert generate(task_of(other), 0, [1] * 5 + [24, 8, 1, 0]).code_hash == one.code_hash

    def test_other_rows_and_targets_give_other_code(self, kernel):
        row = list(ROW)
        row[-1] = max(UNROLL_LIMITS)
        assert build(TASK, SKETCH, row).code_hash != kernel.code_hash
        narrow = task_of(TASK.compute_dag, x86("core-avx2"))
        assert generate(narrow, 3, [1] * 11 + [8, 3, 3, 8, 0, 0]).code_hash != kernel.code_hash

    def test_the_number_of_cores_does_not_matter(self, kernel):
        other = task_of(TASK.compute_dag, "llvm -num-cores=64")
        assert build(other, SKETCH, ROW).code_hash == kernel.code_hash

    def test_kernels_travel(self, kernel):
        assert pickle.loads(pickle.dumps(kernel)) == kernel


class TestArguments:
    def test_what_a_kernel_says_about_them(self, kernel):
        assert [(a.name, a.role) for a in kernel.args] == [
            ("p0", "input"), ("p1", "input"), ("p2", "input"), ("T_relu", "output"),
        ]  # fmt: skip
        assert [a.packing is not None for a in kernel.args] == [False, True, False, False]
        packed = kernel.args[1]
        assert packed.shape == packed.packing.packed_shape
        assert packed.nbytes == 4 * 3 * 3 * 8 * 24
        assert kernel.workspace_bytes(3) == (kernel.shared_workspace + 3 * kernel.thread_workspace)
        assert kernel.thread_workspace % 64 == kernel.shared_workspace % 64 == 0

    def test_wrong_shape(self, kernel):
        arrays = arguments(kernel)
        arrays[0] = aligned_empty((1, 9, 9, 7), "float32")
        with pytest.raises(ModuleError, match=r"argument p0: expected float32\[1, 9, 9, 8\], got"):
            load_kernel(kernel).bind(arrays, None, 1)

    def test_weights_that_are_not_packed(self, kernel):
        arrays = arguments(kernel)
        arrays[1] = aligned_empty((3, 3, 8, 24), "float32")
        with pytest.raises(ModuleError, match="argument p1: expected"):
            load_kernel(kernel).bind(arrays, None, 1)

    def test_wrong_type(self, kernel):
        arrays = arguments(kernel)
        arrays[3] = aligned_empty(arrays[3].shape, "float64")
        with pytest.raises(ModuleError, match=r"argument T_relu: expected float32.*got float64"):
            load_kernel(kernel).bind(arrays, None, 1)

    def test_misaligned(self, kernel):
        arrays = arguments(kernel)
        raw = aligned_empty((arrays[0].size + 1,), "float32")
        arrays[0] = raw[1:].reshape(arrays[0].shape)
        with pytest.raises(ModuleError, match=r"contiguous and begin at a 64-byte bound"):
            load_kernel(kernel).bind(arrays, None, 1)

    def test_not_contiguous(self, kernel):
        arrays = arguments(kernel)
        wide = aligned_empty((1, 9, 9, 16), "float32")
        arrays[0] = wide[..., :8]
        with pytest.raises(ModuleError, match="must be contiguous"):
            load_kernel(kernel).bind(arrays, None, 1)

    def test_missing_argument_and_workspace(self, kernel):
        loaded = load_kernel(kernel)
        with pytest.raises(ValueError, match="argument 2 is longer"):
            loaded.bind(arguments(kernel)[:3], None, 1)
        need = kernel.workspace_bytes(2)
        assert need
        with pytest.raises(ModuleError, match=f"needs {need} bytes of workspace"):
            loaded.bind(arguments(kernel), aligned_empty((need - 1,), "uint8"), 2)

    def test_unknown_function(self, kernel):
        with pytest.raises(ModuleError, match="has no function nothing"):
            load_kernel(kernel)._code.address("nothing")


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (7, 1, 9)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_aligned_arrays(shape, dtype):
    array = aligned_empty(shape, dtype)
    assert array.shape == shape
    assert array.dtype == np.dtype(dtype)
    assert array.ctypes.data % 64 == 0
    copy = aligned_copy(np.ones(shape, dtype)[::-1] if shape else np.ones(shape, dtype))
    assert copy.flags.c_contiguous
    assert copy.ctypes.data % 64 == 0


@pytest.mark.parametrize("threads", [1, 2, 5, 16])
@pytest.mark.parametrize("sketch_id", range(4))
def test_more_threads_than_parallel_iterations(sketch_id, threads):
    """Idle threads do nothing; uneven chunks cover everything."""
    rng = np.random.default_rng(sketch_id)
    inputs = random_inputs(TASK.compute_dag, rng)
    want = reference(TASK.compute_dag, inputs)
    sketch = SearchSpace.of(TASK).sketch(sketch_id)
    for row in sketch.sample(rng, 2):
        got = run_kernel(build(TASK, sketch_id, row), inputs, threads, again=2)
        assert_close(got, want, f"{threads} threads", 2e-5)


def test_one_thread_asks_for_no_team():
    """With one thread, and without parallel loops, the runtime of threads is not entered."""
    text = generate(TASK, SKETCH, ROW).text
    assert len(re.findall(r"call void @tw_parallel", text)) == 1
    assert "icmp sle i32 %threads, 1" in text
    serial = list(ROW)
    serial[-2] = 0
    assert "call void @tw_parallel" not in generate(TASK, SKETCH, serial).text


def region_assembly(source, task) -> str:
    return "".join(emit_assembly(m.text, task.target) for m in source.modules[1:])


def test_multiply_adds_fuse_where_the_target_can():
    dag = te.ComputeDAG(matmul(8, 64, 32))
    for cpu, fused in (("core-avx2", True), ("x86-64-v4", True), ("x86-64", False)):
        task = task_of(dag, x86(cpu))
        source = generate(task, 0, [1, 1, 4, 1, 1, task.target.lanes(), 32, 0, 0])
        assembly = region_assembly(source, task)
        assert ("vfmadd" in assembly) is fused
        assert not re.search(r"call\w*\s+fma", assembly), "multiply-adds became library calls"


def test_accumulators_stay_in_registers():
    """The innermost loop of a matrix product stores nothing."""
    task = task_of(te.ComputeDAG(matmul(64, 64, 64, free=True)), x86("x86-64-v4"))
    source = generate(task, 1, [1, 1, 8, 1, 1, 32, 64, 0, 0])
    assembly = region_assembly(source, task)
    assert len(re.findall(r"vmovups\s+%zmm\d+, ", assembly)) == 16  # the register tile, once
    assert not re.search(r"vmovups\s+%zmm\d+, -?\d*\(%rsp\)", assembly), "a spill"


def test_steps_written_out_keep_a_full_tile_in_registers():
    """28 accumulators leave room for the two vectors of one step, not for those of two."""
    task = task_of(te.ComputeDAG(matmul(28, 64, 64, free=True)), x86("x86-64-v4"))
    source = generate(task, 1, [1, 1, 14, 1, 1, 32, 64, 0, 64])
    assembly = region_assembly(source, task)
    assert assembly.count("vfmadd") == 2 * 28
    assert not re.search(r"zmm\d+, -?\d*\(%rsp\)|\(%rsp\).*zmm", assembly), "a spill"


class TestRefusals:
    def test_functions_of_a_type_without_them(self):
        task = task_of(te.ComputeDAG(softmax(4, 8)))
        with pytest.raises(ScheduleError, match="takes 14 decisions"):
            build(task, 0, [1, 2])


def test_ends_of_vector_loops_are_masked_where_that_saves_vectors():
    assert pieces(29, 16, masked=True) == (Lane(0, 16, 16), Lane(16, 16, 13))
    assert pieces(19, 16, masked=True) == (Lane(0, 16, 16), Lane(16, 4, 3))
    assert pieces(24, 16, masked=True) == (Lane(0, 16, 16), Lane(16, 8, 8))
    assert pieces(13, 8, masked=False) == (Lane(0, 8, 8), Lane(8, 4, 4), Lane(12, 1, 1))
    row = [1, 1, 4, 1, 1, 13, 32, 0, 0]
    for cpu, masked in (("x86-64-v4", True), ("core-avx2", False)):
        task = task_of(te.ComputeDAG(matmul(8, 13, 32)), x86(cpu))
        assert ("llvm.masked.store" in generate(task, 0, row).text) is masked


def test_window_sums_read_each_element_once():
    """An expanded 3x3 depthwise tile of 2 x 4 pixels reads 4 x 6 vectors, and its 9 weights."""
    data, weight = te.placeholder((1, 6, 10, 16), "x"), te.placeholder((3, 3, 1, 16), "w")
    out = ops.depthwise_conv(data, weight, (1, 1), (0,) * 4, (1, 1), layout_free=True)
    task = task_of(te.ComputeDAG([data, weight, out]), x86("x86-64-v4"))
    sketch = next(s for s in SearchSpace.of(task).sketches if "inline pad_temp" in s.name)
    row = [1, 1, 1, 1, 1, 2, 1, 1, 4, 1, 1, 16, 3, 3, 0, 192]
    assert sketch.valid(np.array([row], np.int32))[0]
    source = generate(task, sketch.id, row)
    assert len(re.findall(r"= load <16 x float>", source.text)) == 4 * 6 + 9
    assembly = region_assembly(source, task)
    assert not re.search(r"vmovups\s+%zmm\d+, -?\d*\(%rsp\)", assembly), "a spill"


def test_vectors_that_end_in_math_are_finished_one_by_one():
    """Beside seven sums, 16 registers leave enough for the sigmoid of one vector."""
    data, weight = te.placeholder((1, 3, 23, 16), "x"), te.placeholder((3, 3, 1, 16), "w")
    out = ops.depthwise_conv(data, weight, (1, 1), (0,) * 4, (1, 1), layout_free=True)
    last = te.compute(out.shape, lambda *i: silu(out[i]), name="last")
    task = task_of(te.ComputeDAG([data, weight, last]), x86("core-avx2"))
    source = generate(task, 0, [1, 1, 1, 1, 1, 1, 3, 1, 7, 1, 2, 8, 3, 3, 0, 32])
    assembly = region_assembly(source, task)
    assert assembly.count("vdivps") == 7
    assert not re.search(r"ymm\d+, -?\d*\(%rsp\)|\(%rsp\).*ymm", assembly), "a spill"


def test_predicates_of_the_vector_loop_are_vectors() -> None:
    """A comparison with the loop's variable costs no code per lane."""

    def triangle(n: int) -> list[te.Tensor]:
        x = te.placeholder((n, n), "x")
        kept = te.compute((n, n), lambda i, j: te.select(j < i + 2, x[i, j], 0.0), name="kept")
        return [x, kept]

    x = np.random.default_rng(0).standard_normal((37, 37)).astype(np.float32)
    np.testing.assert_array_equal(
        compile_task(task_of(te.ComputeDAG(triangle(37))))(x)[-1], np.tril(x, 1)
    )


def test_threads_build_at_once():
    """Kernels made in several threads, through caches that all of them fill and empty."""
    space = SearchSpace.of(TASK)
    rows = [(s.id, row) for s in space.sketches for row in s.sample(np.random.default_rng(3), 3)]
    alone = [build(TASK, i, row) for i, row in rows]
    codegen_build._OBJECTS.clear()
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda one: build(TASK, *one), rows * 4))
    assert together == alone * 4
