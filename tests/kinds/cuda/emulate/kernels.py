"""Kernels by hand, as generated text looks."""

from __future__ import annotations

MATMUL = """\
extern "C" __global__ void __launch_bounds__(64) matmul(TW_IN(float, a, 3072), TW_IN(float, b, 1536), TW_OUT(float, c, 2048)) {
  TW_BLOCK_STATIC(4096);
  TW_SHARED(float, a_s, 512, 0);
  TW_SHARED(float, b_s, 512, 2048);
  float acc[16];
  const int tid = (int)threadIdx.x, tm = tid / 8, tn = tid % 8, m0 = (int)blockIdx.x * 32;
  #pragma unroll
  for (int i = 0; i < 16; ++i) acc[i] = 0.0f;
  for (int k = 0; k < 48; k += 16) {
    __syncthreads();
    #pragma unroll
    for (int q = 0; q < 2; ++q) {
      const int f = q * 64 + tid, r = f / 4, s = f % 4 * 4;
      const float4 v = TW_LD4(a, (m0 + r) * 48 + k + s);
      TW_ST(a_s, s * 32 + r, v.x);
      TW_ST(a_s, (s + 1) * 32 + r, v.y);
      TW_ST(a_s, (s + 2) * 32 + r, v.z);
      TW_ST(a_s, (s + 3) * 32 + r, v.w);
      const float4 w = TW_LD4(b, k * 32 + f * 4);
      TW_ST4(b_s, f * 4, w.x, w.y, w.z, w.w);
    }
    __syncthreads();
    #pragma unroll
    for (int q = 0; q < 16; ++q) {
      const float4 x = TW_LD4(a_s, q * 32 + tm * 4), y = TW_LD4(b_s, q * 32 + tn * 4);
      const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
      #pragma unroll
      for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j) acc[i * 4 + j] += xs[i] * ys[j];
    }
  }
  #pragma unroll
  for (int i = 0; i < 4; ++i)
    TW_ST4(c, (m0 + tm * 4 + i) * 32 + tn * 4, acc[i * 4], acc[i * 4 + 1], acc[i * 4 + 2], acc[i * 4 + 3]);
}
"""  # noqa: E501
"""c (64 x 32) = a (64 x 48) b (48 x 32) by two blocks of 64 threads, 32 x 32 elements each."""

NORMALISE = """\
extern "C" __global__ void __launch_bounds__(128) normalise(TW_IN(float, a, 1024), TW_OUT(float, out, 1024)) {
  TW_BLOCK_STATIC(16);
  TW_SHARED(float, scratch, 4, 0);
  const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32;
  const float x = TW_LD(a, (int)blockIdx.x * 128 + tid);
  float most = x;
  for (int d = 16; d > 0; d /= 2) most = fmaxf(most, TW_SHFL_XOR(most, d));
  if (lane == 0) TW_ST(scratch, warp, most);
  __syncthreads();
  most = -TW_INF;
  for (int i = 0; i < 4; ++i) most = fmaxf(most, TW_LD(scratch, i));
  const float e = expf(x - most);
  float sum = e;
  for (int d = 16; d > 0; d /= 2) sum += TW_SHFL_XOR(sum, d);
  __syncthreads();
  if (lane == 0) TW_ST(scratch, warp, sum);
  __syncthreads();
  sum = 0.0f;
  for (int i = 0; i < 4; ++i) sum += TW_LD(scratch, i);
  TW_ST(out, (int)blockIdx.x * 128 + tid, e / sum);
}
"""  # noqa: E501
"""Softmax of 8 rows of 128: two combinations of four warps on one scratch buffer."""

EXCHANGE = """\
extern "C" __global__ void __launch_bounds__(64) exchange(TW_IN(float, a, 64), TW_OUT(float, out, 64)) {
  TW_BLOCK_STATIC(256);
  TW_SHARED(float, s, 64, 0);
  const int tid = (int)threadIdx.x;
  TW_ST(s, tid, TW_LD(a, tid));
  __syncwarp();
  const float x = TW_LD(s, tid ^ 31);
  __syncwarp();
  TW_ST(s, tid, x + 1.0f);
  __syncwarp();
  TW_ST(out, tid, TW_LD(s, tid ^ 1));
}
"""  # noqa: E501
"""Each warp exchanges elements through shared memory; only warp barriers are needed."""

