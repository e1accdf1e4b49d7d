// The names that generated kernels are written in. One text has three meanings:
//
//   __CUDACC__ defined       CUDA C for a GPU: each name is what its definition below says
//   otherwise                C++ for the processor: emulate/shim, which runs threads as fibres
//   ... with TW_CHECKED      the same, and every access to memory is checked
//
// A kernel reads:
//
//   extern "C" __global__ void __launch_bounds__(256) NAME(TW_IN(float, a, 100), TW_OUT(float, b, 50)) {
//     TW_BLOCK_STATIC(512);
//     TW_SHARED(float, a_s, 128, 0);
//     ...
//     TW_ST(a_s, i, TW_LD(a, j));
//     __syncthreads();
//   }
//
// Types of elements: float, double, int8_t to int64_t, uint8_t to uint64_t, bool, and the storage
// types tw_bf16 and tw_f16, whose loads give float and whose stores round float to the nearest
// number, ties to even. Sizes are in elements, offsets in bytes.

#ifndef TW_DEVICE_H
#define TW_DEVICE_H

#ifdef __CUDACC__

#ifdef __CUDACC_RTC__  // it has no headers
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

#define TW_DEVICE static __device__ __forceinline__
#define TW_INF __int_as_float(0x7f800000)

// --- arguments and shared memory ---------------------------------------------------------------

// An input; one that an output may overwrite in place; an output; a buffer for a later kernel.
#define TW_IN(T, name, size) const T* __restrict__ name
#define TW_SAME(T, name, size) const T* name
#define TW_OUT(T, name, size) T* name
#define TW_TEMP(T, name, size) T* name

// The shared memory of a block: up to 48 KiB static, more only as the launch says.
#define TW_BLOCK_STATIC(bytes)                             \
  __shared__ __align__(128) unsigned char tw_block[bytes]; \
  constexpr int tw_block_bytes = bytes
#define TW_BLOCK_DYNAMIC(bytes)                               \
  extern __shared__ __align__(128) unsigned char tw_block[]; \
  constexpr int tw_block_bytes = bytes
// A part of it. Parts may lie on each other where they are used one after another.
#define TW_SHARED(T, name, size, offset)                                             \
  static_assert((offset) % 16 == 0 && (offset) + (size) * sizeof(T) <= tw_block_bytes, \
                #name " does not lie within the block's memory");                      \
  T* const name = (T*)(tw_block + (offset))

// What the compiler may rely on and cannot see, such as how large a thread's number can be.
#define TW_ASSUME(condition) __builtin_assume(condition)

// --- storage types -----------------------------------------------------------------------------

struct tw_bf16 {
  unsigned short bits;
};
struct tw_f16 {
  unsigned short bits;
};

TW_DEVICE float tw_float(tw_bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
TW_DEVICE float tw_float(tw_f16 x) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x.bits));
  return out;
}
TW_DEVICE tw_bf16 tw_to_bf16(float x) {
  tw_bf16 out;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
#else
  const unsigned bits = __float_as_uint(x);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  out.bits = (unsigned short)(x == x ? rounded : (bits >> 16 | 0x40u));
#endif
  return out;
}
TW_DEVICE tw_f16 tw_to_f16(float x) {
  tw_f16 out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
}

// --- accesses ----------------------------------------------------------------------------------

template <class T>
TW_DEVICE T tw_load(const T* p) {
  return *p;
}
TW_DEVICE float tw_load(const tw_bf16* p) { return tw_float(*p); }
TW_DEVICE float tw_load(const tw_f16* p) { return tw_float(*p); }

template <class T, class V>
TW_DEVICE void tw_store(T* p, V value) {
  *p = (T)value;
}
TW_DEVICE void tw_store(tw_bf16* p, float value) { *p = tw_to_bf16(value); }
TW_DEVICE void tw_store(tw_f16* p, float value) { *p = tw_to_f16(value); }

#define TW_LD(buffer, i) tw_load((buffer) + (i))
#define TW_ST(buffer, i, value) tw_store((buffer) + (i), value)

