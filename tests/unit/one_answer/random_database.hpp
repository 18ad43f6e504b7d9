// SPDX-License-Identifier: Apache-2.0
// Databases as daemons leave them: sweeps with repeats, vars, finals, marks, versions of a
// runner, other programs and settings, and imported tables. The same seed gives the same one.
#pragma once

#include "unit/store/support.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace shardsweep::testing {

/// Sweeps that nothing has run of. Making one costs more than all that is asked of it, so each
/// random database is a copy of one of these.
class Templates {
 public:
  struct Kind {
    std::string name;
    std::vector<Grid> sweeps;
  };
  [[nodiscard]] static const std::vector<Kind>& kinds();
  /// The file of a kind; made when it is asked for first.
  [[nodiscard]] const std::filesystem::path& file(std::size_t kind);
  [[nodiscard]] const TempDir& dir() const { return dir_; }

 private:
  TempDir dir_;
  std::map<std::size_t, std::filesystem::path> made_;
};

class RandomDatabase {
 public:
  RandomDatabase(Templates& templates, std::uint64_t seed);
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] const std::string& kind() const { return kind_; }
  /// Every trial has an outcome.
  [[nodiscard]] bool is_over() const { return open_ == 0; }
  /// Names of its sweeps.
  [[nodiscard]] const std::vector<std::string>& sweeps() const { return sweeps_; }

 private:
  struct Planned {
    TrialId id = 0;
    std::string cell;
    double speed = 0;  ///< of its layout, without noise
  };
  [[nodiscard]] bool chance(double share);
  [[nodiscard]] double around(double value, double share);
  /// Attempts of an allocation of their own, in one commit.
  void run(Daemon& daemon, const std::vector<Planned>& trials);
  [[nodiscard]] std::vector<Change> ended(
      const Planned& trial, AllocationId allocation, AttemptId attempt);
  void run_beside(Daemon& daemon, SweepId sweep, const std::vector<Planned>& trials);
  void hold_finals(Daemon& daemon, SweepId sweep, const std::vector<Planned>& trials);
  void measure_again(Daemon& daemon, SweepId sweep, const std::vector<Planned>& trials);
  void run_more(Daemon& daemon, SweepId sweep, const std::vector<NewFinal>& more,
      const std::vector<Planned>& trials);
  [[nodiscard]] std::vector<Planned> measured_of(
      SweepId sweep, const std::vector<Planned>& trials) const;
  [[nodiscard]] std::vector<Planned> planned(SweepId sweep);

  std::mt19937_64 random_;
  std::filesystem::path file_;
  std::string kind_;
  std::vector<std::string> sweeps_;
  double noise_ = 0;
  int programs_ = 1;
  double open_ = 0;  ///< share of the trials that have not run
  Timestamp now_ = 1'700'000'000'000'000;
};

}  // namespace shardsweep::testing
