"""What a kernel takes by where the stack lies.

    python benchmarks/stack_depth.py [--target "llvm -mcpu=core-avx2 -num-cores=1"]

The draft's programs for three depthwise layers with silu, each called at 64 depths of the stack
within a page of 4 KiB: the least of some samples at each, in microseconds. Where registers that do
not fit are stored at the offset, within a page, of numbers that are read, loads wait for stores.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import time

from draft import Layer, calls_of

import tilework as tw
from tilework.kinds.cpu.jit import LinkedObjects
from tilework.kinds.cpu.kernel_call import BoundKernel
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.target import CpuTarget
from tilework.model.drafted import draft_schedule

_LAYERS = ((480, 14, 3, 1), (672, 14, 5, 1), (96, 112, 3, 2))
_PAGE, _STEP, _SAMPLES, _CALLS = 4096, 64, 12, 6
_DEEPER = """
define void @deeper(ptr %kernel, i64 %bytes, ptr %table, ptr %workspace, i32 %threads) {
  %space = alloca i8, i64 %bytes, align 16
  store volatile i8 0, ptr %space
  call void %kernel(ptr %table, ptr %workspace, i32 %threads)
  ret void
}
"""


def by_depth(call: BoundKernel, target: CpuTarget) -> list[float]:
    """Microseconds of a call at each depth."""
    objects = LinkedObjects(emit_object(_DEEPER, target))
    pointer = ctypes.c_void_p
    types = (pointer, ctypes.c_int64, pointer, pointer, ctypes.c_int32)
    deeper = ctypes.CFUNCTYPE(None, *types)(objects.address("deeper"))
    address = call._keep[0].address
    depths = range(16, 16 + _PAGE, _STEP)
    least = [math.inf] * len(depths)
    for _ in range(_SAMPLES):
        for i, depth in enumerate(depths):
            began = time.perf_counter()
            for _ in range(_CALLS):
                deeper(address, depth, call._args, call._workspace, call._threads)
            least[i] = min(least[i], (time.perf_counter() - began) / _CALLS)
    return [seconds * 1e6 for seconds in least]


def main() -> None:
    """Print a line for each layer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="llvm -mcpu=core-avx2 -num-cores=1")
    target = tw.Target(parser.parse_args().target)
    for shape in _LAYERS:
        layer = Layer(*shape, "silu")
        task = layer.task(target)
        choice = draft_schedule(task)
        (call,) = calls_of(task, [(choice.sketch_id, choice.row)])
        each = " ".join(f"{t:.0f}" for t in by_depth(call, CpuTarget.of(target)))
        print(f"{layer.name}: {each}", flush=True)


if __name__ == "__main__":
    main()
