// SPDX-License-Identifier: Apache-2.0
#include "attempt/cut_short.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace shardsweep;

namespace {

bool hopeless(const std::vector<double>& step_ms, double above_ms = 120) {
  return is_hopeless(step_ms, above_ms);
}

AttemptSpec spec_with(double above_ms, std::int32_t warmup = 1) {
  AttemptSpec spec;
  spec.nonce = "0123abcd";
  spec.world = 4;
  spec.give_up_above_ms = above_ms;
  spec.warmup = warmup;
  spec.tokens_per_step = 8000;
  return spec;
}

Record step(double step_ms, std::optional<bool> timed = {}) {
  return {.type = RecordType::train_step, .step_ms = step_ms, .timed = timed};
}

}  // namespace

TEST_CASE("two train steps above the bound are hopeless, one is not") {
  CHECK_FALSE(hopeless({}));
  CHECK_FALSE(hopeless({500}));
  CHECK(hopeless({130, 130}));
  CHECK_FALSE(hopeless({119, 119}));
  CHECK_FALSE(hopeless({120, 120}));
  CHECK_FALSE(hopeless({130, 130}, 0));
}

TEST_CASE("a train step that is slow for reasons of its own condemns nobody") {
  CHECK_FALSE(hopeless({110, 900}));
  CHECK_FALSE(hopeless({110, 900, 900}));
  // The fastest could have been as much faster as the median is slower.
  CHECK_FALSE(hopeless({130, 160}));
  CHECK(hopeless({150, 160}));
  CHECK(hopeless({130, 160, 131}));
}

TEST_CASE("steps that warm up are not timed, whether the runner says so or not") {
  CutShort unsaid(spec_with(120));
  CHECK_FALSE(unsaid.see(step(900)));
  CHECK_FALSE(unsaid.see(step(130)));
  CHECK(unsaid.see(step(130)));
  CutShort said(spec_with(120, 0));
  CHECK_FALSE(said.see(step(900, false)));
  CHECK_FALSE(said.see(step(900, false)));
  CHECK_FALSE(said.see(step(130, true)));
  CHECK(said.see(step(130, true)));
}

TEST_CASE("steps that warm up count where they are long and far above the bound") {
  const auto hopeless_early = [](std::vector<double> step_ms, double above_ms) {
    return is_hopeless_warming_up(step_ms, above_ms);
  };
  CHECK_FALSE(hopeless_early({}, 10e3));
  CHECK_FALSE(hopeless_early({90e3}, 10e3));
  CHECK(hopeless_early({25e3, 24e3}, 10e3));
  CHECK_FALSE(hopeless_early({25e3, 19e3}, 10e3));
  CHECK_FALSE(hopeless_early({90e3, 30e3}, 10e3));
  CHECK(hopeless_early({90e3, 30e3, 30e3}, 10e3));
  CHECK_FALSE(hopeless_early({9e3, 9e3}, 100));
  CutShort watched(spec_with(10e3, 3));
  CHECK_FALSE(watched.see(step(25e3)));
  CHECK(watched.see(step(24e3)));
  CHECK(watched.result_line().find(R"("steps":2,"warmup":0)") != std::string::npos);
  // What warmed up is no part of what was timed.
  CutShort other(spec_with(10e3, 1));
  CHECK_FALSE(other.see(step(25e3)));
  CHECK_FALSE(other.see(step(11e3)));
  CHECK(other.see(step(11e3)));
  CHECK(other.result_line().find(R"("train_step_ms":11000,)") != std::string::npos);
}

TEST_CASE("records without a time, of another type or without a bound decide nothing") {
  CutShort watched(spec_with(120, 0));
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(watched.see(step(0)));
    CHECK_FALSE(watched.see({.type = RecordType::phase, .step_ms = 900}));
  }
  CutShort unbound(spec_with(0, 0));
  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(unbound.see(step(900)));
}

TEST_CASE("the result of an attempt that was cut short is that of its timed steps") {
  CutShort watched(spec_with(120));
  for (const double step_ms : {900.0, 200.0, 210.0})
    (void)watched.see(step(step_ms));
  CHECK(watched.result_line() ==
      R"({"type":"result","run_id":"0123abcd","by":"agent",)"
      R"("tokens_per_s":39024.39024390244,"tokens_per_s_per_gpu":9756.09756097561,)"
      R"("train_step_ms":205,"train_step_ms_min":200,"train_step_ms_p95":210,)"
      R"("train_step_ms_spread":0.04878048780487805,"tokens_per_step":8000,"steps":2,)"
      R"("warmup":1,"gave_up_above_ms":120})");
}
