// SPDX-License-Identifier: Apache-2.0
#include "show/log_text.hpp"
#include "show/status_view.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>
#include <time.h>

#include <ostream>

using namespace shardsweep;

namespace {

constexpr Timestamp noon = 1'763'812'800'000'000;  // 2025-11-22 12:00:00 UTC

SweepStatus sweep(const std::string& name, std::int64_t ended, std::int64_t trials) {
  SweepStatus status;
  status.name = name;
  status.state = "active";
  status.trials = trials;
  status.by_state = {{"ended", ended}, {"planned", trials - ended}};
  status.by_outcome = {{"completed", ended}};
  status.remaining_s = 80;
  status.submitted_at = noon - 3'600'000'000;
  status.last_event_at = noon - 12'000'000;
  return status;
}

std::vector<SweepStatus> three() {
  std::vector<SweepStatus> all{
      sweep("quickstart", 96, 96), sweep("llama-70b", 37, 1200), sweep("paused-one", 3, 12)};
  all[1].by_state["running"] = 1;
  all[1].by_outcome = {{"completed", 21}, {"oom", 9}, {"hung", 2}, {"skipped", 5}};
  all[2].state = "paused";
  return all;
}

std::string text_of(const std::vector<StyledLine>& lines, std::size_t width) {
  std::string text;
  for (const StyledLine& line : lines) {
    CHECK(width_of(line) <= width);
    std::string one = painted(line, false);
    one.erase(one.find_last_not_of(' ') + 1);
    text += one + '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("the table of sweeps fits 80 columns") {
  CHECK(text_of(status_table_lines(three(), {80, 50, true}), 80) ==
      "sweep       state       ended  time left   outcomes\n"
      "quickstart  done        96/96              96 completed\n"
      "llama-70b   running  37/1,200  1 min 20 s  21 completed, 9 oom, 2 hung,\n"
      "                                           5 skipped\n"
      "paused-one  paused       3/12              3 completed\n");
}

TEST_CASE("outcomes go below where there is no room beside") {
  CHECK(text_of(status_table_lines(three(), {60, 50, true}), 60) ==
      "sweep       state       ended  time left\n"
      "quickstart  done        96/96\n"
      "  96 completed\n"
      "llama-70b   running  37/1,200  1 min 20 s\n"
      "  21 completed, 9 oom, 2 hung, 5 skipped\n"
      "paused-one  paused       3/12\n"
      "  3 completed\n");
  auto all = three();
  all[0].name = std::string(120, 'n');
  for (std::size_t width = 20; width < 200; ++width)
    text_of(status_table_lines(all, {width, 50, true}), width);
}

TEST_CASE("one sweep is a line per fact") {
  SweepStatus one = three()[1];
  one.by_state = {{"ended", 37}, {"running", 1}, {"queued", 4}, {"planned", 1158}};
  one.left_out = 240;
  one.running = "llama-70b-n8-dp4tp8pp2-mb1ga16-s4096-bf16-6e0b14";
  one.waiting = "job 42: Priority\x1b[2J";
  one.spared = {{"search.until.runs (1) of this cell are used", 5}};
  const std::vector<CellBest> best{{"llama-70b", {"llama-70b", 4096, 8, 64, "{}"}, "slug",
      "dp4 tp8 pp2 mb1 ga16 z1", 412.4, noon}};
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  CHECK(text_of(status_lines(one, best, noon, {80, 50, true}), 80) ==
      "sweep       llama-70b\n"
      "state       running\n"
      "trials      37 of 1,200 ended, 1 running, 4 queued, 1,158 planned\n"
      "outcomes    21 completed, 9 oom, 2 hung, 5 skipped\n"
      "left out    240 points of the grid cannot run\n"
      "time left   1 min 20 s\n"
      "best        412 tokens/s/GPU  dp4 tp8 pp2 mb1 ga16 z1\n"
      "running     llama-70b-n8-dp4tp8pp2-mb1ga16-s4096-bf16-6e0b14\n"
      "waiting     job 42: Priority\\x1b[2J\n"
      "skipped     5: search.until.runs (1) of this cell are used\n"
      "submitted   2025-11-22 11:00:00 (1 h 0 min ago)\n"
      "last event  2025-11-22 11:59:48 (12 s ago)\n");
  for (std::size_t width = 20; width < 100; ++width)
    text_of(status_lines(one, best, noon, {width, 50, true}), width);
}

TEST_CASE("a trial that the file no longer has is said to run beside the counts") {
  SweepStatus one = sweep("a", 0, 1);
  one.running = "tiny-g1";
  one.removed_running = 1;
  const auto text = [&] { return text_of(status_lines(one, {}, noon, {120, 50, true}), 120); };
  CHECK(text().find("removed     1 trial that is no longer in the sweep file still runs; its "
                    "result is kept\n") != std::string::npos);
  one.removed_running = 2;
  CHECK(text().find("removed     2 trials that are no longer in the sweep file still run; their "
                    "results are kept\n") != std::string::npos);
}

TEST_CASE("states of a sweep as people read them") {
  CHECK(state_text(sweep("a", 3, 3)) == "done");
  CHECK(state_text(sweep("a", 2, 3)) == "waiting");
  SweepStatus control = sweep("a", 3, 3);
  control.last_controls = 1;
  CHECK(state_text(control) == "waiting");
  CHECK(state_text(three()[2]) == "paused");
}
