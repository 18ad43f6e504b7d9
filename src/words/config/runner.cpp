// SPDX-License-Identifier: Apache-2.0
// `runner:` of a sweep file: which program is measured. Either one of the contract, by its name
// and further flags for it, or somebody's own trainer, as `argv` starts it. A program is looked
// for when the file is read: a mistake in a path is told here, and not by a job an hour later.
#include "config/keys.hpp"
#include "config/sweep_reader.hpp"
#include "sweep/trainer_command.hpp"
#include "text/characters.hpp"
#include "text/expression.hpp"
#include "text/nearest.hpp"
#include "text/units.hpp"
#include "trainer/judge_log.hpp"
#include "trainer/log_records.hpp"
#include "trainer/trainer_file.hpp"
#include "trainer/trainers.hpp"
#include "yaml/readers.hpp"

#include <shardsweep/command.hpp>
#include <shardsweep/load.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <system_error>

namespace shardsweep::config {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

std::string absolute_path(const fs::path& file) {
  std::error_code error;
  const fs::path whole = fs::absolute(file, error);
  return (error ? file : whole).lexically_normal().string();
}

/// Why the kernel would not start an executable file; empty: it would, as far as is known.
std::string why_not_started(const fs::path& file) {
  std::string begin(256, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  if (begin.starts_with("\x7f"
                        "ELF"))
    return "";
  if (!begin.starts_with("#!"))
    return "its first line names no interpreter; a script begins with a line such as '#!/bin/bash'";
  const std::size_t from = begin.find_first_not_of(" \t", 2);
  if (from == std::string::npos) return "its first line names no interpreter";
  const std::string interpreter = begin.substr(from, begin.find_first_of(" \t\r\n", from) - from);
  std::error_code ignored;
  if (fs::exists(interpreter, ignored)) return "";
  return fmt::format("its interpreter {} does not exist", in_quotes(interpreter));
}

}  // namespace

/// Nodes start the program by one path, whatever folder they are in. `x.sh` is the file beside
/// the sweep file, else a program of ours (which keeps its bare name), else one on PATH.
/// `bin/x.sh` begins at the sweep file.
Result<std::string> SweepReader::read_program(const YamlNode& node) const {
  SHARDSWEEP_ASSIGN(const std::string text, read_text(node, "program"));
  if (text.empty() || programs_.empty()) return text;
  const fs::path beside = folder_ / text;  // an absolute path replaces the folder
  if (is_program(beside)) {
    if (const std::string why = why_not_started(beside); !why.empty())
      return refuse(node, "{} cannot be started: {}", in_quotes(text), why);
    return absolute_path(beside);
  }
  std::error_code ignored;
  if (fs::is_regular_file(beside, ignored)) {
    return refuse(node, "{} is not an executable file; 'chmod +x' makes it one", in_quotes(text));
  }
  if (text.front() == '/') return refuse(node, "there is no program {}", in_quotes(text));
  if (text.find('/') != std::string::npos) {
    return refuse(node, "there is no program {}; paths start at the folder of the sweep file",
        in_quotes(text));
  }
  if (is_program(programs_ / text)) return text;
  if (const std::string found = find_on_path(text); !found.empty()) return absolute_path(found);
  return refuse(node, "there is no program {} beside the sweep file, beside shardsweep or on PATH",
      in_quotes(text));
}

Result<std::string> SweepReader::read_profile(const YamlNode& node) const {
  SHARDSWEEP_ASSIGN(const std::string word, read_text(node, "profile"));
  const auto known = shardbench_profiles();
  if (std::find(known.begin(), known.end(), word) == known.end())
    return refuse(node, "expected one of {} for 'profile', found {}", fmt::join(known, ", "),
        in_quotes(word));
  if (word != own_profile && !sweep_.runner.is_shardbench())
    return refuse(node, "'profile' belongs to shardbench; the sweep has another runner");
  return word;
}

void SweepReader::read_snapshot(const YamlNode& map) {
  RunnerSpec& runner = sweep_.runner;
  if (const auto* hash = find(map, "snapshot_hash"))
    mistakes_.assign(runner.snapshot_hash, *hash, read_text(*hash, "snapshot_hash"));
  if (const auto* root = find(map, "snapshot_root"))
    mistakes_.assign(runner.snapshot_root, *root, read_text(*root, "snapshot_root"));
  const auto* node = find(map, "snapshot");
  if (node == nullptr) return;
  const auto word = mistakes_.take(*node, read_text(*node, "snapshot"));
  if (!word) return;
  const auto found = std::find(snapshot_words.begin(), snapshot_words.end(), *word);
  if (found == snapshot_words.end()) {
    mistakes_.add(*node, "expected none, copy or git for 'snapshot', found {}", in_quotes(*word));
    return;
  }
  runner.snapshot = static_cast<SnapshotKind>(found - snapshot_words.begin());
  const bool own = runner.is_trainer() || runner.program.starts_with('/');
  if (runner.snapshot != SnapshotKind::none && !own)
    mistakes_.add(*node, "'snapshot' belongs to a program of your own: give 'program' or 'argv'");
}

/// Reads the hashes with which a stored sweep was submitted.
void SweepReader::read_hashes(const YamlNode& map) {
  if (!mistakes_.take(map, expect_map(map, "'hashes'"))) return;
  for (std::size_t i = 0; i < map.items.size(); ++i) {
    const auto& key = *map.keys[i];
    const auto path = mistakes_.take(key, read_text(key, "hashes"));
    const auto hash = mistakes_.take(*map.items[i], read_text(*map.items[i], "hashes"));
    if (path && hash) sweep_.runner.programs.insert_or_assign(*path, *hash);
  }
}

void SweepReader::read_runner(const YamlNode& node) {
  auto& runner = sweep_.runner;
  if (node.kind != YamlNode::Kind::map) {
    mistakes_.assign(runner.name, node, read_name(node, "runner"));
    return;
  }
  check_keys(node, "'runner'", keys_of("runner"), mistakes_);
  read_trainer(node);
  if (const auto* program = find(node, "program")) {
    mistakes_.assign(runner.program, *program, read_program(*program));
    // A program reports its own name.
    if (!runner.program.empty()) runner.name.clear();
  }
  if (const auto* name = find(node, "name"))
    mistakes_.assign(runner.name, *name, read_name(*name, "runner.name"));
  if (const auto* args = find(node, "args"))
    mistakes_.assign(runner.args, *args, read_texts(*args, "args"));
  if (const auto* profile = find(node, "profile"))
    mistakes_.assign(runner.profile, *profile, read_profile(*profile));
  read_snapshot(node);
  if (const auto* hashes = find(node, "hashes")) read_hashes(*hashes);
  if (const auto* gives_up = find(node, "gives_up"))
    mistakes_.assign(runner.gives_up, *gives_up, read_bool(*gives_up, "gives_up"));
}

// `runner: {argv: …}` of a sweep file: somebody's own trainer, measured by its log.

namespace {

constexpr std::size_t most_files = 16;
constexpr std::size_t most_template_bytes = 32 << 10;
constexpr std::array<std::string_view, 8> keys_of_trainer{
    "log", "patterns", "files", "launch", "cwd", "version", "unchecked", "told"};

std::vector<std::string_view> trainer_names() {
  std::vector<std::string_view> names;
  for (const Trainer& trainer : trainers())
    names.push_back(trainer.name);
  return names;
}

/// Names of our own files in an attempt's folder begin so.
bool is_ours(std::string_view name) {
  constexpr std::array<std::string_view, 6> taken{
      "spec.json", "records", "rank", "recorder", "evidence", "step.out"};
  return std::any_of(
      taken.begin(), taken.end(), [&](std::string_view own) { return name.starts_with(own); });
}

}  // namespace

void SweepReader::read_trainer(const YamlNode& map) {
  TrainerSpec& trainer = sweep_.runner.trainer;
  const YamlNode* argv = find(map, "argv");
  if (argv == nullptr) {
    for (const auto key : keys_of_trainer) {
      if (const auto* node = find(map, key))
        mistakes_.add(
            *node, "'{}' belongs to 'argv', the command line of a trainer, which is missing", key);
    }
    return;
  }
  if (const auto* program = find(map, "program"))
    mistakes_.add(*program, "give 'program' or 'argv', not both");
  if (const auto* args = find(map, "args"))
    mistakes_.add(*args, "'args' belongs to 'program'; add the words to 'argv'");
  sweep_.runner.name.clear();
  mistakes_.assign(trainer.argv, *argv, read_texts(*argv, "argv"));
  if (trainer.argv.empty()) {
    mistakes_.add(*argv, "'argv' needs at least a program");
    return;
  }
  trainer.argv.front() = trainer_program(trainer.argv.front());
  // A sweep that is read back from the database has it written out.
  if (!programs_.empty())
    trainer.directory = fs::absolute(folder_.empty() ? "." : folder_).lexically_normal().string();
  if (const auto* cwd = find(map, "cwd")) {
    const auto text = mistakes_.take(*cwd, read_text(*cwd, "cwd"));
    const bool from_here = text && !text->empty() && text->front() != '/' && text->front() != '{';
    if (text)
      trainer.directory =
          from_here ? (fs::path(trainer.directory) / *text).lexically_normal().string() : *text;
  }
  if (const auto* version = find(map, "version"))
    mistakes_.assign(trainer.version, *version, read_text(*version, "version"));
  if (const auto* launch = find(map, "launch")) {
    const auto word = mistakes_.take(*launch, read_text(*launch, "launch"));
    trainer.per_node = word == "node";
    if (word && *word != "node" && *word != "rank")
      mistakes_.add(*launch, "expected rank or node for 'launch', found {}", in_quotes(*word));
  }
  if (const auto* unchecked = find(map, "unchecked")) {
    const auto names = optional_checks();
    mistakes_.assign(trainer.unchecked, *unchecked, read_texts(*unchecked, "unchecked"));
    for (const std::string& name : trainer.unchecked) {
      if (std::find(names.begin(), names.end(), name) == names.end())
        mistakes_.add(*unchecked, "no truth check is called {}; they are {}", in_quotes(name),
            fmt::join(names, ", "));
    }
  }
  read_told(map);
  read_trainer_log(map);
  read_trainer_files(map);
  check_placeholders_of(map);
}

void SweepReader::read_told(const YamlNode& map) {
  const auto* told = find(map, "told");
  if (told == nullptr) return;
  auto& names = sweep_.runner.trainer.told;
  mistakes_.assign(names, *told, read_texts(*told, "told"));
  std::vector<std::string_view> all;
  for (const AxisInfo& axis : axes())
    all.push_back(axis.name);
  for (const ShapeField& field : shape_fields)
    all.push_back(field.name);
  all.emplace_back("tied_embeddings");
  for (std::string& name : names) {
    if (const AxisInfo* axis = find_axis(name)) {
      name = axis->name;
      continue;
    }
    if (std::find(all.begin(), all.end(), name) != all.end()) continue;
    mistakes_.add(*told, "no axis and no part of a model is called {}{}", in_quotes(name),
        did_you_mean(name, all));
  }
}

/// A file beside the sweep file, else a name that nodes look for on their PATH.
std::string SweepReader::trainer_program(const std::string& word) const {
  std::error_code ignored;
  const fs::path beside = folder_ / word;
  const bool is_file = fs::is_regular_file(beside, ignored) && ::access(beside.c_str(), X_OK) == 0;
  if (word.empty() || word.front() == '/' || word.front() == '{' || !is_file) return word;
  return fs::absolute(beside).lexically_normal().string();
}

namespace {

/// A condition of a trainer's file may name values of that file, which no exclusion knows.
bool names_axes_alone(std::string_view condition) {
  const auto names = names_of_expression(condition);
  return names && std::all_of(names->begin(), names->end(), [](std::string_view name) {
    const AxisInfo* axis = find_axis(name);
    return (axis != nullptr && axis->name == name) || name == "experts" || name == "layers";
  });
}

}  // namespace

void SweepReader::read_own_trainer(const YamlNode& node) {
  const auto own = presets_.trainer(node);
  if (!own) return;
  TrainerSpec& trainer = sweep_.runner.trainer;
  trainer.log = own->file.log_of;
  trainer.patterns = own->file.patterns;
  const bool has_words = own->file.layout.form != WordsForm::none;
  if (has_words || (own->file.family && trainer.log.empty())) {
    trainer.words = own->path;
    add_trainer_file(trainer.words, own->file);
  }
  // Known by its file, unless it is a kind of a trainer that is served.
  const auto stem = fs::path(own->path).stem().string();
  if (own->file.log_of.empty() && is_name(stem)) sweep_.runner.name = stem;
  for (std::size_t i = 0; i < own->file.rules.size(); ++i) {
    const TrainerRule& rule = own->file.rules[i];
    sweep_.excludes.push_back(
        {rule.when, rule.source.empty() ? rule.why : fmt::format("{} ({})", rule.why, rule.source),
            own->positions[i]});
  }
  // Exclude values for which --emit has no words: such a run would stand under a wrong label.
  for (const NamedText& lacked : own->file.layout.lacks)
    if (names_axes_alone(lacked.text))
      sweep_.excludes.push_back(
          {lacked.text, fmt::format("{} has no setting for {}", stem, lacked.name),
              SourcePosition{own->path, 1, 1}});
}

void SweepReader::read_trainer_log(const YamlNode& map) {
  TrainerSpec& trainer = sweep_.runner.trainer;
  const YamlNode* log = find(map, "log");
  const YamlNode* patterns = find(map, "patterns");
  if (log != nullptr && !own_trainer_file(log->text).empty()) {
    read_own_trainer(*log);
    if (trainer.log.empty() && trainer.patterns.empty()) return;
  } else if (log != nullptr) {
    mistakes_.assign(trainer.log, *log, read_text(*log, "log"));
    if (!trainer.log.empty() && find_trainer(trainer.log) == nullptr) {
      mistakes_.add(*log, unknown_trainer(trainer.log));
      return;
    }
  }
  if (patterns != nullptr) {
    const auto more = mistakes_.take(*patterns, read_texts(*patterns, "patterns"));
    if (more) trainer.patterns.insert(trainer.patterns.end(), more->begin(), more->end());
  }
  if (trainer.log.empty() && trainer.patterns.empty()) {
    const auto& at = *find(map, "argv");
    mistakes_.add(at,
        "'argv' is measured by what it prints: name its log with 'log' ({}), or give 'patterns'",
        fmt::join(trainer_names(), ", "));
    return;
  }
  const auto reader = LogRecords::make({.log = trainer.log, .patterns = trainer.patterns}, 1);
  if (!reader && patterns != nullptr) mistakes_.add(*patterns, reader.error().what);
}

/// A text of several lines is the template itself: so a sweep that is written out has it.
Result<std::string> SweepReader::read_template(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(
      const std::string text, read_text(node, "files", most_template_bytes, Lines::many));
  if (text.find('\n') != std::string::npos) return text;
  if (text.empty()) return refuse(node, "expected a file name");
  auto read = read_text_file(folder_ / text, most_template_bytes);
  if (!read) return refuse(node, read.error().what);
  if (!read->ends_with('\n')) *read += '\n';
  return *std::move(read);
}

void SweepReader::read_trainer_files(const YamlNode& map) {
  const YamlNode* files = find(map, "files");
  if (files == nullptr || !mistakes_.take(*files, expect_map(*files, "'files'"))) return;
  if (files->items.size() > most_files) {
    mistakes_.add(*files, "more than {} files", most_files);
    return;
  }
  for (std::size_t i = 0; i < files->items.size(); ++i) {
    const auto& key = files->keys[i];
    const auto& value = files->items[i];
    const auto name = mistakes_.take(*key, read_name(*key, "files"));
    if (!name) continue;
    if (is_ours(*name)) {
      mistakes_.add(*key,
          "shardsweep writes a file called {} into each attempt's folder; choose another name",
          in_quotes(*name));
      continue;
    }
    if (auto text = mistakes_.take(*value, read_template(*value)))
      sweep_.runner.trainer.files.emplace(*name, *std::move(text));
  }
}

void SweepReader::check_placeholders_in(
    const YamlNode& at, std::string_view text, PlaceholderScope scope) {
  for (const auto name : placeholders_in(text)) {
    if (scope == PlaceholderScope::rank || !is_of_rank(name)) continue;
    mistakes_.add(at,
        "{{{}}} differs from rank to rank, so it can only stand in 'argv'. Write {{{{{}}}}} for "
        "the text itself",
        name, name);
    return;
  }
  const auto names = placeholder_names(sweep_, scope);
  const std::vector<std::string_view> views(names.begin(), names.end());
  for (const auto name : placeholders_in(text)) {
    const auto meant = placeholder_for(name);
    if (meant.empty() || std::find(views.begin(), views.end(), name) != views.end()) continue;
    mistakes_.add(at, "the placeholder for '{0}' is {{{1}}}. Write {{{{{0}}}}} for the text itself",
        name, meant);
    return;
  }
  if (const auto checked = check_placeholders(text, views); !checked)
    mistakes_.add(at, "{} 'shardsweep help placeholders' lists them.", checked.error().what);
}

void SweepReader::check_placeholders_of(const YamlNode& map) {
  const auto check = [&](const YamlNode& at, std::string_view text) {
    check_placeholders_in(at, text, PlaceholderScope::rank);
  };
  const YamlNode* argv = find(map, "argv");
  for (const auto& item : argv->items)
    check(*item, item->text);
  if (const auto* cwd = find(map, "cwd")) check(*cwd, cwd->text);
  const YamlNode* files = find(map, "files");
  if (files == nullptr) return;
  for (const auto& [name, text] : sweep_.runner.trainer.files) {
    if (const auto* value = find(*files, name)) check(*value, text);
  }
}

namespace {

/// Why ranks of this runner can't run alone on one GPU; empty: they can.
std::string why_no_proof(const RunnerSpec& runner) {
  if (!runner.is_trainer())
    return "it needs a trainer of your own ('runner: {argv: ...}'); shardbench's memory is "
           "predicted exactly";
  const Trainer* trainer = find_trainer(runner.trainer.log);
  if (trainer == nullptr)
    return "it needs 'log' with a trainer whose mode for a single rank is known";
  if (!trainer->fake.why_not.empty())
    return fmt::format("{} has no such mode: {}", trainer->title, trainer->fake.why_not);
  if (runner.trainer.per_node)
    return "single ranks are started, but 'launch: node' starts a launcher. Write 'launch: rank'";
  return {};
}

}  // namespace

/// `prove: one-gpu`, and what it writes into the sweep that it makes.
void SweepReader::read_proof(const YamlNode& root) {
  if (const auto* of = find(root, "proof_of"))
    mistakes_.assign(sweep_.proof_of, *of, read_name(*of, "proof_of"));
  const auto* node = find(root, "prove");
  if (node == nullptr) return;
  const auto word = mistakes_.take(*node, read_text(*node, "prove"));
  if (!word) return;
  sweep_.prove = *word == "one-gpu";
  if (!sweep_.prove && *word != "off" && *word != "false") {
    mistakes_.add(*node, "expected one-gpu or off for 'prove', found {}", in_quotes(*word));
  } else if (const auto why = sweep_.prove ? why_no_proof(sweep_.runner) : std::string();
             !why.empty()) {
    mistakes_.add(*node, "'prove: one-gpu' is not possible: {}", why);
  }
}

namespace {

/// Why this runner can write no memory snapshot; empty: it can.
std::string why_no_snapshot(const RunnerSpec& runner) {
  const Trainer* trainer = runner.is_trainer() ? find_trainer(runner.trainer.log) : nullptr;
  if (!runner.is_trainer())
    return "it needs a trainer of your own ('runner: {argv: ...}'); shardbench's memory is "
           "predicted exactly";
  if (trainer == nullptr)
    return "it needs 'log' with a trainer whose option for snapshots is known";
  if (trainer->snapshot.why_not.empty()) return {};
  std::string able;
  for (const Trainer& one : trainers()) {
    if (one.snapshot.why_not.empty())
      able += fmt::format("{}{}", able.empty() ? "" : ", ", one.title);
  }
  return fmt::format(
      "{} {}. Trainers that can: {}", trainer->title, trainer->snapshot.why_not, able);
}

/// "best 3"; none: it is no such text.
std::optional<std::int32_t> best_layouts(std::string_view text) {
  constexpr std::string_view prefix = "best ";
  if (!text.starts_with(prefix)) return std::nullopt;
  const auto count = parse_count(text.substr(prefix.size()), {1, most_remeasured, "layouts"});
  return count ? std::optional(static_cast<std::int32_t>(*count)) : std::nullopt;
}

}  // namespace

/// `profile` and `memory_snapshot`: runs beside the measured ones.
void SweepReader::read_side_runs(const YamlNode& root) {
  if (const auto* map = find(root, "profile");
      map != nullptr && mistakes_.take(*map, expect_map(*map, "'profile'"))) {
    check_keys(*map, "'profile'", keys_of("profile"), mistakes_);
    const auto* node = find(*map, "finalists");
    const auto word =
        node == nullptr ? std::nullopt : mistakes_.take(*node, read_text(*node, "finalists"));
    sweep_.side_runs.profile = word && *word == "nsys";
    if (word && *word != "nsys" && *word != "off" && *word != "false")
      mistakes_.add(
          *node, "expected nsys or off for 'finalists' in 'profile', found {}", in_quotes(*word));
  }
  const auto* node = find(root, "memory_snapshot");
  if (node == nullptr) return;
  mistakes_.assign(sweep_.side_runs.memory, *node, read_bool(*node, "memory_snapshot"));
  const auto why = sweep_.side_runs.memory ? why_no_snapshot(sweep_.runner) : std::string();
  if (!why.empty()) mistakes_.add(*node, "'memory_snapshot' is not possible: {}", why);
}

void SweepReader::read_remeasure(const YamlNode& root) {
  const auto* map = find(root, "remeasure");
  if (map == nullptr || !mistakes_.take(*map, expect_map(*map, "'remeasure'"))) return;
  check_keys(*map, "'remeasure'", keys_of("remeasure"), mistakes_);
  auto& again = sweep_.remeasure;
  again.every_s = usual_remeasure_s;
  if (const auto* every = find(*map, "every")) {
    mistakes_.assign(
        again.every_s, *every, read_real(*every, "every", "a duration such as 1d", parse_duration));
    if (again.every_s < least_remeasure_s)
      mistakes_.add(*every, "'every' in 'remeasure' is 1s or more; write 1d");
  }
  if (const auto* on = find(*map, "on")) {
    const auto text = mistakes_.take(*on, read_text(*on, "on"));
    const auto word = text ? from_word<RemeasureOn>(*text) : std::nullopt;
    again.on = word.value_or(RemeasureOn::time);
    if (text && !word)
      mistakes_.add(*on, "expected time, runner or image for 'on' in 'remeasure', found {}",
          in_quotes(*text));
    if (again.on == RemeasureOn::runner && sweep_.runner.snapshot != SnapshotKind::git)
      mistakes_.add(*on,
          "'on: runner' needs 'runner: {snapshot: git}': the old program runs beside the new one, "
          "so it has to be kept");
  }
  const auto* layouts = find(*map, "layouts");
  if (layouts == nullptr) return;
  const auto text = mistakes_.take(*layouts, read_text(*layouts, "layouts"));
  const auto count = text ? best_layouts(*text) : std::nullopt;
  if (count) again.layouts = *count;
  if (text && !count)
    mistakes_.add(*layouts, "expected 'best 1' to 'best {}' for 'layouts' in 'remeasure', found {}",
        most_remeasured, in_quotes(*text));
}

}  // namespace shardsweep::config
