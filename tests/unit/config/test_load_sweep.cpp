// SPDX-License-Identifier: Apache-2.0
#include "loading.hpp"

#include <shardsweep/result_columns.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

const std::string head = "name: x\ncluster: this-machine\n";

SweepSpec loaded(const std::string& text, std::vector<std::string> set = {}) {
  auto sweep = load_text(text, std::move(set));
  REQUIRE_MESSAGE(sweep.has_value(), fault_of(sweep));
  return *std::move(sweep);
}

const AxisValues& setting(const std::vector<AxisValues>& settings, std::string_view name) {
  const auto found = std::find_if(settings.begin(), settings.end(),
      [&](const AxisValues& each) { return each.axis->name == name; });
  REQUIRE_MESSAGE(found != settings.end(), name);
  return *found;
}

bool has(const std::vector<AxisValues>& settings, std::string_view name) {
  return std::any_of(settings.begin(), settings.end(),
      [&](const AxisValues& each) { return each.axis->name == name; });
}

using Values = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("every axis that a file leaves out has its default among the constants") {
  const auto sweep = loaded(head + "constants: {model: tiny}\naxes: {nodes: [1], tp: [1, 2]}\n");
  for (const auto& axis : axes()) {
    if (axis.name == "nodes" || axis.name == "tp" || axis.name == "gpus") {
      CHECK_FALSE(has(sweep.constants, axis.name));
    } else {
      CHECK_MESSAGE(has(sweep.constants, axis.name), axis.name);
    }
  }
  CHECK(setting(sweep.constants, "dp").automatic);
  CHECK(setting(sweep.constants, "grad_accum").values == Values{1});
  CHECK(setting(sweep.constants, "overlap").values == Values{1});
  CHECK(sweep.measure == Measure{});
  CHECK(sweep.policy == Policy{});
  CHECK(sweep.runner == RunnerSpec{});
}

TEST_CASE("a global batch lets grad_accum follow from it") {
  const auto sweep = loaded(head + "constants: {model: tiny, gpus: 2, global_batch_tokens: 1Mi}\n");
  CHECK(sweep.global_batch_tokens == 1048576);
  CHECK_FALSE(sweep.global_batch_samples.has_value());
  CHECK(setting(sweep.constants, "grad_accum").automatic);
}

TEST_CASE("a control is a layout without a world, which fills what it does not set") {
  const std::string sweep = head +
      "constants: {model: tiny, gpus: 1, global_batch_size: 8}\n"
      "axes: {tp: [1], dp: [1], grad_accum: [8]}\nvars: {x: [a, b]}\n";
  const auto control = loaded(sweep + "control: {tp: 1, micro_batch: 2}\n").control.layout;
  REQUIRE(control);
  CHECK(setting(control->settings, "micro_batch").values == Values{2});
  CHECK(setting(control->settings, "dp").automatic);
  CHECK(setting(control->settings, "grad_accum").automatic);
  CHECK(control->vars == std::vector<std::pair<std::string, std::string>>{{"x", "a"}});
  CHECK(!loaded(sweep + "control: off\n").control.layout);
  CHECK(!loaded(sweep).control.layout);
}

TEST_CASE("the network between nodes of GPUs is probed unless that is switched off") {
  const auto from = [](std::string_view cluster, std::string_view more) {
    const auto text =
        fmt::format("name: t\ncluster: {{preset: {}}}\nconstants: {{model: tiny, nodes: 2}}\n{}",
            cluster, more);
    return loaded(text).control.network_from;
  };
  CHECK(from("h100-8x", "") == 2);
  CHECK(from("h100-8x", "control: auto\n") == 2);
  CHECK(from("h100-8x", "control: {tp: 8}\n") == 2);
  CHECK(from("h100-8x", "control: off\n") == 0);
  CHECK(from("h100-8x", "control: network\n") == 1);
  CHECK(from("h100-8x", "runner: {name: mine, program: /bin/mine}\n") == 0);
  CHECK(from("cpu-2x", "") == 0);
  CHECK(from("cpu-2x", "control: network\n") == 1);
}

