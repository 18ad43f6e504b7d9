// SPDX-License-Identifier: Apache-2.0
// A run teaches its own cell at once. Other cells get it as a lesson when they are asked next, or
// when a run of theirs ends: each observes all runs in the order in which they ended, whenever
// anybody asks. What somebody has asked for is never skipped here. A skipped trial is remembered as
// spared, and not as ended: its cell may open again.
#include "search/sweep_search.hpp"

#include "predict/memory.hpp"
#include "predict/predictor.hpp"

#include <shardsweep/invariant.hpp>
#include <shardsweep/metric.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

/// Outcome to learn from: fragmented memory tells nothing of what other layouts need.
Outcome outcome_of(const TrialRow& trial) {
  return trial.fragmented ? Outcome::crashed : *trial.outcome;
}

constexpr double microsecond = 1e-6;

}  // namespace

CellInOrder cell_of(const ModelSpec& model, const Point& point) {
  // No model predicts the effect of free axes.
  return {parameters(model),
      {model.name, point.seq_len, point.nodes, point.gpus,
          fmt::format("{}", fmt::join(point.vars, ","))}};
}

SweepSearch::SweepSearch(const SearchSettings& settings, ClusterSpec cluster, Predictor predictor,
    const LaunchCost& cost, MakeAlternatives make_alternatives)
    : settings_(settings),
      cluster_(std::move(cluster)),
      predictor_(std::move(predictor)),
      cost_(cost),
      make_alternatives_(make_alternatives) {}

void SweepSearch::add(const SearchTrial& trial) {
  const auto key = cell_of(trial.point.model, trial.point.point);
  auto known = cells_.find(key);
  if (known == cells_.end()) {
    auto alternatives = make_alternatives_ != nullptr ? make_alternatives_() : nullptr;
    CellSearch search(settings_, cluster_, predictor_, cost_, std::move(alternatives));
    known = cells_.emplace(key, Cell{std::move(search), {}}).first;
  }
  auto& cell = known->second;
  const auto number = cell.search.add(trial.point);
  cell.trials.push_back(trial.id);
  cell.places.push_back(places_.size());
  cell.gpu_hours += trial.gpu_hours;
  numbers_.insert_or_assign(trial.id, places_.size());
  places_.push_back({&cell, number});
  if (trial.asked) asked_.insert(trial.id);
  if (trial.running != 0) started_at_.emplace(trial.running, trial.running_since);
  if (trial.started) cell.search.start(number);
  if (trial.spared) cell.search.spare(number);
  if (trial.news) end(trial.id, *trial.news);
}

const SweepSearch::Place* SweepSearch::place_of(TrialId trial) const {
  const auto found = numbers_.find(trial);
  return found == numbers_.end() ? nullptr : &places_[found->second];
}

const SearchPoint& SweepSearch::point_of(const Place& place) const {
  return place.cell->search.point(place.number);
}

void SweepSearch::learn(SearchPoint point, const SearchNews& news, std::string name) {
  lessons_.push_back({nullptr, 0, std::move(name), std::move(point), news});
}

void SweepSearch::remember(SearchPoint point, const SearchNews& news) {
  lessons_.push_back({nullptr, 0, "", std::move(point), news, true});
}

void SweepSearch::end(TrialId trial, const SearchNews& news) {
  const auto* const place = place_of(trial);
  if (place == nullptr) return;
  // A spared trial is not over: its cell may be opened again.
  auto& search = place->cell->search;
  if (news.outcome == Outcome::skipped && search.is_spared(place->number)) return;
  const auto [known, fresh] = ended_.try_emplace(trial, news);
  if (!fresh && known->second.outcome != Outcome::completed)
    outdated_ = outdated_ || news.outcome == Outcome::completed;
  if (!fresh) return;
  teach(*place->cell);
  search.end(place->number, news);
  if (settings_.learn_across) lessons_.push_back({place->cell, trial, "", point_of(*place), news});
}

void SweepSearch::observe(std::span<const Change> changes) {
  std::map<TrialId, SearchNews> measured;
  std::set<TrialId> marked;
  std::map<TrialId, double> seconds;
  for (const auto& change : changes) {
    if (const auto* one = std::get_if<AddMeasurement>(&change)) {
      // A marked measurement is stored, but not believed.
      if (one->mark != Mark::none)
        marked.insert(one->trial);
      else
        measured[one->trial] = {Outcome::completed, one->metric("tokens_per_s_per_gpu"),
            static_cast<std::int64_t>(one->metric("peak_memory_bytes")), 0, one->cut_short,
            one->metric("resolution")};
    } else if (const auto* attempt = std::get_if<PutAttempt>(&change)) {
      const auto* const place = place_of(attempt->row.trial);
      if (place == nullptr) continue;
      if (attempt->row.started_at > 0 && attempt->row.ended_at > attempt->row.started_at)
        seconds[attempt->row.trial] =
            static_cast<double>(attempt->row.ended_at - attempt->row.started_at) * microsecond;
      bill(*place, attempt->row);
    }
  }
  for (const auto& change : changes) {
    const auto* trial = std::get_if<SetTrial>(&change);
    if (trial == nullptr || !trial->row.outcome) continue;
    const auto found = measured.find(trial->row.id);
    auto news = found != measured.end() ? found->second : SearchNews{outcome_of(trial->row)};
    const auto took = seconds.find(trial->row.id);
    if (took != seconds.end()) news.seconds = took->second;
    // A rerun failed, and the measurement of before stands.
    const bool is_earlier = news.outcome == Outcome::completed && found == measured.end() &&
        !marked.contains(trial->row.id) && !ended_.contains(trial->row.id);
    outdated_ = outdated_ || is_earlier;
    end(trial->row.id, news);
  }
}

