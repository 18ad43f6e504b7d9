// SPDX-License-Identifier: Apache-2.0
// What must hold of the rows that a commit leaves behind, looked at inside its transaction:
// what does not hold is rolled back.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/change.hpp>

#include <cstdint>
#include <span>

namespace shardsweep::sqlite {

/// A commit moves trials from state to state, and neither makes nor loses any. Counted for one
/// sweep of one commit in 256: a count reads an index of all its trials.
class Conservation {
 public:
  Conservation(Database& database, std::span<const Change> changes, std::int64_t commit);
  /// Throws BrokenInvariant.
  void check() const;

 private:
  struct Counts {
    std::int64_t all = 0;
    std::int64_t by_state = 0;  ///< trials in one of the four states
  };
  [[nodiscard]] Counts count() const;

  Database& database_;
  SweepId sweep_ = 0;  ///< 0: not this time
  Counts before_;
};

/// Each trial that has ended `completed` with these changes has one counted measurement.
void check_completed(Database& database, std::span<const Change> changes);

}  // namespace shardsweep::sqlite
