// SPDX-License-Identifier: Apache-2.0
// The ledger of nodes in the database: evidence, states, short runs, and who ran where.
#pragma once

#include "store/sqlite.hpp"

#include <shardsweep/change.hpp>

namespace shardsweep::sqlite {

/// Columns that people read of the checks of nodes; c is a check, and l its allocation.
extern const char* const check_columns;

/// Reads into `world` the states of nodes, evidence that counts, controls, and nodes of live
/// allocations. The allocations are there already.
void read_ledger(Database& database, WorldRows& world);

class LedgerWriter {
 public:
  explicit LedgerWriter(Database& database);
  void put(const AddNodeEvidence& change);
  void put(const ForgetEvidence& change);
  void put(const SetNode& change);
  void put(const EndProbe& change);
  void put(const PutControl& change);
  void put(const MarkMeasurement& change);
  void seen(
      AllocationId allocation, const std::string& node, bool has_lead, const std::string& switches);
  void probe(AllocationId allocation, const std::string& node);

 private:
  Statement evidence_;
  Statement forget_;
  Statement state_;
  Statement end_probe_;
  Statement seen_;
  Statement probe_;
  Statement control_;
  Statement mark_;
};

}  // namespace shardsweep::sqlite
