// SPDX-License-Identifier: Apache-2.0
// bisect: at which commit, or image, a layout became slower.
//
// Decision: All that it knows stands in the database, as the trials of one sweep that grows by
// a step's pairs at a time, and in what hooks have made. So the same command goes on where it
// was killed, the daemon runs pairs as it runs all trials, and `results` shows them.
#include "cli/command.hpp"
#include "cli/commands/bisect_versions.hpp"
#include "cli/emitting.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/bisect_view.hpp"
#include "show/trial_columns.hpp"
#include "text/content_hash.hpp"
#include "text/numbers.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* commit_variable = "bisect";
constexpr const char* image_variable = "image";

struct BisectOptions {
  std::vector<std::string> between;
  std::vector<std::string> images;
  std::vector<std::string> hook;
  std::string repository = ".";
  std::string product = "runner";
  std::string resolve = "1%";
  std::int64_t most_pairs = 32;
};

const BisectOptions& own_options(const Session& session) {
  return session.options.of<BisectOptions>();
}

/// The sweep whose layout is bisected, and which point of it.
struct BisectedLayout {
  SweepSpec sweep;
  std::string point;                          ///< text of `--point`
  std::map<std::string, std::string> axes{};  ///< values of a stored trial; empty: `point` holds
};

Result<BisectedLayout> layout_of_trial(const Session& session, const std::string& trial) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto found, reader->trials({.names = {trial}, .hidden = true}));
  if (found.empty())
    return fault(FaultKind::invalid_input,
        "'{}' is neither a sweep file nor a sweep or trial of the database", trial);
  const ReportedTrial& first = found.front();
  BisectedLayout layout;
  SHARDSWEEP_ASSIGN(const auto text, reader->resolved(first.sweep));
  SHARDSWEEP_ASSIGN(layout.sweep, load_sweep_text(text, "sweep " + first.sweep, {}));
  for (const AxisInfo& axis : axes())
    layout.axes[std::string(axis.name)] = plain_text(trial_column(axis.name)(first));
  SHARDSWEEP_ASSIGN(const auto vars, reader->rows<TrialVar>(Listing::vars_of_trial, {first.trial}));
  for (const auto& [name, value] : vars)
    layout.axes[name] = value;
  return layout;
}

/// The winner of a sweep's only cell, else the trial of that name.
Result<std::string> trial_meant(const Session& session, const std::string& name) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const auto status = reader->status({name});
  if (!status || status->empty()) return name;
  SHARDSWEEP_ASSIGN(const auto cells, reader->best_of_cells({status->front().id}));
  if (cells.size() == 1) return cells.front().trial;
  return fault(FaultKind::invalid_input,
      cells.empty() ? fmt::format("nothing of '{}' was measured yet; name its sweep file", name)
                    : fmt::format("'{}' has {}, each with a best layout of its own: name a trial "
                                  "of one of them ('shardsweep best {} --wide')",
                          name, counted(std::ssize(cells), "cell"), name));
}

Result<BisectedLayout> layout_asked(const Session& session) {
  const std::string& file = session.options.file;
  std::error_code none;
  if (file != "-" && !fs::exists(file, none) && !file.ends_with(".yaml") &&
      !file.ends_with(".yml")) {
    SHARDSWEEP_ASSIGN(const auto trial, trial_meant(session, file));
    return layout_of_trial(session, trial);
  }
  BisectedLayout layout;
  SHARDSWEEP_ASSIGN(layout.sweep, load_sweep_file(session));
  layout.point = session.options.trainer.point;
  return layout;
}

bool is_layout(
    const SweepSpec& sweep, const Point& point, const std::map<std::string, std::string>& wanted) {
  for (const AxisInfo& axis : axes()) {
    const auto found = wanted.find(std::string(axis.name));
    if (found == wanted.end() || found->second.empty()) continue;
    const auto value = axis.get(point);
    const auto text = axis.kind == AxisKind::model
        ? sweep.models.at(static_cast<std::size_t>(value)).name
        : axis_text(axis, value);
    if (text != found->second && std::to_string(value) != found->second) return false;
  }
  for (std::size_t i = 0; i < sweep.vars.size(); ++i) {
    const auto found = wanted.find(sweep.vars[i].name);
    const auto& value = sweep.vars[i].values.at(static_cast<std::size_t>(point.vars.at(i)));
    if (found != wanted.end() && found->second != value) return false;
  }
  return true;
}

