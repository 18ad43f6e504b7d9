// SPDX-License-Identifier: Apache-2.0
// explore: the planner in a page.
#include "cli/command.hpp"
#include "cli/commands/known_runs.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "explore/question.hpp"
#include "report/report_page.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/load.hpp>

#include <filesystem>
#include <string>

namespace shardsweep {
namespace {

constexpr std::size_t longest_module = 8 << 20;

struct ExploreOptions {
  Words from;
};

Result<std::string> module_file(const Session& session, const char* name) {
  // The explorer lies beside the presets, in the build tree as after install.
  const auto folder = session.installation.presets.parent_path() / "explorer";
  const auto file = folder / name;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    return fault(FaultKind::unavailable,
        "the planner was not compiled to WebAssembly: {} is missing. Build it with emscripten "
        "(Debian: scripts/packages explorer): cmake -B build -DSHARDSWEEP_EXPLORER=ON && cmake "
        "--build build. `shardsweep ui` has the explorer without it.",
        file.string());
  return read_file(file, longest_module);
}

Result<std::string> presets_json(const Session& session, const Words& from) {
  const auto& folder = session.installation.presets;
  nlohmann::ordered_json models = nlohmann::ordered_json::object();
  for (const auto& name : preset_names(folder, PresetKind::model)) {
    SHARDSWEEP_ASSIGN(const auto model, load_model(name, folder));
    models[name] = question_of(model);
  }
  nlohmann::ordered_json clusters = nlohmann::ordered_json::object();
  for (const auto& name : preset_names(folder, PresetKind::cluster)) {
    SHARDSWEEP_ASSIGN(const auto cluster, load_cluster(name, folder));
    clusters[name] = question_of(cluster);
  }
  nlohmann::ordered_json learnt = nlohmann::ordered_json::array();
  for (const auto& name : from) {
    SHARDSWEEP_ASSIGN(const auto knowledge, knowledge_of(session, name, most_measured_runs));
    if (knowledge.family.empty())
      return fault(FaultKind::invalid_input,
          "'{}' is an imported table whose trainer is unknown: import it again with --family.",
          name);
    learnt.push_back(question_of(knowledge));
  }
  return nlohmann::ordered_json{{"models", models}, {"clusters", clusters}, {"learnt", learnt}}
      .dump();
}

Result<ExitCode> run_explore(const Session& session) {
  const auto ending = std::filesystem::path(session.options.out).extension().string();
  if (!ending.empty() && ending != ".html" && ending != ".htm")
    return fault(FaultKind::invalid_input,
        "'{}': unknown file ending. The explorer is one page: use .html.", session.options.out);
  SHARDSWEEP_ASSIGN(
      const auto presets, presets_json(session, session.options.of<ExploreOptions>().from));
  SHARDSWEEP_ASSIGN(const auto glue, module_file(session, "planner.js"));
  SHARDSWEEP_ASSIGN(const auto wasm, module_file(session, "planner.wasm.gz"));
  return deliver(
      explorer_page({.glue = glue, .wasm_gz = wasm, .presets = presets}), session.options.out);
}

}  // namespace

Result<std::string> explorer_html(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto presets, presets_json(session, session.options.names));
  return explorer_page({.glue = {}, .wasm_gz = {}, .presets = presets});
}

extern const Command command_explore{.name = "explore",
    .help = "Write the planner as a page: ask it in a browser.",
    .examples =
        "shardsweep explore -o explorer.html\n"
        "shardsweep explore --from my-sweep -o explorer.html",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<ExploreOptions>();
          grammar.option("--from", own.from, "SWEEP",
              "Put what these sweeps have measured into the page: their cluster's rates, and each "
              "layout's speed and memory beside the prediction.");
          grammar.output();
        },
    .run = run_explore};

}  // namespace shardsweep
