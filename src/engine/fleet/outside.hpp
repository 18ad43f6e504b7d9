// SPDX-License-Identifier: Apache-2.0
// Points that are out (shardsweep/outside.hpp): how they are held, taken back and recorded.
//
// Decision: A point is out in an allocation of its own that was claimed when it was made. So
// what holds for all attempts holds for it: one counted result, retries, the search, deletion.
// Nobody takes a point back before its lease is over or its trial is no longer wanted. A result
// that comes after its lease counts if it is still the first: the point's own attempt if nobody
// has noticed the end of the lease, else a new one, since an attempt that has ended stays so.
#pragma once

#include "fleet/fold.hpp"

#include <shardsweep/outside.hpp>
#include <shardsweep/records.hpp>
#include <shardsweep/store.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

/// Waiting trial with this name; null: there is none.
[[nodiscard]] const TrialRow* waiting_trial(
    const World& world, SweepId sweep, std::string_view slug);
/// Turns an allocation row of the sweep into one that somebody outside holds.
[[nodiscard]] AllocationRow outside_allocation(
    AllocationRow row, const std::string& sweep, const HandOut& asked, Timestamp now);
/// Starts the only attempt of an outside allocation, which takes no other.
void hold_outside(Fold fold, const Policy& policy, const AllocationRow& row);

/// A letter or digit, then at most 31 of these, '.', '_' and '-': it becomes part of a job's
/// name.
[[nodiscard]] bool is_worker_name(std::string_view name);
/// Worker that a point was given to, from its allocation's host; empty: a worker without a name.
[[nodiscard]] std::string worker_of(const std::string& host);

/// Why the trial of an allocation is no longer wanted, even within its lease; empty: it is wanted.
[[nodiscard]] std::string why_unwanted(const World& world, const AllocationRow& row);
/// Why a point is taken back from its worker: it is no longer wanted, or its lease is over; empty:
/// the worker keeps it.
[[nodiscard]] std::string why_taken_back(
    const World& world, const AllocationRow& row, Timestamp now);
/// True if a late result of a returned attempt still counts. It does not if another worker has or
/// measured the point, or if a request made it unwanted or asked for a newer result.
[[nodiscard]] bool is_still_wanted(const World& world, const OutsideAttempt& late);
/// Ends the attempt of the allocation with this ending, and then the allocation.
void close_outside(Fold fold, const Policy& policy, AllocationId id, const Ending& ending,
    const std::optional<RecordsSummary>& records);
/// Ends the attempt without a result.
void take_back(Fold fold, const Policy& policy, AllocationId id, const std::string& why);

/// Facts that a result is checked against.
struct OutsidePoint {
  std::int64_t tokens_per_step = 0;
  std::int32_t gpus = 1;
  double device_memory_bytes = 0;  ///< 0: not known
};
/// Checks a result. The fault says what is wrong: values that are not numbers, or that contradict
/// each other or the point; a failure without evidence.
[[nodiscard]] Result<void> check(const OutsideResult& result, const OutsidePoint& point);
/// Measurement of a result that has passed its check; the caller adds what only it knows.
[[nodiscard]] AddMeasurement measurement_of(
    const OutsideResult& result, const OutsidePoint& point, const std::string& worker);

}  // namespace shardsweep
