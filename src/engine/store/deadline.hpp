// SPDX-License-Identifier: Apache-2.0
// Bounds of what one answer may cost: a reader's query must not run for ever, nor eat the
// memory of a login node.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/clock.hpp>

#include <chrono>

namespace shardsweep::sqlite {

inline constexpr std::chrono::seconds longest_query{30};
inline constexpr std::chrono::seconds longest_stream{300};  ///< rows that leave one by one
inline constexpr std::size_t most_rows = 2'000'000;
inline constexpr std::size_t most_bytes = std::size_t{512} << 20;

/// Interrupts what runs on the connection when its time is up; in force while it lives.
class Deadline {
 public:
  explicit Deadline(Database& database, std::chrono::seconds limit = longest_query);
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline();

 private:
  static int ask(void* self);
  Database& database_;
  SystemClock clock_;
  std::chrono::steady_clock::time_point end_;
};

/// All rows of an execution, with the statement's column names; more than the bounds above is a
/// fault that says to ask for less.
[[nodiscard]] Table fetch(const Statement& statement, Statement::Use& use);

}  // namespace shardsweep::sqlite
