"""Kernels that each keep one part of a GPU busy, as CUDA C with the macros of `device.h`."""

from __future__ import annotations

THREADS = 256
CHAINS = 8
"""Independent multiply-adds of a thread: twice what hides the latency of one."""

EMPTY = """
extern "C" __global__ void __launch_bounds__(32) empty(TW_OUT(float, out, 32)) {
  if (blockIdx.x > 1000000) TW_ST(out, 0, 1.0f);
}
"""


def multiply_adds(steps: int, blocks: int) -> str:
    """``steps`` dependent multiply-adds in each of `CHAINS` chains of every thread.

    The first thread of each block also writes the cycles that its block took.
    """
    lines = "".join(f"    a{i} = a{i} * x + y;\n" for i in range(CHAINS))
    names = ", ".join(f"a{i} = x + {i}.0f" for i in range(CHAINS))
    total = " + ".join(f"a{i}" for i in range(CHAINS))
    return f"""
extern "C" __global__ void __launch_bounds__({THREADS}) multiply_adds(
    TW_IN(float, in, 2), TW_OUT(float, out, {blocks * THREADS}),
    TW_OUT(int64_t, cycles, {blocks})) {{
  const int tid = (int)threadIdx.x;
  const int block = (int)blockIdx.x;
  const float x = TW_LD(in, 0), y = TW_LD(in, 1);
  float {names};
#ifdef __CUDACC__
  const long long begin = clock64();
#else
  const long long begin = 0;
#endif
#pragma unroll 16
  for (int i = 0; i < {steps}; ++i) {{
{lines}  }}
#ifdef __CUDACC__
  const long long end = clock64();
#else
  const long long end = 1;
#endif
  TW_ST(out, block * {THREADS} + tid, {total});
  if (tid == 0) TW_ST(cycles, block, (int64_t)(end - begin));
}}
"""


def shared_reads(steps: int, blocks: int) -> str:
    """``steps`` reads of 16 bytes a thread from shared memory, without bank conflicts."""
    return f"""
extern "C" __global__ void __launch_bounds__({THREADS}) shared_reads(
    TW_IN(float, in, 2), TW_OUT(float, out, {blocks * THREADS})) {{
  TW_BLOCK_STATIC({THREADS * 32});
  TW_SHARED(float, tile, {THREADS * 8}, 0);
  const int tid = (int)threadIdx.x;
  const float x = TW_LD(in, 0);
  const int step = 4 + 4 * (int)TW_LD(in, 1);  // 4, which the compiler cannot know
  for (int i = 0; i < 8; ++i) TW_ST(tile, tid + i * {THREADS}, x + i);
  __syncthreads();
  float sum = 0.0f;
  int at = tid * 4;
#pragma unroll 16
  for (int i = 0; i < {steps}; ++i) {{
    const float4 v = TW_LD4(tile, at);
    sum += v.x + v.y + v.z + v.w;
    at = (at + step) & {THREADS * 8 - 1};
  }}
  TW_ST(out, (int)blockIdx.x * {THREADS} + tid, sum);
}}
"""


def reads(elements: int, turns: int, blocks: int) -> str:
    """Every block reads its part of an array ``turns`` times, 16 bytes a thread at a time.

    In each turn a block has another part, so that no first-level cache serves it.
    """
    return f"""
extern "C" __global__ void __launch_bounds__({THREADS}) reads(
    TW_IN(float, in, {elements}), TW_OUT(float, out, {blocks * THREADS})) {{
  const int tid = (int)threadIdx.x;
  float sum = 0.0f;
  for (int turn = 0; turn < {turns}; ++turn) {{
    const int part = ((int)blockIdx.x + turn * 7) % {blocks};
#pragma unroll 8
    for (int i = part * {THREADS} + tid; i < {elements // 4}; i += {blocks * THREADS}) {{
      const float4 v = TW_LD4(in, i * 4);
      sum += v.x + v.y + v.z + v.w;
    }}
  }}
  TW_ST(out, (int)blockIdx.x * {THREADS} + tid, sum);
}}
"""


def copies(elements: int, blocks: int) -> str:
    """Copies an array once, 16 bytes a thread at a time."""
    return f"""
extern "C" __global__ void __launch_bounds__({THREADS}) copies(
    TW_IN(float, in, {elements}), TW_OUT(float, out, {elements})) {{
  const int tid = (int)threadIdx.x;
#pragma unroll 4
  for (int i = (int)blockIdx.x * {THREADS} + tid; i < {elements // 4}; i += {blocks * THREADS}) {{
    const float4 v = TW_LD4(in, i * 4);
    TW_ST4(out, i * 4, v.x, v.y, v.z, v.w);
  }}
}}
"""