TEST_CASE("other trainers' names are understood") {
  const auto sweep = loaded(head +
      "constants: {model: tiny, nnodes: 1, sequence_length: 64}\n"
      "axes: {tensor_model_parallel_size: [1, 2], mbs: 4, recompute_granularity: [full]}\n");
  CHECK(setting(sweep.axes, "tp").values == Values{1, 2});
  CHECK(setting(sweep.axes, "micro_batch").values == Values{4});
  CHECK(setting(sweep.axes, "recompute").values == Values{2});
  CHECK(setting(sweep.constants, "seq_len").values == Values{64});
}

TEST_CASE("a rank order may name every dimension") {
  const auto order_of = [](const std::string& word) {
    const auto sweep =
        loaded(head + "constants: {model: tiny, rank_order: " + word + "}\naxes: {nodes: [1]}\n");
    const auto value = setting(sweep.constants, "rank_order").values.at(0);
    return rank_order_words.at(static_cast<std::size_t>(value));
  };
  CHECK(order_of("tp-cp-ep-dp-pp") == "tp-dp-pp");
  CHECK(order_of("tp-pp-cp-dp") == "tp-pp-dp");
  CHECK(order_of("cp-dp-tp-pp") == "dp-tp-pp");
  CHECK(order_of("tp-cp-ep-pp-dp") == "tp-cp-pp-dp");
  CHECK(order_of("tp-dp-cp-pp") == "tp-dp-cp-pp");
}

TEST_CASE("models come from the file first and from presets as they are named") {
  const auto sweep = loaded(
      "name: x\ncluster: this-machine\nmodels:\n"
      "  own: {num_hidden_layers: 2, hidden: 64, ffn: 128, heads: 4, vocab: 256}\n"
      "constants: {gpus: 1}\naxes: {model: [mini, own, tiny]}\n");
  REQUIRE(sweep.models.size() == 3);
  CHECK(sweep.models[0].name == "own");
  CHECK(sweep.models[0].kv_heads == 4);
  CHECK(sweep.models[1].name == "mini");
  CHECK(setting(sweep.axes, "model").values == Values{1, 0, 2});
}

TEST_CASE("a cluster is a preset or a preset with changes or written out") {
  const auto with = [](const std::string& cluster) {
    return loaded("name: x\ncluster: " + cluster + "\nconstants: {model: tiny, gpus: 1}\n").cluster;
  };
  CHECK(with("h100-8x").memory_bytes == 81559LL << 20);
  const auto changed = with("{preset: this-machine, memory: 64MiB, gpus_per_node: 2}");
  CHECK(changed.name == "this-machine");
  CHECK(changed.memory_bytes == 64 << 20);
  CHECK(changed.gpus_per_node == 2);
  CHECK(changed.this_machine);
  const auto own = with(
      "{name: mine, gpu: Some GPU, gpus_per_node: 4, memory: 80GB, peak_flops: {bf16: 1e15}, "
      "inter_node_bandwidth: 25GB/s, inter_node_latency: 5us}");
  CHECK(own.peak_flops[0] == 1e15);
  CHECK_FALSE(own.peak_flops[1].has_value());
  CHECK(own.inter_node_bandwidth == 25e9);
  CHECK(own.inter_node_latency_us == 5);
  CHECK_FALSE(own.this_machine);
}

TEST_CASE("axes of a zip advance together") {
  const auto sweep = loaded(head +
      "constants: {model: tiny, gpus: 4}\n"
      "zip: [{tp: [1, 2, 2], pp: [4, 2, 1]}]\n");
  REQUIRE(sweep.zips.size() == 1);
  CHECK(setting(sweep.zips[0].axes, "tp").values == Values{1, 2, 2});
  CHECK(sweep.has_product());
}

