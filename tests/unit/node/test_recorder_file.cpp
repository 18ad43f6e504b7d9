// SPDX-License-Identifier: Apache-2.0
#include "attempt/hang.hpp"
#include "node/recorder_file.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace shardsweep;

TEST_CASE("what a recorder says is quoted without what a terminal obeys") {
  CHECK(decode_recorder_reading("SBREC03\x1b[2J").error().what ==
      "not a JSON object: 'SBREC03\\x1b[2J'");
  const auto reading = decode_recorder_reading(
      R"({"guilty": [1], "why": "\u001b[2J", "waits": [{"group": "\u0007", "operation": "o",
      "sequence": 1, "waiting": [0], "never_came": [1]}]})");
  REQUIRE(reading);
  const auto text = accusation(*reading, 1, {{1, "n1"}});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\x07') == std::string::npos);
}
