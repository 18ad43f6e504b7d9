// SPDX-License-Identifier: Apache-2.0
// One cell's search: which point's run is worth most per second, and whether to go on. A cell is
// one model on so many GPUs, a point one layout of it; R&W is Rasmussen and Williams, Gaussian
// Processes for Machine Learning, 2006. All logarithms are natural but for log2.
//
// Speed (residuals.hpp, speed_belief.hpp). e_i = ln(measured / predicted tokens per second and
// GPU) of layout i is a Gaussian process of mean 0 with the kernel
//   k_ij = s^2 [ sum_p l_p^2 c_p^2 a_ip a_jp + c_cell^2 + c_own^2 exp(-|x_i - x_j|^2 / 2)
//                + c_value^2 (v_ij + m_ij) ] + sum_p u_p^2 a_ip a_jp + u_value^2 v_ij + u_scale^2
// The c are prior standard deviations, set by hand and judged by the bench (ResidualPrior,
// residual_prior()). a_ip: predicted share of part p (compute, memory, each kind of link …) in the
// step: a rate that is off by d in ln moves ln(speed) by a_ip d. x: log2 of each degree times 0.7,
// of batch sizes times 0.5, of GPUs and parameters times 0.3, and switches. v_ij: number of the
// cell's varying axes with one value in both; m_ij is 1 for equal micro-batches. u: what nobody
// knows, if the cluster file leaves a rate out; else 0, but for u_scale on CPUs. Layouts of two
// cells share 0.7 to 0.9 of each term's variance, by kind of term; of two sweeps, 0.7 of that. The
// observation noise is Student's t with 3 degrees of freedom and scale n c_noise, as a mixture of
// normals: expectation and maximisation give each run its own variance, so that an outlier weighs
// little. s, n and the links' l (1 or 4) are averaged, as variances, over a grid. Its weights are
// the leave-one-out density of what was measured (R&W 5.4.2) and a prior: log2 s and log2 n are
// standard normal, l = 4 has odds of 1 to e. With known rates s is 0.5 to 1, with unknown ones 0.5
// to 3.3 and l is 1.
//
// Memory (fit_belief.hpp). A layout needs estimate_i exp(d + w_i) bytes, and fits if a device holds
// them. d is one error of all estimates here: Student's t, 3 degrees of freedom, scale 0.06, on a
// grid. w_i is independent: Student's t, 5 degrees, of a scale by which the estimate's bounds are
// two deviations away. A run shows that its need is below capacity, an out-of-memory that it is
// above: no more. P(fits_i) averages over d. Beside it a rule of order: a layout is out if one ran
// out of memory that is no larger in any axis that memory grows with.
//
// A layout near its device's capacity may be slowed by its allocator's retries, or not: its speed
// is a mixture of two normals. So is that of a table's row without a column.
//
// Value (value.hpp): ln EI_i + ln P(fits_i) - ln E[seconds_i], largest first. EI is the expected
// improvement of ln(speed) over the best measured one (Jones, Schonlau and Welch 1998); before
// there is one, the speed itself. Stop: the product over all points that wait of
// 1 - P(fits_i) P(speed_i > (1 + regret) best) is at least until.confidence, as if points were
// independent: most errors are shared, which makes it late as a rule. `best` is the leader's
// measured speed, and speed_i what layout i does without the noise of a run. Points that run, that
// crashed or that were spared as too large are not in the product. Limits of runs and GPU-hours end
// a cell whatever is likely. It goes on only if the chance that was allowed for has grown by half:
// it would end and begin in turn otherwise. A crash teaches nothing; it counts as a run.
//
// Decision: what was tried for the stop and not taken (bench_planner, made machines, 6 seeds). A
// bound on the sum of expected improvements: as many GPU-hours or more. The noise of a run in
// speed_i: 6 % more, and claims no truer. The posterior of the leader's true speed for `best`:
// claims of 95 to 96 % are true in 99 % instead of 96 and the worst regret falls from 8.7 to 2.7 %,
// for 10 % more hours, and 14 % with what the two speeds have in common. Beside a noise of 3 or 8 %
// (bench_search_confidence) it is wrong as often: whether the best measured is the
// fastest measured is for finals to tell.
//
// Pure: what is believed follows from what was observed and its order alone, and not from when
// somebody asked. A daemon that was started again and observes the same rows in their order
// launches the same points. So scales are calibrated at fixed numbers of runs: at 3, whenever they
// have grown by half, and whenever runs of other cells are taken in.
#pragma once

#include "predict/predictor.hpp"
#include "search/fit_belief.hpp"
#include "search/residuals.hpp"
#include "search/search_point.hpp"
#include "search/speed_belief.hpp"
#include "search/value.hpp"

#include <shardsweep/search.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

// A cell's points as its search sees them.

