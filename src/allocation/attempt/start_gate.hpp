// SPDX-License-Identifier: Apache-2.0
// May the lead start another attempt? Not where nothing of it could be stored, and not at once
// where the program of the one before did not start: each try costs a trial its turn. Pure.
#pragma once

#include <shardsweep/ending.hpp>

#include <functional>
#include <string>

namespace shardsweep {

/// Why no file can be written, in a clause; empty: one can. `doubted`: looking is not enough to
/// believe that.
using StorageLook = std::function<std::string(bool doubted)>;
/// Receives a line for the log for each change worth one.
using GateNews = std::function<void(const std::string& line)>;

class StartGate {
 public:
  /// Notes a failed write: after it, a mere look does not prove that the storage works.
  void doubt_storage() { doubted_ = true; }
  void note_end(const Ending& ending, double now_s);
  [[nodiscard]] bool is_open(double now_s, const StorageLook& look, const GateNews& log);
  /// Why the gate stays shut, for an allocation that has waited too long; empty: it does not.
  [[nodiscard]] std::string storage_fault() const { return fault_; }
  /// Why the gate stays shut because too many programs in a row did not start; empty: it does not.
  [[nodiscard]] std::string start_fault() const;

 private:
  [[nodiscard]] bool storage_works(double now_s, const StorageLook& look, const GateNews& log);

  bool doubted_ = false;
  std::string fault_;
  double looked_at_s_ = 0;
  int failed_starts_ = 0;  ///< failed starts in a row
  std::string last_failure_;
  std::string changed_;  ///< the programs: no attempt that is assigned can run
  double start_again_s_ = 0;
};

}  // namespace shardsweep
