// SPDX-License-Identifier: Apache-2.0
// The block that a follower draws, at several widths, with colours and without.
#include "programs/output/paper.hpp"
#include "show/live_view.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ostream>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr Timestamp noon = 1'763'812'800'000'000;
constexpr Timestamp second = 1'000'000;

AllocationProgress job(
    const std::string& name, std::int64_t ended, std::int64_t assigned, const std::string& layout) {
  AllocationProgress progress{"llama-1b-up-to-8-nodes", name, true, ended, assigned};
  if (layout.empty()) return progress;
  progress.trial = "a-trial";
  progress.model = "llama-1b";
  progress.layout = layout;
  progress.started_at = noon - 83 * second;
  return progress;
}

/// Two sweeps: one in the middle of its work, with a hostile name in it, and one that waits.
std::vector<SweepProgress> two_sweeps() {
  SweepProgress busy;
  busy.status.name = "llama-1b-up-to-8-nodes";
  busy.status.state = "active";
  busy.status.trials = 1260;
  busy.status.by_state = {{"ended", 640}, {"running", 2}, {"queued", 38}, {"planned", 580}};
  busy.status.by_outcome = {{"completed", 401}, {"oom", 203}, {"hung", 2}, {"skipped", 34}};
  busy.status.remaining_s = 5400;
  busy.status.corrected = true;
  busy.status.running = "a-trial";
  busy.best = CellBest{{}, {}, "slug", "dp8 tp2 pp1 mb4 ga4 z1", 23456.7, noon};
  busy.best_of = "llama-1b, 2 nodes";
  busy.now = noon;
  busy.allocations = {job("llama-1b-up-to-8-nodes-n8_3f9a01", 3, 12, "dp8 tp4 pp2 mb1 ga32 z1"),
      job("llama-1b-up-to-8-nodes-n2_3f9a02", 11, 11, ""),
      job("evil\x1b[2J\u202e-n1_3f9a03", 0, 5, "dp8 tp1 pp1 mb16 ga2 z3 full")};
  for (int i = 0; i < 8; ++i)
    busy.allocations.push_back({"llama-1b-up-to-8-nodes", "llama-1b-up-to-8-nodes-n4_x"});
  SweepProgress waiting;
  waiting.status.name = "second";
  waiting.status.state = "active";
  waiting.status.trials = 4;
  waiting.status.by_state = {{"planned", 4}};
  waiting.status.waiting = "limits.max_nodes: 8 of 8 nodes are in use";
  waiting.trouble = {"The disk of the database is full: 0 B are free."};
  return {busy, waiting};
}

}  // namespace

TEST_CASE("the block of a follower fits every width, with colours and without") {
  std::string text;
  for (const std::size_t width : {40U, 60U, 80U, 200U}) {
    for (const bool utf8 : {true, false}) {
      const auto lines = progress_block(two_sweeps(), {width, 40, utf8});
      std::string plain;
      for (const auto& line : lines) {
        CHECK(width_of(line) <= width);
        plain += painted(line, false) + '\n';
      }
      text += fmt::format("== {} columns{} ==\n{}", width, utf8 ? "" : ", LANG=C", plain);
      CHECK(plain.find('\x1b') == std::string::npos);
      CHECK(plain.find("\u202e") == std::string::npos);
    }
  }
  check_lines(text);
  for (const std::size_t width : {60U, 80U, 200U}) {
    text += fmt::format("== {} columns, colours ==\n", width);
    for (const auto& line : progress_block(two_sweeps(), {width, 40, true})) {
      const auto coloured = painted(line, true);
      CHECK(without_codes(coloured) == painted(line, false));
      text += visible_codes(coloured) + '\n';
    }
  }
  check_text("progress", text);
}

TEST_CASE("the block is no higher than its terminal") {
  for (std::size_t height = 1; height < 30; ++height)
    CHECK(progress_block(two_sweeps(), {80, height, true}).size() <= height);
}