// Vectors: float, tw_bf16 and tw_f16 give float2 and float4, int32_t gives int2 and int4. The
// first index is a multiple of the vector's length.
TW_DEVICE float2 tw_load2(const float* p) { return *(const float2*)p; }
TW_DEVICE float4 tw_load4(const float* p) { return *(const float4*)p; }
TW_DEVICE int2 tw_load2(const int32_t* p) { return *(const int2*)p; }
TW_DEVICE int4 tw_load4(const int32_t* p) { return *(const int4*)p; }
TW_DEVICE void tw_store2(float* p, float x, float y) { *(float2*)p = make_float2(x, y); }
TW_DEVICE void tw_store4(float* p, float x, float y, float z, float w) {
  *(float4*)p = make_float4(x, y, z, w);
}
TW_DEVICE void tw_store2(int32_t* p, int x, int y) { *(int2*)p = make_int2(x, y); }
TW_DEVICE void tw_store4(int32_t* p, int x, int y, int z, int w) {
  *(int4*)p = make_int4(x, y, z, w);
}

template <class T>
struct __align__(4) tw_pair {
  T x, y;
};
template <class T>
struct __align__(8) tw_quad {
  T x, y, z, w;
};
#define TW_NARROW_VECTORS(T, round)                                                  \
  TW_DEVICE float2 tw_load2(const T* p) {                                            \
    const tw_pair<T> v = *(const tw_pair<T>*)p;                                      \
    return make_float2(tw_float(v.x), tw_float(v.y));                                \
  }                                                                                  \
  TW_DEVICE float4 tw_load4(const T* p) {                                            \
    const tw_quad<T> v = *(const tw_quad<T>*)p;                                      \
    return make_float4(tw_float(v.x), tw_float(v.y), tw_float(v.z), tw_float(v.w));  \
  }                                                                                  \
  TW_DEVICE void tw_store2(T* p, float x, float y) {                                 \
    *(tw_pair<T>*)p = tw_pair<T>{round(x), round(y)};                                \
  }                                                                                  \
  TW_DEVICE void tw_store4(T* p, float x, float y, float z, float w) {               \
    *(tw_quad<T>*)p = tw_quad<T>{round(x), round(y), round(z), round(w)};            \
  }
TW_NARROW_VECTORS(tw_bf16, tw_to_bf16)
TW_NARROW_VECTORS(tw_f16, tw_to_f16)

#define TW_LD2(buffer, i) tw_load2((buffer) + (i))
#define TW_LD4(buffer, i) tw_load4((buffer) + (i))
#define TW_ST2(buffer, i, x, y) tw_store2((buffer) + (i), x, y)
#define TW_ST4(buffer, i, x, y, z, w) tw_store4((buffer) + (i), x, y, z, w)
#define TW_ZERO2 make_float2(0.0f, 0.0f)
#define TW_ZERO4 make_float4(0.0f, 0.0f, 0.0f, 0.0f)

// --- warps -------------------------------------------------------------------------------------

#define TW_SHFL_XOR(value, distance) __shfl_xor_sync(0xffffffffu, value, distance)

// --- copies from global to shared memory past the registers (sm_80) ----------------------------

TW_DEVICE unsigned tw_shared_address(const void* p) {
  return (unsigned)__cvta_generic_to_shared(p);
}
// The 16 byte form goes past L1. What is not ok becomes zeros, and nothing is read.
TW_DEVICE void tw_copy16(void* to, const void* from, bool ok) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(tw_shared_address(to)),
               "l"(from), "r"(ok ? 16 : 0)
               : "memory");
}
template <int bytes>
TW_DEVICE void tw_copy(void* to, const void* from, bool ok) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(tw_shared_address(to)),
               "l"(from), "n"(bytes), "r"(ok ? bytes : 0)
               : "memory");
}
#define TW_CP_ASYNC4(to, ti, from, fi, ok) tw_copy<4>((to) + (ti), (from) + (fi), ok)
#define TW_CP_ASYNC8(to, ti, from, fi, ok) tw_copy<8>((to) + (ti), (from) + (fi), ok)
#define TW_CP_ASYNC16(to, ti, from, fi, ok) tw_copy16((to) + (ti), (from) + (fi), ok)
#define TW_CP_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define TW_CP_WAIT(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")

