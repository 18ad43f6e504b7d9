// SPDX-License-Identifier: Apache-2.0
// What a database has measured, beside what is predicted.
#include "explore/explore.hpp"
#include "explore/question.hpp"
#include "plan/card.hpp"
#include "sweep/layout_text.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;
using Json = nlohmann::ordered_json;

namespace {

SuggestRequest eight_gpus() {
  SuggestRequest request;
  request.model = llama3_8b();
  request.cluster = h100();
  request.family = *find_family("megatron");
  request.seq_len = 4096;
  request.global_batch_tokens = 1 << 20;
  return on_gpus(request, 8).value();
}

/// A run of a suggested layout with so many times its predicted speed.
LearntRun run_of(const SuggestedLayout& layout, double times) {
  return {.model = 0,
      .gpus = 8,
      .seq_len = 4096,
      .dtype = "bf16",
      .layout = layout_text(layout.point),
      .outcome = times > 0 ? "completed" : "oom",
      .tokens_per_s_per_gpu = times * layout.tokens_per_s_per_gpu,
      .peak_bytes = 0,
      .runs = 3};
}

Knowledge knowledge(std::vector<LearntRun> runs) {
  return {.name = "first",
      .family = "megatron",
      .cluster = h100(),
      .models = {llama3_8b()},
      .runs = std::move(runs)};
}

SuggestRequest with(SuggestRequest request, const Knowledge& known) {
  auto learnt = learn(known, request.cluster, *request.family, Dtype::bf16);
  REQUIRE(learnt);
  request.learnt = std::make_shared<const LearntPredictor>(*std::move(learnt));
  return request;
}

}  // namespace

TEST_CASE("a measured layout stays predicted and has its measurement beside it") {
  const auto before = suggest(eight_gpus()).value();
  const auto& best = before.layouts.front();
  const auto request = with(eight_gpus(), knowledge({run_of(best, 0.7)}));
  CHECK(request.learnt->speed.count == 1);
  CHECK(request.learnt->speed.median == doctest::Approx(0.7));
  const auto all = judge_layouts(request).value();
  const auto found = std::find_if(all.fitting.begin(), all.fitting.end(),
      [&](const auto& one) { return one.point.layout == best.point.layout; });
  REQUIRE(found != all.fitting.end());
  REQUIRE(found->measured);
  CHECK(found->measured->seen.tokens_per_s_per_gpu == 0.7 * best.tokens_per_s_per_gpu);
  // The prediction moves towards the run, and its doubt becomes less.
  CHECK(found->tokens_per_s_per_gpu < best.tokens_per_s_per_gpu);
  CHECK(found->tokens_per_s_per_gpu > 0.7 * best.tokens_per_s_per_gpu);
  CHECK(found->guess.log_sigma < best.guess.log_sigma);
  CHECK(fastest_measured(request).find("in 3 runs") != std::string::npos);
  CHECK(fastest_measured(request).find("Fastest in 'first' on 8 GPUs: dp") == 0);
  const auto lines = trust(request, all.fitting.front());
  CHECK(std::find(lines.begin(), lines.end(), "Learnt from 1 layout of 'first'.") != lines.end());
}

TEST_CASE("what ran out of memory is not suggested and what ran is") {
  const auto before = judge_layouts(eight_gpus()).value();
  REQUIRE(!before.doubtful.empty());
  // The slowest is of the grid: the fastest may be a refinement, which is not tried again.
  const auto& best = before.fitting.front();
  const auto& slowest = before.fitting.back();
  const auto& doubted = before.doubtful.front();
  const auto request =
      with(eight_gpus(), knowledge({run_of(best, 0), run_of(slowest, 0), run_of(doubted, 1)}));
  const auto after = judge_layouts(request).value();
  const auto is = [](const std::vector<SuggestedLayout>& all, const SuggestedLayout& one) {
    return std::any_of(all.begin(), all.end(),
        [&](const auto& other) { return other.point.layout == one.point.layout; });
  };
  CHECK(!is(after.fitting, best));
  CHECK(!is(after.fitting, slowest));
  CHECK(is(after.doubtful, slowest));
  CHECK(is(after.fitting, doubted));
}

TEST_CASE("an answer has the measured ones beside the predicted ones") {
  const auto best = suggest(eight_gpus()).value().layouts.front();
  const auto known = knowledge({run_of(best, 1.1)});
  Json question = {{"ask", {"card", "gpus", "splits", "why_not"}},
      {"model", question_of(llama3_8b())}, {"cluster", question_of(h100())}, {"gpus", 8},
      {"seq_len", 4096}, {"batch_tokens", 1 << 20}, {"family", "megatron"},
      {"layout", layout_text(best.point)}, {"learnt", question_of(known)}};
  const auto answer = Json::parse(explore(question.dump()));
  CHECK(answer.at("why_not").at("layout").at("measured").at("runs") == 3);
  CHECK(answer.at("card").at("measured").get<std::string>().find("Fastest in 'first'") == 0);
  std::size_t seen = 0;
  for (const auto& row : answer.at("gpus").at("counts"))
    seen += row.at("measured").is_null() ? 0 : 1;
  CHECK(seen == 1);
  for (const auto& cell : answer.at("splits")) {
    const bool its = cell.at("tp") == best.point.layout.tp && cell.at("pp") == best.point.layout.pp;
    CHECK(cell.at("measured").is_null() != its);
  }
  // Of another trainer nothing is learnt.
  question["family"] = "fsdp";
  CHECK(Json::parse(explore(question.dump())).at("card").at("measured") == "");
}

TEST_CASE("mistakes of what a question has learnt") {
  const auto best = suggest(eight_gpus()).value().layouts.front();
  const auto asked = [&](const LearntRun& run) {
    const Json question = {{"ask", {"card"}}, {"model", question_of(llama3_8b())},
        {"cluster", question_of(h100())}, {"gpus", 8}, {"seq_len", 4096}, {"batch_tokens", 1 << 20},
        {"family", "megatron"}, {"learnt", question_of(knowledge({run}))}};
    const auto answer = Json::parse(explore(question.dump()));
    return answer.contains("error") ? answer.at("error").get<std::string>() : std::string();
  };
  auto run = run_of(best, 1);
  CHECK(asked(run).empty());
  run.model = 1;
  CHECK(asked(run) == "a measured run has model 1 of 1 model");
  run = run_of(best, 1);
  run.outcome = "lost";
  CHECK(asked(run) == "outcome takes completed or oom, not 'lost'");
  run = run_of(best, 1);
  run.gpus = 16;
  CHECK(asked(run).find("a measured run of 16 GPUs has the layout 'dp") == 0);
  run = run_of(best, 1);
  run.dtype = "int3";
  CHECK(!asked(run).empty());
}

TEST_CASE("nothing is learnt from other hardware or another dtype, and that is said") {
  const SuggestRequest request = eight_gpus();
  const Suggestion before = *suggest(request);
  auto known = knowledge({run_of(before.layouts.front(), 0.1)});
  known.cluster.gpu = "another";
  const auto other = with(request, known);
  CHECK(other.learnt->runs.empty());
  CHECK(other.learnt->unused.find("Nothing is learnt from 'first'") != std::string::npos);
  const auto after = *suggest(other);
  CHECK(after.layouts.front().tokens_per_s_per_gpu == before.layouts.front().tokens_per_s_per_gpu);
  CHECK(after.layouts.front().guess.log_sigma == before.layouts.front().guess.log_sigma);
  known.cluster = h100();
  known.runs.front().dtype = "fp8";
  CHECK(with(request, known).learnt->unused.find("another dtype than bf16") != std::string::npos);
}
