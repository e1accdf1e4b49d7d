"""A tiny network by hand: y = 2 (x + w), then z = y - x beside it; of kernels written here."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kinds.cuda.cuda_api import cubin
from tilework.kinds.cuda.images import code_piece, plan_piece
from tilework.kinds.cuda.launches import FORMAT, Launch, launches_to_json
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.image import Image, Ref, Step, Value

N = 1000
_HEAD = 'extern "C" __global__ void __launch_bounds__(64) '
ADD = (
    _HEAD
    + f"""twice_sum(TW_SAME(float, a, {N}), TW_IN(float, b, {N}), TW_TEMP(float, t, {N})) {{
  const int i = (int)(blockIdx.x * 64 + threadIdx.x);
  if (i < {N}) TW_ST(t, i, 2.0f * (TW_LD(a, i) + TW_LD(b, i)));
}}
"""
)
COPY = (
    _HEAD
    + f"""copy_on(TW_IN(float, t, {N}), TW_OUT(float, c, {N})) {{
  TW_BLOCK_DYNAMIC(50176);
  TW_SHARED(float, s, 64, 49920);
  const int i = (int)(blockIdx.x * 64 + threadIdx.x);
  if (i < {N}) TW_ST(s, (int)threadIdx.x, TW_LD(t, i));
  __syncthreads();
  if (i < {N}) TW_ST(c, i, TW_LD(s, (int)threadIdx.x));
}}
"""
)
MINUS = (
    _HEAD
    + f"""minus(TW_IN(float, a, {N}), TW_IN(float, b, {N}), TW_OUT(float, c, {N})) {{
  const int i = (int)(blockIdx.x * 64 + threadIdx.x);
  if (i < {N}) TW_ST(c, i, TW_LD(a, i) - TW_LD(b, i));
}}
"""
)
W = np.linspace(1, 2, N, dtype=np.float32)
X = np.random.default_rng(0).standard_normal(N, np.float32)
Y, Z = 2 * (X + W), 2 * (X + W) - X


def image(target: str, **changes: Any) -> Image:
    """The network for a target: text of kernels where it is emulated, cubins elsewhere."""
    run = "emulated" if "emulated" in target else "device"
    texts = {"twice_sum": ADD, "copy_on": COPY, "minus": MINUS}
    code = {
        code_piece(e, run): t.encode() if run == "emulated" else cubin(t) for e, t in texts.items()
    }
    blocks = -(-N // 64)
    first, last = ("argument", 0), ("argument", 2)
    code[plan_piece("sum")] = launches_to_json([
        Launch("twice_sum", blocks, 64, 0, (first, ("argument", 1), ("workspace", 256))),
        Launch("copy_on", blocks, 64, 50176, (("workspace", 256), last)),
    ])  # fmt: skip
    code[plan_piece("difference")] = launches_to_json(
        [Launch("minus", blocks, 64, 0, (first, ("argument", 1), last))]
    )
    size, constants = 4 * N, aligned_empty((4 * N,), "uint8")
    constants[:] = W.view(np.uint8)
    x, y, z = Ref("io", 0, size), Ref("io", 1, size), Ref("io", 2, size)
    w, t = Ref("constant", 0, size), Ref("arena", 64, size)
    fields = {
        "name": "tiny",
        "target": target,
        "platform": "cuda",
        "num_threads": 1,
        "cores": 1,
        "needs": (FORMAT, "sm_80"),
        "inputs": (Value("x", (N,), "float32", 0),),
        "outputs": (Value("y", (N,), "float32", 1), Value("z", (10, N // 10), "float32", 2)),
        "steps": (
            Step("sum", (x, w, t), "first", "add", 2.0 * N, 3 * size, size),
            Step("difference", (t, x, z), "second", "subtract", 1.0 * N, 3 * size),
            Step("sum", (x, w, y), "third", "add", 2.0 * N, 3 * size, size),
        ),
        "arena_bytes": 64 + size,
        "workspaces": ((256 + size, 0),),
        "constants": constants,
        "code": code,
        "report": (),
    }
    return Image(**{**fields, **changes})
