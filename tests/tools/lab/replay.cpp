// SPDX-License-Identifier: Apache-2.0
// The decisions are the daemon's own: decide, fold and the search, called as the daemon calls
// them. Played is only what is outside: a launch takes the seconds of its row, or those of an
// OOM, on a virtual clock. So a score says something of the program and not of a copy of it,
// and the same table gives the same score.
#include "tools/lab/replay.hpp"

#include "attempt/assignments.hpp"
#include "fleet/decide.hpp"
#include "fleet/fold.hpp"
#include "plan/feasibility.hpp"
#include "plan/plan.hpp"
#include "search/finals.hpp"
#include "search/sweep_search.hpp"
#include "tools/lab/memory_score.hpp"
#include "tools/lab/readings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

constexpr SweepId the_sweep = 1;
constexpr double second = 1e6;  // of a Timestamp

/// A row as the planner sees it.
struct Row {
  const RecordedRun* run;
  SearchPoint point;
  LaneHash lane;
  double speed = 0;  // predicted, tokens/s per GPU
  double attempt_s = 0;
  bool planned = false;
  std::string rule{};  // that leaves it out of the plan
  std::string why{};
};

/// What a launch takes.
LaunchCost cost_of(const ReplayOptions& options) {
  return {options.start_s, options.oom_s, options.steps_of_launch(), options.warmup,
      options.search.cuts_short() ? options.search.cut_short : 0};
}

double step_s_of(const RecordedRun& run) {
  return speed_of(1, run.point) / *run.tokens_per_s_per_gpu;
}

double seconds_of(const RecordedRun& run, const ReplayOptions& options, std::int32_t steps) {
  if (run.outcome == Outcome::oom) return options.oom_s;
  if (!run.tokens_per_s_per_gpu) return options.start_s;
  return options.start_s + steps * step_s_of(run);
}

double real_gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
}

/// One row that was run.
struct Launch {
  std::size_t row = 0;
  std::int32_t cut_after = 0;  // train steps; 0: it ran to its end
  CellSearch::Outlook outlook{};
};

/// Labels that may be conditions of a run, by number: those that are no identity, time or
/// measurement, which differ from row to row or are empty where a run has failed.
std::vector<std::size_t> conditions_of(const RecordedSweep& sweep) {
  std::vector<std::size_t> conditions;
  const auto is_empty = [&](const RecordedRun& run, std::size_t label) {
    const auto& value = sweep.labels[label].values[static_cast<std::size_t>(run.labels[label])];
    return std::holds_alternative<std::monostate>(value);
  };
  for (std::size_t i = 0; i < sweep.labels.size(); ++i) {
    constexpr std::size_t few = 8;
    const auto values = sweep.labels[i].values.size();
    if (values < 2 || (values > few && 4 * values > sweep.runs.size())) continue;
    const bool measured =
        std::all_of(sweep.runs.begin(), sweep.runs.end(), [&](const RecordedRun& run) {
          return run.outcome == Outcome::completed || is_empty(run, i);
        });
    if (!measured) conditions.push_back(i);
  }
  return conditions;
}

/// What no axis says of a run.
std::string software_of(const std::vector<std::size_t>& conditions, const RecordedRun& run) {
  auto text = fmt::format("{}|{}", run.kernel, run.software_version);
  for (const auto label : conditions)
    text += fmt::format("|{}", run.labels[label]);
  return text;
}

/// Rows that share what a lane shares, and all that no axis says. One of which an axis is
/// unknown is alone: of two that look alike one may have had a third of the other's memory, and
/// no OOM of one says anything of the other.
LaneHash lane_of(const SearchPoint& point, int line) {
  LaneHash lane;
  for (const auto& axis : axes()) {
    if (axis.in_lane_key) lane.add(axis.get(point.point));
  }
  lane.add(point.software);
  if (point.unknown.any()) lane.add(std::int64_t{line});
  return lane;
}

SearchNews news_of(const RecordedRun& run, bool cut_short) {
  return {run.outcome, run.tokens_per_s_per_gpu.value_or(0), run.peak_memory_bytes.value_or(0), 0,
      cut_short};
}

/// Plays scheduler, lead and runner: an attempt ends as its row says, after its recorded time.
class RecordedCluster {
 public:
  RecordedCluster(
      World& world, const std::vector<Row>& rows, SweepSearch& search, const ReplayOptions& options)
      : world_(world), rows_(rows), search_(search), options_(options) {
    policy_.retry_on_trial = 0;  // a row has one outcome, however often it is asked
    policy_.retry_elsewhere = 0;
  }

