// SPDX-License-Identifier: Apache-2.0
// baseline: keeps what was measured under a name, for `compare --against NAME`.
#include "cli/commands/baseline.hpp"

#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "show/ranked_layouts.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using OrderedJson = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::string_view baseline_ending = ".jsonl";
constexpr std::int64_t baseline_format = 1;
constexpr std::size_t longest_baseline = 256 << 20;

struct BaselineOptions {
  std::string action;
  std::string name;
};

OrderedJson baseline_value(const Value& value) {
  struct AsJson {
    OrderedJson operator()(std::monostate) const { return nullptr; }
    OrderedJson operator()(std::int64_t integer) const { return integer; }
    OrderedJson operator()(double real) const { return real; }
    OrderedJson operator()(const std::string& text) const { return text; }
  };
  return std::visit(AsJson{}, value);
}

/// Tells if the JSON value is null, a number or a string: a Value can be nothing else.
bool is_baseline_value(const OrderedJson& value) {
  return value.is_null() || value.is_number() || value.is_string();
}

Value value_of_baseline(const OrderedJson& value) {
  if (value.is_number_float()) return value.get<double>();
  if (value.is_number()) return value.get<std::int64_t>();
  if (value.is_string()) return value.get<std::string>();
  return {};
}

std::string baseline_line(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

Result<std::vector<std::string>> columns_of_baseline(
    const std::string& line, const std::string& file) {
  const auto head = OrderedJson::parse(line, nullptr, false);
  const bool is_one = head.is_object() && head.contains("shardsweep_baseline") &&
      head["shardsweep_baseline"].is_number_integer() && head.contains("columns") &&
      head["columns"].is_array();
  if (!is_one)
    return fault(FaultKind::invalid_input,
        "{}:1: the file is not a baseline. `shardsweep baseline set NAME` writes one.", file);
  const auto format = head["shardsweep_baseline"].get<std::int64_t>();
  if (format > baseline_format)
    return fault(FaultKind::rejected,
        "{}:1: a baseline of format {}; this program reads format {}. A newer shardsweep wrote it.",
        file, format, baseline_format);
  std::vector<std::string> columns;
  for (const auto& column : head["columns"]) {
    if (!column.is_string())
      return fault(FaultKind::invalid_input, "{}:1: a column's name must be a text, not {}", file,
          column.dump());
    columns.push_back(column.get<std::string>());
  }
  constexpr std::string_view needed[] = {
      "layout", "tokens_per_s_per_gpu", "runner_version", "repeats"};
  for (const auto column : needed) {
    if (std::find(columns.begin(), columns.end(), column) == columns.end())
      return fault(FaultKind::invalid_input, "{}:1: the column '{}' is missing", file, column);
  }
  return columns;
}

fs::path baseline_folder(const Session& session) {
  return session.home.dir() / "baselines";
}

bool is_baseline_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(baseline_ending);
}

Result<ExitCode> set_baseline(const Session& session, const std::string& name) {
  const Options& options = session.options;
  SHARDSWEEP_ASSIGN(const auto file, baseline_file(session, name));
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const Table layouts, reader->layouts(selection_of(options)));
  if (layouts.rows.empty()) {
    SHARDSWEEP_ASSIGN(const auto why, why_empty(*reader, options));
    return fault(FaultKind::invalid_input, why + " No baseline was set.");
  }
  if (!layouts.note.empty()) say(layouts.note);
  if (!options.out.empty()) return deliver(baseline_text(layouts), options.out);
  std::error_code why;
  fs::create_directories(file.parent_path(), why);
  if (why)
    return fault(FaultKind::unavailable, "{}: {}", file.parent_path().string(), why.message());
  SHARDSWEEP_TRY(write_file_durably(file, baseline_text(layouts), Readers::owner));
  say("Baseline {}: {}. `shardsweep compare --against {}` compares with it.", name,
      counted(std::ssize(layouts.rows), "layout"), name);
  return ExitCode::done;
}

Result<ExitCode> list_baselines(const Session& session) {
  Table table{{"baseline", "layouts", "sweeps"}, {}};
  SHARDSWEEP_ASSIGN(const auto names, baseline_names(session));
  for (const auto& name : names) {
    SHARDSWEEP_ASSIGN(const Table layouts, read_baseline(session, name));
    std::vector<std::string> sweeps;
    for (const RankedLayout& one : ranked_layouts(layouts).rows) {
      const bool is_new = std::find(sweeps.begin(), sweeps.end(), one.sweep) == sweeps.end();
      if (is_new && !one.sweep.empty()) sweeps.push_back(one.sweep);
    }
    table.rows.push_back(
        {name, std::ssize(layouts.rows), fmt::format("{}", fmt::join(sweeps, ", "))});
  }
  if (table.rows.empty()) say("There is no baseline. `shardsweep baseline set NAME` makes one.");
  return print_table(table, table_style(session));
}

Result<ExitCode> remove_baseline(const Session& session, const std::string& name) {
  SHARDSWEEP_ASSIGN(const auto file, baseline_file(session, name));
  std::error_code why;
  if (fs::remove(file, why)) return ExitCode::done;
  return fault(why ? FaultKind::unavailable : FaultKind::invalid_input,
      why ? fmt::format("{}: {}", file.string(), why.message())
          : fmt::format("there is no baseline '{}'", name));
}

