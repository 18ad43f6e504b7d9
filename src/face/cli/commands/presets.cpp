// SPDX-License-Identifier: Apache-2.0
// presets: what models, clusters and sweeps come with the program; names: words for shell
// completion.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "predict/memory.hpp"
#include "show/table_view.hpp"
#include "text/nearest.hpp"
#include "text/numbers.hpp"
#include "trainer/configuration.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

struct NamesOptions {
  std::string kind;  ///< empty: axes
};

constexpr std::array preset_kinds{PresetKind::model, PresetKind::cluster, PresetKind::sweep};

/// As much as a list has room for, to the end of a word.
std::string shortened(std::string text) {
  constexpr std::size_t most = 49;
  if (text.size() <= most) return text;
  text.resize(text.rfind(' ', most));
  return text + " ...";
}

/// What the sweep is for: its first sentence after the lines for other programs.
std::string first_comment(std::string_view text) {
  while (text.starts_with("# ")) {
    const std::string_view line = text.substr(2, text.find('\n') - 2);
    if (!line.starts_with("SPDX-") && !line.starts_with("yaml-language-server"))
      return std::string(line);
    text.remove_prefix(std::min(text.size(), line.size() + 3));
  }
  return "";
}

/// 1.34B, 13.0B, 42.5M: parameters, as models are called by them.
std::string parameters_text(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return fmt::format("{:.3g}B", value / 1e9);
  return value >= 1e6 ? fmt::format("{:.3g}M", value / 1e6) : fmt::format("{:.3g}k", value / 1e3);
}

std::string facts_of(const ModelSpec& model) {
  const auto all = parameters_text(parameters(model));
  if (model.experts > 0)
    return fmt::format("{} parameters, {} active, {} of {} experts", all,
        parameters_text(active_parameters(model)), model.experts_per_token, model.experts);
  return fmt::format("{} parameters, {} layers, hidden {}, {} heads", all, model.layers,
      model.hidden, model.heads);
}

std::string facts_of(const ClusterSpec& cluster) {
  const auto& bf16 = cluster.peak(Dtype::bf16);
  const std::string peak = bf16 ? fmt::format(", {} TFLOP/s bf16", amount_text(*bf16 / 1e12)) : "";
  return fmt::format("{} per node, {} each{}",
      counted(cluster.gpus_per_node, cluster.gpu.empty() ? "slot" : "GPU"),
      size_text(cluster.memory_bytes), peak);
}

/// Both kinds in one table: for people a sentence, else a column per fact.
class PresetTable {
 public:
  explicit PresetTable(Format format) : facts_(format == Format::table) {
    if (facts_) {
      table_.columns = {"kind", "name", "from", "facts"};
    } else {
      table_.columns = {"kind", "name", "parameters"};
      for (const auto& field : shape_fields)
        table_.columns.emplace_back(field.name);
      for (const auto* name :
          {"active_parameters", "gpu", "gpus_per_node", "memory_bytes", "peak_flops_bf16", "from"})
        table_.columns.emplace_back(name);
    }
  }
  void add(const ModelSpec& model, std::string from) {
    if (facts_) return add_facts("model", model.name, std::move(from), facts_of(model));
    std::vector<Value> row(table_.columns.size());
    row[0] = "model";
    row[1] = model.name;
    row[2] = parameters(model);
    auto cell = row.begin() + 3;
    for (const auto& field : shape_fields)
      *cell++ = model.*field.member;
    *cell = active_parameters(model);
    row.back() = std::move(from);
    table_.rows.push_back(std::move(row));
  }
  void add(const ClusterSpec& cluster, std::string from) {
    if (facts_) return add_facts("cluster", cluster.name, std::move(from), facts_of(cluster));
    const auto& bf16 = cluster.peak(Dtype::bf16);
    std::vector<Value> row(table_.columns.size());
    row[0] = "cluster";
    row[1] = cluster.name;
    const auto facts = row.end() - 5;
    if (!cluster.gpu.empty()) facts[0] = cluster.gpu;
    facts[1] = std::int64_t{cluster.gpus_per_node};
    facts[2] = cluster.memory_bytes;
    if (bf16) facts[3] = *bf16;
    row.back() = std::move(from);
    table_.rows.push_back(std::move(row));
  }
  void add_sweep(const std::string& name, const ShippedFile& sweep) {
    if (facts_)
      return add_facts("sweep", name, sweep.where(), shortened(first_comment(sweep.text)));
    std::vector<Value> row(table_.columns.size());
    row[0] = "sweep";
    row[1] = name;
    row.back() = sweep.where();
    table_.rows.push_back(std::move(row));
  }
  [[nodiscard]] const Table& table() const { return table_; }

 private:
  void add_facts(std::string kind, const std::string& name, std::string from, std::string facts) {
    table_.rows.push_back({std::move(kind), name, std::move(from), std::move(facts)});
  }
  bool facts_;
  Table table_;
};

/// For people it is news where a preset comes from a file.
void drop_if_all_built_in(Table& table) {
  constexpr std::size_t from = 2;
  const bool all = std::all_of(table.rows.begin(), table.rows.end(), [](const auto& row) {
    const auto* text = std::get_if<std::string>(&row[from]);
    return text != nullptr && *text == "built in";
  });
  if (!all) return;
  table.columns.erase(table.columns.begin() + from);
  for (auto& row : table.rows)
    row.erase(row.begin() + from);
}

