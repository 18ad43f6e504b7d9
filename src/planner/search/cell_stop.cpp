// SPDX-License-Identifier: Apache-2.0
// When a cell's search is over, for all of its points or for one. Two things have to hold: most
// likely nothing that waits beats the best by more than until.regret, and each structural value
// was tried or is bounded by measurements (coverage). Chances are multiplied as if points had
// nothing in common; they resemble each other, so that this errs on the side of going on.
// Limits of runs and GPU-hours end a cell whatever is likely. A cell that has ended goes on
// only if the chance that was allowed for has grown by half: it would end and begin in turn
// otherwise.
#include "search/cell_search.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardsweep {

double CellSearch::chance_of_better(const Candidate& candidate, double by) const {
  const double runs = candidate.fits * works(candidate);
  if (!best_) return runs;
  // The best may be slower than its log says.
  const double rounded = leader_ ? std::min(leader_->resolution, 0.5) : 0;
  const double needed = *best_ + std::log1p(-rounded) + std::log1p(by);
  return runs * normal_cdf((candidate.mean - needed) / std::max(candidate.sigma, 1e-6));
}

/// That no point which waits is faster than the best by `regret`.
double CellSearch::chance_of_none(bool with_spared) const {
  double none = 1;
  for (const auto& candidate : candidates_) {
    const bool counts = candidate.status == Status::waiting ||
                        (with_spared && candidate.status == Status::spared);
    if (counts) none *= 1 - candidate.better;
  }
  return none;
}

Standing CellSearch::standing_of(const Candidate& candidate) const {
  switch (candidate.status) {
    case Status::tried:
      return Standing::tried;
    case Status::gone:
      return Standing::gone;
    case Status::started:
      return Standing::running;
    case Status::waiting:
    case Status::spared:
      break;
  }
  // Of its error that much has to be explained by measurements before its bound is one.
  constexpr double explained = 0.5;
  constexpr double likely = 0.5;
  const double negligible = (1 - settings_.until.confidence) / 4;
  const bool is_bounded = candidate.known >= explained && candidate.better < negligible;
  return candidate.fits * works(candidate) < likely || is_bounded ? Standing::bounded
                                                                  : Standing::open;
}

const std::vector<Uncovered>& CellSearch::missing() {
  if (missing_) return *missing_;
  std::vector<StructuredPoint> points;
  points.reserve(candidates_.size());
  for (const auto& candidate : candidates_)
    points.push_back({candidate.site().structure, standing_of(candidate)});
  missing_ = uncovered(points);
  return *missing_;
}

bool CellSearch::limits_are_reached(double gpu_hours) const {
  const auto& until = settings_.until;
  return (until.runs > 0 && started_ >= until.runs) ||
         (until.gpu_hours > 0 && gpu_hours >= until.gpu_hours);
}

std::optional<std::string> CellSearch::enough(double gpu_hours) {
  const auto& until = settings_.until;
  if (limits_are_reached(gpu_hours)) {
    if (until.runs > 0 && started_ >= until.runs)
      return fmt::format("Search stopped: this cell has used its {} (search.until.runs).",
                         counted(until.runs, "run"));
    return fmt::format(
        "Search stopped: this cell has used {:.2f} of its {:g} GPU-hours "
        "(search.until.gpu_hours).",
        gpu_hours, until.gpu_hours);
  }
  if (until.regret <= 0) return std::nullopt;
  refresh();
  const double none = chance_of_none(false);
  if (none < until.confidence) return std::nullopt;
  // Rounded down: 99.9 % is not certainty.
  const double sure = std::min(std::floor(100 * none), 99.0);
  if (!best_)
    return fmt::format("Search stopped: {:.0f} % sure that nothing untested fits into memory.",
                       sure);
  if (!missing().empty()) return std::nullopt;
  return fmt::format(
      "Search stopped: {:.0f} % sure that nothing untested beats {} tokens/s per GPU by {:g} "
      "%{}.{}",
      sure, grouped(std::llround(std::exp(*best_))), 100 * until.regret,
      leader_ && leader_->resolution > 0
          ? fmt::format(" (its log rounds {} away)", percent_text(leader_->resolution))
          : "",
      still_running());
}

/// A run that goes on may beat the best: it is part of no claim about what is untested.
std::string CellSearch::still_running() const {
  const auto running = std::count_if(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& candidate) { return candidate.status == Status::started; });
  if (running == 0) return "";
  return fmt::format(" Not yet measured: {} of this cell.", counted(running, "run"));
}

