// SPDX-License-Identifier: Apache-2.0
#include "programs/agent/hang_case.hpp"

#include "machine/processes.hpp"
#include "rundir/tar.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <sstream>

namespace shardsweep::test {
namespace {

struct Layout {
  int dp;
  int tp;
  int pp;
};
constexpr std::array<Layout, 12> layouts{{{2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 1}, {2, 1, 2},
    {1, 2, 2}, {4, 1, 1}, {1, 1, 4}, {4, 2, 1}, {2, 2, 2}, {4, 4, 1}, {4, 2, 2}}};

/// The number after `words`.
double number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  double number = -1;
  if (at != std::string::npos) (void)std::sscanf(text.c_str() + at + words.size(), "%lf", &number);
  return number;
}

/// The guilty one has come to its fault.
bool stands_still(const HangCase& hang, const AttemptPaths& paths, const Allocation& allocation) {
  if (hang.fault.starts_with("hang"))
    return read_file(paths.rank_log(hang.rank)).value_or("").find("hangs in phase") !=
        std::string::npos;
  const auto ranks = allocation.marked();
  return std::any_of(ranks.begin(), ranks.end(), [](pid_t pid) {
    const auto stat = process_stat(pid);
    return stat && stat->state == 'T';
  });
}

/// What the runner reads in its own recorders: the numbers of all lists under `key`.
std::set<int> numbers_in(const std::string& reading, const std::string& key) {
  std::set<int> found;
  const std::string begin = "\"" + key + "\":[";
  for (std::size_t at = 0; (at = reading.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    const std::string list = reading.substr(at, reading.find(']', at) - at);
    std::istringstream numbers(list);
    for (std::string number; std::getline(numbers, number, ',');)
      found.insert(std::atoi(number.c_str()));
  }
  return found;
}

bool all_wait_for(const HangCase& hang, const AttemptPaths& paths) {
  const std::string command = std::string(SHARDSWEEP_BIN_DIR) +
      "/shardbench-cpu --read-recorder '" + paths.recorder().string() + "'";
  FILE* reader = ::popen(command.c_str(), "re");
  REQUIRE(reader != nullptr);
  std::string reading;
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), reader)) > 0;)
    reading.append(buffer.data(), got);
  ::pclose(reader);
  auto standing = numbers_in(reading, "waiting");
  standing.insert(hang.rank);
  return standing.size() == static_cast<std::size_t>(hang.world) &&
      numbers_in(reading, "guilty") == std::set<int>{hang.rank};
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
  hang.fault = std::string(draw(2) == 0 ? "hang" : "stop") + "@train+" + std::to_string(draw(4)) +
      ":" + std::to_string(hang.rank);
  hang.flags = {"--layers", "4", "--hidden", "64", "--ffn", "128", "--heads", "4", "--vocab", "256",
      "--seq-len", "32", "--warmup", "2", "--steps", "5", "--dp", std::to_string(layout.dp), "--tp",
      std::to_string(layout.tp), "--pp", std::to_string(layout.pp), "--grad-accum", "4",
      "--micro-batch", "1", "--fault", hang.fault};
  return hang;
}

std::vector<std::string> healthy(const HangCase& hang) {
  return {hang.flags.begin(), hang.flags.end() - 2};
}

void wait_until_all_stand(const HangCase& hang, const Assign& attempt, Allocation& allocation) {
  allocation.wait_at("node.launched_said");
  const AttemptPaths paths{attempt.dir};
  REQUIRE(wait_until([&] { return stands_still(hang, paths, allocation); }));
  REQUIRE(wait_until([&] { return all_wait_for(hang, paths); }, patience_s, 50));
  allocation.go_on("node.launched_said");
}

void check_verdict(
    const HangCase& hang, const Ended& ended, double floor_s, const std::string& node) {
  CAPTURE(ended.ending.cause);
  CHECK(ended.ending.outcome == Outcome::hung);
  CHECK(ended.ending.source == SaidBy::policy);
  const double still_s = number_after(ended.ending.cause, "no progress in phase 'train' for ");
  const double limit_s = number_after(ended.ending.cause, "s (limit ");
  CHECK(limit_s >= floor_s);
  CHECK(still_s >= limit_s - 0.05);  // it is printed with one digit
  const std::string named = "rank " + std::to_string(hang.rank) + " on " + node + ": ";
  CHECK(ended.ending.cause.find(named) != std::string::npos);
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
