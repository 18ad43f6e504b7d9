// SPDX-License-Identifier: Apache-2.0
// A connection that only reads: how it is opened, what SQL of a user may do, and what one answer
// may cost.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/clock.hpp>

#include <chrono>
#include <filesystem>
#include <string>

namespace shardsweep::sqlite {

// Opening a database that somebody else may be writing.

/// A commit takes milliseconds; a checkpoint on a slow disk may take seconds.
inline constexpr int read_wait_ms = 5000;

/// A connection that refuses every write. On a local file system it repairs what a killed
/// writer has left, where this user may write. On others it repairs only what has stood still
/// for a minute: there a lock of another host may not be seen. Where this user may not write,
/// it reads what is there.
[[nodiscard]] Database open_for_reading(const std::filesystem::path& file);

// Rights of a user's SQL. SQLite asks it for every step of a statement while it is compiled;
// what is not known to be harmless is refused.

enum class Allowed : std::uint8_t {
  query,       ///< reading: SELECT with all that belongs to it, PRAGMAs that only tell
  expression,  ///< one within one SELECT of ours: no sub-query, and the filter's functions
};

/// Restricts what statements of a connection may do, while it lives.
class Authorizer {
 public:
  Authorizer(Database& database, Allowed allowed);
  Authorizer(const Authorizer&) = delete;
  Authorizer& operator=(const Authorizer&) = delete;
  ~Authorizer();
  /// The first refusal, for a message: "writing to 'trials'". Empty: nothing was refused.
  [[nodiscard]] const std::string& refused() const { return refused_; }

 private:
  [[nodiscard]] std::string refusal(int action, const char* first, const char* second);
  static int ask(void* self, int action, const char* first, const char* second,
      const char* database, const char* trigger);

  Database& database_;
  Allowed allowed_;
  int selects_ = 0;
  std::string refused_;
};

// A reader's query must not run for ever, nor eat the memory of a login node.

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
