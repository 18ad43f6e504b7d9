// SPDX-License-Identifier: Apache-2.0
// Who won a cell, how sure that is, and what makes it doubtful. planner/answer decides it once;
// every command, page, file and notice prints this, and none decides anew. The layouts of a
// cell differ in their layout alone: model, sequence length, size, vars and software are the
// same.
#pragma once

#include <shardsweep/difference.hpp>
#include <shardsweep/rows.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Speed of one layout compared with another, or of one side of a comparison with the other side.
struct SpeedVerdict {
  Difference difference = Difference::undecided;  ///< difference of the first to the second
  Open open = Open::too_little_data;              ///< why it is undecided; nothing: it is not
  /// Lead of the first: its speed / the second's - 1. Below 0: it is slower.
  double share = 0;
  std::optional<double> half_width{};  ///< half the 95 % interval of `share`; none: not known
  std::int64_t pairs = 0;              ///< pairs of finals; 0: single runs were compared
  std::int64_t first_runs = 0;
  std::int64_t second_runs = 0;
  std::int64_t more = 0;         ///< pairs, or runs of each, that would tell; 0: not known
  bool within_rounding = false;  ///< `share` is below what their logs round away
  std::string reason{};          ///< the evidence in words
  friend bool operator==(const SpeedVerdict&, const SpeedVerdict&) = default;
};

/// A layout by all its runs that count together.
struct AnsweredLayout {
  std::string name;                    ///< "dp4 tp2 pp1 mb2 ga4 z1", with the vars if there are any
  TrialId trial = 0;                   ///< the run whose numbers stand for it: the median
  std::vector<TrialId> runs{};         ///< runs by speed; a finalist has only those in the finals
  double tokens_per_s_per_gpu = 0;     ///< speed of that run
  std::optional<double> spread{};      ///< spread of several runs: (most - least) / median
  std::optional<double> half_width{};  ///< half the 95 % interval of its median, as a share
  bool in_finals = false;
  // Facts of that run on which verdicts depend.
  double resolution = 0;    ///< share of the speed that its log rounds away
  double sm_clock_mhz = 0;  ///< 0: not known
  double step_noise = 0;    ///< noise of its speed by its train steps, as a share; 0: not known
  double others_cpu = 0;    ///< share of the CPUs that others used meanwhile
  SpeedVerdict verdict{};   ///< first layout against this one; the first itself: against the second
  friend bool operator==(const AnsweredLayout&, const AnsweredLayout&) = default;
};

/// Reasons to doubt an answer.
enum class DoubtKind : std::uint8_t {
  partial,         ///< runs of other software, which may be faster, are left out
  unranked,        ///< a faster run is marked and therefore not ranked
  scaling,         ///< each GPU is faster than each of fewer GPUs
  one_run,         ///< the first or the second layout ran once
  steps_vary,      ///< train steps of a run vary by more than the gap
  load,            ///< other users' programs used the CPUs
  network,         ///< a control found the network, or the machine, in another state
  clocks,          ///< the SM clocks differ
  mixed_software,  ///< runs of several versions, settings or programs are ranked together
  contradiction,   ///< contradicted by another sweep's speed of the layout, or by how the run
                   ///< itself ended
  rounding,        ///< the logs round the gap away
  unconfirmed,     ///< finals on other nodes were asked for, and could not be held
};
SHARDSWEEP_WORDS(DoubtKind, "partial", "unranked", "scaling", "one_run", "steps_vary", "load",
    "network", "clocks", "mixed_software", "contradiction", "rounding", "unconfirmed");

struct Doubt {
  DoubtKind kind = DoubtKind::one_run;
  std::string text;  ///< a clause with the numbers
  friend bool operator==(const Doubt&, const Doubt&) = default;
};

/// Runs that would settle an open answer.
struct FurtherRuns {
  std::string text{};    ///< empty: it is settled, or more runs would not settle it
  double gpu_hours = 0;  ///< 0: not known
  friend bool operator==(const FurtherRuns&, const FurtherRuns&) = default;
};

struct CellAnswer {
  std::vector<AnsweredLayout> layouts{};  ///< fastest first; empty: nothing is ranked
  std::vector<Doubt> doubts{};            ///< the gravest first
  FurtherRuns settling{};
  double noise_of_run = 0;         ///< standard deviation of one run, as a share
  std::int64_t noise_freedom = 0;  ///< runs beyond the first of each layout; 0: not known
  bool by_finals = false;          ///< the first two were compared in finals
  std::int64_t measured = 0;       ///< runs that are ranked, of all layouts
  std::int64_t open = 0;           ///< trials of the cell that may still change it
  std::string mixed{};             ///< kinds of software that are ranked together; empty: one alone

  [[nodiscard]] const AnsweredLayout* winner() const {
    return layouts.empty() ? nullptr : &layouts.front();
  }
  [[nodiscard]] const AnsweredLayout* runner_up() const {
    return layouts.size() < 2 ? nullptr : &layouts[1];
  }
  friend bool operator==(const CellAnswer&, const CellAnswer&) = default;
};

}  // namespace shardsweep
