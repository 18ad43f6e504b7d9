// SPDX-License-Identifier: Apache-2.0
// May the lead start another attempt? Not where nothing of it could be stored, and not at once
// where the program of the one before did not start: each try costs a trial its turn.
#pragma once

#include "agent/log.hpp"

#include <shardsweep/ending.hpp>

#include <filesystem>
#include <string>

namespace shardsweep::agent {

class StartGate {
 public:
  explicit StartGate(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Something could not be written: looking is not enough to believe that it can be.
  void doubt_storage() { doubted_ = true; }
  void note_end(const Ending& ending, double now_s);
  [[nodiscard]] bool is_open(double now_s, const Log& log);
  /// Why the gate stays shut, for an allocation that has waited too long; empty: it does not.
  [[nodiscard]] std::string storage_fault() const { return fault_; }
  /// The same for programs that do not start: too many in a row have not.
  [[nodiscard]] std::string start_fault() const;

 private:
  [[nodiscard]] bool storage_works(double now_s, const Log& log);

  std::filesystem::path folder_;
  bool doubted_ = false;
  std::string fault_;
  double looked_at_s_ = 0;
  int failed_starts_ = 0;  ///< in a row
  std::string last_failure_;
  std::string changed_;  ///< the programs: no attempt that is assigned can run
  double start_again_s_ = 0;
};

}  // namespace shardsweep::agent