Result<Point> point_of(const PlannedSweep& planned, const BisectedLayout& layout) {
  std::vector<const PlannedTrial*> found;
  if (layout.axes.empty()) {
    SHARDSWEEP_ASSIGN(found, points_meant(planned, layout.point));
  } else {
    for (const auto& trial : planned.plan.trials) {
      if (is_layout(planned.sweep, trial.point, layout.axes)) found.push_back(&trial);
    }
  }
  std::erase_if(found, [](const PlannedTrial* trial) { return trial->point.repeat != 1; });
  if (found.size() == 1) return found.front()->point;
  return fault(FaultKind::invalid_input,
      found.empty()
          ? fmt::format("no point of '{}' can run; 'shardsweep plan' says why", planned.sweep.name)
          : fmt::format("'{}' has {}; --point tp=2,micro_batch=4 names one of them, or --point 3 "
                        "by its number in 'shardsweep plan'",
                planned.sweep.name, counted(std::ssize(found), "point")));
}

/// This one point is all that the sweep has: no search, finals or side runs, and one allocation
/// at a time, so that both runs of a pair share it.
void keep_point(SweepSpec& sweep, const Point& point) {
  for (std::size_t i = 0; i < sweep.vars.size(); ++i)
    sweep.vars[i].values = {sweep.vars[i].values.at(static_cast<std::size_t>(point.vars.at(i)))};
  sweep.axes.clear();
  sweep.constants.clear();
  for (const AxisInfo& axis : axes()) {
    if (axis.name == (point.nodes > 0 ? "gpus" : "nodes")) continue;
    sweep.constants.push_back({.axis = &axis, .values = {axis.get(point)}});
  }
  sweep.zips.clear();
  sweep.points.clear();
  sweep.excludes.clear();
  sweep.control = {};
  sweep.search = {};
  sweep.side_runs = {};
  sweep.prove = false;
  sweep.measure = {.warmup = sweep.measure.warmup, .steps = sweep.measure.steps};
  sweep.policy.max_allocations = 1;
  sweep.policy.lane_length = 0;
}

/// Makes the sweep run each version: its own program, or the same program in its image.
Result<void> run_versions(SweepSpec& sweep, const BisectWorkshop& workshop, bool images) {
  auto& runner = sweep.runner;
  if (images) {
    if (!sweep.container.runtime)
      return fault(FaultKind::invalid_input,
          "--images: '{}' names no runtime; add 'container: {{runtime: enroot, image: …}}' to it",
          sweep.name);
    sweep.container.image = "{image}";
    return {};
  }
  runner.snapshot = SnapshotKind::none;
  runner.snapshot_hash.clear();
  runner.snapshot_root.clear();
  runner.programs.clear();
  SHARDSWEEP_ASSIGN(const auto starter, workshop.starter());
  (runner.is_trainer() ? runner.trainer.argv.front() : runner.program) = starter.string();
  return {};
}

/// The same words on a command line mean the same bisection.
std::string bisection_name(const Session& session, const BisectedLayout& layout,
    const std::vector<BisectVersion>& versions) {
  const auto& own = own_options(session);
  Fnv128 hash;
  const auto add = [&](std::string_view text) {
    hash.add(fmt::format("{}:", text.size()));
    hash.add(text);
  };
  add(explain_sweep(layout.sweep));
  add(layout.point);
  for (const auto& [name, value] : layout.axes)
    add(fmt::format("{}={}", name, value));
  for (const auto& version : versions)
    add(version.id);
  for (const auto& word : own.hook)
    add(word);
  add(own.product);
  return "bisect-" + std::string(short_hash(hash.hex()));
}

Result<std::vector<BisectVersion>> versions_asked(const Session& session, fs::path& repository) {
  const auto& own = own_options(session);
  const auto at = [&](std::size_t place) {
    return own.between.empty() ? std::string() : own.between.at(place);
  };
  if (!own.images.empty()) {
    SHARDSWEEP_ASSIGN(const auto images, images_named(own.images));
    return images_between(images, at(0), at(1));
  }
  if (own.between.empty())
    return fault(FaultKind::invalid_input,
        "--between GOOD BAD is missing: the commit that is known to be fast, and the slow one");
  std::error_code why;
  repository = fs::canonical(own.repository, why);
  if (why)
    return fault(FaultKind::invalid_input, "--repository {}: {}", own.repository, why.message());
  return commits_between(repository, at(0), at(1));
}

