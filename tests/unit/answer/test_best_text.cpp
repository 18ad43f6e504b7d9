// SPDX-License-Identifier: Apache-2.0
// Answers in sentences: at the end of a run, and for somebody who is away.
#include "answer/best_text.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace shardsweep;

namespace {

CellBest best(std::int64_t gpus, double speed) {
  CellBest one{"s", {"mini", 32, 0, gpus, "{}"}, "slug", "dp" + std::to_string(gpus), speed, 1};
  auto& layout = one.answer.layouts.emplace_back();
  layout.name = one.layout;
  layout.runs = {1};
  layout.tokens_per_s_per_gpu = speed;
  return one;
}

}  // namespace

TEST_CASE("the notice at the end of a sweep names the answer, and why it is doubtful") {
  CHECK(ended_text("sweep 's' has ended", {}) == "sweep 's' has ended");
  auto only = best(1, 8012);
  CHECK(ended_text("sweep 's' has ended", {only}) ==
      "sweep 's' has ended; best: 8,012 tokens/s/GPU with dp1 (slug): the only layout "
      "measured (1 run)");
  only.answer.doubts = {{DoubtKind::load, "others used 40 % of the CPUs"}};
  CHECK(ended_text("over", {only}).ends_with("(doubtful: others used 40 % of the CPUs)"));
  const auto many =
      ended_text("over", {best(1, 100), best(2, 90), best(4, 80), best(8, 70), best(16, 60)});
  CHECK(many.find("; best of 2 GPUs: 90 tokens/s/GPU with dp2 (slug)") != std::string::npos);
  CHECK(many.ends_with("; and 2 more cells"));
}

TEST_CASE("vars stand in words as their sweep file has them") {
  auto one = best(1, 100);
  auto other = best(1, 90);
  one.cell.vars = R"({"nccl_ib_hca":"mlx5_0:1","note":"a,b{\"c\"}","nvls":1})";
  CHECK(cell_text(one.cell, {one, other}) == "nccl_ib_hca mlx5_0:1, note a,b{\"c\"}, nvls 1");
}

TEST_CASE("a table has room for the verdict and the lead") {
  auto answer = best(1, 100).answer;
  CHECK(brief_text(CellAnswer{}).empty());
  CHECK(brief_text(answer) == "1 run");
  answer.layouts.push_back(answer.layouts.front());
  auto& verdict = answer.layouts.front().verdict;
  verdict = {.difference = Difference::faster, .open = Open::nothing, .share = 0.03};
  CHECK(brief_text(answer) == "faster by 3.0 %");
  verdict = {.open = Open::overlapping, .share = 0.01};
  CHECK(brief_text(answer) == "tie, +1.0 %");
  verdict.share = -0.01;
  CHECK(brief_text(answer) == "tie");
}
