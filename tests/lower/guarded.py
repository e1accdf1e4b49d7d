"""Buffers between inaccessible pages: an access one byte out of bounds kills the process.

Run as a program (``python -m tests.lower.guarded SEED EXAMPLES``): draws random computations and
runs their code on such buffers. A fault ends the process; the last line printed names the case.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np

from tests.lower.check import assert_close, random_inputs, reference, task_of
from tests.te.workloads import never_true
from tilework import te
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.lower.interpret import poisoned
from tilework.lower.kernel import Kernel
from tilework.space import SearchSpace

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory for ``nbytes`` that ends (or starts) exactly at an inaccessible page."""

    def __init__(self, nbytes: int, at_end: bool) -> None:
        pages = -(-max(nbytes, 1) // PAGE)
        self._map = mmap.mmap(-1, (pages + 2) * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for guard in (start, start + (pages + 1) * PAGE):
            if _libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.address = start + PAGE + (pages * PAGE - nbytes if at_end else 0)
        self.nbytes = nbytes

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        buffer = (ctypes.c_char * self.nbytes).from_address(self.address)
        return np.frombuffer(buffer, np.dtype(dtype)).reshape(shape)


def run_guarded(
    kernel: Kernel, inputs: list[np.ndarray], at_end: bool, threads: int
) -> list[np.ndarray]:
    """Outputs of a kernel whose arguments and workspace all lie between inaccessible pages."""
    keep, arrays = [], []
    for i, arg in enumerate(kernel.args):
        keep.append(Guarded(arg.nbytes, at_end))
        array = keep[-1].array(arg.shape, arg.dtype)
        if arg.role == "input":
            array[...] = arg.packing.apply(inputs[i]) if arg.packing else inputs[i]
        else:
            array[...] = poisoned(arg.shape, arg.dtype)
        arrays.append(array)
    workspace = Guarded(kernel.workspace_bytes(threads), at_end)
    pointers = (ctypes.c_void_p * len(keep))(*[g.address for g in keep])
    loaded = load_kernel(kernel)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)(loaded.address)
    run(ctypes.cast(pointers, ctypes.c_void_p), workspace.address, threads)
    return [a.copy() for a in arrays[len(inputs) :]]


def check_guarded(dag, seed: int, target: str) -> None:
    """Run one random schedule of a random sketch on guarded buffers."""
    rng = np.random.default_rng(seed)
    task = task_of(dag, target)
    sketches = SearchSpace.of(task).sketches
    sketch = sketches[int(rng.integers(len(sketches)))]
    inputs = random_inputs(dag, rng)
    want = reference(dag, inputs)
    for row in sketch.sample(rng, 1):
        sys.stdout.write(f"{dag}{target} sketch {sketch.id} row {row.tolist()}\n")
        sys.stdout.flush()
        kernel = build(task, sketch.id, row)
        for at_end in (True, False):
            for threads in (1, 2):
                got = run_guarded(kernel, inputs, at_end, threads)
                assert_close(got, want, "guarded", 2e-4)


def main(seed: int, examples: int) -> None:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as with_seed
    from hypothesis import strategies as st

    from tests.lower import computations as c
    from tests.lower.chains import separables

    families = st.one_of(
        c.convolutions(), c.depthwise_convolutions(), c.products(), c.pools(), c.reductions(),
        c.elementwise(), c.elementwise(), c.networks(), c.winograd_convolutions(), separables(),
    )  # fmt: skip
    targets = st.sampled_from(["llvm", "llvm -mcpu=core-avx2"])

    @with_seed(seed)
    @settings(
        max_examples=examples, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(families, st.integers(0, 2**31), targets)
    def every(dag, seed, target):
        check_guarded(dag, seed, target)

    for target in ("llvm", "llvm -mcpu=core-avx2"):
        check_guarded(te.ComputeDAG(never_true()), seed, target)
    every()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
