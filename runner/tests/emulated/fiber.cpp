// SPDX-License-Identifier: Apache-2.0
// Kernels change stacks millions of times, and swapcontext calls the system each time: where
// it pays, a few instructions do it instead.
#include "fiber.hpp"

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Saves what a called function must keep (System V ABI) on the stack, and the stack in *save;
// goes on where the stack `next` was saved.
extern "C" void shardbench_switch_stack(void** save, void* next);
asm(R"(
  .text
  .type shardbench_switch_stack, @function
shardbench_switch_stack:
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
  .size shardbench_switch_stack, .-shardbench_switch_stack
)");
#endif

namespace shardbench::emulator {
namespace {

// Kernels keep tiles in local arrays; the address sanitizer makes frames several times as long.
constexpr std::size_t stack_bytes = 256 << 10;

Fiber* entered = nullptr;

#if defined(__SANITIZE_ADDRESS__)
const void* host_stack = nullptr;
std::size_t host_stack_bytes = 0;
#endif

// Tell the address sanitizer of a change of stacks, before and after it.
void before_entering([[maybe_unused]] std::byte* stack) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, stack, stack_bytes);
#endif
}
void after_entering() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &host_stack, &host_stack_bytes);
#endif
}
void before_leaving() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, host_stack, host_stack_bytes);
#endif
}
void after_leaving() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

#if defined(__x86_64__)
void switch_stack(void*& from, void*& to) {
  shardbench_switch_stack(&from, to);
}

/// A stack as if `function` had been interrupted before its first instruction.
void prepare(void*& stack, std::byte* memory, void (*function)()) {
  auto* top = reinterpret_cast<std::uintptr_t*>(memory + stack_bytes);
  // Leave one word above the function's address: at its first instruction the stack is 8 bytes off
  // a multiple of 16, as after a call. Six registers follow below.
  *--top = 0;
  *--top = reinterpret_cast<std::uintptr_t>(function);
  for (int i = 0; i < 6; ++i)
    *--top = 0;
  stack = top;
}
#else
void switch_stack(ucontext_t& from, ucontext_t& to) {
  swapcontext(&from, &to);
}

void prepare(ucontext_t& context, std::byte* memory, void (*function)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = memory;
  context.uc_stack.ss_size = stack_bytes;
  context.uc_link = nullptr;
  makecontext(&context, function, 0);
}
#endif

}  // namespace

Fiber::Fiber(void (*body)()) : body_(body), stack_(new std::byte[stack_bytes]) {
  prepare(inside_, stack_.get(), start);
}

void Fiber::start() {
  after_entering();
  entered->body_();
}

void Fiber::enter() {
  entered = this;
  before_entering(stack_.get());
  switch_stack(outside_, inside_);
  after_leaving();
}

void Fiber::leave() {
  before_leaving();
  switch_stack(inside_, outside_);
  after_entering();
}

}  // namespace shardbench::emulator