// What a point may be. A point of a sweep is one layout. A row of somebody's table that leaves a
// column out may be one of several, and what is measured says which: so shardsweep-lab judges a
// search by such tables.

/// One layout that a point may be.
struct Alternative {
  Point point;
  RunTraits traits;
};

/// The alternatives of a cell's points, and how likely each is.
class Alternatives {
 public:
  Alternatives() = default;
  Alternatives(const Alternatives&) = delete;
  Alternatives& operator=(const Alternatives&) = delete;
  virtual ~Alternatives() = default;

  /// Layouts that the point may be; at least one.
  [[nodiscard]] virtual std::vector<Alternative> of(const SearchPoint& point) const = 0;
  /// A point of several joins the cell, or has been measured in another one (`elsewhere`).
  /// Returns its number, for the calls below.
  [[nodiscard]] virtual std::size_t add(const SearchPoint& point, bool elsewhere) = 0;
  /// The chances of that point's alternatives, adding up to one.
  [[nodiscard]] virtual std::vector<double> weights(std::size_t number) const = 0;
  /// Weighs the alternatives anew after a run of the point. `likelihoods`: of that run, by
  /// alternative. Returns the posterior weights.
  virtual std::vector<double> learn(std::size_t number, std::vector<double> likelihoods) = 0;
};

/// Maker of a new cell's alternatives; null: each point is one layout.
using MakeAlternatives = std::unique_ptr<Alternatives> (*)();

struct Candidate {
  enum class Status : std::uint8_t {
    waiting,
    started,
    spared,  ///< left out by the search before it ran; may be wanted again
    tried,   ///< ran, and not out of memory
    gone,    ///< ran out of memory, or was skipped or cancelled
  };
  /// Predictions for one of the layouts that the point may be.
  struct Component {
    ResidualInput input;
    FitBelief::Bounds bounds;
    double prior = 0;        ///< ln of the predicted tokens/s per GPU
    double log_retries = 0;  ///< ln of what retries of the allocator multiply its step by
  };

  /// Constant part of a candidate. Kept apart, since a tick walks over 100,000 candidates.
  struct Layout {
    SearchPoint is;
    std::vector<Component> components;          ///< a single one, if nothing is unknown
    std::optional<std::size_t> alternatives{};  ///< number in Alternatives, if it has several
  };

  std::unique_ptr<const Layout> layout;
  Status status = Status::waiting;
  std::size_t held_against = 0;  ///< count of OOMs that FitBelief::ruled_out_by() has compared

  // Posterior, given all that was measured until the last refresh.
  std::size_t likeliest = 0;       ///< index of the most probable of components
  std::vector<SpeedGuess> speeds;  ///< normals by component, with and without retries
  double mean = 0;                 ///< mean over all speeds, as in moments_of()
  double sigma = 0;
  double fits = 1;    ///< chance that memory suffices
  double step_s = 0;  ///< seconds of a train step at the mean speed
  // Judgements against the best of that time.
  double better = 1;    ///< chance that it is worth a run
  double log_gain = 0;  ///< ln of what a run that costs nothing would be worth

  [[nodiscard]] const ResidualInput& input() const { return layout->components[likeliest].input; }
  [[nodiscard]] bool has_ended() const { return status == Status::tried || status == Status::gone; }
};

/// The fastest point that was measured to its end.
struct CellLeader {
  std::size_t number = 0;  ///< number of the point
  double tokens_per_s_per_gpu = 0;
  double resolution = 0;  ///< share of that speed that its log rounds away
};

/// Why layouts are left out that most likely do not fit.
inline constexpr std::string_view unfit_reason =
    "Judging by the memory of runs so far, the layout most likely does not fit "
    "(search.rules.memory).";

class CellSearch {
 public:
  CellSearch(const SearchSettings& settings, const ClusterSpec& cluster, Predictor predictor,
      const LaunchCost& cost = {}, std::unique_ptr<Alternatives> alternatives = nullptr);

  /// Returns the point's number: 0, 1, …
  std::size_t add(const SearchPoint& point);
  [[nodiscard]] std::size_t size() const { return candidates_.size(); }
  [[nodiscard]] const SearchPoint& point(std::size_t number) const {
    return candidates_[number].layout->is;
  }
  /// Marks a point as handed out: it no longer waits.
  void start(std::size_t number);
  /// Lets a point wait again that did not run after all, or is wanted again.
  void put_back(std::size_t number);
  /// Leaves out a waiting point, because enough() or wont_fit() makes it needless; put_back() takes
  /// it back.
  void spare(std::size_t number);
  /// Observes the end of a point. A point that was skipped or cancelled teaches nothing.
  void end(std::size_t number, const SearchNews& news);
  /// Observes a run of another cell; `lesson` is the caller's number of it.
  void learn(const SearchPoint& point, const SearchNews& news, std::size_t lesson = 0);
  /// Observes a run of an earlier sweep: its speed, and how far its memory estimate was off. Memory
  /// counts the more, the nearer its model and number of GPUs are. Its OOM rules nothing out: the
  /// trainer may have been another version.
  void remember(const SearchPoint& then, const SearchNews& news);

