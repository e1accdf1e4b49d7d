"""Bugs planted in kernels that are right: each is named with its line, or gives a wrong number."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest

from tests.kinds.cuda.emulate.arrays import aligned, pointers
from tests.kinds.cuda.emulate.kernels import EXCHANGE, IN_PLACE, MATMUL, NORMALISE, REUSE, product
from tilework.kinds.cuda.emulate.compile import compile_text
from tilework.kinds.cuda.emulate.run import Emulated, EmulationError

PRODUCT = product("product", "tw_bf16")
KERNELS = {
    "matmul": MATMUL, "normalise": NORMALISE, "exchange": EXCHANGE, "in_place": IN_PLACE,
    "product": PRODUCT, "reuse": REUSE,
}  # fmt: skip

BARRIER = "    __syncthreads();\n"


@dataclass(frozen=True)
class Bug:
    """What is replaced in a kernel, and what is said then.

    Attributes:
        said: part of a report; None where only the numbers are wrong.
        line: part of the text's line that is named.
    """

    kernel: str
    old: str
    new: str
    said: str | None
    line: str = ""

    def text(self, name):
        text = KERNELS[self.kernel]
        assert self.old in text
        return text.replace(self.old, self.new, 1).replace(f" {self.kernel}(", f" {name}(")


BUGS = {
    "missing barrier before a tile is overwritten": Bug(
        "matmul", BARRIER, "", "race", "_s, "
    ),
    "missing barrier before a tile is read": Bug(
        "matmul", BARRIER + "    #pragma unroll\n    for (int q = 0; q < 16",
        "    for (int q = 0; q < 16", "read after another thread's write", "TW_LD4(a_s",
    ),
    "read before it is fetched": Bug(
        "matmul", "q < 2; ++q", "q < 1; ++q", "is read before it is written", "TW_LD4(a_s"
    ),
    "global read outside": Bug(
        "matmul", "b, k * 32 + f * 4", "b, k * 32 + f * 4 + 4", "b[1536] is read outside",
        "TW_LD4(b,",
    ),
    "global read before the first element": Bug(
        "matmul", "a, (m0 + r) * 48 + k + s", "a, (m0 + r - 1) * 48 + k + s",
        "a[-48] is read outside", "TW_LD4(a,",
    ),
    "shared write outside": Bug(
        "matmul", "(s + 3) * 32 + r", "(s + 4) * 32 + r", "is written outside", "(s + 4)"
    ),
    "shared read outside": Bug(
        "matmul", "b_s, q * 32 + tn * 4", "b_s, q * 32 + tn * 4 + 32",
        "b_s[512] is read outside", "TW_LD4(b_s",
    ),
    "barrier in a branch that some take": Bug(
        "matmul", BARRIER, "    if (tid < 40) __syncthreads();\n", "diverges", "__syncthreads"
    ),
    "two barriers for one": Bug(
        "matmul", BARRIER,
        "    if (tid < 32)\n      __syncthreads();\n    else\n      __syncthreads();\n",
        "waits at the barrier of line", "__syncthreads",
    ),
    "early return before a barrier": Bug(
        "matmul", "  #pragma unroll\n  for (int i", "  if (tid == 63) return;\n  for (int i",
        "thread 63 has ended", "__syncthreads",
    ),
    "two threads write one cell": Bug(
        "matmul", "s * 32 + r,", "s * 32 + r / 2,", "written by two threads", "r / 2"
    ),
    "accumulator not initialised": Bug(
        "matmul", "for (int i = 0; i < 16; ++i) acc", "for (int i = 0; i < 15; ++i) acc", None
    ),
    "a sum that ends early": Bug("matmul", "k < 48", "k < 32", None),
    "unaligned vector": Bug(
        "matmul", "a_s, q * 32 + tm * 4)", "a_s, q * 32 + tm * 4 - (tm > 6))", "not aligned",
        "TW_LD4(a_s",
    ),
    "output written twice": Bug(
        "matmul", "c, (m0 + tm", "c, (tm", "is written twice", "TW_ST4(c"
    ),
    "output written outside": Bug(
        "matmul", "c, (m0 + tm", "c, (m0 + 4 + tm", "c[2048] is written outside", "TW_ST4(c"
    ),
    "output read": Bug(
        "matmul", "acc[i * 4], ", "acc[i * 4] + 0.0f * TW_LD(c, m0), ", "must not be read",
        "TW_LD(c",
    ),
    "array of a thread too short": Bug(
        "matmul", "float acc[16]", "float acc[15]", "a thread's array[15]", "acc["
    ),
    "scratch of two combinations used again without a barrier": Bug(
        "normalise", "  __syncthreads();\n  if", "  if", "written after another thread's read",
        "TW_ST(scratch, warp, sum)",
    ),
    "combination read without a barrier": Bug(
        "normalise", "  __syncthreads();\n  sum", "  sum", "read after another thread's write",
        "TW_LD(scratch, i)",
    ),
    "shuffle in a branch that some lanes take": Bug(
        "normalise", "sum += TW_SHFL_XOR", "if (lane < 16) sum += TW_SHFL_XOR",
        "a warp diverges", "TW_SHFL_XOR(sum",
    ),
    "shuffle too far": Bug("normalise", "int d = 16; d > 0", "int d = 32; d > 0", "asks lane 32"),
    "missing warp barrier before a read": Bug(
        "exchange", "  __syncwarp();\n  const", "  const", "read after another thread's write",
        "TW_LD(s, tid ^ 31)",
    ),
    "missing warp barrier before a write": Bug(
        "exchange", "  __syncwarp();\n  TW_ST(s", "  TW_ST(s",
        "written after another thread's read", "TW_ST(s, tid, x",
    ),
    "warp barrier where the block's is needed": Bug(
        "exchange", "tid ^ 1)", "tid ^ 33)", "read after another thread's write", "tid ^ 33"
    ),
    "memory read for the buffer that was there before": Bug(
        "reuse", "  TW_ST(second", "  if (tid < 32) TW_ST(second",
        "another buffer was written in its place", "TW_LD(second",
    ),
    "memory given away without a barrier": Bug(
        "reuse", "  __syncthreads();\n  TW_ST(second", "  TW_ST(second",
        "written after another thread's read", "TW_ST(second",
    ),
    "input read after it was overwritten": Bug(
        "in_place", "TW_LD(a, i))", "TW_LD(a, i ? i - 1 : 0))", "has overwritten it", "i ? i - 1"
    ),
    "input overwritten while another block may read it": Bug(
        "in_place", "TW_LD(a, i))", "TW_LD(a, i < 192 ? i + 64 : i))",
        "overwrites an input that another thread reads", "i < 192",
    ),
    "one copy waited for too few": Bug(
        "product", "TW_CP_WAIT(1)", "TW_CP_WAIT(2)", "while a copy to it is under way",
        "TW_LDMATRIX_X4(x",
    ),
    "copies of other threads not waited for": Bug(
        "product", "      __syncthreads();\n", "", "race", "TW_LDMATRIX_X4"
    ),
    "stages too few": Bug(
        "product", "next % 3", "next % 2", "copy", ""
    ),
    "copy from outside": Bug(
        "product", "m0 + row < 40", "m0 + row < 41", "a[2560] is read outside", "TW_CP_ASYNC16"
    ),
    "copy to an odd place": Bug(
        "product", "at + row * 16 + chunk", "at + row * 16 + chunk + 4", "not aligned",
        "TW_CP_ASYNC16",
    ),
    "matrix row at an odd place": Bug(
        "product", "lane / 16 * 8);", "lane / 16 * 8 + 2);", "not aligned", "TW_LDMATRIX_X4"
    ),
    "tensor core in a branch that some lanes take": Bug(
        "product", "    TW_MMA_BF16(&acc[4]", "    if (lane < 31) TW_MMA_BF16(&acc[4]",
        "a warp diverges", "",
    ),
    "assumption that does not hold": Bug(
        "matmul", BARRIER, "    TW_ASSUME(tid < 63);\n" + BARRIER, "tid < 63 does not hold",
        "TW_ASSUME",
    ),
    "more shared memory than the launch gives": Bug(
        "product", "TW_BLOCK_DYNAMIC(4608)", "TW_BLOCK_DYNAMIC(8192)", "8192 bytes of shared"
    ),
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("needs_compiler")


def names():
    return {bug: f"bug_{i}" for i, bug in enumerate(BUGS)}


@pytest.fixture(scope="module")
def checked():
    """All kernels in one library."""
    entries = [(name, BUGS[bug].text(name)) for bug, name in names().items()]
    return Emulated(compile_text([*KERNELS.items(), *entries], checked=True))


def launch(library, kernel, name):
    """Run a kernel, or one that was made of it; whether the numbers are right."""
    rng = np.random.default_rng(0)
    if kernel == "in_place":
        x = aligned((256,), fill=1.0)
        library.launch(name, 4, 64, 0, pointers(x, x))
        return bool((x == 2).all())
    if kernel in ("exchange", "reuse"):
        x, out = aligned((64,), fill=1.0), aligned((64,), fill=np.nan)
        library.launch(name, 1, 64, 0, pointers(x, out))
        return bool((out == 2).all())
    if kernel == "normalise":
        x, out = aligned((8, 128), fill=1.0), aligned((8, 128), fill=np.nan)
        library.launch(name, 8, 128, 0, pointers(x, out))
        return np.allclose(out, 1 / 128)
    if kernel == "product":
        # bits of the float 1, cut off, are those of bfloat16
        a, b = aligned((40, 64), np.uint16, 0x3F80), aligned((16, 64), np.uint16, 0x3F80)
        out = aligned((40, 16), fill=np.nan)
        library.launch(name, 2, 64, 4608, pointers(a, b, out))
        return bool((out == 64).all())
    a, b = aligned((64, 48)), aligned((48, 32))
    a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    out = aligned((64, 32), fill=np.nan)
    library.launch(name, 2, 64, 0, pointers(a, b, out))
    return np.allclose(out, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_right_is_not_reported(checked, kernel):
    assert launch(checked, kernel, kernel)


@pytest.mark.parametrize("bug", BUGS)
def test_what_is_wrong_is_found(checked, bug):
    planted, name = BUGS[bug], names()[bug]
    if planted.said is None:
        assert not launch(checked, planted.kernel, name)
        return
    with pytest.raises(EmulationError) as error:
        launch(checked, planted.kernel, name)
    found = next((p for p in error.value.problems if planted.said in p), None)
    assert found is not None, error.value.problems
    assert str(error.value).startswith(f"kernel {name}: ")
    if planted.line:
        number = int(re.match(r"line (\d+)", found)[1])
        assert planted.line in planted.text(name).splitlines()[number - 1], found


def test_arguments_that_lie_on_each_other(checked):
    x, y = aligned((64 * 48,)), aligned((48, 32))
    with pytest.raises(EmulationError, match="argument 2, which is written, lies on argument 0"):
        checked.launch("matmul", 2, 64, 0, [*pointers(x, y), x.ctypes.data])


def test_addresses_that_elements_or_vectors_cannot_have(checked):
    x, y, out = aligned((257,), fill=1.0), aligned((49 * 64,), fill=1.0), aligned((64, 32))
    with pytest.raises(EmulationError, match="argument 0 is not at a multiple of its elements' 4"):
        checked.launch("in_place", 4, 64, 0, [x.ctypes.data + 2, x.ctypes.data])
    x = x[1:]
    checked.launch("in_place", 4, 64, 0, pointers(x, x))  # an array may begin anywhere
    assert (x == 2).all()
    with pytest.raises(EmulationError, match=r"line 14: a\[0\] is the start of a vector and not"):
        checked.launch("matmul", 2, 64, 0, pointers(y[1:], y, out))


def test_launches_that_no_device_takes(checked):
    with pytest.raises(EmulationError, match="1 to 1024 threads, not 2048"):
        checked.launch("in_place", 1, 2048, 0, [0, 0])
    with pytest.raises(EmulationError, match="has 2 arguments, the launch gives 1"):
        checked.launch("in_place", 1, 64, 0, [0])


def test_divergence_is_found_without_checks():
    bugs = [bug for bug in BUGS if BUGS[bug].said and "diverges" in BUGS[bug].said]
    library = Emulated(
        compile_text([(names()[bug], BUGS[bug].text(names()[bug])) for bug in bugs])
    )
    for bug in bugs:
        with pytest.raises(EmulationError, match="diverges"):
            launch(library, BUGS[bug].kernel, names()[bug])