Result<ExitCode> list_presets(const Session& session) {
  const auto& folder = session.installation.presets;
  PresetTable table(session.options.format);
  for (const PresetKind kind : preset_kinds) {
    for (const std::string& name : preset_names(folder, kind)) {
      SHARDSWEEP_ASSIGN(const ShippedFile file, read_preset(folder, kind, name));
      if (kind == PresetKind::model) {
        SHARDSWEEP_ASSIGN(const ModelSpec model, load_model(name, folder));
        table.add(model, file.where());
      } else if (kind == PresetKind::cluster) {
        SHARDSWEEP_ASSIGN(const ClusterSpec cluster, load_cluster(name, folder));
        table.add(cluster, file.where());
      } else {
        table.add_sweep(name, file);
      }
    }
  }
  Table listed = table.table();
  if (session.options.format == Format::table) drop_if_all_built_in(listed);
  SHARDSWEEP_TRY(
      print_result(table_text(listed, table_style(session, {"kind", "name", "from", "facts"}))));
  return ExitCode::done;
}

/// The one that begins so, or the one that is nearly written so.
std::string preset_meant(const std::string& name, const std::vector<std::string>& all) {
  const auto begins = std::find_if(
      all.begin(), all.end(), [&](const auto& each) { return each.starts_with(name); });
  if (begins != all.end()) return fmt::format(", did you mean '{}'?", *begins);
  return did_you_mean(name, {all.begin(), all.end()});
}

std::optional<PresetKind> kind_of_preset(
    const std::filesystem::path& folder, const std::string& name) {
  for (const PresetKind kind : preset_kinds) {
    const auto names = preset_names(folder, kind);
    if (std::find(names.begin(), names.end(), name) != names.end()) return kind;
  }
  return std::nullopt;
}

tl::unexpected<Fault> no_preset(const std::filesystem::path& folder, const std::string& name) {
  std::vector<std::string> all;
  for (const PresetKind kind : preset_kinds) {
    for (auto& each : preset_names(folder, kind))
      all.push_back(std::move(each));
  }
  return fault(FaultKind::invalid_input,
      fmt::format("there is no preset '{}'{}\n'shardsweep presets' lists them.", name,
          preset_meant(name, all)));
}

Result<ExitCode> print_preset(const Session& session, const std::string& name) {
  const auto& folder = session.installation.presets;
  const auto kind = kind_of_preset(folder, name);
  if (!kind) return no_preset(folder, name);
  SHARDSWEEP_ASSIGN(const ShippedFile file, read_preset(folder, *kind, name));
  SHARDSWEEP_TRY(print_result(file.text));
  return ExitCode::done;
}

/// Axis by trainer.
Table names_of_axes() {
  Table table;
  table.columns = {"axis"};
  for (const auto trainer : configurable_trainers())
    table.columns.emplace_back(trainer);
  for (const AxisNames& row : axis_names()) {
    auto& to = table.rows.emplace_back();
    to.emplace_back(std::string(row.axis));
    for (const auto name : row.names)
      to.push_back(name.empty() ? Value() : Value(std::string(name)));
  }
  return table;
}

/// Completion asks while somebody types: no database is no error.
std::vector<std::string> sweep_names(const Session& session) {
  std::vector<std::string> names;
  const auto reader = Reader::open(session.home.database);
  if (!reader) return names;
  const auto table = (*reader)->query("SELECT name FROM sweeps ORDER BY name");
  if (!table) return names;
  for (const auto& row : table->rows) {
    if (const auto* name = std::get_if<std::string>(&row.front())) names.push_back(*name);
  }
  return names;
}

Result<ExitCode> run_presets(const Session& session) {
  const auto& names = session.options.names;
  if (names.empty()) return list_presets(session);
  for (const std::string& name : names)
    SHARDSWEEP_TRY(print_preset(session, name));
  return ExitCode::done;
}

Result<ExitCode> run_names(const Session& session) {
  const std::string& kind = session.options.of<NamesOptions>().kind;
  if (kind.empty() || kind == "axes")
    return print_table(names_of_axes(), table_style(session, {"axis"}));
  std::vector<std::string> names;
  if (kind == "sweeps") names = sweep_names(session);
  for (const auto each : {PresetKind::model, PresetKind::cluster}) {
    const bool wanted =
        kind == "presets" || kind == (each == PresetKind::model ? "models" : "clusters");
    if (!wanted) continue;
    const auto found = preset_names(session.installation.presets, each);
    names.insert(names.end(), found.begin(), found.end());
  }
  std::string text;
  for (const std::string& name : names)
    text += name + '\n';
  SHARDSWEEP_TRY(print_result(text));
  return ExitCode::done;
}

}  // namespace

extern const Command command_presets{.name = "presets",
    .heading = Heading::other,
    .help = "List built-in models, clusters and sweeps, or print one.",
    .examples =
        "shardsweep presets\n"
        "shardsweep presets h100-8x",
    .declare =
        [](Grammar& grammar) {
          grammar.option(
              "name", grammar.options().names, "PRESET", "Preset to print. Default: list all.");
          grammar.format();
        },
    .run = run_presets,
    .database = false};

extern const Command command_names{.name = "names",
    .heading = Heading::other,
    .help = "Print the words of trainers for axes, or names of sweeps.",
    .examples =
        "shardsweep names\n"
        "shardsweep names sweeps",
    .declare =
        [](Grammar& grammar) {
          grammar
              .option("kind", grammar.own<NamesOptions>().kind, "KIND",
                  "axes, sweeps, presets, models or clusters. Default: axes.")
              .one_of({"axes", "sweeps", "presets", "models", "clusters"});
          grammar.format();
        },
    .run = run_names};

}  // namespace shardsweep
