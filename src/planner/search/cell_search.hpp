// SPDX-License-Identifier: Apache-2.0
// One cell's search: which of its points most likely beats the best so far, and whether it is
// worth going on. The model, with ln for the natural logarithm and i, j for layouts:
//
// Speed (residuals.hpp, speed_belief.hpp). The error e_i = ln(measured_i / predicted_i) is a
// Gaussian process of mean 0 with the covariance (Rasmussen and Williams 2006, chapters 2, 4, 5)
//   k_ij = s^2 [ sum_p c_p^2 a_ip a_jp + c_cell^2 + c_own^2 exp(-|x_i - x_j|^2 / 2)
//                + c_value^2 v_ij ] + sum_p u_p^2 a_ip a_jp + u_scale^2
// a_ip: the share of part p (compute, memory, links …) in the step; x: log2 of degrees and sizes;
// v_ij: how many varying axes have one value in both; u: rates that the cluster file leaves out.
// Between cells, and between sweeps, each term is multiplied by the share that they have in
// common. The observation noise is Student's t with 3 degrees of freedom and scale n c_noise, by
// expectation and maximisation. s, n and one more factor of the links' c_p are averaged over a
// grid, with the leave-one-out density of what was measured as the weight (5.4.2 there) and a
// prior: normal in log2 of s and n.
//
// Memory (fit_belief.hpp). A layout needs estimate_i exp(d + w_i): d is one error of the trainer,
// Student's t (3, 0.06), known by its posterior after what ran and what ran out of memory; w_i is
// Student's t with 5 degrees of freedom, as wide as the bounds of the estimate. It fits if that
// is less than the device holds. Beside it stands a rule without an estimate: what needs as much
// as a layout that ran out of memory is out.
//
// An allocator that may have to try again, and a column that somebody's table leaves out
// (alternatives.hpp), make the speed of a point a mixture of normals.
//
// Value (value.hpp): ln EI_i + ln P(fits_i) - ln E[seconds_i], with the expected improvement EI
// over the best (Jones, Schonlau and Welch 1998). Stop (cell_stop.hpp): the product over what
// waits of 1 - P(fits_i) P(speed_i > (1 + regret) best) has reached until.confidence.
//
// Pure: the state follows from the calls and their order alone. A daemon that was started again
// and observes the same rows launches the same points.
// refresh() brings what was learnt to the points that have not ended, and rank() orders them;
// neither runs while nothing new was observed. What is spared is not gone: measurements may bring
// it back.
#pragma once

#include "predict/predictor.hpp"
#include "search/alternatives.hpp"
#include "search/candidate.hpp"
#include "search/cell_stop.hpp"
#include "search/fit_belief.hpp"
#include "search/search_point.hpp"
#include "search/speed_belief.hpp"
#include "search/value.hpp"

#include <shardsweep/search.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
      const LaunchCost& cost = {}, std::unique_ptr<Alternatives> alternatives = nullptr);

  /// Returns the point's number: 0, 1, …
  std::size_t add(const SearchPoint& point);
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
  /// What an earlier sweep has measured: its speed, and how its memory was off, the more the
  /// nearer its model and its number of GPUs are. That it ran out of memory rules nothing out:
  /// it may have been another version of the trainer.
  void remember(const SearchPoint& point, const SearchNews& news);

  [[nodiscard]] std::optional<CellLeader> leader() const { return runs_.leader(); }

  /// Of the points that wait, what to start first. Ties: in the order of adding.
  [[nodiscard]] std::vector<std::size_t> order();
  /// Why none of those that wait is worth starting; none: go on. `gpu_hours` are those used.
  [[nodiscard]] std::optional<std::string> enough(double gpu_hours);
  /// Those spared whose ground measurements contradict: the chance that one of them is faster
  /// is half as large again as the search had allowed for, and it may fit.
  [[nodiscard]] std::vector<std::size_t> to_reopen(double gpu_hours);
  [[nodiscard]] bool is_spared(std::size_t number) const {
    return candidates_[number].status == Candidate::Status::spared;
  }
  [[nodiscard]] bool has_spared() const { return spared_ > 0; }
  /// Of a point that waits: why it will not fit, by what this cell has measured. It is spared:
  /// what is measured later may take it back.
  [[nodiscard]] std::optional<std::string> wont_fit(std::size_t number);
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
  using Status = Candidate::Status;

  void set(Candidate& candidate, Status status);
  using Component = Candidate::Component;
  [[nodiscard]] std::vector<Component> components_of(const SearchPoint& point) const;
  [[nodiscard]] Candidate candidate_of(const SearchPoint& point, bool elsewhere);
  [[nodiscard]] double chance_unslowed(const Component& component) const;
  [[nodiscard]] double posterior_unslowed(
      const Component& component, double speed, std::int32_t cell) const;
  [[nodiscard]] double predicted(const Component& component, double speed, std::int32_t cell) const;
  using PosteriorOf = std::function<ResidualModel::Posterior(const ResidualInput&)>;
  void update_posterior(Candidate& candidate, const PosteriorOf& posterior_of) const;
  void observe(const Candidate& candidate, const SearchNews& news, std::int32_t cell);
  [[nodiscard]] std::vector<double> component_posterior(
      const Candidate& candidate, const SearchNews& news, std::int32_t cell);
  void observe_oom(OutOfMemory oom);
  void refresh();
  [[nodiscard]] std::vector<std::size_t> promising() const;
  void rank();
  [[nodiscard]] Prospect prospect_of(const Candidate& candidate) const;
  [[nodiscard]] std::string why_next(std::size_t number);

  SearchSettings settings_;
  Predictor predictor_;
  SpeedBelief speed_;
  MemoryBelief memory_;
  std::unique_ptr<Alternatives> alternatives_;  // null: each point is one layout
  CostBelief cost_;
  OwnRuns runs_;
  CellStop stop_;
  std::vector<Candidate> candidates_;
  std::int64_t spared_ = 0;          // of candidates_
  std::vector<std::size_t> ranked_;  // all that have not ended
  bool stale_ = true;                // ranked_ lacks an observation
};

}  // namespace shardsweep
