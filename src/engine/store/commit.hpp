// SPDX-License-Identifier: Apache-2.0
// One tick's changes as statements. Who may write, and the transaction, are the store's.
#pragma once

#include "store/ledger.hpp"
#include "store/sqlite.hpp"

#include <shardsweep/change.hpp>

#include <cstdint>
#include <span>

namespace shardsweep::sqlite {

class Committer {
 public:
  explicit Committer(Database& database);
  void apply(const Change& change);

 private:
  template <class Row>
  void run(Statement& statement, const Row& row);
  [[nodiscard]] SweepId sweep_of(TrialId trial);
  void put(const SetSweep& change);
  void put(const SetTrial& change);
  void put(const PutAttempt& change);
  void put(const PutAllocation& change);
  void put(const AddMeasurement& change);
  void put(const AddEvent& change);
  void put(const SeenNode& change);
  void put(const AddNodeEvidence& change) { ledger_.put(change); }
  void put(const ForgetEvidence& change) { ledger_.put(change); }
  void put(const SetNode& change) { ledger_.put(change); }
  void put(const EndProbe& change) { ledger_.put(change); }
  void put(const PutControl& change) { ledger_.put(change); }
  void put(const MarkMeasurement& change) { ledger_.put(change); }
  void put(const ServedRequest& change);
  void put(const AddKnowledge& change);
  void put(const ForgetKnowledge& change);
  void put(const SetClock& change) { sql_.clock.run(change.row.boot_id, change.row.ahead); }

  /// Statements that a tick writes with.
  struct Statements {
    explicit Statements(Database& database);
    Statement sweep;
    Statement trial;
    Statement uncount;
    Statement attempt;
    Statement allocation;
    Statement sweep_of;
    Statement measurement;
    Statement train_step;
    Statement event;
    Statement node;
    Statement clock;
    Statement served;
    Statement served_long_ago;
    Statement knowledge;
    Statement forgotten;
    Statement unused_knowledge;
  };
  Database& database_;
  Statements sql_;
  LedgerWriter ledger_;
};

// Invariants of the rows that a commit leaves behind, checked inside its transaction: a commit that
// breaks one is rolled back.

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
