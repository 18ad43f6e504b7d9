// SPDX-License-Identifier: Apache-2.0
// The failure path: handler once, then out by _exit, so that no destructor waits for a dead
// peer.
#include "error.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

namespace shardbench {
namespace {

struct ClassName {
  ErrorClass kind;
  std::string_view name;
};

constexpr std::array<ClassName, 8> class_names{{{ErrorClass::usage, "usage"},
                                                {ErrorClass::invalid_layout, "invalid_layout"},
                                                {ErrorClass::oom, "oom"},
                                                {ErrorClass::comm_error, "comm_error"},
                                                {ErrorClass::timeout, "timeout"},
                                                {ErrorClass::peer_lost, "peer_lost"},
                                                {ErrorClass::nan, "nan"},
                                                {ErrorClass::internal, "internal"}}};

FailureHandler& installed_handler() {
  static FailureHandler handler;
  return handler;
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

void install_failure_handler(FailureHandler handler) {
  installed_handler() = std::move(handler);
}

void fail(const Error& error) {
  // The handler itself may fail (a full disk, a dead peer): the second failure leaves at once.
  static bool failing = false;
  if (!std::exchange(failing, true)) {
    std::fprintf(stderr, "shardbench: %s: %s\n", error_class_name(error.kind).data(),
                 error.message.c_str());
    if (installed_handler()) installed_handler()(error);
  }
  _exit(exit_code(error.kind));
}

void fail(ErrorClass kind, std::string message) {
  fail(Error{.kind = kind, .message = std::move(message)});
}

}  // namespace shardbench
