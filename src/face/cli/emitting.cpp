// SPDX-License-Identifier: Apache-2.0
#include "cli/emitting.hpp"

#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/trial_columns.hpp"
#include "sweep/batch_script.hpp"
#include "sweep/identity.hpp"
#include "sweep/layout_text.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"
#include "trainer/configuration.hpp"
#include "trainer/trainer_file.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {

std::string layout_text(const TrainerLayout& layout) {
  return layout_label([&](const AxisInfo& axis) {
    return axis_text_of(layout, axis).value_or(axis_text(axis, axis.default_value));
  });
}

// ---- points in a trainer's words ------------------------------------------------------------

namespace {

constexpr std::string_view as_batch_script = "sbatch";

/// A point, and what it is called. Its sweep is needed for a job script alone: an imported
/// table has none.
struct NamedPoint {
  const SweepSpec* sweep = nullptr;
  Point point;
  std::string name;
  std::string model;
};

std::string head_of(const NamedPoint& one) {
  return fmt::format("{}: {} on {}", one.name, one.model, counted(one.point.layout.world(), "GPU"));
}

Result<std::string> block_of(const Session& session, const NamedPoint& one, bool several) {
  const std::string& words = session.options.trainer.emit;
  const std::string head = head_of(one);
  if (words == as_batch_script && !one.sweep->container.empty())
    return fault(FaultKind::invalid_input,
        "the sweep runs in a container, and a separate batch script would not enter it; "
        "'shardsweep render' shows the command line, files and environment");
  if (words == as_batch_script)
    return batch_script(*one.sweep, one.point,
        {.name = one.sweep->name,
            .comment = head,
            .program = session.installation.runner.string(),
            .slots_per_node = one.sweep->cluster.gpus_per_node});
  if (const auto axis = axis_without_words(one.point); !axis.empty())
    return fault(FaultKind::invalid_input, "{} has no setting for {}", words, axis);
  const auto& models = one.sweep->models;
  const auto model = static_cast<std::size_t>(one.point.model);
  auto block =
      configuration_of_point(words, one.point, model < models.size() ? models[model] : ModelSpec{});
  if (!block) return block;
  // JSON has no comments: one of several is a line with its trial's name, and what a single one is
  // stands on standard error.
  const bool comments = layout_words_of(words).form != WordsForm::json;
  if (block && !comments && several)
    return fmt::format("{{\"trial\": \"{}\", \"config\": {}}}\n", one.name, on_one_line(*block));
  if (!comments) say(head);
  return comments ? fmt::format("# {}\n{}", head, *block) : *std::move(block);
}

/// How many layouts a trainer has no setting for, by the reason.
using UnwritableCounts = std::map<std::string, std::int64_t>;

std::string reasons(const UnwritableCounts& left_out) {
  std::vector<std::string> all;
  for (const auto& [reason, count] : left_out)
    all.push_back(fmt::format("{} ({})", reason, counted(count, "layout")));
  return fmt::format("{}", fmt::join(all, "; "));
}

/// Layouts that were asked for. A named layout without words is a fault; if all layouts are asked
/// for, it is left out.
enum class Asked { by_name, all };

Result<ExitCode> emit_all(const Session& session, const std::vector<NamedPoint>& all, Asked asked) {
  SHARDSWEEP_TRY(know_trainer(session.options.trainer.emit));
  const bool leaves_out =
      asked == Asked::all && all.size() > 1 && session.options.trainer.emit != as_batch_script;
  std::string text;
  UnwritableCounts left_out;
  for (const NamedPoint& one : all) {
    const auto block = block_of(session, one, all.size() > 1);
    if (block)
      text += *block;
    else if (leaves_out)
      ++left_out[block.error().what];
    else
      return tl::unexpected(block.error().in(head_of(one)));
  }
  if (text.empty() && !left_out.empty())
    return fault(FaultKind::invalid_input, "no layout can be printed: {}", reasons(left_out));
  SHARDSWEEP_TRY(print_result(text));
  if (!left_out.empty()) say("left out: {}", reasons(left_out));
  return ExitCode::done;
}

/// A row of `best`.
struct Winner {
  std::string trial;
};

}  // namespace

