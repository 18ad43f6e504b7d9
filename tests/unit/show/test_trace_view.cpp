// SPDX-License-Identifier: Apache-2.0
#include "show/trace_view.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <ostream>
#include <string>
#include <vector>

using namespace shardsweep;

namespace {

using Json = nlohmann::json;

const std::vector<TracedJob> jobs{
    {.node = "n1", .job = "grid-n1_3f", .sweep = "grid", .started_at = 1'000, .ended_at = 9'000}};

std::vector<TracedAttempt> attempts(Timestamp ended_at, Timestamp result_at) {
  return {{.node = "n1",
      .trial = "a \"quoted\" trial",
      .number = 2,
      .outcome = "completed",
      .started_at = 2'000,
      .ended_at = ended_at,
      .steps = 5,
      .steps_us = 3'000,
      .result_at = result_at}};
}

/// "name from+duration" of each span of a lane, a blank between them.
std::string spans(const std::string& text, int lane) {
  std::string all;
  const Json trace = Json::parse(text);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("tid") != lane) continue;
    all += (all.empty() ? "" : ", ") + event.at("name").get<std::string>() + ' ' +
        std::to_string(event.at("ts").get<int>()) + '+' +
        std::to_string(event.at("dur").get<int>());
  }
  return all;
}

}  // namespace

TEST_CASE("a timeline has jobs, attempts, and where an attempt's time went") {
  const auto text = trace_text(jobs, attempts(8'000, 7'000), 10'000);
  CHECK(spans(text, 0) == "grid-n1_3f (grid) 1000+8000");
  CHECK(spans(text, 1) == "a \"quoted\" trial.2 completed 2000+6000");
  CHECK(spans(text, 2) == "start-up 2000+2000, train steps 4000+3000, teardown 7000+1000");
  CHECK(text.find("\"process_name\"") != std::string::npos);
}

TEST_CASE("what has not ended goes on until now, and no result tells no parts") {
  const auto text = trace_text(jobs, attempts(0, 0), 10'000);
  CHECK(spans(text, 1) == "a \"quoted\" trial.2 completed 2000+8000");
  CHECK(spans(text, 2).empty());
  // A clock of another host may say that the result came after the end.
  CHECK(spans(trace_text(jobs, attempts(8'000, 8'500), 10'000), 2).empty());
  CHECK(Json::parse(trace_text({}, {}, 1)).at("traceEvents").empty());
}