/// Counts an attempt's GPU-hours, once. An attempt that had ended before this search was made is
/// counted already.
void SweepSearch::bill(const Place& place, const AttemptRow& attempt) {
  if (attempt.state == State::running) started_at_[attempt.id] = attempt.started_at;
  const auto start = started_at_.find(attempt.id);
  const bool ended = attempt.state == State::ended && start != started_at_.end();
  if (!ended || !billed_.insert(attempt.id).second) return;
  const double held_s = static_cast<double>(attempt.ended_at - start->second) * microsecond;
  place.cell->gpu_hours += held_s * point_of(place).point.gpus / hour_s;
  started_at_.erase(start);
}

void SweepSearch::teach(Cell& cell) {
  for (; cell.taught < lessons_.size(); ++cell.taught) {
    const auto& lesson = lessons_[cell.taught];
    if (lesson.remembered) {
      cell.search.remember(lesson.point, lesson.news);
    } else if (lesson.from != &cell) {
      cell.search.learn(lesson.point, lesson.news, cell.taught);
    }
  }
}

/// Tells cells which points wait; others have been started, or ended by somebody else's decision.
/// Only a change is told to a cell, which may have 100,000 points.
void SweepSearch::sync(const std::vector<const TrialRow*>& waiting, Advice& advice) {
  std::vector<const TrialRow*> rows(places_.size(), nullptr);
  for (const auto* trial : waiting) {
    const auto found = numbers_.find(trial->id);
    if (found != numbers_.end()) {
      rows[found->second] = trial;
    } else {
      advice.order.push_back(trial);
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& place = places_[i];
    const auto* const row = rows[i];
    // The trial was measured once, and is planned again because its run is doubted: the search has
    // its answer.
    if (row != nullptr && place.cell->search.has_ended(place.number)) advice.order.push_back(row);
    const bool changes = !place.is_told || (place.waits == nullptr) != (row == nullptr);
    place.waits = row;
    place.is_told = true;
    if (!changes) continue;
    if (row != nullptr) {
      place.cell->search.put_back(place.number);
    } else {
      place.cell->search.start(place.number);
    }
  }
}

std::vector<TrialId> SweepSearch::to_reopen() {
  std::vector<TrialId> trials;
  for (auto& [key, cell] : cells_) {
    if (!cell.search.has_spared()) continue;
    teach(cell);
    for (const auto number : cell.search.to_reopen(cell.gpu_hours))
      trials.push_back(cell.trials[number]);
  }
  return trials;
}

std::optional<SweepSearch::Bound> SweepSearch::bound_of(TrialId trial) const {
  const auto* const place = place_of(trial);
  if (!settings_.cuts_short() || asked_.contains(trial) || place == nullptr) return std::nullopt;
  const auto leader = place->cell->search.leader();
  if (!leader) return std::nullopt;
  constexpr double milliseconds = 1e3;
  const double step_ms =
      milliseconds * speed_of(1, point_of(*place).point) / leader->tokens_per_s_per_gpu;
  return Bound{place->cell->trials[leader->number], step_ms, settings_.cut_short * step_ms};
}

std::optional<CellSearch::Outlook> SweepSearch::outlook_of(TrialId trial) {
  const auto* const place = place_of(trial);
  if (place == nullptr) return std::nullopt;
  teach(*place->cell);
  return place->cell->search.outlook(place->number);
}

SweepSearch::Skip SweepSearch::after_oom(
    const Cell& cell, TrialId trial, const OutOfMemory& oom) const {
  Skip skip{trial, "The layout needs at least as much memory as", "", 0, ""};
  skip.after_oom_of = oom.number ? cell.trials[*oom.number] : lessons_[oom.lesson].trial;
  skip.after_oom_name = skip.after_oom_of == 0 ? lessons_[oom.lesson].name
                                               : fmt::format("trial {}", skip.after_oom_of);
  return skip;
}

SweepSearch::Advice SweepSearch::advise(const std::vector<const TrialRow*>& waiting) {
  Advice advice;
  advice.order.reserve(waiting.size());
  sync(waiting, advice);
  for (auto& one : cells_) {
    auto& cell = one.second;  // a structured binding is captured by no lambda of clang 14
    teach(cell);
    const auto order = cell.search.order();
    if (order.empty()) continue;
    const auto enough = cell.search.enough(cell.gpu_hours);
    for (const auto number : order) {
      const auto id = cell.trials[number];
      auto& place = places_[cell.places[number]];
      const auto leave_out = [&](Skip skip) {
        if (asked_.contains(id)) return false;
        const bool spared = skip.after_oom_name.empty();
        advice.skip.push_back(std::move(skip));
        if (!spared) return true;
        cell.search.spare(number);
        place.is_told = false;
        return true;
      };
      const auto* const oom = cell.search.ruled_out_by(number);
      if (oom != nullptr && leave_out(after_oom(cell, id, *oom))) continue;
      const auto why = cell.search.wont_fit(number);
      if (why && leave_out({id, *why, std::string(unfit_reason)})) continue;
      if (enough &&
          leave_out({id, fmt::format("{} {}", *enough, cell.search.bound_text(number)), *enough}))
        continue;
      advice.order.push_back(place.waits);
    }
  }
  INVARIANT(advice.order.size() + advice.skip.size() == waiting.size(),
      "each trial that waits is started or left out", advice.order.size(), advice.skip.size(),
      waiting.size());
  return advice;
}

}  // namespace shardsweep
