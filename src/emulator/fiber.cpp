#include "emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/check.h"

// Keeps what a call must keep on the stack, gives the stack pointer to *from and goes on at `to`.
extern "C" void ingot_fiber_switch(void** from, void* to);
extern "C" void ingot_fiber_entry();

#if defined(__aarch64__)
asm(R"(
.text
.p2align 4
.global ingot_fiber_switch
.type ingot_fiber_switch, %function
ingot_fiber_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.global ingot_fiber_entry
.type ingot_fiber_entry, %function
ingot_fiber_entry:
  mov x0, x19
  blr x20
  brk #0
)");
#elif defined(__x86_64__)
asm(R"(
.text
.p2align 4
.global ingot_fiber_switch
.type ingot_fiber_switch, @function
ingot_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.global ingot_fiber_entry
.type ingot_fiber_entry, @function
ingot_fiber_entry:
  movq %r12, %rdi
  callq *%r13
  ud2
)");
#else
#error "the emulator of CUDA knows AArch64 and x86-64"
#endif

namespace ingot::cuda {
namespace {

constexpr size_t kStack = 256 << 10;  // only what is touched costs memory

}  // namespace

Fiber::Fiber() {
  void* p = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(p != MAP_FAILED, "no memory for a stack");
  stack_ = static_cast<std::byte*>(p);
}

Fiber::~Fiber() { munmap(stack_, kStack); }

void Fiber::start(const std::function<void()>* body) {
  CHECK(ended_, "the thread before it has not ended");
  body_ = body;
  ended_ = false;
  auto* top = reinterpret_cast<uint64_t*>(stack_ + kStack);
#if defined(__aarch64__)
  top -= 20;  // as ingot_fiber_switch lays it out
  for (int i = 0; i < 20; ++i) top[i] = 0;
  top[0] = reinterpret_cast<uint64_t>(this);                 // x19
  top[1] = reinterpret_cast<uint64_t>(&Fiber::begin);        // x20
  top[11] = reinterpret_cast<uint64_t>(&ingot_fiber_entry);  // x30
#else
  top -= 9;  // 6 registers, the return address, and two that align the stack for the call in ingot_fiber_entry
  for (int i = 0; i < 9; ++i) top[i] = 0;
  top[2] = reinterpret_cast<uint64_t>(&Fiber::begin);       // r13
  top[3] = reinterpret_cast<uint64_t>(this);                // r12
  top[6] = reinterpret_cast<uint64_t>(&ingot_fiber_entry);  // return address
#endif
  own_ = top;
}

bool Fiber::enter() {
  ingot_fiber_switch(&caller_, own_);
  return ended_;
}

void Fiber::leave() { ingot_fiber_switch(&own_, caller_); }

void Fiber::begin(Fiber* self) {
  (*self->body_)();
  self->ended_ = true;
  self->leave();
}

}  // namespace ingot::cuda
