// SPDX-License-Identifier: Apache-2.0
// What commands that read print of a database that holds some of everything. The store makes
// the database; the programs are those that users run.
#include "cli/commands/table.hpp"
#include "programs/output/sample.hpp"
#include "show/cell_text.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace fs = std::filesystem;

TEST_CASE("tables of results fit every width") {
  const SampleDatabase sample;
  check_output(sample, "results", "results");
  check_output(sample, "results_columns", "results --columns trial,model,vars,cause --limit 2");
  check_output(sample, "results_csv", "results --limit 2 --format csv");
  check_output(sample, "best", "best");
  check_output(sample, "heatmap", "heatmap");
  check_output(sample, "heatmap_mixed", "heatmap --rows tp --cols micro_batch");
  check_output(sample, "heatmap_outcome", "heatmap --value outcome");
  check_output(sample, "heatmap_median", "heatmap --aggregate median --facet micro_batch");
  check_output(sample, "heatmap_markdown", "heatmap --format markdown");
  check_output(sample, "query", "query 'SELECT trial, state, outcome, cause FROM results LIMIT 2'");
}

TEST_CASE("what is known of a trial and a sweep fits every width") {
  const SampleDatabase sample;
  check_output(sample, "show_trial", "show " + sample.slug);
  check_output(sample, "show_sweep", "show demo");
  check_output(sample, "explain", "explain " + sample.slug);
  check_output(sample, "frontier", "frontier");
  check_output(sample, "frontier_nodes", "frontier --by nodes");
  check_output(sample, "compare", "compare demo demo");
  check_output(sample, "compare_winners", "compare demo demo --winners");
  check_output(sample, "history", "history demo --of layout");
  check_output(sample, "show_unknown", "show demo nothere");
  check_output(sample, "show_json", "show --format json " + sample.slug);
  check_output(sample, "nodes", "nodes");
}

TEST_CASE("what waits and what goes on fits every width") {
  const SampleDatabase sample;
  check_output(sample, "status", "status");
  check_output(sample, "status_sweep", "status demo");
  check_output(sample, "names", "names sweeps");
}

TEST_CASE("a verb says what it would change, and changes nothing") {
  const SampleDatabase sample;
  const auto before = rows_of(sample.file, "SELECT * FROM trials");
  check_output(sample, "cancel_dry_run", "cancel demo --dry-run");
  check_output(sample, "rerun_dry_run", "rerun demo --where \"outcome = 'oom'\" --dry-run");
  check_output(sample, "resume_dry_run", "resume demo --dry-run");
  check_output(sample, "delete_dry_run", "delete demo --dry-run");
  CHECK(rows_of(sample.file, "SELECT * FROM trials") == before);
}

TEST_CASE("what the programs bring along fits every width") {
  const SampleDatabase sample;
  check_output(sample, "presets", "presets");
  check_fit(sample, "doctor", {"shardbench", "templates", "home", "database", "daemon"});
  for (const char* topic : {"keys", "axes", "units", "placeholders", "site"})
    check_fit(sample, fmt::format("help {}", topic), {});
  for (const Command* command : all_commands())
    check_fit(sample, fmt::format("help {}", command->name), {"Usage: shardsweep "});
}

TEST_CASE("show takes several names, and an unknown one is exit code 2") {
  const SampleDatabase sample;
  const auto show = environment(sample, "") + program + " show ";
  const auto both = output_of(show + "demo " + sample.slug + " --format json");
  CHECK(both.starts_with("[\n{\"name\":\"demo\",\"sweep\":{"));
  CHECK(both.find("},\n{\"name\":\"demo/" + sample.slug + "\",\"trial\":{") != std::string::npos);
  CHECK(output_of(show + "demo nothere >/dev/null 2>&1; echo $?") == "2\n");
  const auto skipped = rows_of(sample.file, "SELECT slug FROM trials WHERE outcome = 'skipped'");
  CHECK(output_of(show + skipped.substr(0, skipped.find('\n'))).find(" d ") == std::string::npos);
}

TEST_CASE("plans and predictions fit every width") {
  const SampleDatabase sample;
  // Which runners there are differs from machine to machine: that is said on standard error.
  check_output(sample, "plan", "plan " + (cases / "sweep.yaml").string(), Streams::results);
  check_output(
      sample, "suggest", "suggest --model llama-1b --cluster h100-8x --nodes 2 --batch-tokens 1Mi");
  check_output(sample, "replay",
      "replay " + (cases / "runs.csv").string() + " --cluster h100-8x --family nanotron",
      Streams::both, lab);
  check_output(sample, "evaluate_memory",
      "evaluate-memory " + (cases / "runs.csv").string() + " --cluster h100-8x --family nanotron",
      Streams::both, lab);
}