class BisectCommand {
 public:
  BisectCommand(const Session& session, std::vector<BisectVersion> versions,
      BisectWorkshop workshop, bool images)
      : session_(session),
        versions_(std::move(versions)),
        workshop_(std::move(workshop)),
        variable_(images ? image_variable : commit_variable),
        images_(images) {}

  Result<ExitCode> run(
      const BisectedLayout& layout, const std::string& name, BisectSettings settings) {
    name_ = name;
    SHARDSWEEP_ASSIGN(const bool starts, prepare_first());
    if (starts) SHARDSWEEP_TRY(keep_layout(layout));
    say("{}: {} from {} to {}. The same command goes on if it is interrupted.", name_,
        counted(std::ssize(versions_) - 1, "version"), versions_.front().name,
        versions_.back().name);
    for (;;) {
      SHARDSWEEP_ASSIGN(const auto record, read());
      if (record.open) {
        SHARDSWEEP_ASSIGN(const ExitCode code, measure(record.pairs));
        if (code == ExitCode::interrupted) return code;
        continue;
      }
      const auto decision = decide_bisect(record.facts, settings);
      tell(decision);
      if (decision.end != BisectEnd::goes_on) return end(record, decision);
      SHARDSWEEP_ASSIGN(const bool ready, prepare(record, decision));
      if (!ready) continue;
      auto pairs = record.pairs;
      std::int64_t number = pairs.empty() ? 0 : pairs.back().first;
      for (std::int64_t i = 0; i < decision.pairs; ++i)
        pairs.emplace_back(++number, decision.next);
      SHARDSWEEP_ASSIGN(const ExitCode code, measure(pairs));
      if (code == ExitCode::interrupted) return code;
    }
  }

 private:
  /// False: the version that all others are held against cannot be made, which the decision
  /// says.
  Result<bool> prepare_first() {
    if (!workshop_.is_ready(0) && !workshop_.unbuilt().contains(0))
      say("Preparing {}.", versions_.front().name);
    SHARDSWEEP_TRY(workshop_.prepare(0));
    return !workshop_.unbuilt().contains(0);
  }

  /// Plans the sweep and keeps the layout's point alone. The first version's runner says what it
  /// can do.
  Result<void> keep_layout(const BisectedLayout& layout) {
    sweep_ = layout.sweep;
    SHARDSWEEP_TRY(run_versions(sweep_, workshop_, images_));
    SHARDSWEEP_ASSIGN(const PlannedSweep planned, plan_sweep(session_, sweep_));
    SHARDSWEEP_ASSIGN(const Point point, point_of(planned, layout));
    std::erase_if(sweep_.vars, [&](const auto& var) { return var.name == variable_; });
    Point kept = point;
    if (kept.vars.size() != sweep_.vars.size()) {
      kept.vars.clear();
      for (std::size_t i = 0; i < layout.sweep.vars.size(); ++i) {
        if (layout.sweep.vars[i].name != variable_) kept.vars.push_back(point.vars[i]);
      }
    }
    keep_point(sweep_, kept);
    sweep_.name = name_;
    return {};
  }

