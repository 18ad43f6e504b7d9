// SPDX-License-Identifier: Apache-2.0
// Two passes over the grid: the first judges and keeps a few numbers per feasible point, the
// second writes the trials in their order, into a vector that is allocated once. So a million
// feasible points stay within 300 MB.

#include "plan/plan.hpp"

#include "plan/feasibility.hpp"
#include "plan/grid.hpp"
#include "plan/plan_cost.hpp"
#include "predict/family.hpp"
#include "predict/predictor.hpp"
#include "search/cell_search.hpp"
#include "search/sweep_search.hpp"
#include "sweep/launch.hpp"
#include "sweep/passed_variables.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"
#include "text/placeholders.hpp"

#include <shardsweep/clock.hpp>
#include <shardsweep/search.hpp>
#include <shardsweep/sweep.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

// The order of a plan whose cells are searched best first: what each search would start with,
// and go on with while nothing that it measures surprises it.

/// Numbers of `entries` in that order: cell by cell, as SweepSearch goes through them. `read`
/// gives the point of an entry.
std::vector<std::size_t> best_first_order(const SweepSpec& sweep, const Predictor& predictor,
    const std::vector<LaneEntry>& entries,
    const std::function<const Point&(const LaneEntry&)>& read) {
  const auto model_of = [&](const Point& point) -> const ModelSpec& {
    return sweep.models.at(static_cast<std::size_t>(point.model));
  };
  std::map<CellInOrder, std::vector<std::size_t>> cells;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& point = read(entries[i]);
    cells[cell_of(model_of(point), point)].push_back(i);
  }
  std::vector<std::size_t> order;
  order.reserve(entries.size());
  for (const auto& [key, members] : cells) {
    // One cell at a time: a search keeps much more of a point than a plan does.
    CellSearch search(sweep.search, sweep.cluster, predictor);
    for (const auto i : members) {
      const auto& point = read(entries[i]);
      search.add({.model = model_of(point), .point = point, .traits = {}});
    }
    for (const auto number : search.order())
      order.push_back(members[number]);
  }
  return order;
}

class Planner {
 public:
  Planner(
      const SweepSpec& sweep, const Grid& grid, Judge& judge, std::vector<Guess>* guesses = nullptr)
      : guesses_(guesses),
        sweep_(sweep),
        grid_(grid),
        judge_(judge),
        predictor_(sweep.cluster, family_of(sweep.runner)) {
    for (const auto& axis : axes()) {
      if (axis.in_lane_key && axis.minimum != axis.maximum) lane_axes_.push_back(&axis);
    }
  }

