// SPDX-License-Identifier: Apache-2.0
// knowledge: what a database has learnt for new searches, as files without names that other
// databases import (plan/knowledge_file.hpp).
#include "cli/command.hpp"
#include "cli/commands/known_runs.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "plan/knowledge_file.hpp"
#include "search/residuals.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/random.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

struct KnowledgeOptions {
  std::string action = "list";
  std::vector<std::string> sweeps;
};

/// Knowledge of this database, the sweeps in it, and those that can't be in it.
struct OwnKnowledge {
  KnowledgeFile file;
  std::vector<std::string> sweeps;
  std::vector<std::string> without;  ///< sweeps of trainers of no known family
};

Result<OwnKnowledge> own_knowledge(
    const Session& session, Reader& reader, const std::vector<std::string>& names) {
  const auto is_meant = [&](const std::string& name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto& name : names)
    SHARDSWEEP_TRY(reader.resolved(name));
  OwnKnowledge own;
  SHARDSWEEP_ASSIGN(const auto sweeps, earlier_sweeps(session, reader, [&](const SweepSpec& sweep) {
    if (!is_meant(sweep.name) || !sweep.proof_of.empty()) return false;
    const bool may = KnowledgeWriter::may_have(sweep);
    if (!may) own.without.push_back(sweep.name);
    return may;
  }));
  KnowledgeWriter writer;
  for (const EarlierSweep& sweep : sweeps) {
    const auto runs = earlier_runs(sweep.spec, sweep.rows, session.clock.now());
    if (!runs.empty()) own.sweeps.push_back(sweep.name);
    writer.add(sweep.spec, runs);
  }
  own.file = writer.file();
  return own;
}

void say_left_out(const OwnKnowledge& own) {
  if (own.without.empty()) return;
  say("Sweeps not exported: {}. Their trainer is of no known family: only a name tells it, and "
      "exported files hold no names.",
      fmt::join(own.without, ", "));
}

Result<ExitCode> export_knowledge(const Session& session, const std::string& file) {
  SHARDSWEEP_TRY(check_output(session.home, file));
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto own,
      own_knowledge(session, *reader, session.options.of<KnowledgeOptions>().sweeps));
  say_left_out(own);
  if (own.file.runs.empty())
    return fault(FaultKind::invalid_input,
        "nothing to export: no sweep has a run that another sweep can learn from");
  const auto text = knowledge_text(own.file);
  if (file.empty()) return deliver(text);
  SHARDSWEEP_TRY(write_file_durably(file, text));
  say("Wrote {}: {} of {}.", file, counted(std::ssize(own.file.runs), "run"),
      counted(std::ssize(own.sweeps), "sweep"));
  return ExitCode::done;
}

Result<ExitCode> import_knowledge(const Session& session, const std::string& file) {
  SHARDSWEEP_ASSIGN(const auto text, read_file(file, most_bytes_of_knowledge));
  // A fault names the file that the user knows; the daemon reads a copy.
  SHARDSWEEP_TRY(read_knowledge(text, file));
  SHARDSWEEP_TRY(make_home(session.home));
  const auto copy = session.home.inbox() / (random_hex(16) + ".jsonl");
  SHARDSWEEP_TRY(write_own_file(copy, text, Readers::owner));
  SHARDSWEEP_ASSIGN(
      const Answer answer, ask_writer(session, {.verb = Verb::learn, .inbox = copy.string()}));
  const std::vector<Value> row{
      answer.document, answer.counts.at("runs"), answer.counts.at("fresh")};
  if (session.options.format != Format::table)
    return deliver(table_text({{"knowledge", "runs", "fresh"}, {row}}, session.options.format));
  return deliver(
      fmt::format("{}: {}{}\n", answer.document, counted(answer.counts.at("runs"), "run"),
          answer.counts.at("fresh") == 0 ? ", imported before" : ""));
}

Result<ExitCode> forget_knowledge(const Session& session, const std::vector<std::string>& names) {
  SHARDSWEEP_ASSIGN(
      const Answer answer, ask_writer(session, {.verb = Verb::forget, .names = names}));
  say(answer.text + ". Sweeps that were submitted before go on as they began.");
  return ExitCode::done;
}

// ---- what is known

struct NamedKnowledge {
  std::string name;
  KnowledgeFile file;
};

Result<std::vector<NamedKnowledge>> all_known(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(auto own, own_knowledge(session, *reader, {}));
  say_left_out(own);
  std::vector<NamedKnowledge> all;
  all.push_back({"this database", std::move(own.file)});
  SHARDSWEEP_ASSIGN(const auto files, imported_knowledge(*reader));
  for (const KnowledgeText& one : files) {
    SHARDSWEEP_ASSIGN(auto file, read_knowledge(one.text, one.name));
    all.push_back({one.name, std::move(file)});
  }
  return all;
}

std::string trainer_of(const KnowledgeSource& source) {
  std::string text = source.family;
  if (!source.profile.empty() && source.profile != own_profile)
    text += fmt::format(" ({})", source.profile);
  return source.version.empty() ? text : fmt::format("{} {}", text, source.version);
}

std::string hardware_of(const KnowledgeSource& source) {
  return source.gpu.empty() ? fmt::format("{} CPU slots a node", source.gpus_per_node)
                            : fmt::format("{} {} a node", source.gpus_per_node, source.gpu);
}