  Result<BisectRecord> read() {
    std::vector<BisectRun> runs;
    std::error_code none;
    if (fs::exists(session_.home.database, none)) {
      SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session_.home.database));
      SHARDSWEEP_ASSIGN(runs, reader->rows<BisectRun>(Listing::bisect_runs, {variable_, name_}));
    }
    return bisect_record(versions_, runs, workshop_.unbuilt());
  }

  /// Says the verdict of each step, again only if it has changed.
  void tell(const BisectDecision& decision) {
    for (const auto& verdict : decision.verdicts) {
      if (verdict.share.pairs == 0) continue;
      auto text = bisect_step_text(versions_, verdict);
      auto& told = told_[verdict.step];
      if (told == text) continue;
      say(text);
      told = std::move(text);
    }
  }

  /// False: one of the two is broken, which the next decision knows.
  Result<bool> prepare(const BisectRecord& record, const BisectDecision& decision) {
    const auto& [good, candidate] = decision.next;
    const auto& version = versions_.at(candidate);
    const bool fresh = !record.facts.measured.contains(decision.next);
    if (fresh)
      say("Step {}: {}{}{}, about {} with it.", record.steps.size() + 1, version.name,
          version.about.empty() ? "" : ", ", version.about, counted(decision.steps_left, "step"));
    for (const auto place : {good, candidate}) {
      SHARDSWEEP_TRY(workshop_.prepare(place));
      const auto broken = workshop_.unbuilt().find(place);
      if (broken == workshop_.unbuilt().end()) continue;
      say("{} is passed over: {}.", versions_.at(place).name, broken->second);
      return false;
    }
    return true;
  }

  /// The trials of all pairs, in their order: A B, B A, A B, so that a drift hits both alike.
  Result<PlannedSweep> plan_pairs(const std::vector<std::pair<std::int64_t, BisectStep>>& pairs) {
    std::set<std::size_t> places;
    for (const auto& [number, step] : pairs)
      places.insert({step.good, step.candidate});
    SweepSpec sweep = sweep_;
    auto& var = sweep.vars.emplace_back(VarValues{variable_, {}});
    std::map<std::size_t, std::int32_t> value_of;
    for (const auto place : places) {
      value_of[place] = static_cast<std::int32_t>(var.values.size());
      var.values.push_back(versions_.at(place).name);
    }
    sweep.measure.repeats = static_cast<std::int32_t>(pairs.back().first);
    SHARDSWEEP_ASSIGN(PlannedSweep planned, plan_sweep(session_, std::move(sweep)));
    std::map<std::pair<std::int64_t, std::int32_t>, PlannedTrial> trials;
    for (auto& trial : planned.plan.trials)
      trials.emplace(std::pair(trial.point.repeat, trial.point.vars.back()), trial);
    planned.plan.trials.clear();
    for (const auto& [number, step] : pairs) {
      auto both = std::pair(step.good, step.candidate);
      if (number % 2 == 0) std::swap(both.first, both.second);
      for (const auto place : {both.first, both.second}) {
        const auto found = trials.find({number, value_of.at(place)});
        if (found == trials.end())
          return fault(FaultKind::invalid_input, "the layout cannot run: {}", planned.refusal);
        planned.plan.trials.push_back(found->second);
      }
    }
    // Each version may name another one; they are told apart by the variable.
    planned.capabilities.version = "unknown";
    planned.source = explain_sweep(planned.sweep);
    return planned;
  }

  Result<ExitCode> measure(const std::vector<std::pair<std::int64_t, BisectStep>>& pairs) {
    SHARDSWEEP_ASSIGN(PlannedSweep planned, plan_pairs(pairs));
    SHARDSWEEP_TRY(submit_plan(session_, std::move(planned)));
    SHARDSWEEP_ASSIGN(
        const ExitCode code, follow_sweeps(session_, {name_}, FollowFrom::now, FollowedTo::trials));
    if (code == ExitCode::interrupted) return code;
    SHARDSWEEP_ASSIGN(const auto record, read());
    if (!record.open) return ExitCode::done;
    say("The bisection is not done; the same command goes on.");
    return ExitCode::interrupted;
  }

  Result<ExitCode> end(const BisectRecord& record, const BisectDecision& decision) {
    const auto lines = bisect_answer(versions_, record, decision);
    const auto table = bisect_table(versions_, record, decision);
    if (session_.options.format == Format::json) {
      SHARDSWEEP_TRY(print_result(json_of(record, decision, lines, table)));
    } else {
      for (const auto& line : lines)
        SHARDSWEEP_TRY(print_result(line + "\n"));
      SHARDSWEEP_TRY(print_result("\n" +
          table_text(
              table, table_style(session_, {"version", "verdict", "slower_share", "pairs"}))));
    }
    switch (decision.end) {
      case BisectEnd::found:
      case BisectEnd::range:
        return ExitCode::done;
      case BisectEnd::absent:
      case BisectEnd::faster:
        return ExitCode::failed;
      default:
        return ExitCode::undecided;
    }
  }

  [[nodiscard]] std::string json_of(const BisectRecord& record, const BisectDecision& decision,
      const std::vector<std::string>& lines, const Table& table) const {
    OrderedJson json;
    json["answer"] = word_of(decision.end);
    const bool named = decision.end == BisectEnd::found || decision.end == BisectEnd::unconfirmed;
    json["version"] = named ? OrderedJson(versions_[decision.last].id) : OrderedJson(nullptr);
    json["last_fast"] = versions_[decision.first].id;
    json["first_slow"] = versions_[decision.last].id;
    json["text"] = lines;
    json["sweep"] = name_;
    json["runs"] = record.runs;
    json["steps"] = OrderedJson::parse(table_text(table, Format::json), nullptr, false);
    json["broken"] = OrderedJson::array();
    for (const auto& [place, why] : record.broken)
      json["broken"].push_back({{"version", versions_[place].id}, {"why", why}});
    return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  }

  const Session& session_;
  std::vector<BisectVersion> versions_;
  BisectWorkshop workshop_;
  std::string variable_;
  bool images_;
  std::string name_;
  SweepSpec sweep_;
  std::map<BisectStep, std::string> told_;
};

