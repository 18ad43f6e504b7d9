// SPDX-License-Identifier: Apache-2.0
// One cell's search: which of its points most likely beats the best so far, and whether it is
// worth going on. Pure: what has run is told to it.
#pragma once

#include "predict/predictor.hpp"
#include "predict/rates.hpp"
#include "search/coverage.hpp"
#include "search/fit_belief.hpp"
#include "search/residuals.hpp"
#include "search/search_point.hpp"
#include "search/value.hpp"

#include <shardsweep/search.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Why layouts are left out that most likely do not fit.
inline constexpr std::string_view unfit_reason =
    "Most likely it does not fit, by the memory of runs so far (search.rules.memory).";

class CellSearch {
 public:
  CellSearch(const SearchSettings& settings, const ClusterSpec& cluster, Predictor predictor,
             const LaunchCost& cost = {});

  /// Returns the point's number: 0, 1, …
  std::size_t add(SearchPoint point);
  [[nodiscard]] std::size_t size() const { return candidates_.size(); }
  /// It has been handed out: it is no longer waiting.
  void start(std::size_t number);
  /// It did not run after all, or is wanted again, and waits.
  void put_back(std::size_t number);
  /// enough() has made it needless: it is not handed out while its cell is over.
  void spare(std::size_t number);
  /// It ended, or will never run (skipped, cancelled): then it teaches nothing.
  void end(std::size_t number, const SearchNews& news);
  /// What another cell has measured; `lesson` is the caller's number of it.
  void learn(const SearchPoint& point, const SearchNews& news, std::size_t lesson = 0);

  /// The fastest that was measured to its end.
  struct Leader {
    std::size_t number = 0;
    double tokens_per_s_per_gpu = 0;
    double resolution = 0;  ///< share of that speed that its log rounds away
  };
  [[nodiscard]] std::optional<Leader> leader() const { return leader_; }

  /// Of the points that wait, what to start first. Ties: in the order of adding.
  [[nodiscard]] std::vector<std::size_t> order();
  /// Why none of those that wait is worth starting; none: go on. `gpu_hours` are those used.
  [[nodiscard]] std::optional<std::string> enough(double gpu_hours);
  /// Those spared whose ground measurements contradict: the chance that one of them is faster
  /// is half as large again as the search had allowed for, and it may fit.
  [[nodiscard]] std::vector<std::size_t> to_reopen(double gpu_hours);
  /// Of a point that waits: why it will not fit, by what this cell has measured. It is spared:
  /// what is measured later may take it back.
  [[nodiscard]] std::optional<std::string> wont_fit(std::size_t number);
  /// One that ran out of memory, in this cell or in another one.
  struct OutOfMemory {
    SearchPoint is;
    std::optional<std::size_t> number;  ///< of this cell
    std::size_t lesson = 0;             ///< of another one
  };
  /// Of a point that waits: one that ran out of memory and needs no more; null where nothing
  /// rules it out.
  [[nodiscard]] const OutOfMemory* ruled_out_by(std::size_t number);
  /// What is expected of a point that has not ended.
  struct Outlook {
    double tokens_per_s_per_gpu = 0;
    double sigma = 0;   ///< of its logarithm
    double fits = 1;    ///< chance that memory suffices
    double better = 1;  ///< chance that it is worth a run
    double seconds = 0;
    std::string why;  ///< it is the next to run
  };
  [[nodiscard]] Outlook outlook(std::size_t number);
  /// What is expected of a point, beside the sentence of enough().
  [[nodiscard]] std::string bound_text(std::size_t number);

 private:
  enum class Status : std::uint8_t { waiting, started, spared, tried, gone };
  /// One of the layouts that a point may be.
  struct Read {
    std::size_t kind = 0;
    ResidualSite site;
    FitBelief::Bounds bounds;
    double prior = 0;  // ln of the predicted tokens/s per GPU
    double step_s = 0;
  };
  struct Candidate {
    SearchPoint is;
    std::vector<Read> reads;          // one, where nothing of it is unknown
    std::size_t likeliest = 0;        // of reads
    std::optional<std::size_t> look;  // of looks_: where others may look like it
    double prior = 0;                 // over all reads
    double between = 0;               // variance between them
    double step_s = 0;
    [[nodiscard]] const ResidualSite& site() const { return reads[likeliest].site; }
    [[nodiscard]] bool has_ended() const {
      return status == Status::tried || status == Status::gone;
    }
    Status status = Status::waiting;
    bool late = false;  // a named rule says that it most likely fails
    // by the last refresh()
    double mean = 0;
    double sigma = 0;
    double known = 0;
    double fits = 1;
    double better = 1;             // its chance to be worth a run
    double value = 0;              // ln of what its run is worth
    std::size_t held_against = 0;  // how many of out_of_memory_ do not rule it out
  };
  /// How often what a rule puts late has run and has failed: none of 259 published runs did.
  struct LateRuns {
    double worked = 0.05;
    double tried = 10;
  };