IN_PLACE = """\
extern "C" __global__ void __launch_bounds__(64) in_place(TW_SAME(float, a, 256), TW_OUT(float, out, 256)) {
  const int i = (int)blockIdx.x * 64 + (int)threadIdx.x;
  const float x = TW_LD(a, i);
  TW_ST(out, i, x + TW_LD(a, i));
}
"""  # noqa: E501
"""out = 2 a, where out may lie on a."""

REUSE = """\
extern "C" __global__ void __launch_bounds__(64) reuse(TW_IN(float, a, 64), TW_OUT(float, out, 64)) {
  TW_BLOCK_STATIC(256);
  TW_SHARED(float, first, 64, 0);
  TW_SHARED(tw_f16, second, 64, 0);
  const int tid = (int)threadIdx.x;
  TW_ST(first, tid, TW_LD(a, tid));
  __syncthreads();
  const float x = TW_LD(first, 63 - tid);
  __syncthreads();
  TW_ST(second, tid, x);
  __syncthreads();
  TW_ST(out, tid, TW_LD(second, tid ^ 32) + 1.0f);
}
"""  # noqa: E501
"""Two buffers, one after the other, in the same shared memory."""


def product(name: str, element: str) -> str:
    """c (m x 16) = a (m x 64) b^T (16 x 64) on tensor cores, m = 40, by blocks of 32 rows.

    Args:
        element: ``tw_bf16``, ``tw_f16`` or ``float`` (tf32).
    """
    mma = {"tw_bf16": "TW_MMA_BF16", "tw_f16": "TW_MMA_F16", "float": "TW_MMA_TF32"}[element]
    each = 4 if element == "float" else 8  # elements of a chunk of 16 bytes
    deep = 2 * each  # of a step: two chunks of each row
    tile = 48 * deep  # elements of a stage: 32 rows of a, 16 of b
    rounded = "" if element != "float" else (
        "    for (int i = 0; i < 4; ++i) x[i] = TW_ROUND_TF32(x[i]), y[i] = TW_ROUND_TF32(y[i]);\n"
    )  # fmt: skip
    return f"""\
extern "C" __global__ void __launch_bounds__(64) {name}(TW_IN({element}, a, 2560), TW_IN({element}, b, 1024), TW_OUT(float, c, 640)) {{
  TW_BLOCK_DYNAMIC({3 * 48 * 32});
  TW_SHARED({element}, tile, {3 * tile}, 0);
  const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32, m0 = (int)blockIdx.x * 32;
  const int row = tid / 2, chunk = tid % 2 * {each};
  float acc[8];
  uint32_t x[4], y[4];
  for (int i = 0; i < 8; ++i) acc[i] = 0.0f;
  for (int k = -2; k < {64 // deep}; ++k) {{
    if (k >= 0) {{
      TW_CP_WAIT(1);
      __syncthreads();
    }}
    const int next = k + 2, at = next % 3 * {tile};
    if (next < {64 // deep}) {{
      const bool ok = m0 + row < 40;
      TW_CP_ASYNC16(tile, at + row * {deep} + chunk, a, ok ? (m0 + row) * 64 + next * {deep} + chunk : 0, ok);
      if (tid < 32) TW_CP_ASYNC16(tile, at + {32 * deep} + row * {deep} + chunk, b, row * 64 + next * {deep} + chunk, true);
    }}
    TW_CP_COMMIT();
    if (k < 0) continue;
    TW_LDMATRIX_X4(x, tile, k % 3 * {tile} + (warp * 16 + lane % 16) * {deep} + lane / 16 * {each});
    TW_LDMATRIX_X4(y, tile, k % 3 * {tile} + (32 + lane % 8 + lane / 16 * 8) * {deep} + lane / 8 % 2 * {each});
{rounded}    {mma}(&acc[0], x, &y[0]);
    {mma}(&acc[4], x, &y[2]);
  }}
  for (int j = 0; j < 2; ++j)
    for (int h = 0; h < 2; ++h) {{
      const int m = m0 + warp * 16 + h * 8 + lane / 4;
      if (m < 40) TW_ST2(c, m * 16 + j * 8 + lane % 4 * 2, acc[j * 4 + h * 2], acc[j * 4 + h * 2 + 1]);
    }}
}}
"""  # noqa: E501
