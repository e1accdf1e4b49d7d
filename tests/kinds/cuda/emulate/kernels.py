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