Result<ExitCode> run_baseline(const Session& session) {
  const auto& own = session.options.of<BaselineOptions>();
  if (own.action == "list") return list_baselines(session);
  if (own.name.empty())
    return fault(
        FaultKind::invalid_input, "baseline {}: the name of the baseline is missing", own.action);
  return own.action == "set" ? set_baseline(session, own.name) : remove_baseline(session, own.name);
}

}  // namespace

Result<fs::path> baseline_file(const Session& session, const std::string& name) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  constexpr std::size_t longest = 64;
  if (name.empty() || name.size() > longest || name.front() == '.' ||
      !std::all_of(name.begin(), name.end(), plain))
    return fault(FaultKind::invalid_input,
        "'{}': a baseline's name has letters, digits and '._-', does not begin with '.', and has "
        "at most {} characters",
        name, longest);
  return baseline_folder(session) / (name + std::string(baseline_ending));
}

Result<std::vector<std::string>> baseline_names(const Session& session) {
  constexpr std::size_t most = 100'000;
  SHARDSWEEP_ASSIGN(auto names,
      names_in_folder(baseline_folder(session), most,
          [](const auto& name) { return name.ends_with(baseline_ending); }));
  for (auto& name : names)
    name.resize(name.size() - baseline_ending.size());
  return names;
}

std::string baseline_text(const Table& layouts) {
  OrderedJson head;
  head["shardsweep_baseline"] = baseline_format;
  head["columns"] = layouts.columns;
  std::string text = baseline_line(head);
  for (const auto& row : layouts.rows) {
    OrderedJson line = OrderedJson::object();
    for (std::size_t i = 0; i < layouts.columns.size(); ++i) {
      // Unknown values are left out, as they would only lengthen a diff.
      if (!std::holds_alternative<std::monostate>(row[i]))
        line[layouts.columns[i]] = baseline_value(row[i]);
    }
    text += baseline_line(line);
  }
  return text;
}

Result<Table> baseline_from(const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  Table table;
  SHARDSWEEP_ASSIGN(table.columns, columns_of_baseline(line, file));
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    const auto json = OrderedJson::parse(line, nullptr, false);
    if (!json.is_object())
      return fault(FaultKind::invalid_input, "{}:{}: the line is not a JSON object", file, number);
    auto& row = table.rows.emplace_back(table.columns.size());
    for (const auto& [name, value] : json.items()) {
      const auto column = std::find(table.columns.begin(), table.columns.end(), name);
      if (column == table.columns.end() || !is_baseline_value(value))
        return fault(FaultKind::invalid_input,
            column == table.columns.end()
                ? fmt::format("{}:{}: '{}' is not a column of line 1", file, number, name)
                : fmt::format("{}:{}: '{}' must be a number or a text, not {}", file, number, name,
                      value.dump()));
      row[static_cast<std::size_t>(column - table.columns.begin())] = value_of_baseline(value);
    }
  }
  return table;
}

Result<Table> read_baseline(const Session& session, const std::string& name) {
  fs::path file = name;
  if (!is_baseline_path(name)) SHARDSWEEP_SET(file, baseline_file(session, name));
  std::error_code none;
  if (!is_baseline_path(name) && !fs::exists(file, none)) {
    SHARDSWEEP_ASSIGN(const auto names, baseline_names(session));
    return fault(FaultKind::invalid_input, "there is no baseline '{}'{}", name,
        names.empty() ? ": `shardsweep baseline set NAME` makes one"
                      : fmt::format("; the baselines are {}", fmt::join(names, ", ")));
  }
  SHARDSWEEP_ASSIGN(const auto text, read_file(file, longest_baseline));
  return baseline_from(text, file.string());
}

extern const Command command_baseline{.name = "baseline",
    .heading = Heading::results,
    .help = "Keep results under a name, to compare later ones with.",
    .examples =
        "shardsweep baseline set main my-sweep\n"
        "shardsweep baseline set main my-sweep -o main.jsonl\n"
        "shardsweep baseline list",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<BaselineOptions>();
          grammar
              .option("action", own.action, "ACTION",
                  "set keeps what was measured, list shows the baselines, remove removes one.")
              .required()
              .one_of({"set", "list", "remove"});
          grammar.option("name", own.name, "NAME", "Name of the baseline.");
          grammar.names("Sweeps or trials. Default: everything that was measured.");
          grammar.where();
          grammar.versions();
          grammar.format();
          grammar.output();
        },
    .run = run_baseline};

namespace fs = std::filesystem;

Result<std::vector<std::string>> names_in_folder(
    const fs::path& folder, std::size_t most, const std::function<bool(const std::string&)>& keep) {
  std::vector<std::string> names;
  std::error_code why;
  // A range-for would throw if reading fails half-way, as the iterator's ++ does.
  for (fs::directory_iterator entry(folder, why), end; !why && entry != end; entry.increment(why)) {
    auto name = entry->path().filename().string();
    if (!keep(name)) continue;
    if (names.size() == most)
      return fault(FaultKind::invalid_input, "{}: more than {} files", folder.string(), most);
    names.push_back(std::move(name));
  }
  if (why && why != std::errc::no_such_file_or_directory)
    return fault(FaultKind::unavailable, "{}: {}", folder.string(), why.message());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace shardsweep
