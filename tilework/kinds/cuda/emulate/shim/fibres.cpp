#include "fibres.h"

#include <stdint.h>
#include <sys/mman.h>

#if defined(__ELF__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(TW_PORTABLE)
#define TW_OWN_SWITCH 1
#else
#define TW_OWN_SWITCH 0
#include <ucontext.h>
#endif

namespace {

constexpr size_t STACK = 64 << 10;
// As much again below each stack stays unmapped: frames larger than a page are caught as well.
constexpr size_t STRIDE = 2 * STACK;
// Stacks at equal distances would meet in the same few sets of the caches.
constexpr size_t COLOURS = 32, COLOUR = 5 * 64;

}  // namespace

char* Stacks::take() {
  if (count_) return free_[--count_];
  void* low = mmap(nullptr, STRIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (low == MAP_FAILED) return nullptr;
  char* base = (char*)low + STRIDE - STACK;
  if (mprotect(base, STACK, PROT_READ | PROT_WRITE)) return nullptr;
  return base + STACK - COLOUR * (made_++ % COLOURS);
}

void Stacks::give_back(char* stack) { free_[count_++] = stack; }

#if TW_OWN_SWITCH

// Registers that a call leaves as they are go on the stack; the rest the compiler has saved.
extern "C" void tw_switch(tw_context** from, tw_context* to);
void switch_to(tw_context** from, tw_context* to) { tw_switch(from, to); }

#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".globl tw_switch\n"
    ".hidden tw_switch\n"
    ".type tw_switch, @function\n"
    "tw_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size tw_switch, .-tw_switch\n");

tw_context* begin_on(char* stack, void (*start)()) {
  void** top = (void**)((uintptr_t)stack & ~(uintptr_t)63);
  *--top = nullptr;  // where `start` would return to, which also aligns its frame
  *--top = (void*)start;
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  return (tw_context*)top;
}
#else
__asm__(
    ".text\n"
    ".globl tw_switch\n"
    ".hidden tw_switch\n"
    ".type tw_switch, @function\n"
    "tw_switch:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n"
    "  str x9, [x0]\n"
    "  mov sp, x1\n"
    "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n"
    ".size tw_switch, .-tw_switch\n");

tw_context* begin_on(char* stack, void (*start)()) {
  void** top = (void**)((uintptr_t)stack & ~(uintptr_t)63) - 20;
  for (int i = 0; i < 20; ++i) top[i] = nullptr;
  top[11] = (void*)start;  // x30
  return (tw_context*)top;
}
#endif

#else  // any system with ucontext: several times slower, as each switch calls the system

struct tw_context {
  ucontext_t at;
};

tw_context* begin_on(char* stack, void (*start)()) {
  char* base = stack - (STACK - COLOUR * COLOURS);
  char* top = (char*)((uintptr_t)(stack - sizeof(tw_context)) & ~(uintptr_t)63);
  tw_context* out = (tw_context*)top;
  getcontext(&out->at);
  out->at.uc_stack.ss_sp = base;
  out->at.uc_stack.ss_size = (size_t)(top - base);
  out->at.uc_link = nullptr;
  makecontext(&out->at, start, 0);
  return out;
}

void switch_to(tw_context** from, tw_context* to) {
  tw_context here;
  *from = &here;
  swapcontext(&here.at, &to->at);
}
#endif
