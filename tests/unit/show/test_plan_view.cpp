// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"
#include "show/plan_view.hpp"
#include "sweep/identity.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

// 2 x 3 points: tp 3 never fits the world.
SweepSpec small_sweep() {
  auto sweep = sweep_of(small_model(), {values("tp", {1, 2, 3}), values("micro_batch", {1, 2})},
      {values("nodes", {1}), automatic("dp"), automatic("grad_accum")});
  sweep.name = "a \"b\"";
  sweep.global_batch_samples = 64;
  return sweep;
}

std::string text_of(const SweepSpec& sweep, Format format, bool whole = true) {
  const auto plan = make_plan(sweep, any_runner(), nullptr, nullptr);
  REQUIRE(plan);
  fmt::memory_buffer out;
  write_plan(out, sweep, any_runner(), *plan, {format, whole});
  return fmt::to_string(out);
}

std::string csv(std::string_view text) {
  fmt::memory_buffer out;
  append_csv(out, text);
  return fmt::to_string(out);
}

std::string json(std::string_view text) {
  fmt::memory_buffer out;
  append_json(out, text);
  return fmt::to_string(out);
}

std::int64_t lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("a CSV field is quoted where it has to be") {
  CHECK(csv("plain text") == "plain text");
  CHECK(csv("a,b") == "\"a,b\"");
  CHECK(csv("a\"b") == "\"a\"\"b\"");
  CHECK(csv("a\nb") == "\"a\nb\"");
  CHECK(csv("") == "");
}

TEST_CASE("a JSON string is valid whatever the bytes are") {
  CHECK(json("a\"\\\n\t\x01") == "\"a\\\"\\\\\\n\\t\\u0001\"");
  CHECK(json("\xc3\xa4\xe2\x82\xac") == "\"\xc3\xa4\xe2\x82\xac\"");
  CHECK(json("\xc3") == "\"\xef\xbf\xbd\"");
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      const std::string bytes{static_cast<char>(first), static_cast<char>(second), '\xa0', 'x'};
      CHECK(nlohmann::json::accept(json(bytes)));
    }
  }
}

TEST_CASE("a plan's table counts by constraint and lists the trials in order") {
  const auto text = text_of(small_sweep(), Format::table);
  CHECK(text.find("sweep 'a \"b\"' on h100-8x: 6 points, 4 feasible, 2 left out\n\n"
                  "left out by  points  example\n"
                  "world             2  8 GPUs cannot be divided by tp 3 x pp 1 = 3\n\n"
                  "lane  model  nodes  layout  ") == 0);
  CHECK_MESSAGE(
      text.find("\n   0  small      1  dp8 tp1 pp1 mb1 ga8 z0 ") != std::string::npos, text);
  CHECK(text.find("\n4 trials in 2 lanes: about ") != std::string::npos);
}

TEST_CASE("a plan says what pruning saves and where a search ends") {
  auto sweep = sweep_of(llama3_8b(), {values("tp", {1, 2, 3, 8}), values("zero", {0, 1})},
      {values("nodes", {1}), values("seq_len", {8192}), automatic("dp"), automatic("grad_accum")});
  sweep.global_batch_samples = 64;
  const auto plan = make_plan(sweep, any_runner(), nullptr, nullptr);
  REQUIRE(plan);
  // tp 3 starts nowhere and costs nothing; what does not fit costs what it would hold.
  CHECK(plan->left_out_by_constraint.at("world") == 2);
  CHECK_FALSE(plan->left_out_gpu_hours.contains("world"));
  CHECK(plan->left_out_gpu_hours.at("memory") > 0);
  double before = plan->gpu_hours;
  for (const auto& [constraint, hours] : plan->left_out_gpu_hours)
    before += hours;
  CHECK(plan->gpu_hours_before_pruning() == doctest::Approx(before));
  const auto object = nlohmann::json::parse(text_of(sweep, Format::json));
  CHECK(object["gpu_hours_before"].get<double>() > object["gpu_hours"].get<double>());
  CHECK(object["left_out_gpu_hours"]["memory"].get<double>() > 0);
  auto text = text_of(sweep, Format::table);
  CHECK(text.find(" GPU-hours if nothing were left out or stopped early.\n") != std::string::npos);
  CHECK(text.find("Each cell") == std::string::npos);
  sweep.search.policy = SearchPolicy::best_first;
  sweep.search.until = {.regret = 0.01, .runs = 5};
  text = text_of(sweep, Format::table);
  CHECK(
      text.find(
          "A cell's trials (model × seq_len × nodes) run best first until it is 95 % sure that "
          "nothing untested is 1 % faster or 5 runs. The rest is skipped.\n") != std::string::npos);
  // What a search likely takes is no more than its plan, and the same at each call.
  sweep.search.until = {.regret = 0.01};
  const auto likely = nlohmann::json::parse(text_of(sweep, Format::json))["likely"];
  CHECK(likely["runs"][0] > 0);
  CHECK(likely["runs"][0] <= likely["runs"][1]);
  CHECK(likely["runs"][1] <= object["feasible"]);
  CHECK(likely["gpu_hours"][0] > 0.0);
  CHECK(likely == nlohmann::json::parse(text_of(sweep, Format::json))["likely"]);
  CHECK(text_of(sweep, Format::table).find("The search likely takes ") != std::string::npos);
  sweep.search.until = {.regret = 0.01, .runs = 5};
  sweep.search.until.runs = 1;
  text = text_of(sweep, Format::table);
  CHECK_MESSAGE(text.find("At most 1 run, at most about ") != std::string::npos, text);
  CHECK(text.find(" GPU-hours (bounded by search.until). All ") != std::string::npos);
}

