// SPDX-License-Identifier: Apache-2.0
// The searches of one sweep, cell by cell, in terms of its trials: what decide() asks for the
// order of what waits, and for what need not run at all.
#pragma once

#include "search/cell_search.hpp"

#include <shardsweep/cell_key.hpp>
#include <shardsweep/change.hpp>
#include <shardsweep/library_gaps.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardsweep {

/// Cells are searched in the order of growing models and nodes.
using CellInOrder = std::pair<std::int64_t, CellKey>;  ///< parameters of the model first
[[nodiscard]] CellInOrder cell_of(const ModelSpec& model, const Point& point);

/// A trial as a search sees it, from the database or a plan.
struct SearchTrial {
  TrialId id = 0;
  SearchPoint point;
  bool started = false;  ///< it has, or had, an attempt
  bool asked = false;    ///< somebody wants it by name: it is never skipped
  bool spared = false;   ///< it ended skipped because its cell's search was over
  std::optional<SearchNews> news;
  double gpu_hours = 0;  ///< of its attempts that are over
  /// Of its attempt that runs, and since when; 0: none.
  AttemptId running = 0;
  Timestamp running_since = 0;
};

class SweepSearch {
 public:
  SweepSearch(const SearchSettings& settings, ClusterSpec cluster, Predictor predictor,
      const LaunchCost& cost = {}, MakeAlternatives make_alternatives = nullptr);

  /// In the plan's order.
  void add(const SearchTrial& trial);
  /// How a trial has ended; a second call changes nothing.
  void end(TrialId trial, const SearchNews& news);
  /// What was measured elsewhere, under this name; for all cells.
  void learn(SearchPoint point, const SearchNews& news, std::string name = "a run elsewhere");
  /// What an earlier sweep has measured: it says less than what is measured today.
  void remember(SearchPoint point, const SearchNews& news);
  /// What a tick has learnt, before or after it is committed: a second call changes nothing.
  void observe(std::span<const Change> changes);
  /// A trial whose run had ended cancelled was measured all the same: made anew from the
  /// database, a search knows of that.
  [[nodiscard]] bool is_outdated() const { return outdated_; }

  struct Skip {
    TrialId trial = 0;
    std::string cause;
    std::string of_cell;  ///< the part of the cause that holds for the whole cell
    /// A named rule forbids it, after the OOM of this trial, or of a run elsewhere (0), of this
    /// name. No name: `until` makes it needless, or most likely it does not fit.
    TrialId after_oom_of = 0;
    std::string after_oom_name{};
  };
  struct Advice {
    std::vector<const TrialRow*> order;  ///< of those that wait, the next to start first
    std::vector<Skip> skip;              ///< of those that wait
  };
  /// Trials that ended spared and may be the fastest after all: what was measured since then
  /// contradicts the ground for ending their cell. Planned again, they wait.
  [[nodiscard]] std::vector<TrialId> to_reopen();
  /// `trials` of the world that are planned wait.
  [[nodiscard]] Advice advise(const std::vector<const TrialRow*>& waiting);

  /// What a trial that is to start now is held against; none: it runs to its end.
  struct Bound {
    TrialId leader = 0;  ///< the fastest of its cell so far
    // Of a train step with the trial's own batch.
    double leader_step_ms = 0;
    double give_up_above_ms = 0;
  };
  [[nodiscard]] std::optional<Bound> bound_of(TrialId trial) const;

  /// What is expected of a trial that is to run now; none: it is not known.
  [[nodiscard]] std::optional<CellSearch::Outlook> outlook_of(TrialId trial);

  [[nodiscard]] const SearchSettings& settings() const { return settings_; }

 private:
  struct Cell {
    CellSearch search;
    std::vector<TrialId> trials;      // by number
    std::vector<std::size_t> places;  // the same, of places_
    double gpu_hours = 0;
    std::size_t taught = 0;  // how many of lessons_ it has
  };
  struct Place {
    Cell* cell;
    std::size_t number;
    const TrialRow* waits = nullptr;  // its row, if it waits
    bool is_told = false;             // its cell knows whether it waits
  };
  struct Lesson {
    const Cell* from;
    TrialId trial;
    std::string name;  // of one that is no trial
    SearchPoint point;
    SearchNews news;
    bool remembered = false;
  };

  [[nodiscard]] const Place* place_of(TrialId trial) const;
  [[nodiscard]] const SearchPoint& point_of(const Place& place) const;
  void bill(const Place& place, const AttemptRow& attempt);
  void teach(Cell& cell);
  [[nodiscard]] Skip after_oom(const Cell& cell, TrialId trial, const OutOfMemory& oom) const;
  void sync(const std::vector<const TrialRow*>& waiting, Advice& advice);

  SearchSettings settings_;
  ClusterSpec cluster_;
  Predictor predictor_;
  LaunchCost cost_;
  MakeAlternatives make_alternatives_;
  std::map<CellInOrder, Cell> cells_;
  std::vector<Place> places_;                         // in the order of adding
  std::unordered_map<TrialId, std::size_t> numbers_;  // of places_
  std::map<TrialId, SearchNews> ended_;
  bool outdated_ = false;  // what has ended cancelled was measured
  std::set<TrialId> asked_;
  std::map<AttemptId, Timestamp> started_at_;
  std::set<AttemptId> billed_;   // their GPU-hours are counted
  std::vector<Lesson> lessons_;  // for all cells, where they learn from each other
};

}  // namespace shardsweep