  /// Starts what was submitted and runs one attempt to its end. False: nothing is left to do.
  bool step() {
    std::vector<AllocationId> live;
    for (const auto& [id, allocation] : world_.allocations()) {
      if (allocation.state != State::ended) live.push_back(id);
    }
    for (const auto id : live)
      run_one(id);
    return !live.empty();
  }

  [[nodiscard]] Timestamp now() const { return static_cast<Timestamp>(now_s_ * second); }
  [[nodiscard]] const std::vector<Launch>& launched() const { return launched_; }
  [[nodiscard]] const Policy& policy() const { return policy_; }

 private:
  struct Lead {
    Assignments assignments;
    std::int64_t said = 0;  // lines of from_lead
  };

  void say(AllocationId id, FromLeadBody body, const std::optional<RecordsSummary>& records = {}) {
    const FromLead line{++leads_[id].said, now(), std::move(body)};
    fold_line({world_, now()}, policy_, id, line, records);
  }

  void run_one(AllocationId id) {
    auto& lead = leads_[id];
    if (lead.said == 0) say(id, Claimed{.host = "recorded"});
    const auto orders = orders_for(world_, world_.allocations().at(id));
    for (const auto attempt : orders.assign)
      (void)lead.assignments.apply({0, 0, assign_of(attempt)});
    if (orders.drain) (void)lead.assignments.apply({0, 0, Drain{}});
    if (const auto next = lead.assignments.next()) {
      run(id, *next);
    } else if (lead.assignments.draining()) {
      say(id, Bye{"drained"});
      fold_gone({world_, now()}, policy_, id, {}, "drained");
    }
  }

  [[nodiscard]] Assign assign_of(AttemptId attempt) const {
    const auto& row = world_.attempts().at(attempt);
    const auto& trial = world_.trials().at(row.trial);
    return {.attempt = attempt,
        .trial = trial.slug,
        .nonce = row.nonce,
        .lane = options_.search.rules.micro_batch ? trial.lane : std::string(),
        .micro_batch = trial.micro_batch};
  }

  void run(AllocationId id, const NextAssignment& next) {
    const auto attempt = next.assign.attempt;
    const auto trial = world_.attempts().at(attempt).trial;
    if (!next.skipped_because.empty()) {
      say(id,
          Ended{.attempt = attempt,
              .nonce = next.assign.nonce,
              .ending = {.outcome = Outcome::skipped,
                  .cause = next.skipped_because,
                  .source = SaidBy::policy}});
      return;
    }
    const auto number = static_cast<std::size_t>(trial - 1);
    const auto& run = *rows_[number].run;
    const auto cut_after = gives_up_after(run, attempt);
    launched_.push_back({number, cut_after, search_.outlook_of(trial).value()});
    say(id, Started{attempt, next.assign.nonce});
    now_s_ += seconds_of(run, options_, options_.steps_of_launch(cut_after));
    RecordsSummary records;
    if (run.outcome == Outcome::completed) {
      auto& metrics = records.result.emplace().metrics;
      records.result->cut_short = cut_after > 0;
      if (run.tokens_per_s_per_gpu) metrics["tokens_per_s_per_gpu"] = *run.tokens_per_s_per_gpu;
      if (run.peak_memory_bytes)
        metrics["peak_memory_bytes"] = static_cast<double>(*run.peak_memory_bytes);
    }
    say(id,
        Ended{.attempt = attempt,
            .nonce = next.assign.nonce,
            .ending = {.outcome = run.outcome, .source = SaidBy::runner}},
        records);
    leads_[id].assignments.ended(next.assign, run.outcome);
  }

  /// Against the bound that travels with its assignment. Its steps all take as long; those of a
  /// real launch vary by about 1 %, and have to be as much slower (attempt/cut_short). Returns its
  /// steps; 0: it runs to its end.
  [[nodiscard]] std::int32_t gives_up_after(const RecordedRun& run, AttemptId attempt) const {
    const double above_ms = world_.attempts().at(attempt).give_up_above_ms;
    constexpr double milliseconds = 1e3;
    if (above_ms <= 0 || run.outcome != Outcome::completed || !run.tokens_per_s_per_gpu) return 0;
    const double step_s = step_s_of(run);
    constexpr double own_noise = 1.02;
    const double above_s = own_noise * above_ms / milliseconds;
    // One that would end no sooner runs to its end.
    const auto steps = cost_of(options_).cut_steps(step_s, above_s);
    return step_s > above_s && steps < options_.steps_of_launch() ? steps : 0;
  }