  [[nodiscard]] const std::optional<CellLeader>& leader() const { return leader_; }

  /// Points that wait, in the order in which to start them. Ties: in the order of adding.
  [[nodiscard]] std::vector<std::size_t> order();
  /// Reason why no point that waits is worth starting; none: go on. `gpu_hours`: used so far.
  [[nodiscard]] std::optional<std::string> enough(double gpu_hours);
  /// Spared points to take back: they may fit, and measurements contradict the stop. The chance
  /// of a faster point is then half as large again as until.confidence allows.
  [[nodiscard]] std::vector<std::size_t> to_reopen(double gpu_hours);
  [[nodiscard]] bool is_spared(std::size_t number) const {
    return candidates_[number].status == Candidate::Status::spared;
  }
  [[nodiscard]] bool has_ended(std::size_t number) const { return candidates_[number].has_ended(); }
  [[nodiscard]] bool has_spared() const { return spared_ > 0; }
  /// Reason why a point that waits most likely does not fit, by this cell's measurements. It is
  /// only spared: later measurements may take that back.
  [[nodiscard]] std::optional<std::string> wont_fit(std::size_t number);
  /// Run that was out of memory though it needs no more than this waiting point; null: none.
  [[nodiscard]] const OutOfMemory* ruled_out_by(std::size_t number);
  /// Expectations for a point that has not ended.
  struct Outlook {
    double tokens_per_s_per_gpu = 0;
    double sigma = 0;   ///< standard deviation of ln(tokens/s per GPU)
    double fits = 1;    ///< chance that memory suffices
    double better = 1;  ///< chance that it is worth a run
    double seconds = 0;
    std::string why;  ///< reason why it is the next to run
  };
  [[nodiscard]] Outlook outlook(std::size_t number);
  /// Prediction for a point, to be shown after the sentence of enough().
  [[nodiscard]] std::string bound_text(std::size_t number);

 private:
  using Status = Candidate::Status;

  void set(Candidate& candidate, Status status);
  using Component = Candidate::Component;
  [[nodiscard]] std::vector<Component> components_of(const SearchPoint& point) const;
  [[nodiscard]] Candidate::Layout layout_of(const SearchPoint& point, bool elsewhere);
  [[nodiscard]] double chance_unslowed(const Component& component) const;
  [[nodiscard]] double posterior_unslowed(
      const Component& component, double speed, std::int32_t cell) const;
  [[nodiscard]] double predicted(const Component& component, double speed, std::int32_t cell) const;
  void update_posterior(Candidate& candidate) const;
  void observe(const Candidate::Layout& layout, const SearchNews& news, std::int32_t cell);
  [[nodiscard]] std::vector<double> component_posterior(
      const Candidate::Layout& layout, const SearchNews& news, std::int32_t cell);
  void observe_oom(OutOfMemory oom);
  void refresh();
  /// `none_left`: the last of the points that a refresh renews has ended.
  void refresh_if_due(bool none_left = false);
  using Ranks = std::vector<std::pair<double, std::size_t>>;  // lowest first, and which point
  [[nodiscard]] std::vector<std::size_t> promising(std::size_t most) const;
  void judge();
  [[nodiscard]] double chance_of_better(const Candidate& candidate) const;
  [[nodiscard]] double chance_of_none(bool with_spared) const;
  [[nodiscard]] std::optional<std::string> limit_reached(double gpu_hours) const;
  void rank();
  [[nodiscard]] std::string why_next(std::size_t number);

  SearchSettings settings_;
  Predictor predictor_;
  SpeedBelief speed_;
  FitBelief memory_;
  std::unique_ptr<Alternatives> alternatives_;  // null: each point is one layout
  CostBelief cost_;
  std::int64_t started_ = 0;  // runs of the cell
  std::int64_t judged_ = 0;   // of them, those that memory has a verdict of
  std::optional<CellLeader> leader_;
  std::optional<double> best_;  // ln of its tokens/s per GPU
  std::vector<Candidate> candidates_;
  std::int64_t spared_ = 0;  // count of spared candidates_
  std::vector<std::size_t>
      renewed_;            // open points whose posteriors each refresh renews; empty: not chosen
  bool judge_all_ = true;  // judgements of other points lack a change of the best
  Ranks ranked_;           // points that have not ended, the most valuable first
  bool stale_ = true;      // ranked_ lacks an observation
  bool unranked_ = false;  // ranked_ lacks what a launch was seen to cost, in any cell
};

}  // namespace shardsweep