TEST_CASE("a search without finals is told what short runs would save, one with them how short") {
  auto sweep = sweep_of(llama3_8b(), {values("tp", {2, 4, 8}), values("zero", {0, 1})},
      {values("nodes", {2}), values("seq_len", {8192}), automatic("dp"), automatic("grad_accum")});
  sweep.global_batch_samples = 4096;
  sweep.measure.steps = 20;
  const auto says = [&](std::string_view part) {
    std::string text = text_of(sweep, Format::table);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text.find(part) != std::string::npos;
  };
  CHECK_FALSE(says("is measured in full"));  // all of them are wanted
  sweep.search.policy = SearchPolicy::best_first;
  CHECK(says("With `measure: {finalists: 3}` each has 3 timed train steps at first"));
  sweep.measure.steps = 3;
  CHECK_FALSE(says("is measured in full"));
  sweep.measure = {.steps = 20, .first = 3, .finalists = 3};
  CHECK_FALSE(says("is measured in full"));
  CHECK(says("Each trial has 3 of the 20 timed train steps. Finals have all of them."));
}

TEST_CASE("a plan predicts the run time of each world") {
  auto sweep = small_sweep();
  sweep.constants.erase(sweep.constants.begin());
  sweep.axes.push_back(values("nodes", {1, 2}));
  sweep.policy.max_nodes = 2;
  const auto text = text_of(sweep, Format::table);
  CHECK_MESSAGE(text.find("\n\nnodes  trials  ") != std::string::npos, text);
  CHECK(text.find(" one after the other, at least ") != std::string::npos);
  CHECK(text.find(" on 2 nodes. Queue waits are not included.\n") != std::string::npos);
  const auto object = nlohmann::json::parse(text_of(sweep, Format::json));
  REQUIRE(object["worlds"].size() == 2);
  double seconds = 0;
  for (const auto& trial : object["trials"]) {
    if (trial["nodes"] == 2) seconds += trial["predicted_attempt_s"].get<double>();
  }
  CHECK(object["worlds"][1]["run_time_s"].get<double>() == doctest::Approx(seconds));
}

// N10: a run time of 5:15 was predicted for a machine that needed 2:38, without a word.
TEST_CASE("a plan for a machine of unknown speed says whose times it shows") {
  auto sweep = small_sweep();
  CHECK(text_of(sweep, Format::table).find("is unknown") == std::string::npos);
  sweep.cluster.name = "this-machine";
  sweep.cluster.peak_flops = {};
  CHECK(text_of(sweep, Format::table)
            .find("\nThe speed of this-machine is unknown, so these times assume a slow CPU core; "
                  "most machines need less. ") != std::string::npos);
}

// N10: 27.6 MiB stood on a GPU of 17.0 MiB without a mark.
TEST_CASE("trials that likely run out of memory are marked, and counted below") {
  auto sweep = small_sweep();
  const auto plan = make_plan(sweep, any_runner(), nullptr, nullptr);
  REQUIRE(plan);
  std::int64_t most = 0;
  for (const auto& trial : plan->trials)
    most = std::max(most, trial.prediction.memory_bytes);
  CHECK(text_of(sweep, Format::table).find('!') == std::string::npos);
  // What a planner leaves in whose estimate has a lower bound that fits.
  sweep.cluster.memory_bytes = most - 1;
  fmt::memory_buffer out;
  write_plan(out, sweep, any_runner(), *plan, {Format::table, true});
  const auto text = fmt::to_string(out);
  CHECK_MESSAGE(text.find("  ! ") != std::string::npos, text);
  CHECK_MESSAGE(
      text.find("\n! One trial needs more memory by the estimate than the ") != std::string::npos,
      text);
}