  World& world_;
  const std::vector<Row>& rows_;
  SweepSearch& search_;
  const ReplayOptions& options_;
  Policy policy_;
  double now_s_ = 0;
  std::map<AllocationId, Lead> leads_;
  std::vector<Launch> launched_;
};

class CellReplay {
 public:
  CellReplay(const RecordedSweep& sweep, const ReplayOptions& options,
      const std::vector<const RecordedRun*>& runs, Predictor predictor,
      const std::vector<std::size_t>& conditions)
      : sweep_(sweep), options_(options), predictor_(std::move(predictor)) {
    for (const auto* run : runs) {
      const auto traits = traits_of(*run);
      auto unknown = run->unknown;
      unknown.attention = !run->kernel.empty() && !traits.flash_attention;
      rows_.push_back({run,
          {sweep.model_of(*run), run->point, traits, unknown, software_of(conditions, *run)}, {}});
    }
    doubt_kernels();
    for (auto& row : rows_)
      row.lane = lane_of(row.point, row.run->line);
  }

  struct Played {
    ReplayCell score;
    ReplayedCell story;
  };
  Played play(std::vector<SearchTrial>& lessons) {
    plan();
    World world(rows_of());
    std::int64_t tokens = 0;
    SweepSearch search(
        options_.search, options_.cluster, predictor_, cost_of(options_), make_readings);
    for (const auto& [point, news] : options_.remembered)
      search.remember(point, news);
    if (options_.search.learn_across) {
      for (const auto& lesson : lessons)
        search.learn(lesson.point, *lesson.news, fmt::format("line-{}", lesson.id));
    }
    for (const auto& [id, trial] : world.trials())
      by_position_[trial.position] = id;
    for (const auto& [position, id] : by_position_)
      search.add({.id = id, .point = rows_[static_cast<std::size_t>(id - 1)].point});
    RecordedCluster cluster(world, rows_, search, options_);
    do {
      decide(world, input(search, cluster, tokens));
      note_skips(world.take_changes());
    } while (cluster.step());
    for (const auto& [number, cut_after, outlook] : cluster.launched())
      lessons.push_back({.id = rows_[number].run->line,
          .point = rows_[number].point,
          .news = news_of(*rows_[number].run, cut_after > 0)});
    return {score(cluster.launched()), story(cluster.launched())};
  }

 private:
  /// Rows of one signature differ in what their table leaves out: without a column of kernels
  /// most likely in that.
  void doubt_kernels() {
    std::map<std::string, std::size_t> alike;
    for (const auto& row : rows_)
      ++alike[signature_of(row.point)];
    for (auto& row : rows_)
      row.point.unknown.attention |= row.run->kernel.empty() && alike[signature_of(row.point)] > 1;
  }

  /// Judges and orders the rows as a plan does.
  void plan() {
    SweepSpec spec;
    spec.cluster = options_.cluster;
    spec.cluster.memory_bytes = 0;  // memory is the predictor's to judge
    spec.models = sweep_.models;
    spec.runner.name = std::string(options_.family->name);
    const Capabilities capabilities;
    Judge judge(spec, capabilities, nullptr, nullptr);
    for (auto& row : rows_) {
      const auto guess = predictor_.guess(row.point.model, row.point.point, row.point.traits);
      row.speed = speed_of(guess.step_s, row.point.point);
      row.attempt_s = options_.start_s + options_.steps_of_launch() * guess.step_s;
      const auto verdict = judge.judge({0, row.point.point, Gap::none});
      const auto least =
          predictor_.certain_memory(row.point.model, point_at_best(*row.run), row.point.traits);
      const auto capacity = options_.cluster.memory_bytes;
      const bool may_fit = capacity <= 0 || least.total() <= capacity;
      row.planned = may_fit && (verdict.feasible || !binds(verdict));
      if (row.planned) continue;
      row.rule = may_fit ? std::string(verdict.constraint) : "memory";
      row.why = may_fit ? verdict.why
                        : fmt::format("At best it needs {:.1f} GiB; the GPU has {:.1f} GiB.",
                              real_gib(least.total()), real_gib(capacity));
    }
  }

