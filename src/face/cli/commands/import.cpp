// SPDX-License-Identifier: Apache-2.0
// import: somebody's table of runs, or exported sweeps, into the database.
#include "cli/command.hpp"
#include "cli/commands/known_runs.hpp"
#include "cli/commands/sweep_folder.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "table/imported_trials.hpp"
#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <shardsweep/imported.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/random.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace shardsweep {
namespace {

struct ImportArguments {
  std::string from = "csv";  ///< form of the columns: csv, nanotron
  std::string name;          ///< name of the sweep that is made
};

Result<RecordedFormat> format_of(const std::string& word) {
  for (std::size_t i = 0; i < recorded_format_words.size(); ++i) {
    if (recorded_format_words[i] == word) return static_cast<RecordedFormat>(i);
  }
  return fault(FaultKind::invalid_input, "--from {}: unknown kind of table; the kinds are {}", word,
      fmt::join(recorded_format_words, ", "));
}

tl::unexpected<Fault> refuse_without_family() {
  const auto names = join_texts(families(), ", ", &Family::name);
  return fault(FaultKind::invalid_input,
      "--family is missing: give the family of the table's trainer: {}", names);
}

/// A name that can stand wherever a sweep is named, of the file's own.
Result<std::string> sweep_name_of(const Options& options) {
  const auto& own = options.of<ImportArguments>();
  const bool said = !own.name.empty();
  std::string name = said ? own.name : std::filesystem::path(options.file).stem().string();
  if (is_name(name)) return name;
  return fault(FaultKind::invalid_input,
      "{} '{}': a sweep's name has letters, digits and '._-', begins with a letter or digit, and "
      "has at most 64 characters{}",
      said ? "--name" : "the file's name", name, said ? "" : ": give --name");
}

Result<ExitCode> run_import(const Session& session) {
  const auto& asked = session.options.of<ImportArguments>();
  std::error_code none;
  if (std::filesystem::is_directory(session.options.file, none))
    return import_folder(session, asked.name);
  SHARDSWEEP_ASSIGN(const auto name, sweep_name_of(session.options));
  SHARDSWEEP_ASSIGN(
      const auto input, read_recorded_input(session, asked.from, FamilyNeed::may_be_unknown));
  if (input.sweep.runs.empty()) {
    return fault(FaultKind::invalid_input, "{}: no row{}", session.options.file,
        session.options.where.empty() ? "" : " matches --where");
  }
  const auto imported = imported_trials(input.sweep,
      {.name = name,
          .cluster = input.cluster,
          .family = input.family,
          .labels = label_names(input.sweep)});
  SHARDSWEEP_TRY(make_home(session.home));
  const auto inbox = session.home.inbox() / (random_hex(16) + ".db");
  SHARDSWEEP_TRY(write_imported(inbox, imported));
  SHARDSWEEP_ASSIGN(
      const Answer answer, ask_writer(session, {.verb = Verb::submit, .inbox = inbox.string()}));
  return deliver(import_text(name, answer, session.options.format, "table"));
}

}  // namespace

Result<RecordedInput> read_recorded_input(
    const Session& session, const std::string& from, FamilyNeed need) {
  const auto& options = session.options;
  SHARDSWEEP_ASSIGN(const auto format, format_of(from));
  const bool nanotron = format == RecordedFormat::nanotron;
  RecordedInput input;
  const auto cluster =
      options.asked.cluster.empty() && nanotron ? "h100-8x" : options.asked.cluster;
  if (cluster.empty())
    return fault(FaultKind::invalid_input,
        "--cluster is missing: give the preset of the cluster of these runs");
  SHARDSWEEP_ASSIGN(input.cluster, load_cluster(cluster, session.installation.presets));
  const auto family = options.asked.family.empty() && nanotron ? "nanotron" : options.asked.family;
  if (family.empty() && need == FamilyNeed::must_be_said) return refuse_without_family();
  if (!family.empty()) SHARDSWEEP_SET(input.family, find_family(family));
  SHARDSWEEP_ASSIGN(input.sweep,
      read_recorded(options.file,
          {.format = format,
              .presets = session.installation.presets,
              .gpus_per_node = input.cluster.gpus_per_node}));
  SHARDSWEEP_TRY(keep_where(input.sweep, options.where));
  return input;
}

void declare_recorded(Grammar& grammar, std::string& from, const char* file) {
  Options& options = grammar.options();
  grammar.option("file", options.file, "FILE", file).required();
  grammar.option("--from", from, "KIND", "Kind of table: csv (our column names) or nanotron.")
      .offers({"csv", "nanotron"});
  grammar.option("--cluster", options.asked.cluster, "PRESET",
      "Preset of the cluster of these runs. Default for nanotron: h100-8x.");
  grammar.family("Family of the trainer. Default for nanotron: nanotron.");
  grammar.where(
      "Only rows for which this expression holds. It may use axes, model shape, outcome, metrics, "
      "software_version and the table's columns.");
  grammar.format();
}

extern const Command command_import{.name = "import",
    .help = "Take a table of runs, or exported sweeps, into the database.",
    .examples =
        "shardsweep import runs.csv --cluster h100-8x\n"
        "shardsweep import results",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<ImportArguments>();
          declare_recorded(grammar, own.from,
              "Table of runs (CSV), or a folder that `export FOLDER` has written.");
          grammar.option("--name", own.name, "NAME",
              "Name of the new sweep. Default: the file's name without its ending.");
        },
    .run = run_import};

}  // namespace shardsweep