// --- tensor cores: registers are uint32_t, accumulators float ----------------------------------

// Four 8x8 matrices of 16-bit elements; lane l names row l % 8 of matrix l / 8.
TW_DEVICE void tw_ldmatrix_x4(uint32_t* r, const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(tw_shared_address(p))
               : "memory");
}
TW_DEVICE void tw_ldmatrix_x4_trans(uint32_t* r, const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(tw_shared_address(p))
               : "memory");
}
#define TW_LDMATRIX_X4(registers, buffer, i) tw_ldmatrix_x4(registers, (buffer) + (i))
#define TW_LDMATRIX_X4_TRANS(registers, buffer, i) tw_ldmatrix_x4_trans(registers, (buffer) + (i))

// c[4] += a[4] * b[2], for one of the three shapes
#define TW_MMA(name, shape_and_types)                                                           \
  TW_DEVICE void name(float* c, const uint32_t* a, const uint32_t* b) {                         \
    asm volatile("mma.sync.aligned." shape_and_types                                            \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));           \
  }
TW_MMA(tw_mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
TW_MMA(tw_mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
TW_MMA(tw_mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
#define TW_MMA_BF16(c, a, b) tw_mma_bf16(c, a, b)
#define TW_MMA_F16(c, a, b) tw_mma_f16(c, a, b)
#define TW_MMA_TF32(c, a, b) tw_mma_tf32(c, a, b)

// The nearest tf32 number as a register of mma, ties away from zero; of a float or of its bits.
TW_DEVICE uint32_t tw_round_tf32(float x) {
  uint32_t out;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
#else
  const unsigned bits = __float_as_uint(x);
  out = (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
#endif
  return out;
}
TW_DEVICE uint32_t tw_round_tf32(uint32_t bits) { return tw_round_tf32(__uint_as_float(bits)); }

// --- places in buffers: what several accesses have in common --------------------------------------

#define TW_AT(at, buffer, i) auto* const at = (buffer) + (i)
#define TW_LD_AT(buffer, at, i) TW_LD(at, i)
#define TW_LD2_AT(buffer, at, i) TW_LD2(at, i)
#define TW_LD4_AT(buffer, at, i) TW_LD4(at, i)
#define TW_ST_AT(buffer, at, i, value) TW_ST(at, i, value)
#define TW_ST2_AT(buffer, at, i, x, y) TW_ST2(at, i, x, y)
#define TW_ST4_AT(buffer, at, i, x, y, z, w) TW_ST4(at, i, x, y, z, w)

#else
#include "shim.h"

// Here a place is a number, so that accesses know whose it is.
#define TW_AT(at, buffer, i) const int at = (i)
#define TW_LD_AT(buffer, at, i) TW_LD(buffer, (at) + (i))
#define TW_LD2_AT(buffer, at, i) TW_LD2(buffer, (at) + (i))
#define TW_LD4_AT(buffer, at, i) TW_LD4(buffer, (at) + (i))
#define TW_ST_AT(buffer, at, i, value) TW_ST(buffer, (at) + (i), value)
#define TW_ST2_AT(buffer, at, i, x, y) TW_ST2(buffer, (at) + (i), x, y)
#define TW_ST4_AT(buffer, at, i, x, y, z, w) TW_ST4(buffer, (at) + (i), x, y, z, w)
#endif

// --- the same everywhere -----------------------------------------------------------------------

// A float rounded to a narrow type, as a float; a register of mma.
#define TW_ROUND_BF16(x) tw_float(tw_to_bf16(x))
#define TW_ROUND_F16(x) tw_float(tw_to_f16(x))
#define TW_ROUND_TF32(x) tw_round_tf32(x)

#endif