  /// A table shows what another trainer does: of our own runner's rules only those bind it that
  /// follow from the tensors' shapes.
  [[nodiscard]] bool binds(const Verdict& verdict) const {
    return options_.family->name == "shardbench" || verdict.constraint == "heads" ||
        verdict.constraint == "ffn";
  }

  WorldRows rows_of() const {
    std::vector<LaneEntry> entries;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].planned) continue;
      const auto& point = rows_[i].point.point;
      entries.push_back({static_cast<std::int64_t>(i), rows_[i].lane, rows_[i].speed, point.nodes,
          point.gpus, point.layout.micro_batch, point.layout.grad_accum, 1});
    }
    WorldRows world;
    world.sweeps[the_sweep] = {.id = the_sweep, .name = "replay", .backend = Backend::local};
    std::int64_t position = 0;
    for (const auto& lane : order_lanes(entries)) {
      for (auto i = lane.first; i < lane.first + lane.count; ++i) {
        const auto& row = rows_[static_cast<std::size_t>(entries[i].index)];
        TrialRow trial;
        trial.id = entries[i].index + 1;
        trial.sweep = the_sweep;
        trial.slug = fmt::format("line-{}", row.run->line);
        trial.lane = fmt::format("{:016x}{:016x}", row.lane.high, row.lane.low);
        trial.micro_batch = row.point.point.layout.micro_batch;
        trial.nodes = row.point.point.nodes;
        trial.gpus = row.point.point.gpus;
        trial.position = position++;
        trial.predicted_s = row.attempt_s;
        world.trials.emplace(trial.id, std::move(trial));
      }
    }
    return world;
  }

  DecideInput input(
      SweepSearch& search, const RecordedCluster& cluster, std::int64_t& tokens) const {
    DecideInput input;
    SweepFacts facts;
    facts.policy = cluster.policy();
    facts.slots_per_node = options_.cluster.gpus_per_node;
    facts.backend = Backend::local;
    facts.skip_larger_after_oom = options_.search.rules.micro_batch;
    input.sweeps.emplace(the_sweep, facts);
    if (!options_.search.is_plain()) input.searches.emplace(the_sweep, &search);
    // Here nothing is gained by choosing before the last one has ended.
    input.most_open_in_search = 1;
    input.now = cluster.now();
    input.random_hex = [&tokens](int digits) { return fmt::format("{:0{}x}", ++tokens, digits); };
    input.allocation_dir = [](const std::string& token) { return token; };
    input.attempt_dir = [](const TrialRow& trial, const AttemptRow&) { return trial.slug; };
    return input;
  }

  /// A cell that a run has opened again spares what is left once more, or not.
  void note_skips(const std::vector<Change>& changes) {
    for (const auto& change : changes) {
      const auto* event = std::get_if<AddEvent>(&change);
      if (event != nullptr && event->kind == EventKind::spared) {
        // A memory verdict is a claim about a layout, not about its cell.
        if (event->detail == unfit_reason) {
          unfit_.insert(event->trial);
        } else {
          spared_.insert(event->trial);
        }
      }
      const auto* trial = std::get_if<SetTrial>(&change);
      if (trial != nullptr && trial->row.outcome == Outcome::skipped)
        causes_[trial->row.id] = trial->row.cause;
      if (trial != nullptr && trial->row.state == State::planned) {
        spared_.erase(trial->row.id);
        unfit_.erase(trial->row.id);
      }
    }
  }

  ReplayCell score(const std::vector<Launch>& launched) const {
    ReplayCell cell;
    const auto& first = *rows_.front().run;
    cell.model = rows_.front().point.model.name;
    cell.seq_len = first.point.seq_len;
    cell.nodes = first.nodes;
    cell.gpus = first.point.gpus;
    cell.points = static_cast<std::int64_t>(rows_.size());
    cell.launched = static_cast<std::int64_t>(launched.size());
    cell.spared = static_cast<std::int64_t>(spared_.size());
    cell.left_out = cell.points - cell.launched - cell.spared;
    double best = 0;
    for (const auto& row : rows_) {
      best = std::max(best, row.run->tokens_per_s_per_gpu.value_or(0));
      if (row.run->outcome == Outcome::completed) ++cell.completed;
      cell.exhaustive_gpu_hours += hours_of(row, options_.steps);
    }
    for (const auto& [number, cut_after, outlook] : launched) {
      cell.gpu_hours += hours_of(rows_[number], options_.steps_of_launch(cut_after));
      if (cut_after > 0) ++cell.cut_short;
      if (rows_[number].run->outcome == Outcome::oom) ++cell.oom_launched;
    }
    cell.gpu_hours += finals_hours(launched);
    cell.good_left_out = good_left_out(launched);
    if (best > 0) score_against(best, launched, cell);
    return cell;
  }

  [[nodiscard]] ReplayedRow replayed(const Row& row, std::int32_t cut_after) const {
    return {row.run->line, row.run->point, row.run->kernel, row.run->outcome,
        row.run->tokens_per_s_per_gpu, hours_of(row, options_.steps_of_launch(cut_after))};
  }

  /// Launch by launch, then what was never launched, with its rule.
  [[nodiscard]] ReplayedCell story(const std::vector<Launch>& launched) const {
    ReplayedCell story;
    std::vector<bool> ran(rows_.size(), false);
    for (const auto& [number, cut_after, outlook] : launched) {
      ran[number] = true;
      const double predicted = options_.search.policy == SearchPolicy::exhaustive
          ? rows_[number].speed
          : outlook.tokens_per_s_per_gpu;
      story.launches.push_back({replayed(rows_[number], cut_after), predicted, outlook.sigma,
          outlook.fits, cut_after > 0, outlook.why});
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!ran[i]) story.left_out.push_back(left_out(i));
    }
    return story;
  }

  [[nodiscard]] ReplayedLeftOut left_out(std::size_t number) const {
    const Row& row = rows_[number];
    ReplayedLeftOut left{replayed(row, 0), row.rule, row.why};
    if (!row.planned) return left;
    const auto trial = static_cast<TrialId>(number) + 1;
    const auto cause = causes_.find(trial);
    if (cause != causes_.end()) left.why = cause->second;
    left.rule = unfit_.contains(trial)     ? "unfit"
        : spared_.contains(trial)          ? "until"
        : left.why.starts_with("It needs") ? "memory_order"
                                           : "micro_batch";
    return left;
  }

  [[nodiscard]] double hours_of(const Row& row, std::int32_t steps) const {
    return seconds_of(*row.run, options_, steps) * row.run->point.gpus / hour_s;
  }

  /// Of one round of the cell's finals.
  double finals_hours(const std::vector<Launch>& launched) const {
    if (options_.first <= 0) return 0;
    std::vector<std::pair<double, double>> measured;  // speed and hours of a run in full
    for (const Launch& launch : launched) {
      const Row& row = rows_[launch.row];
      const double speed = row.run->tokens_per_s_per_gpu.value_or(0);
      if (launch.cut_after == 0 && speed > 0)
        measured.emplace_back(speed, hours_of(row, options_.steps));
    }
    std::sort(measured.begin(), measured.end(), std::greater<>());
    std::vector<Contender> contenders;
    contenders.reserve(measured.size());
    for (const auto& [speed, hours] : measured)
      contenders.push_back({speed});
    const auto finalists =
        finalists_among(contenders, static_cast<std::size_t>(options_.finalists));
    double all = 0;
    for (std::size_t i = 0; finalists > 1 && i < finalists; ++i)
      all += measured[i].second;
    return all;
  }

  std::int64_t good_left_out(const std::vector<Launch>& launched) const {
    std::vector<bool> could_run(rows_.size(), false);
    for (const auto& launch : launched)
      could_run[launch.row] = true;
    for (const auto trial : spared_)
      could_run[static_cast<std::size_t>(trial - 1)] = true;
    std::int64_t count = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto& run = *rows_[i].run;
      if (run.outcome == Outcome::completed && !run.oom_error && !could_run[i]) ++count;
    }
    return count;
  }

  void score_against(double best, const std::vector<Launch>& launched, ReplayCell& cell) const {
    double found = 0;
    double hours = 0;
    std::int64_t run = 0;
    for (const auto& [number, cut_after, outlook] : launched) {
      ++run;
      hours += hours_of(rows_[number], options_.steps_of_launch(cut_after));
      const double speed = rows_[number].run->tokens_per_s_per_gpu.value_or(0);
      if (run == 1) cell.first_choice = speed / best;
      if (cut_after == 0) found = std::max(found, speed);
      if (!cell.runs_to_1pct && found >= 0.99 * best) {
        cell.runs_to_1pct = run;
        cell.gpu_hours_to_1pct = hours;
      }
      if (!cell.runs_to_best && found >= best) cell.runs_to_best = run;
    }
    const auto never = cell.launched + 1;
    cell.runs_to_1pct = cell.runs_to_1pct.value_or(never);
    cell.gpu_hours_to_1pct = cell.gpu_hours_to_1pct.value_or(hours);
    cell.runs_to_best = cell.runs_to_best.value_or(never);
    cell.regret_at_stop = 1 - found / best;
  }

  const RecordedSweep& sweep_;
  const ReplayOptions& options_;
  Predictor predictor_;
  std::vector<Row> rows_;
  std::map<std::int64_t, TrialId> by_position_;
  std::set<TrialId> spared_;
  std::set<TrialId> unfit_;
  std::map<TrialId, std::string> causes_;  // of those that a rule or the search has skipped
};