bool CellSearch::is_contradicted(double gpu_hours) {
  const auto& until = settings_.until;
  if (until.regret <= 0 || limits_are_reached(gpu_hours)) return false;
  constexpr double as_large_again = 1.5;
  refresh();
  return 1 - chance_of_none(true) > as_large_again * (1 - until.confidence);
}

/// A chance below which a layout is left out, and one from which it is taken back.
constexpr double least_chance = 0.003;
constexpr double fair_chance = 0.05;

std::vector<std::size_t> CellSearch::to_reopen(double gpu_hours) {
  std::vector<std::size_t> numbers;
  if (limits_are_reached(gpu_hours)) return numbers;
  refresh();
  if (settings_.until.regret > 0 && !is_contradicted(gpu_hours)) return numbers;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto& candidate = candidates_[i];
    const double fits = std::max(candidate.fits, chance_at_best(candidate));
    if (candidate.status == Status::spared && fits >= fair_chance) numbers.push_back(i);
  }
  return numbers;
}

/// That a layout fits if its trainer does well all that it may: an estimate of which nothing
/// but the optimistic bound is believed.
double CellSearch::chance_at_best(const Candidate& candidate) const {
  constexpr double about = 0.1;
  double chance = 0;
  for (const auto& read : candidate.reads) {
    const auto lower = static_cast<double>(read.bounds.lower);
    chance = std::max(chance, fit_.probability({static_cast<std::int64_t>(lower * (1 - about)),
                                                static_cast<std::int64_t>(lower * (1 + about)),
                                                read.bounds.capacity}));
  }
  return chance;
}

std::optional<std::string> CellSearch::wont_fit(std::size_t number) {
  const auto& candidate = candidates_[number];
  // No cell is given up before it has run something.
  if (!settings_.rules.memory || judged_ == 0) return std::nullopt;
  if (settings_.policy == SearchPolicy::exhaustive || candidate.status != Status::waiting)
    return std::nullopt;
  refresh();
  if (candidate.fits >= least_chance || chance_at_best(candidate) >= least_chance)
    return std::nullopt;
  constexpr double gib = 1024.0 * 1024 * 1024;
  const auto& bounds = candidate.reads[candidate.likeliest].bounds;
  return fmt::format(
      "{} Here: {:.1f} to {:.1f} GiB estimated, {:.1f} GiB there, {:.1f} % likely to fit.",
      unfit_reason, static_cast<double>(bounds.lower) / gib,
      static_cast<double>(bounds.upper) / gib, static_cast<double>(bounds.capacity) / gib,
      100 * candidate.fits);
}

std::string CellSearch::why_next(std::size_t number) {
  const auto& candidate = candidates_[number];
  if (!best_) return "No layout of the cell has been measured yet.";
  if (settings_.until.regret > 0 && chance_of_none(false) >= settings_.until.confidence) {
    std::vector<Uncovered> covered;
    for (const auto& one : missing()) {
      if (candidate.site().structure.at(one.axis) == one.value) covered.push_back(one);
    }
    if (!covered.empty())
      return fmt::format("Nothing that was measured has {}.", text_of(covered));
  }
  return fmt::format("{:.1f} % likely to beat {} tokens/s per GPU.", 100 * candidate.better,
                     grouped(std::llround(std::exp(*best_))));
}

CellSearch::Outlook CellSearch::outlook(std::size_t number) {
  if (settings_.policy == SearchPolicy::exhaustive) return {.why = "The plan's order."};
  refresh();
  const auto& candidate = candidates_[number];
  const Prospect prospect = prospect_of(candidate);
  return {std::exp(candidate.mean),
          candidate.sigma,
          candidate.fits,
          candidate.better,
          expected_seconds(prospect, best_.has_value(), best_.value_or(0), cost_),
          why_next(number)};
}

std::string CellSearch::bound_text(std::size_t number) {
  refresh();
  const auto& candidate = candidates_[number];
  constexpr double upper_sigmas = 1.645;
  return fmt::format(
      "Here: predicted {} (95 % below {}), {:.0f} % likely to fit.",
      grouped(std::llround(std::exp(candidate.mean))),
      grouped(std::llround(std::exp(candidate.mean + upper_sigmas * candidate.sigma))),
      100 * candidate.fits);
}

}  // namespace shardsweep
