// SPDX-License-Identifier: Apache-2.0
// tests/data/cases/wire: a line of each message as version 0.1 wrote it. Such lines are read,
// and written back with the same keys and values, beside which later keys may stand: a daemon
// and a lead of different versions understand each other. The order of keys is not compared, as
// no reader looks at it.
#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sstream>

using namespace shardsweep;

namespace {

std::string case_of(const std::string& name) {
  const auto text =
      read_file(std::string(SHARDSWEEP_SOURCE_DIR) + "/tests/data/cases/wire/" + name);
  REQUIRE(text);
  return *text;
}

template <class Decode>
void check_text(const std::string& text, const Decode& decode) {
  const auto message = decode(text);
  REQUIRE_MESSAGE(message, text);
  const auto written = nlohmann::json::parse(encode(*message));
  auto with_old_words = written;
  with_old_words.merge_patch(nlohmann::json::parse(text));
  CHECK(with_old_words == written);
}

template <class Decode>
void check_lines(const std::string& name, const Decode& decode) {
  std::istringstream lines(case_of(name));
  for (std::string line; std::getline(lines, line);)
    check_text(line, decode);
}

}  // namespace

TEST_CASE("lines and specs keep the words of the first version") {
  check_lines("to_lead.jsonl", decode_to_lead);
  check_lines("from_lead.jsonl", decode_from_lead);
  check_lines("to_node.jsonl", decode_to_node);
  check_lines("from_node.jsonl", decode_from_node);
  check_text(case_of("attempt_spec.json"), decode_attempt_spec);
  check_text(case_of("allocation_spec.json"), decode_allocation_spec);
}