template <>
inline constexpr auto described<Winner> = Entries{Field{"trial", &Winner::trial}};

namespace {

/// The trials that are meant: of a sweep those that are the best of their cells.
Result<std::vector<std::string>> trials_of(
    Reader& reader, const std::vector<std::string>& names, const std::string& where) {
  std::vector<std::string> trials;
  for (const std::string& name : names) {
    SHARDSWEEP_ASSIGN(const auto count, reader.count({.names = {name}}));
    if (count == 1) {
      trials.push_back(name);
      continue;
    }
    SHARDSWEEP_ASSIGN(const Table best, reader.best({.names = {name}, .where = where}));
    if (best.rows.empty())
      return fault(FaultKind::invalid_input,
          "'{}' has no measurement yet. Name one of its trials: `shardsweep results {}` lists "
          "them.",
          name, name);
    for (auto& winner : typed_rows<Winner>(best))
      trials.push_back(std::move(winner.trial));
  }
  return trials;
}

/// The trial's point in the numbers of its sweep.
Result<Point> point_in_sweep(Reader& reader, const SweepSpec& sweep, const ReportedTrial& trial) {
  Point point = point_of(trial);
  const auto model = std::find_if(sweep.models.begin(), sweep.models.end(),
      [&](const ModelSpec& one) { return one.name == trial.model; });
  if (model != sweep.models.end())
    point.model = static_cast<std::int32_t>(model - sweep.models.begin());
  point.vars.assign(sweep.vars.size(), 0);
  SHARDSWEEP_ASSIGN(const auto vars, reader.rows<TrialVar>(Listing::vars_of_trial, {trial.trial}));
  for (const TrialVar& var : vars) {
    for (std::size_t n = 0; n < sweep.vars.size(); ++n) {
      const auto& values = sweep.vars[n].values;
      const auto value = std::find(values.begin(), values.end(), var.value);
      if (sweep.vars[n].name == var.name && value != values.end())
        point.vars[n] = static_cast<std::int32_t>(value - values.begin());
    }
  }
  return point;
}

/// Sweeps as they were submitted, by name.
class StoredSweeps {
 public:
  StoredSweeps(const Session& session, Reader& reader) : session_(session), reader_(reader) {}
  Result<const SweepSpec*> of(const std::string& name) {
    if (const auto known = sweeps_.find(name); known != sweeps_.end()) return &known->second;
    SHARDSWEEP_ASSIGN(const std::string text, reader_.resolved(name));
    SHARDSWEEP_ASSIGN(
        SweepSpec sweep, load_sweep_text(text, name, {session_.installation.presets, {}}));
    return &sweeps_.emplace(name, std::move(sweep)).first->second;
  }

 private:
  const Session& session_;
  Reader& reader_;
  std::map<std::string, SweepSpec> sweeps_;
};

}  // namespace

std::string on_one_line(std::string_view configuration) {
  std::string text;
  for (const std::string_view line : split(configuration, '\n')) {
    const std::string_view words = trimmed(line);
    if (!words.empty()) text += (text.empty() ? "" : " ") + std::string(words);
  }
  return text;
}

Result<void> know_trainer(const std::string& name) {
  const bool is_known = layout_words_of(name).form != WordsForm::none;
  if (is_known || own_trainer_file(name).empty()) return {};
  SHARDSWEEP_ASSIGN(TrainerFile file, load_trainer(name));
  if (file.layout.form == WordsForm::none)
    return fault(FaultKind::invalid_input,
        "{} has no sections 'layout' and 'words': it does not say how its trainer is told a "
        "layout. runner/TRAINERS.md shows a file that does",
        in_quotes(name));
  add_trainer_file(name, std::move(file));
  return {};
}