TEST_CASE("a long table is cut and says so unless the whole is asked for") {
  auto sweep = small_sweep();
  sweep.axes[1] = values("micro_batch", {1});
  sweep.axes.push_back({find_axis("bucket_mb"), false, {}});
  for (std::int64_t mb = 1; mb <= 100; ++mb)
    sweep.axes.back().values.push_back(mb);
  const auto whole = text_of(sweep, Format::table, true);
  const auto cut = text_of(sweep, Format::table, false);
  CHECK(lines(whole) == lines(cut) + 200 - static_cast<std::int64_t>(trials_shown) - 1);
  CHECK(cut.find("… and 160 trials more: --all shows them\n") != std::string::npos);
}

TEST_CASE("a plan's CSV has one header and one line per trial") {
  auto sweep = small_sweep();
  sweep.vars = {{"image", {"a,b"}}};
  const auto text = text_of(sweep, Format::csv, false);
  CHECK(lines(text) == 5);
  CHECK(text.back() == '\n');
  CHECK(text.substr(0, text.find('\n')) ==
      "slug,lane,model,nodes,gpus,seq_len,dtype,dp,tp,pp,cp,cp_mode,ep,vpp,dp_replicate,"
      "micro_batch,"
      "grad_accum,zero,recompute,sequence_parallel,schedule,rank_order,bucket_mb,overlap,"
      "expert_tp,first_stage_layers,last_stage_layers,cuda_graphs,offload,"
      "repeat,global_batch,image,predicted_memory_bytes,predicted_train_step_s,"
      "predicted_attempt_s,predicted_tokens_per_s_per_gpu,predicted_gpu_hours");
  CHECK(text.find("\nsmall-n1-dp8tp1pp1-mb1ga8-image.a-b-") != std::string::npos);
  CHECK(text.find(",0,small,1,8,4096,bf16,8,1,1,1,ring,1,1,1,1,8,0,none,0,1f1b,tp-dp-pp,25,1,0,"
                  "0,0,0,none,1,64,"
                  "\"a,b\",") != std::string::npos);
}

TEST_CASE("a plan's JSON is one object and unknown predictions are null") {
  auto sweep = small_sweep();
  sweep.cluster.peak_flops = {};
  sweep.vars = {{"image", {"a,b"}}};
  const auto object = nlohmann::json::parse(text_of(sweep, Format::json, false));
  CHECK(object["sweep"] == "a \"b\"");
  CHECK(object["points"] == 6);
  CHECK(object["feasible"] == 4);
  CHECK(object["left_out"]["world"] == 2);
  CHECK(object["examples"]["world"].get<std::string>().find("8 GPUs") == 0);
  CHECK(object["warnings"].size() == 1);
  CHECK(object["gpu_hours"].get<double>() > 0);
  REQUIRE(object["trials"].size() == 4);
  const auto& trial = object["trials"][0];
  CHECK(trial["model"] == "small");
  CHECK(trial["tp"].is_number_integer());
  CHECK(trial["image"] == "a,b");
  CHECK(trial["predicted_train_step_s"].is_null());
  CHECK(trial["predicted_attempt_s"].is_number());
}

TEST_CASE("a plan without a trial is an answer too") {
  auto sweep = small_sweep();
  sweep.axes[0] = values("tp", {3});
  CHECK(nlohmann::json::parse(text_of(sweep, Format::json))["trials"].empty());
  CHECK(lines(text_of(sweep, Format::csv)) == 1);
  CHECK(
      text_of(sweep, Format::table).find("2 points, 0 feasible, 2 left out") != std::string::npos);
}

TEST_CASE("a long plan can be written out piece by piece") {
  auto sweep = small_sweep();
  sweep.axes.push_back({find_axis("bucket_mb"), false, {}});
  for (std::int64_t mb = 1; mb <= 1000; ++mb)
    sweep.axes.back().values.push_back(mb);
  const auto plan = make_plan(sweep, any_runner(), nullptr, nullptr);
  for (const auto format : {Format::csv, Format::json, Format::table}) {
    std::string pieces;
    int flushed = 0;
    fmt::memory_buffer out;
    const Flush flush = [&](fmt::memory_buffer& text) {
      pieces.append(text.data(), text.size());
      text.clear();
      ++flushed;
    };
    write_plan(out, sweep, any_runner(), *plan, {format, true, flush});
    pieces.append(out.data(), out.size());
    CHECK(flushed > 3);
    CHECK(pieces == text_of(sweep, format));
  }
}
