// SPDX-License-Identifier: Apache-2.0
// tests/data/cases/present_configurations.txt: 300 lines of configurations as people have them.
// Each is read right, or refused with what is missing.
#include "text/pieces.hpp"
#include "trainer/configuration.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace shardsweep;

namespace {

struct PresentCase {
  int line = 0;
  std::string trainer;
  std::int64_t gpus = 0;
  std::string text;
  std::string expected;
};

std::vector<PresentCase> present_configurations(int& lines) {
  std::ifstream in(std::filesystem::path(SHARDSWEEP_SOURCE_DIR) / "tests" / "data" / "cases" /
      "present_configurations.txt");
  REQUIRE(in);
  std::vector<PresentCase> all;
  bool within = false;
  for (std::string line; std::getline(in, line);) {
    ++lines;
    if (line.starts_with("=== ")) {
      const auto words = split(line, ' ');
      REQUIRE(words.size() == 3);
      all.push_back({lines, std::string(words[1]), std::stoll(std::string(words[2])), "", ""});
      within = true;
    } else if (line.starts_with("--- ")) {
      all.back().expected = line.substr(4);
      within = false;
    } else if (within) {
      all.back().text += line + '\n';
    }
  }
  return all;
}

std::vector<std::string> words_of(const TrainerLayout& one) {
  std::vector<std::string> words{fmt::format("dp{}/{}", one.dp, one.dp_replicate),
      fmt::format("tp{}", one.tp), fmt::format("pp{}", one.pp), fmt::format("cp{}", one.cp),
      fmt::format("ep{}", one.ep), fmt::format("vpp{}", one.vpp),
      fmt::format("mb{}", one.micro_batch), fmt::format("ga{}", one.grad_accum),
      fmt::format("z{}", one.zero), fmt::format("seq{}", one.seq_len), one.recompute, one.schedule,
      one.cp_mode, one.rank_order};
  if (one.sequence_parallel) words.emplace_back("sp");
  if (one.offload != "none") words.push_back("offload-" + one.offload);
  return words;
}

}  // namespace

TEST_CASE("a configuration as somebody has it is read right or refused by name") {
  constexpr std::string_view refused = "refused: ";
  int lines = 0;
  for (const PresentCase& one : present_configurations(lines)) {
    CAPTURE(one.line);
    CAPTURE(one.text);
    const auto read = layout_of_file(one.trainer, one.text, one.gpus);
    const std::string why = read ? "it was read" : read.error().what;
    if (one.expected.starts_with(refused)) {
      CHECK_MESSAGE(why.find(one.expected.substr(refused.size())) != std::string::npos, why);
      continue;
    }
    CHECK_MESSAGE(read.has_value(), why);
    if (!read) continue;
    const auto words = words_of(*read);
    for (const auto word : split(one.expected, ' ')) {
      CAPTURE(fmt::format("{}", fmt::join(words, " ")));
      CHECK_MESSAGE(std::find(words.begin(), words.end(), word) != words.end(), word);
    }
  }
  CHECK(lines >= 300);
}

TEST_CASE("a script cut anywhere is read or refused and never hangs") {
  int lines = 0;
  for (const PresentCase& one : present_configurations(lines)) {
    for (std::size_t end = 0; end < one.text.size(); end += 3)
      (void)layout_of_file(one.trainer, one.text.substr(0, end), one.gpus);
  }
}
