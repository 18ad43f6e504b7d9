// SPDX-License-Identifier: Apache-2.0
// Decision: An attempt without its program or without storage is `lost` and never charged: the
// lead waits for both. `said_lines` keeps lines until they are written.
#include "attempt/start_gate.hpp"

namespace shardsweep {
namespace {

constexpr double look_again_s = 1;
// A program that is being installed is back within seconds.
constexpr double first_pause_s = 5;
constexpr int most_failed_starts = 3;

}  // namespace

void StartGate::note_end(const Ending& ending, double now_s) {
  if (ending.outcome == Outcome::lost) doubted_ = true;
  if (!ending.found_code.empty()) changed_ = ending.cause;
  if (ending.start_error == 0) {
    failed_starts_ = 0;
    return;
  }
  last_failure_ = ending.cause;
  start_again_s_ = now_s + first_pause_s * (1 << failed_starts_++);
}

std::string StartGate::start_fault() const {
  if (!changed_.empty()) return changed_;
  return failed_starts_ < most_failed_starts ? "" : "no program could be started: " + last_failure_;
}

bool StartGate::is_open(double now_s, const StorageLook& look, const GateNews& log) {
  return now_s >= start_again_s_ && storage_works(now_s, look, log);
}

bool StartGate::storage_works(double now_s, const StorageLook& look, const GateNews& log) {
  const bool shut = !fault_.empty();
  if (shut && now_s < looked_at_s_ + look_again_s) return false;
  looked_at_s_ = now_s;
  const std::string fault = look(doubted_);
  doubted_ = !fault.empty();
  fault_ = fault.empty() ? "" : "no file could be written: " + fault;
  if (!fault.empty() && !shut) log("starting no attempt for now: " + fault_);
  if (fault.empty() && shut) log("starting attempts again: files can be written");
  return fault.empty();
}

}  // namespace shardsweep
