// SPDX-License-Identifier: Apache-2.0
// Every view in every form: a table at 120 columns, Markdown, CSV and JSON. What scripts read,
// CSV and JSON, is a contract: a changed byte needs a line of sweeps/VERSIONS.md.
#include "programs/output/sample.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// Standard output in each form that the command has; a form that it refuses is empty.
void check_forms(const Desk& desk, const std::string& name, const std::string& arguments) {
  std::string text;
  for (const char* form : {"table", "markdown", "csv", "json"}) {
    text += fmt::format("== {} ==\n", form);
    text += output_of(fmt::format("{}{} {} --format {} 2>/dev/null",
        environment(desk, "COLUMNS=120"), program, arguments, form));
  }
  check_text("forms/" + name, masked(desk, text));
}

}  // namespace

TEST_CASE("views of results in every form") {
  const RichDatabase rich;
  check_forms(rich, "results", "results --all-sweeps --limit 9");
  check_forms(
      rich, "results_columns", "results demo --columns trial,cause,vars,nvls --sort -trial");
  check_forms(rich, "results_none", "results demo --where \"tp = 9\"");
  check_forms(rich, "best", "best demo");
  check_forms(rich, "best_both", "best demo later");
  check_forms(rich, "best_versions", "best demo later --all-versions");
  check_forms(rich, "heatmap", "heatmap demo");
  check_forms(rich, "heatmap_facet", "heatmap demo --facet micro_batch --value train_step_ms");
  check_forms(rich, "frontier", "frontier demo");
  check_forms(rich, "frontier_nodes", "frontier demo --by nodes");
  check_forms(rich, "compare", "compare demo later");
  check_forms(rich, "compare_winners", "compare demo later --winners");
  check_forms(rich, "compare_var", "compare 0 1 --by nvls");
  check_forms(rich, "history", "history demo later");
  check_forms(rich, "history_layouts", "history demo later --of layout");
  check_forms(rich, "query", "query 'SELECT trial, outcome, cause, tokens_per_s FROM results'");
}

TEST_CASE("what is known of a sweep, a trial and nodes in every form") {
  const RichDatabase rich;
  check_forms(rich, "show_sweep", "show demo");
  check_forms(rich, "show_trial", "show " + rich.slug);
  check_forms(rich, "explain", "explain " + rich.slug);
  check_forms(rich, "nodes", "nodes");
  check_forms(rich, "status", "status");
  check_forms(rich, "status_one", "status demo");
  check_forms(rich, "from_args",
      "best demo --gpus 1 --from-args '--micro-batch-size 2 --global-batch-size 2'");
}

TEST_CASE("plans and predictions in every form") {
  const RichDatabase rich;
  const auto sweep = (cases / "sweep.yaml").string();
  check_forms(rich, "plan", "plan " + sweep + " --set 'axes.nodes=[1]' 'axes.tp=[1,8]'");
  check_forms(
      rich, "plan_order", "plan --order " + sweep + " --set 'axes.nodes=[2]' 'axes.tp=[2]'");
  check_forms(rich, "plan_from_args",
      "plan " + sweep + " --gpus 8 --from-args '--micro-batch-size 2 --global-batch-size 256'");
  const std::string question =
      "suggest --model llama-1b --cluster h100-8x --nodes 2 --batch-tokens 1Mi";
  check_forms(rich, "suggest", question);
  check_forms(
      rich, "suggest_why_not", question + " --seq-len 4096 --why-not 'dp8 tp2 pp1 mb1 ga32 z1'");
  check_forms(rich, "presets", "presets");
  check_forms(rich, "names", "names");
  check_forms(rich, "read_log",
      "read-log " + (source / "tests/data/cases/trainers/megatron-2026.log").string());
  check_forms(rich, "trainers", "trainers");
}