  [[nodiscard]] Plan make() {
    plan_.points = grid_.size();
    plan_.duplicates = grid_.duplicates();
    std::vector<std::int64_t> counts(judge_.constraints().size(), 0);
    std::vector<double> hours(counts.size(), 0);
    grid_.for_each([&](const GridPoint& at) {
      const auto finding = judge_.find(at);
      if (finding.constraint < 0) {
        keep(at);
      } else {
        const auto constraint = static_cast<std::size_t>(finding.constraint);
        leave_out(at, finding, counts[constraint]++ == 0 || needs_least(finding));
        // Count points that could start if hours are not wanted.
        if (Judge::could_start(at, finding))
          hours[constraint] += guesses_ != nullptr ? 1 : gpu_hours_of(at.point);
      }
    });
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) plan_.left_out_by_constraint[judge_.constraints()[i]] += counts[i];
      if (hours[i] > 0) plan_.left_out_gpu_hours[judge_.constraints()[i]] += hours[i];
    }
    // Lanes first: they break a search's ties.
    const auto lanes = order_lanes(kept_);
    if (guesses_ != nullptr) {
      write_guesses(lanes);
    } else if (sweep_.search.policy == SearchPolicy::best_first) {
      write_best_first(lanes);
    } else {
      write_lanes(lanes);
    }
    return std::move(plan_);
  }

 private:
  void keep(const GridPoint& at) {
    const auto& point = at.point;
    LaneHash hash;
    for (const auto* axis : lane_axes_)
      hash.add(axis->get(point));
    for (const auto value : point.vars)
      hash.add(value);
    const auto& model = sweep_.models[static_cast<std::size_t>(point.model)];
    const auto* const bounds = judge_.bounds();
    const auto guess = bounds != nullptr ? predictor_.guess(model, point, *bounds)
                                         : predictor_.guess(model, point);
    const double value = speed_of(guess.step_s, point);
    auto index = at.index;
    if (guesses_ != nullptr) {
      index = static_cast<std::int64_t>(guessed_.size());
      guessed_.emplace_back(at.index, guess);
    }
    kept_.push_back({index, hash, value, point.nodes, point.gpus, point.layout.micro_batch,
        point.layout.grad_accum, point.repeat});
  }

  void write_guesses(const std::vector<LaneRange>& lanes) {
    plan_.trials.reserve(kept_.size());
    guesses_->reserve(kept_.size());
    for (std::size_t number = 0; number < lanes.size(); ++number) {
      const auto& lane = lanes[number];
      for (auto i = lane.first; i < lane.first + lane.count; ++i) {
        const auto& [index, guess] = guessed_[static_cast<std::size_t>(kept_[i].index)];
        grid_.read(index, at_);
        plan_.trials.push_back({at_.point, {}, static_cast<std::int32_t>(number)});
        guesses_->push_back(guess);
      }
    }
  }

  [[nodiscard]] double gpu_hours_of(const Point& point, const Prediction& prediction) const {
    return prediction.attempt_s * static_cast<double>(gpus_held(sweep_.cluster, point)) / hour_s;
  }
  [[nodiscard]] double gpu_hours_of(const Point& point) const {
    const auto& model = sweep_.models[static_cast<std::size_t>(point.model)];
    return gpu_hours_of(point, predictor_.predict(model, sweep_.measure, point));
  }

  /// If nothing fits, keep the point closest to fitting.
  bool needs_least(const Judge::Finding& finding) {
    if (finding.needs <= 0) return false;
    const bool less = least_needed_ == 0 || finding.needs < least_needed_;
    if (less) least_needed_ = finding.needs;
    return less;
  }

  void leave_out(const GridPoint& at, const Judge::Finding& finding, bool example) {
    const auto stored = static_cast<std::int64_t>(plan_.left_out.size());
    const bool store = stored < sweep_.policy.max_stored_left_out;
    if (!example && !store) return;
    LeftOut left{at.point, judge_.explain(at, finding)};
    if (example) plan_.examples.insert_or_assign(left.verdict.constraint, left);
    if (store) plan_.left_out.push_back(std::move(left));
  }

  void write_lanes(const std::vector<LaneRange>& lanes) {
    plan_.trials.reserve(kept_.size());
    for (std::size_t number = 0; number < lanes.size(); ++number) {
      const auto& lane = lanes[number];
      for (auto i = lane.first; i < lane.first + lane.count; ++i)
        write_trial(kept_[i], number);
    }
  }

  void write_best_first(const std::vector<LaneRange>& lanes) {
    std::vector<LaneEntry> entries;
    std::vector<std::size_t> numbers;
    for (std::size_t number = 0; number < lanes.size(); ++number) {
      const auto first = kept_.begin() + static_cast<std::ptrdiff_t>(lanes[number].first);
      const auto count = static_cast<std::ptrdiff_t>(lanes[number].count);
      entries.insert(entries.end(), first, first + count);
      numbers.insert(numbers.end(), lanes[number].count, number);
    }
    const auto read = [&](const LaneEntry& entry) -> const Point& {
      grid_.read(entry.index, at_);
      return at_.point;
    };
    plan_.trials.reserve(entries.size());
    for (const auto i : best_first_order(sweep_, predictor_, entries, read))
      write_trial(entries[i], numbers[i]);
  }

  void write_trial(const LaneEntry& entry, std::size_t lane) {
    grid_.read(entry.index, at_);
    const auto& point = at_.point;
    const auto& model = sweep_.models[static_cast<std::size_t>(point.model)];
    const auto prediction = predictor_.predict(model, sweep_.measure, point);
    plan_.gpu_hours += gpu_hours_of(point, prediction);
    plan_.lanes = std::max(plan_.lanes, static_cast<std::int64_t>(lane) + 1);
    plan_.trials.push_back({point, prediction, static_cast<std::int32_t>(lane)});
  }

  std::vector<Guess>* guesses_;                          ///< guesses in order; null: not wanted
  std::vector<std::pair<std::int64_t, Guess>> guessed_;  ///< guesses with numbers of the grid
  const SweepSpec& sweep_;
  const Grid& grid_;
  Judge& judge_;
  Predictor predictor_;
  std::vector<const AxisInfo*> lane_axes_;
  std::int64_t least_needed_ = 0;  ///< bytes per GPU, of those that memory leaves out
  std::vector<LaneEntry> kept_;
  GridPoint at_;  // scratch
  Plan plan_;
};

