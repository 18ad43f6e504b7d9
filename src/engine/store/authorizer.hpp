// SPDX-License-Identifier: Apache-2.0
// What SQL of a user may do. SQLite asks it for every step of a statement while it is compiled;
// what is not known to be harmless is refused.
#pragma once

#include "store/sqlite.hpp"

#include <string>

namespace shardsweep::sqlite {

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

}  // namespace shardsweep::sqlite
