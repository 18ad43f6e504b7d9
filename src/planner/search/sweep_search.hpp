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
  bool started = false;  ///< has an attempt, or had one
  bool asked = false;    ///< wanted by name, so never skipped
  bool spared = false;   ///< ended skipped, as a search left it out and may take it back
  std::optional<SearchNews> news;
  double gpu_hours = 0;  ///< GPU-hours of its attempts that are over
  /// The attempt that runs, and since when; 0: none.
  AttemptId running = 0;
  Timestamp running_since = 0;
};

class SweepSearch {
 public:
  SweepSearch(const SearchSettings& settings, ClusterSpec cluster, Predictor predictor,
      const LaunchCost& cost = {}, MakeAlternatives make_alternatives = nullptr);

  /// Adds a trial. To be called in the plan's order.
  void add(const SearchTrial& trial);
  /// Takes the end of a trial; a second call changes nothing.
  void end(TrialId trial, const SearchNews& news);
  /// Adds a run from elsewhere, under this name, to the lessons of all cells.
  void learn(SearchPoint point, const SearchNews& news, std::string name = "a run elsewhere");
  /// Adds a run of an earlier sweep, which counts less than a measurement of today.
  void remember(SearchPoint point, const SearchNews& news);
  /// Observes a tick's changes, before or after they are committed. A second call changes nothing.
  void observe(std::span<const Change> changes);
  /// A trial whose run had ended cancelled was measured all the same, or one that is over has a
  /// measurement of before this search: made anew from the database, a search knows of that.
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
    std::vector<const TrialRow*> order;  ///< trials that wait, the next to start first
    std::vector<Skip> skip;              ///< trials that wait and are left out
  };
  /// Trials that ended spared and may be the fastest after all: what was measured since then
  /// contradicts the ground for ending their cell. Planned again, they wait.
  [[nodiscard]] std::vector<TrialId> to_reopen();
  /// Order and skips for the planned trials. Others of the sweep have been started, or have ended.
  [[nodiscard]] Advice advise(const std::vector<const TrialRow*>& waiting);

  /// Step time above which a trial that starts now is cut short; none: it runs to its end.
  struct Bound {
    TrialId leader = 0;  ///< the fastest of its cell so far
    // Times of a train step with the trial's own batch.
    double leader_step_ms = 0;
    double give_up_above_ms = 0;
  };
  [[nodiscard]] std::optional<Bound> bound_of(TrialId trial) const;

  /// Expectations for a trial that is to run now; none: not known.
  [[nodiscard]] std::optional<CellSearch::Outlook> outlook_of(TrialId trial);

  [[nodiscard]] const SearchSettings& settings() const { return settings_; }

 private:
  struct Cell {
    CellSearch search;
    std::vector<TrialId> trials;      // trials by the search's number
    std::vector<std::size_t> places;  // places in places_, by the search's number
    double gpu_hours = 0;
    std::size_t taught = 0;  // how many of lessons_ it has
  };
  struct Place {
    Cell* cell;
    std::size_t number;
    const TrialRow* waits = nullptr;  // row of its trial, if it waits
    bool is_told = false;             // true: its cell knows whether it waits
  };
  struct Lesson {
    const Cell* from;
    TrialId trial;
    std::string name;  // name of a run that is no trial
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
  std::vector<Place> places_;                         // trials in the order of adding
  std::unordered_map<TrialId, std::size_t> numbers_;  // indices into places_
  std::map<TrialId, SearchNews> ended_;
  bool outdated_ = false;  // rows have a measurement that was not observed
  std::set<TrialId> asked_;
  std::map<AttemptId, Timestamp> started_at_;
  std::set<AttemptId> billed_;   // attempts whose GPU-hours are counted
  std::vector<Lesson> lessons_;  // runs that cells are taught, in the order of observing
};

}  // namespace shardsweep
