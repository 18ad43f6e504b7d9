// SPDX-License-Identifier: Apache-2.0
// presets: what models, clusters and sweeps come with the program; names: words for shell
// completion.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "predict/memory.hpp"
#include "show/column.hpp"
#include "text/nearest.hpp"
#include "text/numbers.hpp"
#include "trainer/configuration.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

struct NamesOptions {
  std::string kind;  ///< empty: axes
};

constexpr std::array preset_kinds{PresetKind::model, PresetKind::cluster, PresetKind::sweep};

/// Text shortened to the room of a list, at the end of a word.
std::string shortened(std::string text) {
  constexpr std::size_t most = 49;
  if (text.size() <= most) return text;
  text.resize(text.rfind(' ', most));
  return text + " ...";
}

/// First comment of a sweep file, which says what it is for. Lines for other programs are passed
/// over.
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

struct Preset {
  std::string_view kind;
  std::string name;
  std::string from;
  std::string facts;  ///< facts for people
  std::optional<ModelSpec> model{};
  std::optional<ClusterSpec> cluster{};
};

Result<Preset> preset_of(
    const std::filesystem::path& folder, PresetKind kind, const std::string& name) {
  SHARDSWEEP_ASSIGN(const ShippedFile file, read_preset(folder, kind, name));
  Preset preset{"sweep", name, file.where(), shortened(first_comment(file.text))};
  if (kind == PresetKind::model) {
    SHARDSWEEP_ASSIGN(preset.model, load_model(name, folder));
    preset.kind = "model";
    preset.facts = facts_of(*preset.model);
  } else if (kind == PresetKind::cluster) {
    SHARDSWEEP_ASSIGN(preset.cluster, load_cluster(name, folder));
    preset.kind = "cluster";
    preset.facts = facts_of(*preset.cluster);
  }
  return preset;
}

/// Column with a fact of a model, or of a cluster; NULL for other presets.
template <class Spec, class ValueOf>
Column<Preset> fact(
    std::string name, std::optional<Spec> Preset::*member, const ValueOf& value_of) {
  return {std::move(name),
      [member, value_of](const Preset& preset) {
        return preset.*member ? Value(value_of(*(preset.*member))) : Value();
      },
      For::machines};
}

/// View of presets. People see where a preset comes from only if some are not built in.
View<Preset> preset_view(const std::vector<Preset>& presets) {
  const bool all_built_in = std::all_of(presets.begin(), presets.end(),
      [](const Preset& preset) { return preset.from == "built in"; });
  View<Preset> view{{"kind", [](const Preset& preset) { return std::string(preset.kind); }},
      {"name", [](const Preset& preset) { return preset.name; }},
      fact("parameters", &Preset::model, parameters)};
  for (const auto& field : shape_fields)
    view.push_back(fact(std::string(field.name), &Preset::model,
        [&field](const ModelSpec& model) { return model.*field.member; }));
  view.push_back(fact("active_parameters", &Preset::model, active_parameters));
  const auto of_cluster = [&](std::string name, auto value_of) {
    view.push_back(fact(std::move(name), &Preset::cluster, value_of));
  };
  of_cluster(
      "gpu", [](const ClusterSpec& one) { return one.gpu.empty() ? Value() : Value(one.gpu); });
  of_cluster(
      "gpus_per_node", [](const ClusterSpec& one) { return std::int64_t{one.gpus_per_node}; });
  of_cluster("memory_bytes", [](const ClusterSpec& one) { return one.memory_bytes; });
  of_cluster("peak_flops_bf16", [](const ClusterSpec& one) {
    const auto& bf16 = one.peak(Dtype::bf16);
    return bf16 ? Value(*bf16) : Value();
  });
  view.push_back({"from", [](const Preset& preset) { return preset.from; },
      all_built_in ? For::machines : For::all});
  view.push_back({"facts", {}, For::people, "", [](const Preset& preset) { return preset.facts; }});
  return view;
}

Result<ExitCode> list_presets(const Session& session) {
  const auto& folder = session.installation.presets;
  std::vector<Preset> presets;
  for (const PresetKind kind : preset_kinds) {
    for (const std::string& name : preset_names(folder, kind)) {
      SHARDSWEEP_ASSIGN(Preset preset, preset_of(folder, kind, name));
      presets.push_back(std::move(preset));
    }
  }
  return deliver(view_text(
      preset_view(presets), presets, table_style(session, {"kind", "name", "from", "facts"})));
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
      "there is no preset '{}'{}\n'shardsweep presets' lists them.", name, preset_meant(name, all));
}

Result<ExitCode> print_preset(const Session& session, const std::string& name) {
  const auto& folder = session.installation.presets;
  const auto kind = kind_of_preset(folder, name);
  if (!kind) return no_preset(folder, name);
  SHARDSWEEP_ASSIGN(const ShippedFile file, read_preset(folder, *kind, name));
  return deliver(file.text);
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
  const auto sweeps = (*reader)->sweeps();
  if (!sweeps) return names;
  for (const auto& sweep : *sweeps)
    names.push_back(sweep.name);
  std::sort(names.begin(), names.end());
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
  if (session.options.format_given) {
    Table table{.columns = {"name"}};
    for (const std::string& name : names)
      table.rows.push_back({Value(name)});
    return print_table(table, table_style(session, {"name"}));
  }
  std::string text;
  for (const std::string& name : names)
    text += name + '\n';
  return deliver(text);
}

}  // namespace

extern const Command command_presets{.name = "presets",
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
