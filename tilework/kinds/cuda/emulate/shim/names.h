// Names of CUDA C that kernels use, for a processor.

#ifndef TW_NAMES_H
#define TW_NAMES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "interface.h"

static tw_runtime* tw_rt;

#define threadIdx (tw_rt->thread)
#define blockIdx (tw_rt->block)
#define blockDim (tw_rt->threads)
#define gridDim (tw_rt->blocks)

#define __global__ __attribute__((noinline))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __syncthreads() tw_rt->barrier(__LINE__)
#define __syncwarp() tw_rt->together(__LINE__, TW_SYNC, nullptr)
#define __ldg(p) (*(p))
#define TW_DEVICE static inline __attribute__((always_inline))
#define TW_INF __builtin_inff()

// --- vectors -----------------------------------------------------------------------------------

template <class T>
struct tw_vector2 {
  T x, y;
};
template <class T>
struct tw_vector4 {
  T x, y, z, w;
};
typedef tw_vector2<float> float2;
typedef tw_vector4<float> float4;
typedef tw_vector2<int> int2;
typedef tw_vector4<int> int4;
TW_DEVICE float2 make_float2(float x, float y) { return {x, y}; }
TW_DEVICE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
TW_DEVICE int2 make_int2(int x, int y) { return {x, y}; }
TW_DEVICE int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
#define TW_ZERO2 make_float2(0.0f, 0.0f)
#define TW_ZERO4 make_float4(0.0f, 0.0f, 0.0f, 0.0f)

// --- numbers -----------------------------------------------------------------------------------

template <class To, class From>
TW_DEVICE To tw_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "reinterpreted with another size");
  To out;
  memcpy(&out, &x, sizeof out);
  return out;
}
TW_DEVICE float __int_as_float(int x) { return tw_bits<float>(x); }
TW_DEVICE float __uint_as_float(unsigned x) { return tw_bits<float>(x); }
// products that no addition is contracted with
TW_DEVICE float __fmul_rn(float a, float b) {
  float product = a * b;
  __asm__("" : "+m"(product));
  return product;
}
TW_DEVICE double __dmul_rn(double a, double b) {
  double product = a * b;
  __asm__("" : "+m"(product));
  return product;
}
TW_DEVICE int __float_as_int(float x) { return tw_bits<int>(x); }
TW_DEVICE unsigned __float_as_uint(float x) { return tw_bits<unsigned>(x); }
TW_DEVICE double __longlong_as_double(long long x) { return tw_bits<double>(x); }
TW_DEVICE long long __double_as_longlong(double x) { return tw_bits<long long>(x); }

// Maxima and minima of floats leave NaN out. The library's functions do, too, but are calls.
template <class T>
TW_DEVICE T tw_larger(T a, T b) {
  return b != b ? a : (a > b ? a : b);
}
template <class T>
TW_DEVICE T tw_smaller(T a, T b) {
  return b != b ? a : (a < b ? a : b);
}
TW_DEVICE float tw_fmaxf(float a, float b) { return tw_larger(a, b); }
TW_DEVICE float tw_fminf(float a, float b) { return tw_smaller(a, b); }
TW_DEVICE double tw_fmax(double a, double b) { return tw_larger(a, b); }
TW_DEVICE double tw_fmin(double a, double b) { return tw_smaller(a, b); }
#define fmaxf tw_fmaxf
#define fminf tw_fminf
#define fmax tw_fmax
#define fmin tw_fmin

#define TW_MAX_MIN(T)                                      \
  TW_DEVICE T max(T a, T b) { return tw_larger<T>(a, b); } \
  TW_DEVICE T min(T a, T b) { return tw_smaller<T>(a, b); }
TW_MAX_MIN(int)
TW_MAX_MIN(unsigned)
TW_MAX_MIN(long)
TW_MAX_MIN(unsigned long)
TW_MAX_MIN(long long)
TW_MAX_MIN(unsigned long long)
TW_MAX_MIN(float)
TW_MAX_MIN(double)

// Newer C libraries have functions of these names.
TW_DEVICE float tw_rsqrtf(float x) { return 1.0f / sqrtf(x); }
TW_DEVICE double tw_rsqrt(double x) { return 1.0 / sqrt(x); }
#define rsqrtf tw_rsqrtf
#define rsqrt tw_rsqrt
TW_DEVICE float __saturatef(float x) { return tw_fmaxf(0.0f, tw_fminf(x, 1.0f)); }
TW_DEVICE float __fdividef(float a, float b) { return a / b; }
#define __expf expf
#define __logf logf

// --- storage types -----------------------------------------------------------------------------

struct tw_bf16 {
  uint16_t bits;
};
struct tw_f16 {
  uint16_t bits;
};

TW_DEVICE float tw_float(tw_bf16 x) { return tw_bits<float>((uint32_t)x.bits << 16); }
TW_DEVICE tw_bf16 tw_to_bf16(float x) {
  const uint32_t bits = tw_bits<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {(uint16_t)(x == x ? rounded : (bits >> 16 | 0x40u))};
}

TW_DEVICE float tw_float(tw_f16 x) {
  const uint32_t sign = (uint32_t)(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00u) return tw_bits<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // An exponent 112 too small is mended by a product, which is exact for denormal numbers, too.
  return tw_bits<float>(sign | tw_bits<uint32_t>(tw_bits<float>(rest << 13) * 0x1p112f));
}
TW_DEVICE tw_f16 tw_to_f16(float x) {
  const uint32_t bits = tw_bits<uint32_t>(x), rest = bits & 0x7fffffffu;
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  if (rest > 0x7f800000u) return {(uint16_t)(sign | 0x7e00u)};
  if (rest >= 0x477ff000u) return {(uint16_t)(sign | 0x7c00u)};  // rounds to 65536 or more
  if (rest < 0x38800000u) {
    // Denormal: adding 0.5 leaves the ten lowest bits of the result, rounded by the addition.
    const float sum = tw_bits<float>(rest) + 0.5f;
    return {(uint16_t)(sign | (tw_bits<uint32_t>(sum) - 0x3f000000u))};
  }
  const uint32_t even = rest + 0xfffu + (rest >> 13 & 1u);
  return {(uint16_t)(sign | (even - 0x38000000u) >> 13)};
}

// Ties away from zero, as cvt.rna; infinities and NaN stay.
TW_DEVICE uint32_t tw_round_tf32(uint32_t bits) {
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}
TW_DEVICE uint32_t tw_round_tf32(float x) { return tw_round_tf32(tw_bits<uint32_t>(x)); }

// What a load of an element gives, and how a value becomes one.
TW_DEVICE float tw_value(tw_bf16 x) { return tw_float(x); }
TW_DEVICE float tw_value(tw_f16 x) { return tw_float(x); }
template <class T>
TW_DEVICE T tw_value(T x) {
  return x;
}
template <class T>
struct tw_element {
  template <class V>
  static inline T of(V value) {
    return (T)value;
  }
};
template <>
struct tw_element<tw_bf16> {
  static inline tw_bf16 of(float value) { return tw_to_bf16(value); }
};
template <>
struct tw_element<tw_f16> {
  static inline tw_f16 of(float value) { return tw_to_f16(value); }
};

#endif
