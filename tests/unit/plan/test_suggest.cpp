// SPDX-License-Identifier: Apache-2.0
#include "plan/suggest.hpp"
#include "plan/suggested_sweep.hpp"
#include "sweep/layout_text.hpp"
#include "unit/sweep_fixture.hpp"

#include <shardsweep/axis_table.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <string>
#include <tuple>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

SuggestRequest request(std::int32_t nodes, std::int64_t tokens) {
  SuggestRequest request;
  request.model = llama3_8b();
  request.cluster = h100();
  request.family = *find_family("shardbench");
  request.nodes = nodes;
  request.gpus = nodes * 8;
  request.seq_len = 4096;
  request.global_batch_tokens = tokens;
  return request;
}

Suggestion suggested(const SuggestRequest& request) {
  auto suggestion = suggest(request);
  REQUIRE(suggestion);
  return *std::move(suggestion);
}

bool says(const std::vector<std::string>& lines, std::string_view text) {
  return std::any_of(lines.begin(), lines.end(),
      [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

const RuleCheck& check_of(const Suggestion& suggestion, std::string_view word) {
  return *std::find_if(suggestion.checks.begin(), suggestion.checks.end(),
      [&](const RuleCheck& check) { return check.rule.find(word) != std::string::npos; });
}

}  // namespace

TEST_CASE("what is suggested fits and reaches the batch and is fastest first") {
  const auto suggestion = suggested(request(2, 4 << 20));
  CHECK(suggestion.parameters == 8030261248);
  REQUIRE(suggestion.layouts.size() == 5);
  std::set<std::tuple<int, int, int>> degrees;
  double before = 1e30;
  for (const auto& layout : suggestion.layouts) {
    const auto& is = layout.point.layout;
    CHECK(is.world() == 16);
    CHECK(is.global_batch() == 1024);
    CHECK(layout.guess.memory.fit == Fit::fits);
    CHECK(layout.tokens_per_s_per_gpu > 0);
    CHECK(layout.tokens_per_s_per_gpu <= before);
    CHECK(layout.mfu > 0.1);
    CHECK(layout.mfu < 1);
    CHECK_FALSE(layout.limit.empty());
    before = layout.tokens_per_s_per_gpu;
    degrees.emplace(is.dp, is.tp, is.pp);
  }
  CHECK(degrees.size() == 5);
  CHECK(suggestion.layouts_fitting < suggestion.layouts_judged);
}

TEST_CASE("what the host's memory would give is said, and no lock of it gives more") {
  const auto* offload = find_axis("offload");
  const auto best_step = [](const SuggestRequest& asked) {
    const auto judged = judge_layouts(asked);
    REQUIRE(judged);
    return judged->fitting.empty() ? 0.0 : judged->fitting.front().guess.step_s;
  };
  int said = 0;
  for (const std::string_view family : {"megatron", "fsdp", "shardbench"}) {
    for (const std::int32_t nodes : {1, 3, 4, 8}) {
      auto asked = request(nodes, 3 << 20);
      asked.model.layers = 80;
      asked.model.hidden = 8192;
      asked.model.ffn = 28672;
      asked.model.heads = 64;
      asked.family = *find_family(family);
      const auto suggestion = suggested(asked);
      const double without =
          suggestion.layouts.empty() ? 0 : suggestion.layouts.front().guess.step_s;
      double with = 0;
      if (suggestion.offloaded) {
        ++said;
        with = suggestion.offloaded->guess.step_s;
        CHECK(suggestion.offloaded->point.layout.offload != Offload::none);
        CHECK(suggestion.offloaded->guess.memory.fit == Fit::fits);
        CHECK((without == 0 || with < without));
      }
      for (std::int64_t value = 0; value <= offload->maximum; ++value) {
        auto held = asked;
        held.locks.push_back({offload, false, {value}});
        const double its = best_step(held);
        CAPTURE(family);
        CAPTURE(nodes);
        CAPTURE(value);
        if (value == 0) CHECK(its == without);
        if (its == 0) continue;
        const double least = with > 0 ? with : without;
        REQUIRE(least > 0);
        // Less than a hundredth is a tie.
        CHECK(its >= least * 0.989);
      }
    }
  }
  CHECK(said > 2);
}

TEST_CASE("an axis held at its default is never faster than a free one") {
  for (const std::string_view family : {"megatron", "nanotron", "fsdp", "shardbench"}) {
    auto asked = request(2, 1 << 20);
    asked.family = *find_family(family);
    const auto best = judge_layouts(asked);
    REQUIRE(best);
    for (const AxisInfo& axis : axes()) {
      if (!axis.of_layout() || axis.is(AxisUse::suggested) || axis.name.ends_with("stage_layers"))
        continue;
      auto held = asked;
      held.locks.push_back({&axis, false, {axis.default_value}});
      const auto its = judge_layouts(held);
      REQUIRE(its);
      REQUIRE(its->fitting.empty() == best->fitting.empty());
      if (best->fitting.empty()) continue;
      // Less than a tie is given back for the default.
      CHECK_MESSAGE(
          its->fitting.front().guess.step_s >= best->fitting.front().guess.step_s * 0.9995,
          axis.name);
    }
  }
}

TEST_CASE("of equally fast layouts the plain one is named") {
  // Flash attention leaves nothing that Megatron-LM's selective recomputation would do again.
  auto asked = request(2, 4 << 20);
  asked.family = *find_family("megatron");
  const auto judged = judge_layouts(asked);
  REQUIRE(judged);
  REQUIRE_FALSE(judged->fitting.empty());
  for (const auto& layout : judged->fitting) {
    if (layout.point.layout.recompute != Recompute::selective) continue;
    Point plain = layout.point;
    plain.layout.recompute = Recompute::none;
    const auto named = std::find_if(judged->fitting.begin(), judged->fitting.end(),
        [&](const SuggestedLayout& one) { return one.point == plain; });
    REQUIRE(named != judged->fitting.end());
    CHECK(named->guess.step_s == layout.guess.step_s);
    CHECK(&*named < &layout);
  }
}

TEST_CASE("a size without words leaves out no other one") {
  // torchtitan has words for two virtual stages, and for no more.
  auto asked = request(4, 4 << 20);
  asked.family = *find_family("fsdp");
  const auto judged = judge_layouts(asked);
  REQUIRE(judged);
  std::set<std::int32_t> stages;
  for (const auto& layout : judged->fitting)
    stages.insert(layout.point.layout.vpp);
  CHECK(stages == std::set<std::int32_t>{1, 2});
}

TEST_CASE("only what the trainer can run is suggested") {
  const auto first_of = [](const std::string& family, std::int32_t nodes) {
    auto of = request(nodes, 1 << 20);
    of.family = *find_family(family);
    return suggested(of).layouts;
  };
  for (const std::int32_t nodes : {1, 2, 8, 32}) {
    for (const auto& layout : first_of("nanotron", nodes)) {
      CHECK(layout.point.layout.zero <= 1);
      CHECK(layout.point.layout.recompute != Recompute::selective);
    }
    for (const auto& layout : first_of("fsdp", nodes))
      CHECK(layout.point.layout.zero != 1);
    CHECK_FALSE(first_of("nanotron", nodes).empty());
    CHECK_FALSE(first_of("megatron", nodes).empty());
    CHECK_FALSE(first_of("fsdp", nodes).empty());
  }
}

TEST_CASE("stages that layers can't fill evenly are told their layers") {
  auto of = request(4, 1 << 20);
  of.model.layers = 30;
  of.family = *find_family("megatron");
  const auto* pp = find_axis("pp");
  of.locks = {{pp, false, {4}}};
  const auto found = suggested(of);
  REQUIRE_FALSE(found.layouts.empty());
  for (const auto& layout : found.layouts) {
    const auto& is = layout.point.layout;
    CHECK(is.first_stage_layers > 0);
    CHECK(is.last_stage_layers > 0);
    CHECK((30 - is.first_stage_layers - is.last_stage_layers) % 2 == 0);
  }
  const auto file = suggested_sweep(of, suggested(of), "", "");
  CHECK(file.find("  first_stage_layers: [") != std::string::npos);
  CHECK(file.find("  last_stage_layers: [") != std::string::npos);
  CHECK(file.find("exclude:") == std::string::npos);
  CHECK(file.find("argv:") != std::string::npos);
  of.locks.clear();
  CHECK(told_stages(of, 8, 1).first == 3);
  CHECK(told_stages(of, 8, 1).last == 3);
  CHECK(told_stages(of, 2, 1).first == 0);
  // Megatron counts the embedding and the head, so that virtual stages are equal.
  CHECK(told_stages(of, 8, 2).first == 3);
  CHECK(told_stages(of, 8, 2).last == 3);
  CHECK(told_stages(of, 5, 2).last == 0);
  // Also if dp is held, and pp follows from it.
  of.locks = {{find_axis("dp"), false, {4}}, {find_axis("tp"), false, {1}}, {pp, false, {8}}};
  const auto held = judge_layouts(of);
  REQUIRE(held);
  CHECK(std::any_of(held->fitting.begin(), held->fitting.end(), [](const auto& layout) {
    return layout.point.layout.vpp == 2 && layout.point.layout.first_stage_layers == 3;
  }));
}

TEST_CASE("what somebody asks for and the trainer can't run is refused in its own words") {
  auto of = request(1, 1 << 20);
  of.locks = {{find_axis("zero"), false, {3}}};
  of.family = *find_family("nanotron");
  const auto refused = suggested(of);
  CHECK(refused.layouts.empty());
  CHECK(says(refused.memory, "No layout can run: nanotron has no setting for zero 3."));
  // Megatron-LM has its FSDP for it.
  of.family = *find_family("megatron");
  CHECK_FALSE(suggested(of).layouts.empty());
}

TEST_CASE("the first step says with numbers what fits") {
  const auto suggestion = suggested(request(1, 1 << 20));
  CHECK(says(suggestion.memory, "One sample on one GPU needs "));
  CHECK(says(suggestion.memory, "A GPU of h100-8x has 80.0 GiB: it does not fit."));
  CHECK(says(suggestion.memory, "ZeRO 3 fits without tensor or pipeline parallelism (dp8 "));
  CHECK(says(suggestion.memory, " layouts fit even by the pessimistic estimate."));
  auto small = request(1, 1 << 20);
  small.model = small_model();
  CHECK(says(suggested(small).memory, "it fits"));
  // Layouts beyond the grid, of which some are faster, count too.
  CHECK(suggested(small).layouts_fitting <= suggested(small).layouts_judged);
}

TEST_CASE("the second step says where samples are fewer than GPUs") {
  const auto suggestion = suggested(request(4, 32'768));
  CHECK(says(suggestion.batch, "32,768 tokens are 8 samples of 4,096 tokens"));
  CHECK(says(suggestion.batch,
      "There are fewer samples than GPUs (32). At least 4 GPUs must share a sample by "
      "tp, pp or cp."));
  for (const auto& layout : suggestion.layouts)
    CHECK(layout.point.layout.dp <= 8);
}

TEST_CASE("rules of thumb are held against the first layout and name their source") {
  const auto small = suggested(request(1, 1 << 20));
  CHECK_FALSE(check_of(small, "4 to 60 million").holds);
  CHECK(check_of(small, "4 to 60 million").why == "it has 1,048,576");
  CHECK(check_of(small, "inside a node").holds);
  const auto good = suggested(request(2, 4 << 20));
  CHECK(check_of(good, "4 to 60 million").holds);
  for (const auto& check : good.checks)
    CHECK(check.source.find("Ultra-Scale Playbook, ") == 0);
}

TEST_CASE("where nothing fits it says so and suggests nothing") {
  auto huge = request(1, 1 << 20);
  huge.model.layers = 126;
  huge.model.hidden = 16384;
  huge.model.heads = 128;
  huge.model.ffn = 53248;
  const auto suggestion = suggested(huge);
  CHECK(suggestion.layouts.empty());
  CHECK(says(suggestion.memory, "Nothing fits. Use more GPUs"));
}

TEST_CASE("a batch that is no whole number of samples names those that are") {
  const auto refused = suggest(request(1, 1'000'000));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FaultKind::invalid_input);
  CHECK(refused.error().what ==
      "a global batch of 1,000,000 tokens is not a multiple of seq_len 4096; use 999,424 or "
      "1,003,520");
}

TEST_CASE("if no layout divides the batch, that is the reason, and batches that work are named") {
  const auto suggestion = suggested(request(37, 4 << 20));
  CHECK(suggestion.layouts.empty());
  CHECK(suggestion.memory.back() ==
      "No layout divides the batch: 1,024 samples are not a multiple of 37. A batch of "
      "3848Ki or 4144Ki tokens is.");
  CHECK(suggestion.batches == std::vector<std::string>{"3848Ki", "4144Ki"});
  CHECK_FALSE(says(suggestion.memory, "Nothing fits"));
  CHECK_FALSE(says(suggestion.memory, "0 of 0"));
  CHECK_FALSE(suggested(request(3, 3848 << 10)).layouts.empty());
  CHECK_FALSE(suggested(request(3, 4144 << 10)).layouts.empty());
  CHECK(suggested(request(41, 4 << 20)).memory.back() ==
      "No layout divides the batch: 1,024 samples are not a multiple of 41. A batch of "
      "3936Ki or 4264Ki tokens is.");
}

TEST_CASE("GPUs that no node holds are the reason, and not memory") {
  auto many = request(0, 4 << 20);
  many.gpus = 16;
  CHECK(suggested(many).memory.back() ==
      "No layout can run: gpus 16 is more than the 8 of one node of h100-8x; write nodes: [2] in "
      "place of gpus.");
}

TEST_CASE("what cannot be reduced is not advised, and no line stands twice") {
  auto small = request(1, 4 << 20);
  small.model = small_model();
  auto large = request(16, 4 << 20);
  large.most = 8;
  bool without = false;
  for (const auto* one : {&small, &large}) {
    const auto suggestion = suggested(*one);
    for (const auto& layout : suggestion.layouts) {
      const bool advised = layout.limit.find("reduce recomputation") != std::string::npos;
      const bool none = layout.point.layout.recompute == Recompute::none;
      CHECK_FALSE((none && advised));
      without = without || none;
    }
    const std::set<std::string> different(suggestion.batch.begin(), suggestion.batch.end());
    CHECK(different.size() == suggestion.batch.size());
  }
  CHECK(without);
}

TEST_CASE("the flowchart goes as far as its answers lead") {
  const auto suggestion = suggested(request(1, 4 << 20));
  REQUIRE(suggestion.flow.size() >= 3);
  CHECK(suggestion.flow.front().question == "Does a train step of one sample fit on one GPU?");
  CHECK_FALSE(suggestion.flow.front().yes);
  // The first that is enough ends the questions about memory.
  const auto enough = std::find_if(suggestion.flow.begin(), suggestion.flow.end(),
      [](const FlowStep& step) { return step.yes; });
  REQUIRE(enough != suggestion.flow.end());
  CHECK((enough + 1)->question == "Does the batch have a sample for each GPU?");
  CHECK(suggestion.flow.back().why.ends_with(suggestion.layouts.front().limit));
  CHECK(suggestion.flow.back().why.find(" % of the step computes") != std::string::npos);
}