  /// Points that look alike, as what tells them apart is left out.
  struct Look {
    std::size_t points = 0;
    std::vector<std::vector<double>> ended;  // how likely each reading was, of those
  };

  struct Measured {
    ResidualSite site;
    double off = 0;    // ln(measured / predicted)
    double speed = 0;  // ln of tokens/s per GPU
  };

  [[nodiscard]] FitBelief::Bounds bounds_of(const MemoryGuess& guess) const;
  [[nodiscard]] std::vector<Read> reads_of(const SearchPoint& point) const;
  [[nodiscard]] std::vector<double> weights_of(const Candidate& candidate) const;
  [[nodiscard]] std::vector<double> not_taken(const Candidate& candidate) const;
  void look_for_twins(Candidate& candidate);
  void settle(Candidate& candidate) const;
  void hear(const Candidate& candidate, const SearchNews& news, std::int32_t cell);
  [[nodiscard]] std::vector<double> which(const Candidate& candidate, const SearchNews& news,
                                          std::int32_t cell);
  void hear_memory(const SearchPoint& point, const Read& read, const SearchNews& news);
  void hear_oom(OutOfMemory oom);
  void hear_cost(const Point& point, const SearchNews& news);
  [[nodiscard]] double works(const Candidate& candidate) const;
  [[nodiscard]] UnknownRates rates_of(const Point& point) const;
  void widen(const SearchPoint& point, const Structure& structure);
  [[nodiscard]] ResidualPrior prior() const;
  [[nodiscard]] bool others_have_grown() const;
  void learn_residuals();
  void add_others();
  void refresh();
  [[nodiscard]] std::vector<std::size_t> promising() const;
  void rank();
  [[nodiscard]] double chance_of_none(bool with_spared) const;
  [[nodiscard]] const std::vector<Uncovered>& missing();
  [[nodiscard]] Standing standing_of(const Candidate& candidate) const;
  [[nodiscard]] std::string still_running() const;
  [[nodiscard]] std::string why_next(std::size_t number);
  [[nodiscard]] Prospect prospect_of(const Candidate& candidate) const;
  [[nodiscard]] bool limits_are_reached(double gpu_hours) const;
  [[nodiscard]] bool is_contradicted(double gpu_hours);
  [[nodiscard]] double chance_at_best(const Candidate& candidate) const;
  [[nodiscard]] double chance_of_better(const Candidate& candidate, double by) const;

  SearchSettings settings_;
  ClusterSpec cluster_;
  Predictor predictor_;
  UnknownRates unknown_;
  std::array<bool, structural_axes.size()> varies_{};
  ResidualModel residuals_;
  FitBelief fit_;
  ReadingBelief readings_;
  LaunchCost cost_;
  double starts_ = 1;  // how many runs cost_.start_s is the mean of
  double ooms_ = 1;
  LateRuns late_runs_;
  std::int64_t judged_ = 0;  // own runs that memory has a verdict of
  std::vector<Candidate> candidates_;
  std::map<std::string, std::size_t> look_of_;  // of points with unknown axes, by all others
  std::vector<Look> looks_;
  std::vector<std::size_t> ranked_;         // all that have not ended
  std::vector<OutOfMemory> out_of_memory_;  // of which none rules a later one out
  std::vector<Measured> measured_;
  std::size_t learnt_ = 0;        // how many of them the residuals know
  std::size_t heard_ = 0;         // runs of other cells
  std::size_t heard_learnt_ = 0;  // those that the residuals were last built with
  std::map<std::array<std::int64_t, 4>, std::int32_t> others_;  // cells, by what they are
  std::optional<double> best_;                                  // ln of tokens/s per GPU
  std::optional<Leader> leader_;                                // who has it
  std::int64_t started_ = 0;
  bool stale_ = true;
  std::optional<std::vector<Uncovered>> missing_;  // none: to be found out
};

}  // namespace shardsweep