void warn_of_excludes(
    const SweepSpec& sweep, const Judge& judge, std::vector<std::string>& warnings) {
  const auto asked = judge.asked_excludes();
  if (asked == 0) return;
  std::int64_t all = 0;
  bool one_takes_all = false;
  for (std::size_t i = 0; i < sweep.excludes.size(); ++i) {
    const auto removed = judge.removed()[i];
    all += removed;
    // Rules of a trainer's file apply to all of its sweeps: one that excludes nothing here is no
    // mistake.
    const bool is_own = sweep.excludes[i].position.file == sweep.position.file;
    if (removed == 0 && is_own) {
      warnings.push_back(fmt::format("exclude \"{}\" matched none of the {}.",
          sweep.excludes[i].when, counted(asked - all, "feasible point")));
    } else if (removed == asked) {
      one_takes_all = true;
      warnings.push_back(fmt::format("exclude \"{}\" matched all {}: nothing is left to run.",
          sweep.excludes[i].when, counted(asked, "feasible point")));
    }
  }
  if (all == asked && !one_takes_all) {
    warnings.push_back(
        fmt::format("the exclude rules together matched all {}: nothing is left to run.",
            counted(asked, "feasible point")));
  }
}

/// A search may end before it has used up its budget.
void warn_of_budget(const SweepSpec& sweep, Plan& plan) {
  const double budget = sweep.policy.max_gpu_hours;
  const double most = search_bound(sweep, plan).gpu_hours;
  if (budget <= 0 || most <= budget) return;
  const bool searched = !sweep.search.is_plain();
  plan.warnings.push_back(fmt::format(
      "The {} about {} GPU-hours, and limits.max_gpu_hours is {:g}. The last trials {} not run.",
      searched ? "search needs at most" : "trials need", amount_text(most), budget,
      searched ? "may" : "will"));
}

/// A trainer that reads only flags would run all values alike.
void warn_of_untold_vars(const SweepSpec& sweep, std::vector<std::string>& warnings) {
  const auto& trainer = sweep.runner.trainer;
  if (!sweep.runner.is_trainer()) return;
  for (const auto& var : sweep.vars) {
    if (is_read_by_libraries(variable_of(var.name))) continue;
    const auto names_it = [&](const std::string& text) {
      const auto names = placeholders_in(text);
      return std::find(names.begin(), names.end(), var.name) != names.end();
    };
    const bool told = names_it(sweep.container.image) || names_it(trainer.directory) ||
        std::any_of(trainer.argv.begin(), trainer.argv.end(), names_it) ||
        std::any_of(trainer.files.begin(), trainer.files.end(),
            [&](const auto& file) { return names_it(file.second); }) ||
        std::any_of(sweep.env.begin(), sweep.env.end(),
            [&](const auto& one) { return names_it(one.second); });
    if (!told)
      warnings.push_back(
          fmt::format("The trainer gets {0} only as the environment variable {1}. If it reads "
                      "options, add {{{0}}} to 'argv'.",
              var.name, variable_of(var.name)));
  }
}