/// The predictor of a cell. Rows whose log holds an OOM are slow by their own fault.
Predictor fitted(const RecordedSweep& sweep, const ReplayOptions& options,
    const std::vector<const RecordedRun*>& cell) {
  Predictor predictor(options.cluster, *options.family);
  if (options.fit == ReplayFit::none) return predictor;
  const auto& model = sweep.model_of(*cell.front()).name;
  const std::set<const RecordedRun*> own(cell.begin(), cell.end());
  for (const auto& run : sweep.runs) {
    const auto& of = sweep.model_of(run);
    if (run.outcome != Outcome::completed || run.oom_error) continue;
    if (options.fit == ReplayFit::other_models && of.name == model) continue;
    if (options.fit == ReplayFit::other_cells && own.contains(&run)) continue;
    predictor.learn({.model = of,
        .point = run.point,
        .traits = traits_of(run),
        .tokens_per_s_per_gpu = run.tokens_per_s_per_gpu.value_or(0)});
  }
  return predictor;
}

/// A model's name; with what tells its shape from others of that name: "469B (kv_heads 8)".
std::string name_of_shape(const RecordedSweep& sweep, std::int32_t model) {
  const auto& of = sweep.models[static_cast<std::size_t>(model)];
  std::string differs;
  const auto add = [&](std::string_view field, const auto& value, const auto& values_of) {
    const bool same = std::all_of(sweep.models.begin(), sweep.models.end(),
        [&](const ModelSpec& other) { return other.name != of.name || values_of(other) == value; });
    if (!same) differs += fmt::format("{}{} {}", differs.empty() ? "" : ", ", field, value);
  };
  for (const auto& field : shape_fields)
    add(field.name, of.*field.member, [&](const ModelSpec& other) { return other.*field.member; });
  add("tied_embeddings", of.tied_embeddings,
      [](const ModelSpec& other) { return other.tied_embeddings; });
  return differs.empty() ? of.name : fmt::format("{} ({})", of.name, differs);
}

