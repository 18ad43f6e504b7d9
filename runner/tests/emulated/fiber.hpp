// SPDX-License-Identifier: Apache-2.0
// A function with a stack of its own, which it leaves and is entered again.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <memory>

namespace shardbench::emulator {

class Fiber {
 public:
  /// `body` never returns.
  explicit Fiber(void (*body)());
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it leaves.
  void enter();
  /// Called from within: returns to the caller of enter().
  void leave();

 private:
  static void start();

  void (*body_)();
  std::unique_ptr<std::byte[]> stack_;
#if defined(__x86_64__)
  void* inside_ = nullptr;
  void* outside_ = nullptr;
#else
  ucontext_t inside_;
  ucontext_t outside_;
#endif
};

}  // namespace shardbench::emulator
