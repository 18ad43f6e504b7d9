// SPDX-License-Identifier: Apache-2.0
// What of a command line is refused, and how.
#include "cli/arguments.hpp"

#include <doctest/doctest.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace shardsweep::test {
namespace {

/// Parses, and keeps what was said on stderr.
struct Said {
  Parsed parsed;
  std::string text;
};

Said parse(std::vector<std::string> words) {
  words.insert(words.begin(), "shardsweep");
  std::vector<char*> argv;
  argv.reserve(words.size());
  for (std::string& word : words)
    argv.push_back(word.data());
  std::ostringstream said;
  std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
  Parsed parsed = parse_arguments(static_cast<int>(argv.size()), argv.data());
  std::cerr.rdbuf(before);
  return {std::move(parsed), said.str()};
}

}  // namespace

TEST_CASE("a command that is none is named, with the nearest one") {
  const Said near = parse({"statsu"});
  CHECK(near.parsed.exit_code == 2);
  CHECK(near.text ==
        "shardsweep: there is no command 'statsu', did you mean 'status'?\n"
        "'shardsweep --help' lists them.\n");
  const Said far = parse({"frobnicate"});
  CHECK(far.parsed.exit_code == 2);
  CHECK(far.text.starts_with("shardsweep: there is no command 'frobnicate'\n"));
}

TEST_CASE("a format is a word, in capitals too, and nothing else") {
  const Said json = parse({"status", "--format", "JSON"});
  CHECK_FALSE(json.parsed.exit_code);
  CHECK(json.parsed.options.format == Format::json);
  const Said xml = parse({"status", "--format", "xml"});
  CHECK(xml.parsed.exit_code == 2);
  CHECK(xml.text.find("'xml' is none of table, csv, json") != std::string::npos);
}

}  // namespace shardsweep::test