Result<const Family*> asked_family(const std::string& name) {
  const bool is_named = std::any_of(families().begin(), families().end(),
      [&](const Family& family) { return family.name == name; });
  if (is_named || own_trainer_file(name).empty()) return find_family(name);
  SHARDSWEEP_ASSIGN(TrainerFile file, load_trainer(name));
  const TrainerFile& own = add_trainer_file(name, std::move(file));
  if (own.family) return &*own.family;
  return fault(FaultKind::invalid_input,
      "{} has no section 'planner': what its trainer keeps in memory, or 'like' with a trainer "
      "that keeps the same",
      in_quotes(name));
}

void declare_emit(Grammar& grammar) {
  TrainerOptions& own = grammar.options().trainer;
  Words trainers;
  for (const auto trainer : configurable_trainers())
    trainers.emplace_back(trainer);
  Words words = trainers;
  words.emplace_back(as_batch_script);
  grammar
      .option("--emit", own.emit, "WORDS",
          fmt::format("Print these layouts, to paste, in the words of: {}; or of a trainer's file "
                      "of yours (./mine.yaml).",
              fmt::join(words, ", ")))
      .one_of_or_own_trainer(words);
  grammar
      .option("--from-args", own.from_args, "TEXT",
          "Show where your present layout ranks: the trainer's flags as text, or a file of them "
          "(@FILE).")
      .not_with("--emit");
  grammar
      .option("--for", own.log, "TRAINER",
          fmt::format("With --from-args: whose flags, a trainer or its file. Default: the sweep's "
                      "trainer, or {}.",
              usual_family(UsualOn::gpus).words))
      .one_of_or_own_trainer(trainers)
      .only_with("--from-args");
  grammar
      .option("--gpus", own.gpus, "N",
          "With --from-args: GPUs of the run, if the sweep has several GPU counts.")
      .only_with("--from-args");
}

void declare_point(Grammar& grammar, const char* name, const std::string& begin) {
  grammar.option(name, grammar.options().trainer.point, "POINT",
      begin + "by number in the plan's order or by axes: 3, tp=2,micro_batch=4.");
}

Result<ExitCode> emit_best(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  std::vector<std::string> names = session.options.names;
  const Asked asked = names.empty() ? Asked::all : Asked::by_name;
  if (names.empty()) {
    SHARDSWEEP_ASSIGN(const Table best, reader->best({.where = session.options.where}));
    for (auto& winner : typed_rows<Winner>(best))
      names.push_back(std::move(winner.trial));
  }
  SHARDSWEEP_ASSIGN(const auto trials, trials_of(*reader, names, session.options.where));
  StoredSweeps sweeps(session, *reader);
  std::vector<NamedPoint> all;
  for (const std::string& name : trials) {
    SHARDSWEEP_ASSIGN(const auto found, reader->trials({.names = {name}}));
    const ReportedTrial& trial = found.at(0);
    static const SweepSpec no_sweep;
    const SweepSpec* sweep = &no_sweep;
    if (session.options.trainer.emit == as_batch_script)
      SHARDSWEEP_SET(sweep, sweeps.of(trial.sweep));
    SHARDSWEEP_ASSIGN(Point point, point_in_sweep(*reader, *sweep, trial));
    all.push_back({sweep, std::move(point), trial.trial, trial.model});
  }
  return emit_all(session, all, asked);
}

Result<ExitCode> emit_plan(const Session& session, const PlannedSweep& planned) {
  SHARDSWEEP_ASSIGN(const auto meant, points_meant(planned, session.options.trainer.point));
  const Identifier names(planned.sweep, planned.capabilities);
  std::vector<NamedPoint> all;
  all.reserve(meant.size());
  for (const PlannedTrial* trial : meant)
    all.push_back({&planned.sweep, trial->point, names.slug(trial->point),
        planned.sweep.models.at(static_cast<std::size_t>(trial->point.model)).name});
  return emit_all(
      session, all, session.options.trainer.point.empty() ? Asked::all : Asked::by_name);
}

}  // namespace shardsweep
