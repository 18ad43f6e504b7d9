// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/capabilities.hpp>

#include <doctest/doctest.h>

#include <ostream>
#include <string>

using namespace shardsweep;

TEST_CASE("what a runner can do is read from its JSON") {
  const auto read = parse_capabilities(R"({"runner":"shardbench","version":"0.1.0",
    "device":["cpu"],"dtype":["fp32","fp64"],"max":{"dp":null,"tp":1,"warp":9},"zero":[0,1],
    "recompute":["none"],"sequence_parallel":[false],"later":{"x":1},
    "rules":[{"constraint":"runner:x","when":"tp > 1","why":"because"}]})");
  REQUIRE(read.has_value());
  CHECK(read->runner == "shardbench");
  CHECK(read->dtypes == std::vector<std::string>{"fp32", "fp64"});
  CHECK(read->max.size() == 2);
  CHECK_FALSE(read->max.at("dp").has_value());
  CHECK(read->max.at("tp") == 1);
  CHECK(read->allowed.at("zero") == std::vector<std::string>{"0", "1"});
  CHECK(read->allowed.at("sequence_parallel") == std::vector<std::string>{"false"});
  CHECK(read->allowed.count("schedule") == 0);
  REQUIRE(read->rules.size() == 1);
  CHECK(read->rules[0].when == "tp > 1");
}

TEST_CASE("capabilities of the wrong shape are refused with the key") {
  const auto what = [](std::string_view json) {
    const auto read = parse_capabilities(json);
    return read ? std::string("accepted") : read.error().what;
  };
  const std::string head = R"({"runner":"r","version":"1","dtype":["fp32"])";
  CHECK(what("") == "the runner's capabilities: not valid JSON");
  CHECK(what("[]") == "the runner's capabilities: not a JSON object");
  CHECK(what("{}") == "the runner's capabilities: 'runner' is missing");
  CHECK(what(R"({"runner":1})") == "the runner's capabilities: 'runner' is not a text");
  CHECK(what(R"({"runner":"r","version":"1"})") ==
      "the runner's capabilities: 'dtype' is missing or empty; for example [\"fp32\"]");
  CHECK(what(head + R"(,"max":{"tp":"one"}})") ==
      "the runner's capabilities: 'max.tp' is not a whole number");
  CHECK(what(head + R"(,"max":{"tp":18446744073709551615}})") ==
      "the runner's capabilities: 'max.tp' is not a whole number");
  CHECK(what(head + R"(,"zero":0})") == "the runner's capabilities: 'zero' is not an array");
  CHECK(what(head + R"(,"zero":[0.5]})") ==
      "the runner's capabilities: 'zero' is not a whole number");
  CHECK(what(head + R"(,"rules":[{"constraint":"c"}]})") ==
      "the runner's capabilities: 'when' is missing");
  CHECK(what(head + "}") == "accepted");
}
