// SPDX-License-Identifier: Apache-2.0
// How the trials of a cell (model x sequence length x nodes or GPUs) are searched: in which
// order they run, and when it is enough.
#pragma once

#include <shardsweep/described.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

enum class SearchPolicy : std::uint8_t {
  exhaustive,  ///< every trial, lane by lane, in the plan's order
  best_first,  ///< trial that most likely beats the best so far, by all measurements
};
inline constexpr std::array<std::string_view, 2> search_policy_words{"exhaustive", "best_first"};

/// Conditions that end a cell before all its trials have run. 0: not by this.
struct SearchUntil {
  double regret = 0;  ///< end once no trial left is faster than the best by this fraction …
  double confidence = 0.95;  ///< … with this probability
  std::int64_t runs = 0;     ///< trials of the cell that have been started
  double gpu_hours = 0;      ///< used by the cell's attempts
  [[nodiscard]] bool any() const { return regret > 0 || runs > 0 || gpu_hours > 0; }
  friend bool operator==(const SearchUntil&, const SearchUntil&) = default;
};
// clang-format off
template <>
inline constexpr auto described<SearchUntil> = Entries{
    Key{"regret", &SearchUntil::regret, {KeyType::percent, "end when nothing untested is faster by more than this"}, Flag::optional},
    Key{"confidence", &SearchUntil::confidence, {KeyType::percent, "how sure that must be"}, Flag::optional},
    Key{"runs", &SearchUntil::runs, {KeyType::count, "end after so many runs", 1, 1'000'000'000}, Flag::optional},
    Key{"gpu_hours", &SearchUntil::gpu_hours, {KeyType::real, "end after so many GPU-hours"}, Flag::optional},
};
// clang-format on

/// Rules that no published run contradicts; each can be switched off by its name.
struct SearchRules {
  /// After an OOM, larger micro-batches of the same lane end skipped (1,143 such runs of the
  /// Ultra-Scale Playbook's 4,104, none succeeded).
  bool micro_batch = true;
  /// After an OOM, layouts of the same software and mechanisms that are nowhere smaller end
  /// skipped, if there is a search. So does a layout that fits with less than 0.3 % by the memory
  /// of runs so far; later measurements may take that back.
  bool memory = true;
  friend bool operator==(const SearchRules&, const SearchRules&) = default;
};
// clang-format off
template <>
inline constexpr auto described<SearchRules> = Entries{
    Key{"micro_batch", &SearchRules::micro_batch, {KeyType::boolean, "after an OOM, skip larger micro-batches of the same layout"}},
    Key{"memory", &SearchRules::memory, {KeyType::boolean, "skip layouts that need as much as one that ran out of memory, or that fit with less than 0.3 %"}},
};
// clang-format on

/// Earlier sweeps of the same hardware and family of trainers that a search learns from, and files
/// of knowledge ("imported:3f2a91c0").
struct LearnFrom {
  bool all = true;
  std::vector<std::string> sweeps{};  ///< sweeps if not all; names of files too
  [[nodiscard]] bool any() const { return all || !sweeps.empty(); }
  [[nodiscard]] bool includes(const std::string& sweep) const {
    return all || std::find(sweeps.begin(), sweeps.end(), sweep) != sweeps.end();
  }
  friend bool operator==(const LearnFrom&, const LearnFrom&) = default;
};

struct SearchSettings {
  SearchPolicy policy = SearchPolicy::exhaustive;
  SearchUntil until;
  SearchRules rules;
  /// Measurements of cells tell about other cells too.
  bool learn_across = true;
  /// Earlier measurements at the time of submission: the same for each daemon.
  LearnFrom learn_from{};
  /// An attempt ends once its train steps take so many times as long as those of the fastest
  /// trial of its cell; 0: never. An exhaustive sweep measures each trial to its end. Launches
  /// differ by 2 % by chance; what a launch's own steps vary by is added (attempt/cut_short).
  double cut_short = 1.05;
  [[nodiscard]] bool cuts_short() const {
    return policy == SearchPolicy::best_first && cut_short > 0;
  }
  /// True if it begins with measurements of earlier sweeps.
  [[nodiscard]] bool remembers() const {
    return policy == SearchPolicy::best_first && learn_from.any();
  }
  /// Order and stop are the plan's own: nothing has to be learnt.
  [[nodiscard]] bool is_plain() const { return policy == SearchPolicy::exhaustive && !until.any(); }
  friend bool operator==(const SearchSettings&, const SearchSettings&) = default;
};
// clang-format off
template <>
inline constexpr auto described<SearchSettings> = Entries{
    Key{"policy", &SearchSettings::policy, {.meaning = "order of the trials: the plan's, or the most promising first", .takes = "exhaustive or best_first", .otherwise = "exhaustive"}},
    Key{"until", &SearchSettings::until, {.meaning = "when a cell ends, see search.until; default: at its last trial", .takes = "a map"}},
    Key{"rules", &SearchSettings::rules, {.meaning = "rules that leave trials out, see search.rules", .takes = "a map"}},
    Key{"learn_across", &SearchSettings::learn_across, {KeyType::boolean, "cells learn from each other"}},
    Key{"learn_from", &SearchSettings::learn_from, {.meaning = "earlier sweeps of this database and files that `knowledge import` took in, on the same hardware with trainers of the same family, whose runs the search begins with; best_first alone", .takes = "all, none or a list of sweeps and files", .otherwise = "all"}},
    Key{"cut_short", &SearchSettings::cut_short, {.meaning = "end an attempt early if its train steps take this many times as long as those of the cell's best; best_first alone", .takes = "a factor or off"}},
};
// clang-format on

}  // namespace shardsweep