/// A trainer of one's own often has ZeRO or recomputes without a flag that a sweep would name.
void warn_of_memory_savers(const SweepSpec& sweep, Plan& plan) {
  if (!sweep.runner.is_trainer()) return;
  const auto memory = plan.left_out_by_constraint.find("memory");
  const auto short_of = std::count_if(plan.trials.begin(), plan.trials.end(),
                            [&](const auto& trial) { return is_likely_oom(sweep, trial); }) +
      (memory == plan.left_out_by_constraint.end() ? 0 : memory->second);
  constexpr std::int64_t worth_a_word = 4;  // a quarter of the points
  if (short_of * worth_a_word < plan.points || short_of == 0) return;
  std::vector<std::string> off;
  for (const char* name : {"zero", "recompute"}) {
    const auto is_off = [&](const AxisValues& values) {
      return values.axis->name == name && !values.automatic &&
          values.values == std::vector<std::int64_t>{values.axis->default_value};
    };
    const auto found = std::find_if(sweep.constants.begin(), sweep.constants.end(), is_off);
    if (found != sweep.constants.end())
      off.push_back(fmt::format("{} {}", name, axis_text(*found->axis, found->values.front())));
  }
  if (off.empty()) return;
  plan.warnings.push_back(
      fmt::format("{} need more memory than a GPU has, or may, with {}. An axis that the file does "
                  "not name is off: if the trainer has it, name it under 'constants' or 'axes'.",
          counted(short_of, "point"), fmt::join(off, " and ")));
}

/// A GPU is sold by GiB, or nearly: an 80 GB one has 79.6 GiB.
void warn_of_decimal_memory(const SweepSpec& sweep, std::vector<std::string>& warnings) {
  constexpr std::int64_t gb = 1'000'000'000;
  constexpr std::int64_t mib = std::int64_t{1} << 20;
  const std::int64_t bytes = sweep.cluster.memory_bytes;
  if (bytes == 0 || bytes % gb != 0 || bytes % mib == 0) return;
  warnings.push_back(
      fmt::format("cluster.memory is {0}GB, which is {1}. A GPU that is sold with {0} GB has about "
                  "{0} GiB: write what nvidia-smi prints, in MiB.",
          bytes / gb, size_text(bytes)));
}

void warn_of_wide_tp(const SweepSpec& sweep, Plan& plan) {
  const auto is_wide = [&](const PlannedTrial& trial) {
    return trial.point.layout.tp > sweep.cluster.gpus_per_node;
  };
  const auto wide = std::count_if(plan.trials.begin(), plan.trials.end(), is_wide);
  if (wide == 0) return;
  plan.warnings.push_back(
      fmt::format("tp is larger than a node's {} in {}: each layer's all-reduces cross the "
                  "network.",
          counted(sweep.cluster.gpus_per_node, "GPU"), counted(wide, "trial")));
}

/// Without recorders a trainer shows progress by its train steps alone.
void warn_of_step_limit(const SweepSpec& sweep, Plan& plan) {
  const double limit_s = sweep.policy.attempt.step_limit_s;
  if (!sweep.runner.is_trainer() || limit_s <= 0) return;
  constexpr double margin = 2;  // predictions may be as far off
  constexpr double minute_s = 60;
  double longest_s = 0;
  std::int64_t long_ones = 0;
  for (const PlannedTrial& trial : plan.trials) {
    longest_s = std::max(longest_s, trial.prediction.train_step_s);
    if (trial.prediction.train_step_s * margin > limit_s) ++long_ones;
  }
  if (long_ones == 0) return;
  plan.warnings.push_back(
      fmt::format("Train steps of {} are predicted to last up to {}; one that lasts longer than {} "
                  "is ended as hung. Write 'watch: {{step_limit: {:.0f}min}}'.",
          counted(long_ones, "trial"), duration_text(longest_s), duration_text(limit_s),
          std::ceil(2 * margin * longest_s / minute_s)));
}