TEST_CASE("a hand-picked point has what the constants can't give it") {
  const auto sweep = loaded(head +
      "constants: {model: tiny, gpus: 4, global_batch_size: 8}\n"
      "axes: {dp: [1, 2], grad_accum: auto}\nvars: {f: [a, b]}\n"
      "points:\n  - {tp: 2, f: b}\n  - {nodes: 1, dp: 4}\n");
  REQUIRE(sweep.points.size() == 2);
  const auto& first = sweep.points[0];
  CHECK(setting(first.settings, "dp").automatic);
  CHECK(setting(first.settings, "grad_accum").automatic);
  CHECK(first.vars.at(0) == std::pair<std::string, std::string>("f", "b"));
  CHECK(first.position == SourcePosition{"sweep.yaml", 7, 5});
  CHECK(setting(sweep.points[1].settings, "dp").values == Values{4});
}

TEST_CASE("a var has no name of a column that results have beside it") {
  for (const auto& column : result_columns) {
    const auto name = std::string(column.name);
    CAPTURE(name);
    const auto sweep = load_text(
        fmt::format("{}constants: {{model: tiny, gpus: 4}}\nvars: {{{}: [1, 2]}}\n", head, name));
    REQUIRE_FALSE(sweep.has_value());
    CHECK(sweep.error().what.find("'" + name + "'") != std::string::npos);
  }
}

TEST_CASE("a sweep of points alone needs no world for a product that it does not have") {
  const auto sweep = loaded(head + "points: [{model: tiny, gpus: 2}, {model: mini, nodes: 1}]\n");
  CHECK_FALSE(sweep.has_product());
  CHECK(sweep.models.size() == 2);
}

TEST_CASE("points come from a CSV beside the sweep file") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("points_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "sweep.yaml")
      << head << "constants: {model: tiny, gpus: 4}\nvars: {f: ['', a]}\npoints_from: p.csv\n";
  std::ofstream(folder / "p.csv") << "tp,mbs,f,dp\n1,2,a,\n2,,\"\",auto\n";
  const auto sweep = load_sweep(folder / "sweep.yaml", with_presets());
  std::filesystem::remove_all(folder);
  REQUIRE_MESSAGE(sweep.has_value(), fault_of(sweep));
  REQUIRE(sweep->points.size() == 2);
  CHECK(setting(sweep->points[0].settings, "micro_batch").values == Values{2});
  CHECK_FALSE(has(sweep->points[1].settings, "micro_batch"));
  CHECK(sweep->points[0].vars.at(0).second == "a");
  CHECK(sweep->points[1].vars.at(0).second.empty());
  CHECK(setting(sweep->points[1].settings, "dp").automatic);
  CHECK(sweep->points[1].position.file == (folder / "p.csv").string());
  CHECK(sweep->points[1].position.line == 3);
}

