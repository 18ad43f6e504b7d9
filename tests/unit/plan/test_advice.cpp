// SPDX-License-Identifier: Apache-2.0
#include "plan/advice.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

SuggestRequest on_h100(std::int32_t gpus) {
  SuggestRequest request;
  request.model = llama3_8b();
  request.cluster = h100();
  request.family = *find_family("megatron");
  request.seq_len = 4096;
  request.global_batch_tokens = 4 << 20;
  return on_gpus(request, gpus).value();
}

WhyNot asked_why(const SuggestRequest& request, const std::vector<AxisValues>& layout) {
  auto answer = why_not(request, layout);
  REQUIRE(answer);
  return *std::move(answer);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("GPUs are of one node, or whole nodes") {
  CHECK(on_h100(4).nodes == 0);
  CHECK(on_h100(8).nodes == 0);
  CHECK(on_h100(24).nodes == 3);
  const auto odd = on_gpus(on_h100(8), 12);
  REQUIRE_FALSE(odd);
  CHECK(odd.error().what == "12 GPUs do not fill whole nodes of 8; use 8 or 16");
}

TEST_CASE("a lock holds in every layout") {
  auto request = on_h100(16);
  request.locks = {values("tp", {2}), values("recompute", {2})};
  const auto judged = judge_layouts(request);
  REQUIRE(judged);
  REQUIRE_FALSE(judged->fitting.empty());
  for (const auto& layout : judged->fitting) {
    CHECK(layout.point.layout.tp == 2);
    CHECK(layout.point.layout.recompute == Recompute::full);
  }
  // An axis that no suggestion varies, and one that follows from the others.
  request.locks = {values("vpp", {2}), values("dp", {4})};
  const auto others = judge_layouts(request);
  REQUIRE(others);
  REQUIRE_FALSE(others->fitting.empty());
  for (const auto& layout : others->fitting) {
    CHECK(layout.point.layout.vpp == 2);
    CHECK(layout.point.layout.pp > 1);  // every trainer refuses it else
    CHECK(layout.point.layout.dp == 4);
  }
}

TEST_CASE("why not: the fastest, a slower one with its place, and one that breaks a rule") {
  const auto request = on_h100(16);
  const auto judged = judge_layouts(request);
  REQUIRE(judged);
  const auto& best = judged->fitting.front().point.layout;
  const auto same = asked_why(request, {values("tp", {best.tp}), values("pp", {best.pp})});
  CHECK(same.fits);
  CHECK(same.place == 1);
  CHECK(has(same.why, "fastest"));

  const auto slower = asked_why(request, {values("tp", {8}), values("micro_batch", {1})});
  CHECK(slower.fits);
  CHECK(slower.place > 1);
  CHECK(slower.of == static_cast<std::int64_t>(judged->fitting.size()));
  CHECK(has(slower.why, "slower than the fastest"));
  REQUIRE(slower.layout);
  CHECK(slower.layout->point.layout.tp == 8);

  const auto odd = asked_why(request, {values("tp", {3})});
  CHECK_FALSE(odd.fits);
  CHECK_FALSE(odd.layout);
  CHECK(odd.place == 0);
  CHECK_FALSE(odd.why.empty());

  auto small = on_h100(1);
  const auto large = asked_why(small, {values("tp", {1})});
  CHECK_FALSE(large.fits);
  CHECK(has(large.why, "GiB"));
}

TEST_CASE("numbers of GPUs: the least, the efficiency of the others, and who can't run") {
  const auto request = on_h100(24);
  const auto counts = gpu_counts_worth_a_look(request);
  CHECK(std::is_sorted(counts.begin(), counts.end()));
  CHECK(std::find(counts.begin(), counts.end(), 24) != counts.end());
  CHECK(counts.front() == 1);
  CHECK(counts.back() == 512);
  const auto rows = over_gpu_counts(request, {1, 8, 12, 16});
  REQUIRE(rows);
  CHECK_FALSE(rows->at(0).best);
  CHECK(has(rows->at(0).why, "GiB"));
  CHECK(has(rows->at(2).why, "whole nodes"));
  REQUIRE(rows->at(1).best);
  REQUIRE(rows->at(3).best);
  const double most = std::max(rows->at(1).efficiency, rows->at(3).efficiency);
  CHECK(most == doctest::Approx(1));
  const double speed = rows->at(1).best->tokens_per_s_per_gpu;
  CHECK(rows->at(1).gpu_hours_per_1e9 == doctest::Approx(1e9 / speed / 3600));
}

TEST_CASE("splits: the best of each tp x pp, and why none fits") {
  auto request = on_h100(16);
  const auto cells = over_pairs(request, tp_by_pp);
  REQUIRE(cells);
  const auto judged = judge_layouts(request);
  double best = 1e30;
  for (const auto& cell : *cells) {
    CHECK(cell.across * cell.down <= 16);
    CHECK(cell.best.has_value() == cell.why.empty());
    if (!cell.best) continue;
    CHECK(cell.best->point.layout.tp == cell.across);
    CHECK(cell.best->point.layout.pp == cell.down);
    best = std::min(best, cell.best->guess.step_s);
  }
  CHECK(best == judged->fitting.front().guess.step_s);
  // Megatron-LM copies 8 kv heads to 16 ranks.
  const auto wide = std::find_if(
      cells->begin(), cells->end(), [](const PairCell& cell) { return cell.across == 16; });
  REQUIRE(wide != cells->end());
  CHECK_FALSE(has(wide->why, "kv heads"));
  // The map shows what a lock on tp rules out.
  request.locks = {values("tp", {8})};
  const auto locked = over_pairs(request, tp_by_pp);
  REQUIRE(locked);
  CHECK(locked->front().across == 1);
  CHECK(locked->front().best.has_value() == cells->front().best.has_value());
}

TEST_CASE("sizes: the best of each micro-batch x ZeRO stage") {
  const auto request = on_h100(16);
  const auto cells = over_pairs(request, micro_batch_by_zero);
  REQUIRE(cells);
  CHECK(cells->size() == 5 * 4);
  double best = 1e30;
  for (const auto& cell : *cells) {
    CHECK(cell.best.has_value() == cell.why.empty());
    if (!cell.best) continue;
    CHECK(cell.best->point.layout.micro_batch == cell.across);
    CHECK(cell.best->point.layout.zero == cell.down);
    best = std::min(best, cell.best->guess.step_s);
  }
  CHECK(best == judge_layouts(request)->fitting.front().guess.step_s);
}

TEST_CASE("a batch is judged by what four times as many tokens would gain") {
  auto request = on_h100(256);
  request.global_batch_tokens = 1 << 20;
  const auto few = judge_batch(request);
  REQUIRE(few);
  CHECK(few->too_few);
  CHECK(few->tokens_per_gpu == 4096);
  CHECK(has(few->text,
      "Batch too small: 4,096 tokens per GPU and step. With 4Mi each "
      "GPU would be"));
  request.global_batch_tokens = 256 << 20;
  const auto enough = judge_batch(request);
  REQUIRE(enough);
  CHECK_FALSE(enough->too_few);
  CHECK(has(enough->text, "enough"));
}