void warn(const SweepSpec& sweep, const Judge& judge, Plan& plan) {
  auto& warnings = plan.warnings;
  warn_of_excludes(sweep, judge, warnings);
  warn_of_untold_vars(sweep, warnings);
  warn_of_decimal_memory(sweep, warnings);
  warn_of_memory_savers(sweep, plan);
  warn_of_wide_tp(sweep, plan);
  warn_of_step_limit(sweep, plan);
  const auto vars = join_texts(sweep.vars, ", ", &VarValues::name);
  if (!vars.empty()) {
    warnings.push_back(fmt::format(
        "Predictions ignore the variable{} {}.", sweep.vars.size() == 1 ? "" : "s", vars));
  }
  for (const auto& model : sweep.models) {
    if (const auto kind = model.unpredicted(); !kind.empty())
      warnings.push_back(
          fmt::format("{} has {}: neither its time nor its memory is predicted, so no layout is "
                      "left out for its memory.",
              model.name, kind));
  }
  if (plan.trials.empty() && plan.points > 0)
    warnings.push_back(fmt::format("{} run: {}.",
        plan.points == 1 ? std::string("The only point cannot")
                         : "None of the " + counted(plan.points, "point") + " can",
        why_nothing_runs(plan)));
  warn_of_budget(sweep, plan);
}

}  // namespace

bool is_likely_oom(const SweepSpec& sweep, const PlannedTrial& trial) {
  return sweep.cluster.memory_bytes > 0 &&
      trial.prediction.memory_bytes > sweep.cluster.memory_bytes;
}

Result<Plan> make_plan(const SweepSpec& sweep, const Capabilities& runner, PointFilter* excludes,
    PointFilter* runner_rules) {
  SHARDSWEEP_ASSIGN(const auto grid, Grid::make(sweep));
  Judge judge(sweep, runner, excludes, runner_rules);
  auto plan = Planner(sweep, grid, judge).make();
  for (const auto* filter : {excludes, runner_rules}) {
    if (filter == nullptr) continue;
    if (const auto failure = filter->failure()) return tl::unexpected<Fault>(*failure);
  }
  plan.excluded = judge.removed();
  warn(sweep, judge, plan);
  return plan;
}

Result<Plan> make_plan(const SweepSpec& sweep, std::vector<Guess>& guesses) {
  SHARDSWEEP_ASSIGN(const auto grid, Grid::make(sweep));
  const Capabilities any;
  Judge judge(sweep, any, nullptr, nullptr);
  return Planner(sweep, grid, judge, &guesses).make();
}

std::string why_nothing_runs(const Plan& plan) {
  const auto& all = plan.left_out_by_constraint;
  const auto& hours = plan.left_out_gpu_hours;
  const bool some_add_up = std::any_of(
      all.begin(), all.end(), [](const auto& one) { return Judge::adds_up(one.first); });
  const auto counts = [&](const std::string& constraint) {
    return hours.empty() ? !some_add_up || Judge::adds_up(constraint) : hours.contains(constraint);
  };
  const std::string* found = nullptr;
  std::int64_t most = 0;
  for (const auto& [constraint, points] : all) {
    if (points <= most || !counts(constraint)) continue;
    found = &constraint;
    most = points;
  }
  const auto example = found == nullptr ? plan.examples.end() : plan.examples.find(*found);
  return example == plan.examples.end() ? std::string() : example->second.verdict.why;
}

namespace {

// The finalizer of SplitMix64 [Steele, Lea, Flood, OOPSLA 2014].
std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31U);
}

}  // namespace

void LaneHash::add(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  high = mixed(high ^ bits);
  low = mixed(low + bits * 0x9e3779b97f4a7c15ULL + 1);
}

void LaneHash::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  for (const char c : text)
    add(std::int64_t{c});
}

