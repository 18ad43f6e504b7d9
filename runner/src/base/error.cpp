// SPDX-License-Identifier: Apache-2.0
// The failure path: handler once, then out by _exit, so that no destructor waits for a dead
// peer.
#include "base/error.hpp"

#include "base/clock.hpp"
#include "base/signals.hpp"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <system_error>
#include <thread>
#include <utility>

namespace shardbench {
namespace {

struct ClassName {
  ErrorClass kind;
  std::string_view name;
};

constexpr std::array<ClassName, 8> class_names{
    {{ErrorClass::usage, "usage"}, {ErrorClass::invalid_layout, "invalid_layout"},
        {ErrorClass::oom, "oom"}, {ErrorClass::comm_error, "comm_error"},
        {ErrorClass::timeout, "timeout"}, {ErrorClass::peer_lost, "peer_lost"},
        {ErrorClass::nan, "nan"}, {ErrorClass::internal, "internal"}}};

struct HandlerSlot {
  FailureHandler handler;
  double limit_s = failure_handler_limit_s;
};

HandlerSlot& installed() {
  static HandlerSlot instance;
  return instance;
}

/// A thread of its own: the handler may stand in a call that no signal ends.
void leave_within(double seconds, int code) {
  const SignalBlock blocked;
  try {
    std::thread([seconds, code] {
      sleep_ms(static_cast<int>(seconds * 1e3));
      _exit(code);
    }).detach();
  } catch (const std::system_error&) {
    // No thread is to be had: the handler goes without a bound.
  }
}

}  // namespace

std::string_view error_class_name(ErrorClass kind) {
  for (const ClassName& entry : class_names)
    if (entry.kind == kind) return entry.name;
  return "internal";
}

ErrorClass error_class_from_name(std::string_view name) {
  for (const ClassName& entry : class_names)
    if (entry.name == name) return entry.kind;
  return ErrorClass::internal;
}

void install_failure_handler(FailureHandler handler, double limit_s) {
  installed() = {std::move(handler), limit_s};
}

void fail(const Error& error) {
  // The handler itself may fail (a full disk, a dead peer): the second failure leaves at once.
  static bool failing = false;
  if (!std::exchange(failing, true)) {
    std::fprintf(
        stderr, "shardbench: %s: %s\n", error_class_name(error.kind).data(), error.message.c_str());
    if (installed().handler) {
      leave_within(installed().limit_s, exit_code(error.kind));
      installed().handler(error);
    }
  }
  _exit(exit_code(error.kind));
}

void fail(ErrorClass kind, std::string message) {
  fail(Error{.kind = kind, .message = std::move(message)});
}

}  // namespace shardbench
