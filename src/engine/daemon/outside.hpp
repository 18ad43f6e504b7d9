// SPDX-License-Identifier: Apache-2.0
// Points that are measured outside: the requests `next` and `record`, and the end of leases.
#pragma once

#include "daemon/deciding.hpp"
#include "daemon/patient_records.hpp"
#include "fleet/outside.hpp"

#include <shardsweep/requests.hpp>

#include <set>

namespace shardsweep {

class Outside {
 public:
  Outside(const DaemonParts& parts, World& world, Sweeps& sweeps, PatientRecords& records,
      Deciding& deciding)
      : parts_(parts), world_(world), sweeps_(sweeps), records_(records), deciding_(deciding) {}

  /// Takes back attempts that are no longer wanted, except a wanted point whose result has just
  /// come.
  void take_back(AllocationId recorded = 0);
  /// The points that the worker still holds, then new ones.
  [[nodiscard]] Result<Answer> next(const Request& request);
  /// A second result of a point changes nothing. One that comes after its lease counts if it
  /// is still the first, else it is kept beside.
  [[nodiscard]] Result<Answer> record(const Request& request);

 private:
  [[nodiscard]] Result<const SweepRow*> sweep_named(const std::string& name) const;
  [[nodiscard]] std::set<AllocationId> out_of(SweepId sweep) const;
  [[nodiscard]] Result<HandedOut> handed_out(
      const SweepRow& sweep, const AllocationRow& allocation);
  [[nodiscard]] Result<OutsidePoint> expected(const SweepRow& sweep, TrialId trial);
  [[nodiscard]] Result<RecordsSummary> records_of(const OutsideResult& result,
      const OutsidePoint& point, const AttemptRow& attempt, const std::string& worker);
  [[nodiscard]] const AttemptRow* open_attempt(const std::string& id) const;
  [[nodiscard]] Result<Answer> record_open(const AttemptRow& attempt, const OutsideResult& result);
  /// Looks first at uncommitted rows, then in the database.
  [[nodiscard]] Result<std::optional<OutsideAttempt>> known_attempt(const std::string& id);
  [[nodiscard]] Result<const TrialRow*> adopt_trial_of(
      const OutsideAttempt& late, const std::string& sweep);
  [[nodiscard]] Result<Answer> record_late(const std::string& id, const OutsideResult& result);
  [[nodiscard]] Result<Answer> record_anew(const OutsideAttempt& late, const OutsideResult& result);
  void keep_beside(const std::string& id, const OutsideAttempt& late, const OutsideResult& result,
      const OutsidePoint& point, const std::string& why);

  const DaemonParts& parts_;
  World& world_;
  Sweeps& sweeps_;
  PatientRecords& records_;
  Deciding& deciding_;
};

}  // namespace shardsweep