Result<void> check_worlds(const RecordedSweep& sweep, const ClusterSpec& cluster) {
  for (const auto& run : sweep.runs) {
    const std::int64_t needed =
        (run.point.gpus + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
    if (run.nodes == needed) continue;
    return fault(FaultKind::invalid_input,
        fmt::format("{}:{}: {} GPUs on {} nodes, but cluster '{}' has {} per node", sweep.file,
            run.line, run.point.gpus, run.nodes, cluster.name, cluster.gpus_per_node));
  }
  return {};
}

}  // namespace

Result<ReplayReport> replay(const RecordedSweep& sweep, const ReplayOptions& options) {
  SHARDSWEEP_TRY(check_worlds(sweep, options.cluster));
  // Rows of one name may differ in shape: layouts of two shapes do not compete.
  std::map<std::pair<CellInOrder, std::int32_t>, std::vector<const RecordedRun*>> cells;
  for (const auto& run : sweep.runs) {
    auto key = cell_of(sweep.model_of(run), run.point);
    key.second.nodes = run.nodes;
    cells[{std::move(key), run.point.model}].push_back(&run);
  }
  ReplayReport report;
  const auto conditions = conditions_of(sweep);
  std::vector<SearchTrial> lessons;
  for (const auto& [key, runs] : cells) {
    auto played =
        CellReplay(sweep, options, runs, fitted(sweep, options, runs), conditions).play(lessons);
    played.score.model = name_of_shape(sweep, key.second);
    report.cells.push_back(std::move(played.score));
    report.stories.push_back(std::move(played.story));
  }
  return report;
}

}  // namespace shardsweep
