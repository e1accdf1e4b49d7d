// Kernels as C++ for this machine's processor: see device.h, which includes this, and runtime.cpp,
// which runs it.

#ifndef TW_SHIM_H
#define TW_SHIM_H

#include "interface.h"
#include "names.h"

// Each kernel has its own memory; blocks run one after another. It is poisoned for every block by
// the first thread that gets here.
#define TW_BLOCK_MEMORY(bytes, dynamic)                               \
  alignas(128) static unsigned char tw_block[bytes];                  \
  constexpr int tw_block_bytes = bytes;                               \
  if (tw_rt->fresh) tw_rt->begin_block(tw_block, tw_block_bytes, dynamic)
#define TW_BLOCK_STATIC(bytes) TW_BLOCK_MEMORY(bytes, 0)
#define TW_BLOCK_DYNAMIC(bytes) TW_BLOCK_MEMORY(bytes, 1)

#ifdef TW_CHECKED
#define TW_IS_CHECKED 1
#include "checked.h"
#else
#define TW_IS_CHECKED 0
#include "fast.h"
#endif

#include "warps.h"

// --- entries -----------------------------------------------------------------------------------

struct tw_arguments {
  const tw_argument* next;
  template <class P>
  auto take() {
    return tw_bound<P>::argument(*next++);
  }
};

template <class Kernel>
struct tw_call;
template <class... P>
struct tw_call<void (*)(P...)> {
  static constexpr int count = sizeof...(P);
  static constexpr tw_parameter parameters[count ? count : 1] = {tw_bound<P>::parameter...};

  template <void (*kernel)(P...)>
  static void run(const tw_argument* arguments) {
    tw_arguments next{arguments};
    // A braced list is evaluated from left to right, a call's arguments in any order.
    struct Run {
      Run(P... p) { kernel(p...); }
    } run{next.take<P>()...};
    (void)run;
  }
};

#define TW_EXPORT extern "C" __attribute__((visibility("default"), used))
#define TW_ENTRY(name)                                                                      \
  TW_EXPORT const tw_entry name##_entry = {                                                 \
      tw_call<decltype(&name)>::run<&name>, tw_call<decltype(&name)>::parameters,           \
      tw_call<decltype(&name)>::count, TW_GRANULE, TW_IS_CHECKED};

TW_EXPORT void tw_attach(tw_runtime* runtime) { tw_rt = runtime; }

#endif
