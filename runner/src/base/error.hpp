// SPDX-License-Identifier: Apache-2.0
// How a rank fails: the closed set of error classes, their exit codes, and the one way out.
//
// A rank that fails has nothing to unwind to: its peers are waiting in collectives. So failure
// is the end of the process: fail() hands the error to the installed handler (which records it
// and tells the peers) and leaves with the exit code of the class. It never throws.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace shardbench {

/// Stored in records and mapped to exit codes; never renumber.
enum class ErrorClass {
  usage = 2,
  invalid_layout = 10,
  oom = 11,
  comm_error = 12,
  timeout = 13,
  peer_lost = 14,
  nan = 15,
  internal = 16
};

struct Error {
  ErrorClass kind = ErrorClass::internal;
  std::string message;
  // Set for out of memory alone: the class of memory and the bytes (all 0 for other errors).
  std::string memory_class = {};
  std::uint64_t bytes_requested = 0;
  std::uint64_t bytes_in_use = 0;
  std::uint64_t limit = 0;
};

std::string_view error_class_name(ErrorClass kind);
ErrorClass error_class_from_name(std::string_view name);
inline int exit_code(ErrorClass kind) {
  return static_cast<int>(kind);
}

/// Called once, before the process leaves; must not return control to the caller by throwing.
/// After `limit_s` seconds the process leaves whether the handler has ended or not: a library
/// can wait for ever for what a broken peer owes it.
using FailureHandler = std::function<void(const Error&)>;
constexpr double failure_handler_limit_s = 10.0;
void install_failure_handler(FailureHandler handler, double limit_s = failure_handler_limit_s);

[[noreturn]] void fail(const Error& error);
[[noreturn]] void fail(ErrorClass kind, std::string message);

/// A bug in this program: ends with class internal and the sentence.
inline void check(bool condition, const char* what) {
  if (!condition) fail(ErrorClass::internal, std::string("broken invariant: ") + what);
}

}  // namespace shardbench
