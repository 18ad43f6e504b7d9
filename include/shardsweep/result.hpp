// SPDX-License-Identifier: Apache-2.0
// Faults of the outside world are values of a small closed set of kinds.
// A verdict or an outcome is not a fault; a bug aborts.
#pragma once

#include <shardsweep/words.hpp>

#include <fmt/core.h>
#include <tl/expected.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep {

enum class FaultKind : std::uint8_t {
  invalid_input,  ///< a user's file or flag is wrong: exit 2, never retried
  rejected,       ///< the other side understood and refused: never retried unchanged
  unavailable,    ///< the other side can't be reached: retried with back-off
  timed_out,      ///< no answer within the deadline; what was asked may have happened
  busy,           ///< asked again soon
  corrupt,        ///< data that we wrote does not read back: stop and say so
  interrupted,    ///< the user or the system asked us to stop: exit 130
  internal,       ///< a defect of ours: stop and say so
};
/// Stored in answers.
SHARDSWEEP_WORDS(FaultKind, "invalid_input", "rejected", "unavailable", "timed_out", "busy",
    "corrupt", "interrupted", "internal");

/// Fault outside this program, in words for the person who has to mend it.
struct Fault {
  FaultKind kind = FaultKind::unavailable;
  std::string what;

  /// Puts the place in front of the fault: "point 17: no such model".
  [[nodiscard]] Fault in(std::string_view where) const {
    return {kind, std::string(where) + ": " + what};
  }
  friend bool operator==(const Fault&, const Fault&) = default;
};

template <class T>
using Result = tl::expected<T, Fault>;

[[nodiscard]] inline tl::unexpected<Fault> fault(FaultKind kind, std::string what) {
  return tl::unexpected<Fault>(Fault{kind, std::move(what)});
}
/// A fault whose sentence is a format with at least one value.
template <class First, class... Rest>
[[nodiscard]] tl::unexpected<Fault> fault(
    FaultKind kind, fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  return fault(kind, fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
}

/// True if asking again, later, can help.
[[nodiscard]] constexpr bool worth_retrying(FaultKind kind) {
  return kind == FaultKind::unavailable || kind == FaultKind::timed_out || kind == FaultKind::busy;
}

}  // namespace shardsweep

#define SHARDSWEEP_CONCAT_(a, b) a##b
#define SHARDSWEEP_CONCAT(a, b) SHARDSWEEP_CONCAT_(a, b)

/// Returns the fault of `expr` from the calling function, if it has one.
#define SHARDSWEEP_TRY(expr)                                                        \
  do {                                                                              \
    if (auto try_result_ = (expr); !try_result_) {                                  \
      return ::tl::unexpected<::shardsweep::Fault>(std::move(try_result_).error()); \
    }                                                                               \
  } while (false)

/// `SHARDSWEEP_SET(x, expr);` gives x, which is there, the value of `expr` or returns its fault. It
/// is one statement, unlike SHARDSWEEP_ASSIGN.
#define SHARDSWEEP_SET(target, expr)                                                \
  do {                                                                              \
    if (auto set_result_ = (expr); !set_result_)                                    \
      return ::tl::unexpected<::shardsweep::Fault>(std::move(set_result_).error()); \
    else                                                                            \
      target = *std::move(set_result_);                                             \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration can't stand in parentheses.
/// `SHARDSWEEP_ASSIGN(auto x, expr);` declares x as the value of `expr` or returns its fault.
#define SHARDSWEEP_ASSIGN(declaration, expr)                             \
  auto SHARDSWEEP_CONCAT(assign_result_, __LINE__) = (expr);             \
  if (!SHARDSWEEP_CONCAT(assign_result_, __LINE__))                      \
    return ::tl::unexpected<::shardsweep::Fault>(                        \
        std::move(SHARDSWEEP_CONCAT(assign_result_, __LINE__)).error()); \
  declaration = *std::move(SHARDSWEEP_CONCAT(assign_result_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)
