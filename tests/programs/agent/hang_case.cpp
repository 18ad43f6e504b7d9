// SPDX-License-Identifier: Apache-2.0
#include "programs/agent/hang_case.hpp"

#include "rundir/tar.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <random>

namespace shardsweep::test {
namespace {

struct Layout {
  int dp;
  int tp;
  int pp;
};
constexpr std::array<Layout, 12> layouts{{{2, 1, 1},
                                          {1, 2, 1},
                                          {1, 1, 2},
                                          {2, 2, 1},
                                          {2, 1, 2},
                                          {1, 2, 2},
                                          {4, 1, 1},
                                          {1, 1, 4},
                                          {4, 2, 1},
                                          {2, 2, 2},
                                          {4, 4, 1},
                                          {4, 2, 2}}};

/// The number after `words`.
double number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  double number = -1;
  if (at != std::string::npos)
    (void)std::sscanf(text.c_str() + at + words.size(), "%lf", &number);
  return number;
}

}  // namespace

HangCase hang_case(unsigned seed, int most_ranks) {
  std::mt19937 random(seed);
  const auto draw = [&](unsigned below) { return static_cast<int>(random() % below); };
  Layout layout{};
  do {
    layout = layouts.at(static_cast<std::size_t>(draw(layouts.size())));
  } while (layout.dp * layout.tp * layout.pp > most_ranks);
  HangCase hang;
  hang.world = layout.dp * layout.tp * layout.pp;
  hang.rank = draw(static_cast<unsigned>(hang.world));
  hang.fault = std::string(draw(2) == 0 ? "hang" : "stop") + "@train+" +
               std::to_string(draw(4)) + ":" + std::to_string(hang.rank);
  hang.flags = {"--layers",      "4",
                "--hidden",      "64",
                "--ffn",         "128",
                "--heads",       "4",
                "--vocab",       "256",
                "--seq-len",     "32",
                "--warmup",      "2",
                "--steps",       "5",
                "--dp",          std::to_string(layout.dp),
                "--tp",          std::to_string(layout.tp),
                "--pp",          std::to_string(layout.pp),
                "--grad-accum",  "4",
                "--micro-batch", "1",
                "--fault",       hang.fault};
  return hang;
}

std::vector<std::string> healthy(const HangCase& hang) {
  return {hang.flags.begin(), hang.flags.end() - 2};
}

void check_verdict(const HangCase& hang, const Ended& ended, double floor_s, double interval_s,
                   const std::string& node, double slack_s) {
  CAPTURE(ended.cause);
  CHECK(ended.outcome == Outcome::hung);
  CHECK(ended.source == SaidBy::policy);
  const double still_s = number_after(ended.cause, "no progress in phase 'train' for ");
  const double limit_s = number_after(ended.cause, "s (limit ");
  CHECK(limit_s >= floor_s);
  CHECK(still_s >= limit_s - 0.05);  // it is printed with one digit
  CHECK(still_s <= limit_s + 2 * interval_s + slack_s);
  const std::string named = "rank " + std::to_string(hang.rank) + " on " + node + ": ";
  CHECK(ended.cause.find(named) != std::string::npos);
}

std::map<std::string, std::string> unpacked(const Assign& attempt) {
  std::map<std::string, std::string> files;
  const auto read = read_tar(
      AttemptPaths{attempt.dir}.pack(), [](const std::string&) { return true; },
      [&](const std::string& name, std::string&& contents) {
        files[name.substr(name.find('/') + 1)] = std::move(contents);
      });
  REQUIRE(read);
  return files;
}

}  // namespace shardsweep::test