Result<ExitCode> run_bisect(const Session& session) {
  const auto& own = own_options(session);
  BisectSettings settings{.most_pairs = own.most_pairs};
  SHARDSWEEP_ASSIGN(settings.resolve, share_in_option(own.resolve, "--resolve"));
  settings.first_pairs = std::min(settings.first_pairs, settings.most_pairs);
  const bool images = !own.images.empty();
  fs::path repository;
  SHARDSWEEP_ASSIGN(const auto versions, versions_asked(session, repository));
  SHARDSWEEP_ASSIGN(const auto layout, layout_asked(session));
  const auto name = bisection_name(session, layout, versions);
  SHARDSWEEP_ASSIGN(auto workshop,
      BisectWorkshop::open(session, name,
          {.words = own.hook, .repository = repository, .product = own.product}, versions));
  return BisectCommand(session, versions, std::move(workshop), images).run(layout, name, settings);
}

}  // namespace

extern const Command command_bisect{.name = "bisect",
    .heading = Heading::results,
    .help = "Find the commit or the image that made a layout slower.",
    .examples =
        "shardsweep bisect my.yaml --between v1.2 main -- make\n"
        "shardsweep bisect my.yaml --images a.sqsh b.sqsh c.sqsh\n"
        "shardsweep bisect SLUG --between v1.2 main -- ./build.sh",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          auto& own = grammar.own<BisectOptions>();
          grammar
              .option("sweep", options.file, "SWEEP",
                  "Whose layout is measured: a sweep file, a trial, or a sweep of the database, "
                  "which means its best layout.")
              .required();
          grammar.program("hook", own.hook, "HOOK",
              "Behind --: a program and its words, which makes a commit ready to be run. It starts "
              "in a clone with the commit checked out and leaves the program 'runner' there, which "
              "is run in place of the sweep's program. SHARDSWEEP_COMMIT and SHARDSWEEP_WORK name "
              "commit and folder. If it fails, the commit is passed over. With --images it may "
              "prepare SHARDSWEEP_IMAGE.");
          grammar
              .option("--between", own.between, "COMMIT",
                  "The commit that is known to be fast, and the slow one: GOOD BAD. With --images: "
                  "the same of the list.")
              .times(2, 2);
          grammar.option("--images", own.images, "IMAGE",
              "Images in place of commits, the oldest first, or a text file with a line for each.");
          grammar.option("--repository", own.repository, "DIR", "The git repository.");
          grammar.option("--product", own.product, "FILE",
              "The program that the hook leaves, in the commit's folder.");
          grammar.option("--point", options.trainer.point, "POINT",
              "Which layout of a sweep file with several: its number in 'plan', or values such as "
              "tp=2,micro_batch=4.");
          grammar.option(
              "--resolve", own.resolve, "SHARE", "A change smaller than this counts as none.");
          grammar
              .option("--most-pairs", own.most_pairs, "N",
                  "Most pairs of runs in a step. A version that is undecided then is skipped.")
              .whole_number(2, 500);
          grammar.option("--set", options.set, "KEY=VALUE", "Override a value of the sweep file.");
          grammar.backend();
          grammar.form("Form of the answer: table or json.", {"table", "json"});
        },
    .run = run_bisect};

}  // namespace shardsweep