TEST_CASE("more points than a sweep file can hold are refused") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("many_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "sweep.yaml")
      << head << "constants: {model: tiny, gpus: 4}\npoints_from: p.csv\n";
  std::ofstream csv(folder / "p.csv");
  csv << "tp\n";
  for (int row = 0; row < 50'000; ++row)
    csv << "1\n";
  csv.close();
  const auto sweep = load_sweep(folder / "sweep.yaml", with_presets());
  std::filesystem::remove_all(folder);
  CHECK(fault_of(sweep).find("the limit is 100000, in 4 MiB") != std::string::npos);
}

TEST_CASE("exclusions and runner and environment are kept as they are written") {
  const auto sweep = loaded(head +
      "constants: {model: tiny, gpus: 1}\n"
      "exclude:\n  - tp > 8\n  - when: >\n      pp = 1\n      and zero = 0\n    why: slow\n"
      "runner: {name: nanotron, program: /opt/train, args: [--fast, 'a b']}\n"
      "env: {NCCL_DEBUG: WARN, EMPTY: ''}\n");
  CHECK(sweep.excludes.at(0).when == "tp > 8");
  CHECK(sweep.excludes.at(0).why.empty());
  CHECK(sweep.excludes.at(1).when == "pp = 1 and zero = 0");
  CHECK(sweep.excludes.at(1).position.line == 6);
  CHECK(sweep.runner.args == std::vector<std::string>{"--fast", "a b"});
  CHECK(sweep.env.at("EMPTY").empty());
  CHECK(loaded(head + "constants: {model: tiny, gpus: 1}\nrunner: mine\n").runner.name == "mine");
}

/// A folder with a program `x.sh`, one in `bin/`, and one of "ours".
class Programs {
 public:
  Programs() {
    for (const char* name : {"x.sh", "bin/y.sh", "ours/shardbench-cpu"}) {
      std::filesystem::create_directories((folder_ / name).parent_path());
      std::ofstream(folder_ / name) << "#!/bin/sh\n";
      std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
    }
  }
  ~Programs() { std::filesystem::remove_all(folder_); }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;
  [[nodiscard]] RunnerSpec named(const std::string& runner) const {
    const auto sweep = load(runner);
    REQUIRE_MESSAGE(sweep.has_value(), fault_of(sweep));
    return sweep->runner;
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  [[nodiscard]] Result<SweepSpec> load(const std::string& runner) const {
    std::ofstream(folder_ / "sweep.yaml")
        << head << "constants: {model: tiny, gpus: 1}\nrunner: {" << runner << "}\n";
    auto options = with_presets();
    options.programs = folder_ / "ours";
    return load_sweep(folder_ / "sweep.yaml", options);
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("programs_" + std::to_string(::getpid()));
};

TEST_CASE("a runner's program is found beside the sweep file") {
  const Programs programs;
  CHECK(programs.named("program: x.sh").program == programs.path("x.sh"));
  CHECK(programs.named("program: ./x.sh").program == programs.path("x.sh"));
  CHECK(programs.named("program: bin/y.sh").program == programs.path("bin/y.sh"));
  CHECK(programs.named("program: " + programs.path("x.sh")).program == programs.path("x.sh"));
  CHECK(programs.named("program: shardbench-cpu").program == "shardbench-cpu");
  CHECK(programs.named("program: env").program.ends_with("/env"));
}

TEST_CASE("a script that the kernel would not start is told at its place") {
  const Programs programs;
  programs.write("x.sh", "echo no interpreter\n");
  const auto told = [&] { return fault_of(programs.load("program: x.sh")); };
  CHECK(told().find(
            "sweep.yaml:4:19: 'x.sh' cannot be started: its first line names no "
            "interpreter; a script begins with a line such as '#!/bin/bash'") != std::string::npos);
  programs.write("x.sh", "#! /nowhere/python3 -u\n");
  CHECK(
      told().find("'x.sh' cannot be started: its interpreter '/nowhere/python3' does not exist") !=
      std::string::npos);
  programs.write("x.sh", "#!/bin/sh\n");
  CHECK(programs.named("program: x.sh").program == programs.path("x.sh"));
}

TEST_CASE("a runner whose program is named and which is not is no shardbench") {
  const Programs programs;
  const auto mine = programs.named("program: x.sh");
  CHECK(mine.name.empty());
  CHECK(mine.known_as() == "x.sh");
  CHECK_FALSE(mine.is_shardbench());
  CHECK(programs.named("name: megatron, program: x.sh").known_as() == "megatron");
  CHECK(programs.named("program: shardbench-cpu").is_shardbench());
  CHECK(programs.named("name: shardbench, program: x.sh").is_shardbench());
}

TEST_CASE("policy values are read by their units") {
  const auto sweep = loaded(head +
      "constants: {model: tiny, gpus: 1}\n"
      "watch: {step_limit: 1.5min, keep_log: 1MiB}\nretry: {elsewhere: 0}\n"
      "limits: {max_gpu_hours: 0.5, max_points: 1M}\n");
  CHECK(sweep.policy.attempt.step_limit_s == 90);
  CHECK(sweep.policy.attempt.keep_log_bytes == 1 << 20);
  CHECK(sweep.policy.retry_elsewhere == 0);
  CHECK(sweep.policy.max_gpu_hours == 0.5);
  CHECK(sweep.policy.max_points == 1'000'000);
}

TEST_CASE("a flag replaces what the file says and what contradicts it") {
  const std::string file = head +
      "constants: {model: tiny, gpus: 1, global_batch_tokens: 64Ki}\n"
      "axes: {tp_size: [1, 2], zero: [0, 1], pp: [1]}\n";
  const auto sweep = loaded(file,
      {"axes.tp=4,8", "constants.zero=1", "axes.nodes=[1, 2]", "constants.global_batch_size=32",
          "measure.steps=5", "limits.max_nodes=4", "cluster.memory=64MiB", "constants.model=mini",
          "vars.f=a,b", "runner.args=[-x]"});
  CHECK(sweep.axes.front().axis->name == "tp");
  CHECK(setting(sweep.axes, "tp").values == Values{4, 8});
  CHECK(setting(sweep.constants, "zero").values == Values{1});
  CHECK_FALSE(has(sweep.axes, "zero"));
  CHECK(setting(sweep.axes, "nodes").values == Values{1, 2});
  CHECK_FALSE(has(sweep.constants, "gpus"));
  CHECK(sweep.global_batch_samples == 32);
  CHECK_FALSE(sweep.global_batch_tokens.has_value());
  CHECK(sweep.measure.steps == 5);
  CHECK(sweep.policy.max_nodes == 4);
  CHECK(sweep.cluster.memory_bytes == 64 << 20);
  CHECK(sweep.cluster.name == "this-machine");
  CHECK(sweep.models.at(0).name == "mini");
  CHECK(sweep.vars.at(0).values == std::vector<std::string>{"a", "b"});
  CHECK(sweep.runner.args == std::vector<std::string>{"-x"});
  CHECK(setting(loaded(file, {"axes.dp=auto"}).axes, "dp").automatic);
  CHECK(setting(loaded(file, {"axes.pp=1", "axes.pp=2"}).axes, "pp").values == Values{2});
}

TEST_CASE("no var has the name of a column of trials or measurements") {
  std::ifstream schema(std::string(SHARDSWEEP_SOURCE_DIR) + "/src/engine/store/schema.sql");
  bool inside = false;
  int columns = 0;
  for (std::string line; std::getline(schema, line);) {
    if (line.rfind("CREATE TABLE", 0) == 0)
      inside = line.find(" trials") != std::string::npos ||
          line.find(" measurements") != std::string::npos;
    const auto end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", 2);
    if (!inside || line.rfind("  ", 0) != 0 || end == std::string::npos || end == 2) continue;
    const auto column = line.substr(2, end - 2);
    ++columns;
    const auto text =
        fmt::format("{}constants: {{model: tiny, gpus: 1}}\nvars: {{{}: [1]}}\n", head, column);
    CHECK_MESSAGE(!load_text(text), column);
  }
  CHECK(columns > 30);
}

TEST_CASE("finals say how many layouts run again, how often, and what does not matter") {
  const std::string text = std::string(head) + "constants: {model: tiny, gpus: 1}\n";
  CHECK(load_text(text)->measure.finalists == 0);
  const auto resolved =
      load_text(text + "measure: {finalists: 3, repeats: until_resolved, resolve: 0.5%}\n");
  REQUIRE_MESSAGE(resolved.has_value(), fault_of(resolved));
  CHECK(resolved->measure == Measure{.finalists = 3, .resolve = 0.005});
  const auto counted = load_text(text + "measure: {finalists: 2, repeats: 5}\n");
  REQUIRE_MESSAGE(counted.has_value(), fault_of(counted));
  CHECK(counted->measure == Measure{.finalists = 2, .final_rounds = 5});
  CHECK(fault_of(load_text(text + "measure: {repeats: until_resolved}\n"))
            .find("write 'finalists: 3'") != std::string::npos);
  const auto shorter = load_text(text + "measure: {steps: 20, first: 5, finalists: 2}\n");
  REQUIRE(shorter);
  CHECK(shorter->measure.steps_of_trial() == 5);
  CHECK(shorter->measure.finals_longer() == doctest::Approx(23.0 / 8));
  CHECK(fault_of(load_text(text + "measure: {first: 5}\n"))
            .find("'first' shortens the runs before the finals, but the sweep has no finals; write "
                  "'finalists: 3'") != std::string::npos);
  CHECK(fault_of(load_text(text + "measure: {steps: 5, first: 5, finalists: 2}\n"))
            .find("'first' has to be below 'steps', which is 5; got '5'") != std::string::npos);
  CHECK(fault_of(load_text(text + "measure: {resolve: 1%}\n")).find("'resolve' ends finals") !=
      std::string::npos);
  CHECK_FALSE(load_text(text + "measure: {finalists: 1}\n"));
}

TEST_CASE("a search with finals runs short at first unless the file says how long") {
  const auto first = [](const std::string& measure, const std::string& policy) {
    const auto sweep = load_text(std::string(head) + "constants: {model: tiny, gpus: 1}\n" +
        "measure: {" + measure + "}\nsearch: {policy: " + policy + "}\n");
    REQUIRE_MESSAGE(sweep, fault_of(sweep));
    // As it is kept with the sweep it means the same.
    const auto again = load_text(explain_sweep(*sweep));
    REQUIRE_MESSAGE(again, fault_of(again));
    CHECK(again->measure == sweep->measure);
    return sweep->measure.first;
  };
  CHECK(first("finalists: 3", "best_first") == Measure::first_of_search);
  CHECK(first("finalists: 3, steps: 3", "best_first") == 0);
  CHECK(first("finalists: 3, first: 5", "best_first") == 5);
  CHECK(first("finalists: 3, first: 0", "best_first") == 0);
  CHECK(first("finalists: 3", "exhaustive") == 0);
  CHECK(first("steps: 10", "best_first") == 0);
}

TEST_CASE("a search says its policy and its end and is exhaustive without") {
  const std::string text = std::string(head) + "constants: {model: tiny, gpus: 1}\n";
  CHECK(load_text(text)->search.is_plain());
  const auto searched = load_text(text +
          "search: {policy: best_first, until: {regret: 1%, confidence: 0.9, runs: 20}, "
          "rules: {grad_accum: false, memory: false}, learn_across: false}\n",
      {"search.until.gpu_hours=2.5"});
  REQUIRE_MESSAGE(searched.has_value(), fault_of(searched));
  SearchSettings expected{.policy = SearchPolicy::best_first, .learn_across = false};
  expected.until = {.regret = 0.01, .confidence = 0.9, .runs = 20, .gpu_hours = 2.5};
  expected.rules.memory = false;
  CHECK(searched->search == expected);
}

TEST_CASE("a daemon's own values are those of the sections for it, and nothing else") {
  const auto policy = load_policy({"daemon.tick=2s", "retry.on_trial=5"});
  REQUIRE_MESSAGE(policy.has_value(), policy.error().what);
  CHECK(policy->tick_s == 2);
  CHECK(policy->retry_on_trial == 5);
  CHECK(load_policy({}).value() == Policy{});
  const auto refusal = [](const std::string& setting) {
    const auto refused = load_policy({setting});
    return refused ? "accepted" : refused.error().what;
  };
  CHECK(refusal("axes.tp=2").find("unknown key 'axes'") != std::string::npos);
  CHECK(refusal("daemon.tick=fast").find("--set daemon.tick=fast: 'fast' is not a duration") == 0);
  CHECK(refusal("demon.tick=2s").find("did you mean 'daemon'?") != std::string::npos);
}

TEST_CASE("a key with a control character is named without it") {
  const auto said = fault_of(load_text(std::string(head) + "constants: {model: tiny, gpus: 1}\n" +
      "vars: {\"fin\\x06e\": [b, b]}\n"));
  CHECK(said.find("'b' appears twice in 'fin\\x06e'") != std::string::npos);
  CHECK(said.find('\x06') == std::string::npos);
}
