// SPDX-License-Identifier: Apache-2.0
#include "nccl/call_guard.hpp"

#include "base/signals.hpp"

#include <utility>

namespace shardbench {
namespace {

// Pause between two looks at the first thread. Calls are over long before the second one.
constexpr int pause_ms = 20;

}  // namespace

CallGuard::CallGuard(
    std::function<void()> look, std::function<void(const std::string&)> too_late, double limit_s)
    : look_(std::move(look)), too_late_(std::move(too_late)), limit_s_(limit_s) {
  turn_.lock();
  const SignalBlock blocked;
  thread_ = std::thread([this] { watch(); });
}

CallGuard::~CallGuard() {
  stopping_ = true;
  turn_.unlock();
  thread_.join();
}

void CallGuard::enter(const std::string& what) {
  what_ = &what;
  since_ = now();
  ++calls_;
  turn_.unlock();
}

void CallGuard::leave() {
  turn_.lock();
  what_ = nullptr;
}

void CallGuard::watch() {
  unsigned seen = 0;
  while (!stopping_) {
    sleep_ms(pause_ms);
    const std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock() || what_ == nullptr || stopping_) continue;
    // A call that has just begun is left alone.
    if (std::exchange(seen, calls_) != calls_) continue;
    look_();
    if (seconds_since(since_) > limit_s_) too_late_(*what_);
  }
}

}  // namespace shardbench