/// "1.02" of no ratio: NULL.
Value ratio_of(double ratio, const RatioSpread& spread) {
  return spread.count == 0 ? Value() : Value(ratio);
}

Result<ExitCode> list_knowledge(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto all, all_known(session));
  Table table{{"knowledge", "hardware", "trainer", "models", "runs", "oom", "over_predicted"}, {}};
  for (const NamedKnowledge& known : all) {
    for (std::size_t i = 0; i < known.file.sources.size(); ++i) {
      std::int64_t runs = 0;
      std::int64_t ooms = 0;
      std::vector<bool> models(known.file.models.size(), false);
      std::vector<double> ratios;
      for (const KnowledgeRun& run : known.file.runs) {
        if (run.source != static_cast<std::int32_t>(i)) continue;
        ++runs;
        ooms += run.run.outcome == word_of(Outcome::oom) ? 1 : 0;
        models[static_cast<std::size_t>(run.run.model)] = true;
        if (run.over_predicted > 0) ratios.push_back(run.over_predicted);
      }
      const auto spread = spread_of(std::move(ratios));
      const auto& source = known.file.sources[i];
      table.rows.push_back({known.name, hardware_of(source), trainer_of(source),
          std::int64_t{std::count(models.begin(), models.end(), true)}, runs, ooms,
          ratio_of(spread.median, spread)});
    }
  }
  if (table.rows.empty()) say("Nothing is known yet: no trial has been measured.");
  return print_table(table, table_style(session));
}

/// Speeds over predicted ones, for each value of a structural axis that a source has several
/// of.
Result<ExitCode> list_axes(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto all, all_known(session));
  Table table{
      {"knowledge", "trainer", "axis", "value", "runs", "over_predicted", "low", "high"}, {}};
  for (const NamedKnowledge& known : all) {
    std::map<std::tuple<std::int32_t, std::size_t>, std::map<std::int64_t, std::vector<double>>>
        ratios;
    for (const KnowledgeRun& run : known.file.runs) {
      const auto& source = known.file.sources[static_cast<std::size_t>(run.source)];
      if (run.over_predicted <= 0) continue;
      SHARDSWEEP_ASSIGN(
          const auto seen, observation_of(known.file.models, run.run, source.gpus_per_node));
      const auto structure = structure_of(seen.point);
      for (std::size_t axis = 0; axis < structure.size(); ++axis)
        ratios[{run.source, axis}][structure.at(axis)].push_back(run.over_predicted);
    }
    for (auto& [key, values] : ratios) {
      if (values.size() < 2) continue;
      const auto& [source, axis] = key;
      const auto& info = *structural_axes.at(axis);
      for (auto& [value, list] : values) {
        const auto spread = spread_of(std::move(list));
        table.rows.push_back(
            {known.name, trainer_of(known.file.sources[static_cast<std::size_t>(source)]),
                std::string(info.name), axis_text(info, value),
                static_cast<std::int64_t>(spread.count), spread.median, spread.low, spread.high});
      }
    }
  }
  if (table.rows.empty()) say("No axis has two values that were measured.");
  return print_table(table, table_style(session));
}

Result<ExitCode> run_knowledge(const Session& session) {
  const auto& own = session.options.of<KnowledgeOptions>();
  const auto& names = session.options.names;
  if (!own.sweeps.empty() && own.action != "export")
    return fault(FaultKind::invalid_input, "--sweep is for export");
  if (own.action == "forget") {
    if (names.empty())
      return fault(FaultKind::invalid_input,
          "knowledge forget: name a file, as `shardsweep knowledge` lists it");
    return forget_knowledge(session, names);
  }
  if (own.action == "import" ? names.size() != 1 : names.size() > 1)
    return fault(FaultKind::invalid_input, "knowledge {} takes {} file", own.action,
        own.action == "import" ? "exactly one" : "at most one");
  if (own.action == "import") return import_knowledge(session, names.front());
  if (own.action == "export") return export_knowledge(session, names.empty() ? "" : names.front());
  if (!names.empty())
    return fault(FaultKind::invalid_input, "knowledge {} takes no file", own.action);
  return own.action == "axes" ? list_axes(session) : list_knowledge(session);
}

}  // namespace

extern const Command command_knowledge{.name = "knowledge",
    .heading = Heading::results,
    .help = "Show, export or import what new searches learn from.",
    .examples =
        "shardsweep knowledge\n"
        "shardsweep knowledge axes --format json\n"
        "shardsweep knowledge export h100.jsonl --sweep first\n"
        "shardsweep knowledge import h100.jsonl\n"
        "shardsweep knowledge forget imported:3f2a91c0",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<KnowledgeOptions>();
          grammar
              .option("action", own.action, "ACTION",
                  "list shows what this database knows, axes how fast layouts ran over predicted "
                  "speeds, export writes what its sweeps have measured as lines of JSON without "
                  "names, import takes such a file in, forget drops one.")
              .one_of({"list", "axes", "export", "import", "forget"});
          grammar.option("names", grammar.options().names, "FILE",
              "export: file to write (else standard output). import: file to read. forget: names "
              "that 'list' shows.");
          grammar
              .option("--sweep", own.sweeps, "NAME",
                  "export: this sweep; may be given several times. Default: all.")
              .one_at_a_time();
          grammar.format();
        },
    .run = run_knowledge};

}  // namespace shardsweep