TEST_CASE("what is read out of a trainer's log fits every width") {
  const SampleDatabase sample;
  const auto logs = (source / "tests" / "data" / "cases" / "trainers").string();
  check_output(sample, "read_log", "read-log " + logs + "/megatron-2026.log");
  check_output(sample, "read_log_missing", "read-log " + logs + "/megatron-2023.log");
  check_output(sample, "read_log_skipped", "read-log " + logs + "/megatron-skipped.log");
  check_output(
      sample, "read_log_rounded", "read-log --format json --gpus 16 " + logs + "/nanotron.log");
  check_output(sample, "read_log_patterns",
      "read-log --pattern 'iter* {iteration}/' --pattern 'iteration (ms): {step_ms}' " + logs +
          "/megatron-2023.log --gpus 16 --batch-tokens 1Mi");
  check_output(sample, "trainers", "trainers");
}

TEST_CASE("a layout in the words of other trainers") {
  const SampleDatabase sample;
  check_text("emit_megatron", on_all_papers(sample, "best demo --emit megatron", Streams::both));
  check_text("emit_deepspeed",
      on_all_papers(sample, "best " + sample.slug + " --emit deepspeed", Streams::results));
  check_output(sample, "best_from_args",
      "best demo --gpus 1 --from-args '--micro-batch-size 2 --global-batch-size 2'");
  check_output(sample, "export_markdown", "export --format markdown");
  check_output(sample, "names_axes", "names --format csv");
  const std::string quickstart = std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps/quickstart.yaml";
  check_output(sample, "plan_emit", "plan " + quickstart + " --emit torchtitan --point 1");
  check_output(sample, "plan_from_args",
      "plan " + quickstart + " --gpus 2 --from-args '--micro-batch-size 2 --global-batch-size 64'");
}

TEST_CASE("a suggestion becomes a sweep file that can be planned") {
  const SampleDatabase sample;
  const auto file = (sample.dir / "next.yaml").string();
  const auto suggest = environment(sample, "") + program +
      " suggest --model llama-1b --cluster h100-8x --nodes 2 --write " + file + " 2>&1 >/dev/null";
  CHECK(output_of(suggest) == fmt::format("Wrote {0}. Next: shardsweep plan {0}\n", file));
  CHECK(output_of(suggest).find("exists already") != std::string::npos);
  const auto plan = output_of(environment(sample, "") + program + " plan " + file + " 2>&1");
  CHECK_MESSAGE(plan.find("sweep 'suggested-llama-1b' on h100-8x: ") != std::string::npos, plan);
  CHECK(plan.find(" 0 feasible") == std::string::npos);
}

TEST_CASE("files that can go are counted, and listed where that is asked for") {
  const SampleDatabase sample;
  const auto attempts = sample.dir / "sample.db.d" / "attempts";
  fs::create_directories(attempts);
  fs::create_directories(sample.dir / "sample.db.d" / "answers");
  for (int i = 0; i < 3; ++i)
    std::ofstream(attempts / fmt::format("demo.some-trial.{}.tar", i)) << std::string(2048, 'x');
  check_output(sample, "gc", "gc --older-than 0s");
  check_output(sample, "gc_age", "gc --older-than 5m");
}

TEST_CASE("colours stand on a terminal alone, unless NO_COLOR refuses them") {
  const SampleDatabase sample;
  const auto coloured = on_a_terminal(environment(sample, "") + program + " heatmap");
  CHECK(coloured.find("\x1b[48;5;") != std::string::npos);
  const auto full =
      on_a_terminal(environment(sample, "COLORTERM=truecolor") + program + " heatmap");
  CHECK(full.find("\x1b[48;2;8;63;93;38;2;255;255;255m") != std::string::npos);
  const auto plain = on_a_terminal(environment(sample, "NO_COLOR=1") + program + " heatmap");
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK(plain.find("12,222") != std::string::npos);
}

TEST_CASE("a heatmap in colours has the words of one without, at every width") {
  const SampleDatabase sample;
  std::string text;
  for (const int width : {60, 80, 200}) {
    const auto print = [&](const std::string& colours) {
      auto lines = on_a_terminal(
          environment(sample, fmt::format("COLUMNS={} {}", width, colours)) + program + " heatmap");
      return replaced(std::move(lines), "\r\n", "\n");
    };
    const auto plain = print("NO_COLOR=1");
    for (const auto* colours : {"TERM=xterm-256color", "COLORTERM=truecolor"}) {
      const auto coloured = print(colours);
      text += fmt::format("== {} columns, {} ==\n{}", width, colours, visible_codes(coloured));
      std::istringstream lines(without_codes(coloured));
      for (std::string line; std::getline(lines, line);) {
        CHECK(width_of(line) <= static_cast<std::size_t>(width));
        line.erase(line.find_last_not_of(' ') + 1);
        // The legend of the scale is there for its colours alone.
        const bool is_bar = line.starts_with("at least this share") || line.starts_with(" 97 % ");
        CHECK_MESSAGE((is_bar || plain.find(line + '\n') != std::string::npos), line);
      }
    }
  }
  check_text("heatmap_colour", text);
}
