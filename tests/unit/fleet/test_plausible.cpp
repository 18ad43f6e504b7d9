// SPDX-License-Identifier: Apache-2.0
#include "fleet/plausible.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace shardsweep;

namespace {

std::map<std::string, double, std::less<>> metrics() {
  return {{"mfu", 0.41}, {"tokens_per_s_per_gpu", 9000}, {"train_step_ms", 812}, {"n_params", 1000},
      {"tokens_per_step", 4096}, {"loss", 9.87}};
}

const ExpectedValues expected{
    .n_params = 1000, .tokens_per_step = 4096, .losses = {9.86, 9.87, 9.871}};

std::string why(const char* metric, double value) {
  auto changed = metrics();
  changed[metric] = value;
  return why_implausible(changed, expected);
}

}  // namespace

TEST_CASE("a result of another version than its trial's is not the trial's") {
  CHECK(why_other_runner({"mine", "1.0"}, {"mine", "1.1"}) ==
      "measured by mine 1.1, but the trial belongs to version 1.0; the runner's 'start' record "
      "and its --capabilities have to name one version");
  CHECK(why_other_runner({"mine", "1.0"}, {"mine", "1.0"}).empty());
  CHECK(why_other_runner({"mine", "unknown"}, {"mine", "1.1"}).empty());
  CHECK(why_other_runner({"mine", "1.0"}, {"mine", "unknown"}).empty());
  CHECK(why_other_runner({"mine", "1.0"}, {"mine", ""}).empty());
  CHECK(why_other_runner({"wrapper", "1.0"}, {"shardbench", "0.3.0"}).empty());
}

TEST_CASE("a result that agrees with plan and peers is plausible") {
  CHECK(why_implausible(metrics(), expected).empty());
  CHECK(why_implausible({}, {}).empty());
  CHECK(why_implausible(metrics(), {}).empty());
}

TEST_CASE("what is faster than the hardware or takes no time is implausible") {
  // 152 % and 563 % were published, of GPUs that a table did not know.
  CHECK(why("mfu", 1.52) == "MFU 152.0 %: faster than the hardware's peak");
  CHECK(why("mfu", 1.0).empty());
  CHECK(why("train_step_ms", 0) == "train_step_ms is 0");
  CHECK(why("tokens_per_s_per_gpu", -1) == "tokens_per_s_per_gpu is -1");
}

TEST_CASE("another model or another batch than planned is implausible") {
  CHECK(why("n_params", 1200) == "n_params is 1200, but the plan has 1000");
  CHECK(why("tokens_per_step", 1024) == "tokens_per_step is 1024, but the plan has 4096");
}

TEST_CASE("a result whose speed and time are not of the plan's tokens is implausible") {
  const ExpectedValues two_gpus{.n_params = {}, .tokens_per_step = 4096, .gpus = 2};
  const auto said = [&](double all, double of_gpu, double step_ms) {
    return why_implausible(
        {{"tokens_per_s", all}, {"tokens_per_s_per_gpu", of_gpu}, {"train_step_ms", step_ms}},
        two_gpus);
  };
  CHECK(said(4096, 2048, 1000).empty());
  CHECK(said(4300, 2150, 1000).empty());  // one a mean, the other a median
  CHECK(said(40960, 2048, 1000) ==
      "tokens_per_s and train_step_ms together mean 40,960 tokens per train step, but the plan has "
      "4,096");
  CHECK(said(4096, 4096, 1000) ==
      "tokens_per_s_per_gpu and train_step_ms together mean 8,192 tokens per train step on 2 GPUs, "
      "but the plan has 4,096");
  CHECK_FALSE(said(4096, 2048, 0.001).empty());
  CHECK(why_implausible({{"tokens_per_s", 4096}, {"tokens_per_s_per_gpu", 4096}}, two_gpus) ==
      "tokens_per_s is 4096, but 2 GPUs with 4096 tokens/s each make 8192");
  CHECK(
      why_implausible({{"tokens_per_s_per_gpu", 9000}, {"train_step_ms", 812}}, expected).empty());
}

TEST_CASE("a loss that two others contradict is implausible") {
  CHECK(why("loss", 9.8).empty());
  CHECK(why("loss", 7.5) ==
      "the loss is 7.5, but 3 other layouts have 9.87 after the same train step");
  CHECK(why("loss", std::nan("")) == "the loss is not finite");
  ExpectedValues few = expected;
  few.losses = {9.87};
  auto changed = metrics();
  changed["loss"] = 7.5;
  CHECK(why_implausible(changed, few).empty());
  // Where they disagree among themselves nobody can be called wrong.
  few.losses = {9.87, 3.0, 12.0, 6.0};
  CHECK(why_implausible(changed, few).empty());
}