std::vector<LaneRange> order_lanes(std::vector<LaneEntry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const LaneEntry& a, const LaneEntry& b) {
    return std::tie(a.lane, a.micro_batch, a.grad_accum, a.repeat, a.index) <
        std::tie(b.lane, b.micro_batch, b.grad_accum, b.repeat, b.index);
  });
  std::vector<LaneRange> lanes;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& each = entries[i];
    if (i == 0 || each.lane != entries[i - 1].lane) lanes.push_back({i, 0, each.value, each.index});
    auto& lane = lanes.back();
    ++lane.count;
    lane.value = std::max(lane.value, each.value);
    lane.index = std::min(lane.index, each.index);
  }
  std::sort(lanes.begin(), lanes.end(), [&](const LaneRange& a, const LaneRange& b) {
    const auto& one = entries[a.first];
    const auto& other = entries[b.first];
    return std::tuple(one.nodes, one.gpus, -a.value, a.index) <
        std::tuple(other.nodes, other.gpus, -b.value, b.index);
  });
  return lanes;
}

namespace {

/// The chance that one is faster than the first, by what is predicted of both.
double chance_to_beat(const CellSearch::Outlook& one, const CellSearch::Outlook& first) {
  const double off = std::log(one.tokens_per_s_per_gpu / first.tokens_per_s_per_gpu);
  return one.fits * normal_cdf(off / std::hypot(one.sigma, first.sigma));
}

class Story {
 public:
  Story(const SweepSpec& sweep, const Plan& plan)
      : sweep_(sweep), plan_(plan), predictor_(sweep.cluster, family_of(sweep.runner)) {}

  [[nodiscard]] std::vector<PlannedCell> tell() {
    std::map<CellInOrder, PlannedCell> cells;
    std::map<CellInOrder, std::vector<const PlannedTrial*>> trials;
    for (const auto& trial : plan_.trials)
      trials[cell_at(cells, trial.point)].push_back(&trial);
    for (const auto& left : plan_.left_out)
      cells.at(cell_at(cells, left.point)).left_out.push_back(left);
    std::vector<PlannedCell> story;
    for (auto& [key, cell] : cells) {
      tell_launches(trials[key], cell);
      story.push_back(std::move(cell));
    }
    return story;
  }

 private:
  [[nodiscard]] const ModelSpec& model_of(const Point& point) const {
    return sweep_.models.at(static_cast<std::size_t>(point.model));
  }

  CellInOrder cell_at(std::map<CellInOrder, PlannedCell>& cells, const Point& point) const {
    auto key = cell_of(model_of(point), point);
    const auto [found, fresh] = cells.try_emplace(key);
    if (fresh) {
      found->second.model = key.second.model;
      found->second.seq_len = point.seq_len;
      found->second.nodes = point.nodes;
      found->second.gpus = point.gpus;
    }
    return key;
  }

  void tell_launches(const std::vector<const PlannedTrial*>& trials, PlannedCell& cell) const {
    auto settings = sweep_.search;
    const bool searched = settings.policy == SearchPolicy::best_first;
    settings.policy = SearchPolicy::best_first;
    CellSearch search(settings, sweep_.cluster, predictor_);
    for (const auto* trial : trials)
      search.add({.model = model_of(trial->point), .point = trial->point, .traits = {}});
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const auto& trial = *trials[i];
      const auto is = search.outlook(i);
      const double held = static_cast<double>(gpus_held(sweep_.cluster, trial.point));
      cell.launches.push_back({trial.point, is.tokens_per_s_per_gpu, is.sigma, is.fits,
          trial.prediction.attempt_s * held / hour_s,
          searched ? why(i, is, search.outlook(0))
                   : "In the plan's order, because the search policy is exhaustive."});
    }
  }

  static std::string why(
      std::size_t number, const CellSearch::Outlook& is, const CellSearch::Outlook& first) {
    if (number == 0)
      return "Best expected speed for the time that the launch takes, its chance to fit included.";
    return fmt::format("{:.1f} % likely to beat the first.", 100 * chance_to_beat(is, first));
  }

  const SweepSpec& sweep_;
  const Plan& plan_;
  Predictor predictor_;
};

}  // namespace

std::vector<PlannedCell> plan_story(const SweepSpec& sweep, const Plan& plan) {
  return Story(sweep, plan).tell();
}

}  // namespace shardsweep
