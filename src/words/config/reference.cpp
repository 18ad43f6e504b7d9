// SPDX-License-Identifier: Apache-2.0
// The reference of sweep and site files: keys, axes and units as tables.
#include "config/keys.hpp"
#include "config/sweep_reader.hpp"
#include "sweep/opening_hours.hpp"
#include "sweep/trainer_command.hpp"
#include "trainer/configuration.hpp"
#include "trainer/trainer_file.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/metric.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/policy.hpp>
#include <shardsweep/result_columns.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace shardsweep {
namespace {

using namespace config;

std::vector<std::string_view> sections_of(std::span<const KeyInfo> keys) {
  std::vector<std::string_view> sections;
  for (const auto& key : keys) {
    if (std::find(sections.begin(), sections.end(), key.section) == sections.end())
      sections.push_back(key.section);
  }
  return sections;
}

std::vector<ReferenceTable> key_tables(std::span<const KeyInfo> keys, std::string_view file) {
  std::vector<ReferenceTable> tables;
  for (const auto section : sections_of(keys)) {
    ReferenceTable table{
        std::string(section.empty() ? file : section), {"key", "takes", "default", "meaning"}, {}};
    for (const auto& key : keys) {
      if (key.section != section) continue;
      table.rows.push_back({std::string(key.key), std::string(key.takes),
          std::string(key.default_text), std::string(key.meaning)});
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

std::string_view unit_text(PolicyUnit unit) {
  switch (unit) {
    case PolicyUnit::seconds:
      return "a duration";
    case PolicyUnit::bytes:
      return "a size";
    case PolicyUnit::count:
      return "a whole number";
    case PolicyUnit::hours:
    case PolicyUnit::factor:
      return "a number";
    case PolicyUnit::percent:
      return "a share such as 50%";
    case PolicyUnit::yield:
    case PolicyUnit::slow_nodes:
      break;
  }
  return "a word";
}

std::string takes_text(const PolicyField& field) {
  const auto words = fmt::format("{}", fmt::join(words_of(field.unit), " or "));
  return words.empty() ? std::string(unit_text(field.unit)) : words;
}

void add_policy_tables(std::vector<ReferenceTable>& tables) {
  const Policy defaults;
  for (const auto section : policy_sections()) {
    ReferenceTable table{std::string(section), {"key", "takes", "default", "meaning"}, {}};
    for (const auto& field : policy_fields()) {
      if (field.section != section) continue;
      table.rows.push_back({std::string(field.key), takes_text(field), policy_text(field, defaults),
          std::string(field.reason)});
    }
    if (section == hours_section)
      table.rows.push_back({std::string(hours_key), "hours of the week",
          opening_hours_text(defaults.hours), std::string(hours_reason)});
    tables.push_back(std::move(table));
  }
}

std::string values_of(const AxisInfo& axis) {
  switch (axis.kind) {
    case AxisKind::word:
      return fmt::format("{}", fmt::join(axis.words, ", "));
    case AxisKind::toggle:
      return "true, false";
    case AxisKind::model:
      return "a preset, or a model of the file";
    case AxisKind::integer:
      break;
  }
  const bool unset = axis.is(AxisUse::world);
  const auto least = unset ? std::max<std::int64_t>(axis.minimum, 1) : axis.minimum;
  return axis.maximum >= std::numeric_limits<std::int32_t>::max()
      ? fmt::format("{} or more", least)
      : fmt::format("{} to {}", least, axis.maximum);
}

std::string default_of(const AxisInfo& axis) {
  if (axis.kind == AxisKind::model || axis.is(AxisUse::world)) return "";
  if (axis.name == "dp") return "auto";
  if (axis.name == "grad_accum") return "auto with a global batch, else 1";
  return axis_text(axis, axis.default_value);
}

ReferenceTable table_of_axes() {
  ReferenceTable table{"axes", {"axis", "values", "default", "meaning", "also called"}, {}};
  for (const auto& axis : axes()) {
    table.rows.push_back({std::string(axis.name),
        values_of(axis) + (axis.allows_auto ? ", auto" : ""), default_of(axis),
        std::string(axis.meaning), fmt::format("{}", fmt::join(axis.aliases, ", "))});
  }
  return table;
}

/// Row of a column; axes and metrics take unit and meaning from their own tables.
std::vector<std::string> column_row(const ViewColumn& column) {
  auto unit = column.unit;
  auto meaning = column.meaning;
  if (const auto* metric = find_metric(column.name); metric != nullptr && meaning.empty()) {
    unit = metric->unit;
    meaning = metric->meaning;
  } else if (const auto* axis = find_axis(column.name); axis != nullptr && meaning.empty()) {
    meaning = axis->meaning;
  }
  return {std::string(column.name), std::string(unit), std::string(meaning)};
}

ReferenceTable column_table(std::string_view title, std::span<const ViewColumn> columns) {
  ReferenceTable table{std::string(title), {"column", "unit", "meaning"}, {}};
  for (const auto& column : columns)
    table.rows.push_back(column_row(column));
  return table;
}

ReferenceTable unit_table() {
  return {"units", {"what", "write", "rule"},
      {{"a whole number", "4096, 4Ki, 1Mi, 64k, 1M",
           "Ki, Mi, Gi are powers of 1024; k, M, G of 1000"},
          {"a size", "17MiB, 80GiB, 80GB, 512B",
              "a whole number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"},
          {"a duration", "250ms, 1.5s, 15min, 2h, 1d",
              "us, ms, s, min, h or d; m alone is refused"},
          {"a rate", "450GB/s", "a number with kB/s, MB/s, GB/s or TB/s"},
          {"a latency", "5us, 0.8us, 1ms", "us or ms"},
          {"a share", "50%, 1%, 0.01", "limits take a whole percentage; a search takes 1% or 0.01"},
          {"true or false", "true, false", "yes, no, on and off are refused"},
          {"a name", "llama-1b_v2",
              "letters, digits and '._-', begins with a letter or digit, at most 64"},
          {"hours of the week", "mon-fri 20:00-08:00, sat-sun 00:00-24:00", "or always"}}};
}

std::string escaped_cell(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

ReferenceTable placeholders() {
  ReferenceTable table{"placeholders", {"placeholder", "meaning"}, {}};
  for (const auto& one : placeholder_table())
    table.rows.push_back({fmt::format("{{{}}}", one.name), std::string(one.meaning)});
  table.rows.push_back({"{VAR}", "the value of a variable of 'vars'"});
  table.rows.push_back({"{micro_batch*seq_len}",
      "computed as in 'exclude', with integers and 'words': + - * / %, = != < <= > >=, and, or, "
      "not, ( )"});
  table.rows.push_back({"{tp>1 or cp>1?1:32}",
      "the first text where the condition holds, the second one where not; it holds unless it is "
      "false, none or 0"});
  table.rows.push_back({"{NAME?TEXT}",
      "TEXT where the condition holds, else nothing; as a whole word of argv else no word"});
  table.rows.push_back({"{NAME=WORD?TEXT}", "the same where NAME is WORD, without quotes"});
  table.rows.push_back({"{{NAME}}", "the text {NAME} itself"});
  return table;
}

std::vector<ReferenceTable> trainer_tables() {
  ReferenceTable names{"names", {"axis"}, {}};
  for (const auto trainer : configurable_trainers())
    names.columns.emplace_back(trainer);
  for (const AxisNames& axis : axis_names()) {
    auto& row = names.rows.emplace_back();
    row.emplace_back(axis.axis);
    row.insert(row.end(), axis.names.begin(), axis.names.end());
  }
  ReferenceTable logs{
      "logs", {"log", "versions", "printed by", "step time", "alone on one GPU"}, {}};
  for (const Trainer& one : trainers()) {
    const FakeWorld& fake = one.fake;
    logs.rows.push_back(
        {one.name, one.from.empty() ? "any" : fmt::format("{} to {}", one.from, one.to), one.prints,
            one.resolution,
            fake.flag.empty() && fake.variable.empty() ? fmt::format("no: {}", fake.why_not)
                : fake.flag.empty()                    ? fake.variable
                                                       : fake.flag});
  }
  ReferenceTable starts{
      "new sweeps", {"--trainer", "written for", "--model", "data", "started"}, {}};
  for (const TrainerStart& one : trainer_starts()) {
    const auto models = models_of(one);
    std::string started;
    for (const TestedCommit& at : trainer_file(one.name).tested)
      started += fmt::format("{}{} of {}: {}{}{}", started.empty() ? "" : "; ", at.commit, at.date,
          at.ran, at.broken.empty() ? "" : "; not ", at.broken);
    starts.rows.push_back({std::string(one.name), std::string(one.written_for),
        models.empty() ? "any" : fmt::format("{}", fmt::join(models, " or ")),
        std::string(one.data), std::move(started)});
  }
  return {std::move(starts), std::move(logs), std::move(names)};
}

/// Lines of a trainer's log, as a sweep's `patterns` and a trainer's file write them.
std::vector<ReferenceTable> pattern_tables() {
  ReferenceTable syntax{"patterns", {"in a pattern", "meaning"},
      {{"TEXT", "stands so in the line, anywhere behind what was found before"},
          {"*", "any text; without it, what follows stands at once behind a key"},
          {"{KEY}", "a number, behind blanks if there are any; 12,345 and nan are numbers"},
          {"{KEY:human}", "the same with K, M, B, T, P or E behind it"},
          {"{KEY:clock}", "a time in seconds: 2:03, 1:02:03, 1h 2m 3s"},
          {"{KEY:A|B|C}", "one of these words, read as 0, 1 or 2"},
          {"{iteration:next}",
              "takes no text: each line that fits is one more train step, until one has its "
              "number"}}};
  ReferenceTable keys{"keys of patterns", {"key", "meaning"}, {}};
  for (const LogKey& key : log_keys())
    keys.rows.push_back({std::string(key.name), std::string(key.help)});
  return {std::move(syntax), std::move(keys)};
}

/// Keeps what `topic` names: a section with those below it, and else keys of that name.
void keep_only(std::vector<ReferenceTable>& tables, std::string_view topic) {
  const auto is_section = [&](const ReferenceTable& table) {
    return table.title == topic || table.title.starts_with(fmt::format("{}.", topic));
  };
  if (std::any_of(tables.begin(), tables.end(), is_section)) {
    std::erase_if(tables, std::not_fn(is_section));
    return;
  }
  for (auto& table : tables)
    std::erase_if(table.rows, [&](const auto& row) { return row.front() != topic; });
  std::erase_if(tables, [](const ReferenceTable& table) { return table.rows.empty(); });
}

}  // namespace

std::vector<ReferenceTable> reference_of(std::string_view topic) {
  if (topic == "axes") return {table_of_axes()};
  if (topic == "units") return {unit_table()};
  if (topic == "placeholders") return {placeholders()};
  if (topic == "words") return trainer_tables();
  if (topic == "patterns") return pattern_tables();
  if (topic == "site") return key_tables(site_keys(), "site file");
  if (topic == "columns")
    return {column_table("results, all_results", result_columns),
        column_table("node_ledger", node_columns)};
  auto tables = key_tables(sweep_keys(), "sweep file");
  add_policy_tables(tables);
  if (topic == "keys") return tables;
  keep_only(tables, topic);
  if (const AxisInfo* axis = find_axis(topic); axis != nullptr && tables.empty()) {
    tables.push_back(table_of_axes());
    std::erase_if(tables.back().rows, [&](const auto& row) { return row.front() != axis->name; });
  }
  return tables;
}

std::string reference_markdown(const std::vector<ReferenceTable>& tables) {
  std::string out;
  for (const auto& table : tables) {
    if (tables.size() > 1) out += fmt::format("{}### {}\n\n", out.empty() ? "" : "\n", table.title);
    std::string rule;
    for (const auto& column : table.columns) {
      out += fmt::format("| {} ", column);
      rule += "|---";
    }
    out += "|\n" + rule + "|\n";
    for (const auto& row : table.rows) {
      for (std::size_t at = 0; at < row.size(); ++at) {
        const auto cell = escaped_cell(row[at]);
        out += at == 0 ? fmt::format("| `{}` ", cell) : fmt::format("| {} ", cell);
      }
      out += "|\n";
    }
  }
  return out;
}

std::string reference_text(const std::vector<ReferenceTable>& tables) {
  std::string out;
  for (const auto& table : tables) {
    out += fmt::format("{}{}:\n", out.empty() ? "" : "\n", table.title);
    for (const auto& row : table.rows) {
      // A unit stands in brackets, if there is one.
      const bool has_unit = table.columns[1] == "unit";
      out += has_unit && row[1].empty() ? fmt::format("  {}", row[0])
          : has_unit                    ? fmt::format("  {} [{}]", row[0], row[1])
                                        : fmt::format("  {}: {}", row[0], row[1]);
      const bool has_default = table.columns.size() > 2 && table.columns[2] == "default";
      if (has_default && !row[2].empty()) out += fmt::format("; default {}", row[2]);
      out += '\n';
      for (std::size_t at = has_default ? 3 : 2; at < row.size(); ++at) {
        if (row[at].empty()) continue;
        const bool alias = table.columns[at] == "also called";
        out += fmt::format("      {}{}\n", alias ? "also called " : "", row[at]);
      }
    }
  }
  return out;
}

}  // namespace shardsweep
