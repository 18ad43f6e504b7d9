// SPDX-License-Identifier: Apache-2.0
#include "answer/best_text.hpp"
#include "show/live_view.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>
#include <time.h>

#include <ostream>

using namespace shardsweep;

namespace {

constexpr Timestamp noon = 1'763'812'800'000'000;  // 2025-11-22 12:00:00 UTC

struct InUtc {
  InUtc() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};
const InUtc in_utc;

SweepStatus quickstart() {
  SweepStatus status;
  status.id = 1;
  status.name = "quickstart";
  status.state = "active";
  status.trials = 96;
  status.by_state = {{"ended", 37}, {"running", 1}, {"queued", 22}, {"planned", 36}};
  status.by_outcome = {{"completed", 31}, {"oom", 4}, {"skipped", 2}};
  status.remaining_s = 80;
  status.corrected = true;
  status.running = "mini-g4-dp4tp1pp1-mb16ga1-s32-fp32-6e0b14";
  return status;
}

CellKey cell(const std::string& model, std::int64_t gpus) {
  return {model, 32, 0, gpus, "{}"};
}

SweepProgress running() {
  SweepProgress sweep{quickstart()};
  sweep.best =
      CellBest{"quickstart", cell("mini", 4), "slug", "dp2 tp1 pp1 mb4 ga16 z0", 12345.6, noon};
  sweep.best_of = "mini, 4 GPUs";
  return sweep;
}

std::string text_of(const std::vector<StyledLine>& lines, std::size_t width, bool colour = false) {
  std::string text;
  for (const StyledLine& line : lines) {
    CHECK(width_of(line) <= width);
    text += painted(line, colour) + '\n';
  }
  return text;
}

std::string block(const std::vector<SweepProgress>& sweeps, std::size_t width,
    std::size_t height = 23, bool utf8 = true) {
  return text_of(progress_block(sweeps, {width, height, utf8}), width);
}

FinishedTrial measured(double tokens) {
  FinishedTrial trial;
  trial.at = noon;
  trial.sweep = "quickstart";
  trial.cell = cell("mini", 4);
  trial.trial = "mini-g4-dp4tp1pp1-mb16ga1-s32-fp32-6e0b14";
  trial.layout = "dp4 tp1 pp1 mb16 ga1 z0";
  trial.attempt = 1;
  trial.tokens_per_s_per_gpu = tokens;
  trial.mfu = 0.431;
  trial.peak_memory_bytes = 10.5 * 1024 * 1024;
  return trial;
}

/// Its cell, in which its layout leads.
CellBest won(const FinishedTrial& trial, double speed, double second) {
  CellBest best{trial.sweep, trial.cell, trial.trial, trial.layout, speed, trial.at};
  for (const double one : {speed, second}) {
    auto& layout = best.answer.layouts.emplace_back();
    layout.name = trial.layout;
    layout.runs = {1};
    layout.tokens_per_s_per_gpu = one;
    layout.verdict.share = speed / second - 1;
    layout.verdict.first_runs = layout.verdict.second_runs = 1;
  }
  return best;
}

std::string line_of(const FinishedTrial& trial, std::optional<std::size_t> width, BestSoFar& best,
    bool colour = false) {
  const auto lines = finished_lines({trial}, best);
  REQUIRE(lines.size() == 1);
  const StyledLine line = finished_line(lines[0], width, true, false);
  if (width) CHECK(width_of(line) <= *width);
  return painted(line, colour);
}

}  // namespace

TEST_CASE("the block has a bar, counts, the best and what runs") {
  CHECK(block({running()}, 79) ==
      "quickstart  [#############......................]  37/96  about 1 min 20 s left\n"
      "  31 completed, 4 oom, 2 skipped, 1 running, 22 queued, 36 planned\n"
      "  best     12,346 tokens/s/GPU  dp2 tp1 pp1 mb4 ga16 z0  (mini, 4 GPUs)\n"
      "  running  mini-g4-dp4tp1pp1-mb16ga1-s32-fp32-6e0b14\n");
}

TEST_CASE("a narrow terminal shortens the bar, then the name, and never the time left") {
  CHECK(block({running()}, 59) ==
      "quickstart  [#####..........]  37/96  about 1 min 20 s left\n"
      "  31 completed, 4 oom, 2 skipped, 1 running, 22 queued,\n"
      "  36 planned\n"
      "  best     12,346 tokens/s/GPU  dp2 tp1 pp1 mb4 ga16 z0  (\u2026\n"
      "  running  mini-g4-dp4tp1pp1-mb16ga1-s32-fp32-6e0b14\n");
  SweepProgress sweep = running();
  sweep.status.name = "llama-70b-on-eight-nodes-of-the-new-cluster-with-every-layout";
  sweep.status.remaining_s = 200'000;
  for (std::size_t width = 30; width <= 200; ++width) {
    const std::string text = block({sweep}, width);
    CAPTURE(text);
    CHECK(text.substr(0, text.find('\n')).ends_with("37/96  about 2 d 7 h left"));
  }
}

TEST_CASE("without UTF-8 the block is ASCII") {
  for (const char c : block({running()}, 40, 23, false))
    CHECK(static_cast<unsigned char>(c) < 0x80);
}

TEST_CASE("why nothing runs stands in the block, in lines of its own") {
  SweepProgress sweep = running();
  sweep.status.running.clear();
  sweep.status.waiting =
      "job 42 waits: Priority. The partition 'gpu' is full, and two jobs of others stand "
      "before "
      "this one in the queue.";
  sweep.trouble = {"The disk of /home/me/.shardsweep is full."};
  CHECK(block({sweep}, 59) ==
      "quickstart  [##.....]  37/96  about 1 min 20 s of runs left\n"
      "  31 completed, 4 oom, 2 skipped, 1 running, 22 queued,\n"
      "  36 planned\n"
      "  best     12,346 tokens/s/GPU  dp2 tp1 pp1 mb4 ga16 z0  (\u2026\n"
      "  waiting  job 42 waits: Priority. The partition 'gpu' is\n"
      "           full, and two jobs of others stand before this\n"
      "           one in the queue.\n"
      "  trouble  The disk of /home/me/.shardsweep is full.\n");
}

TEST_CASE("a hostile sentence reaches no terminal") {
  SweepProgress sweep = running();
  sweep.status.running.clear();
  sweep.status.waiting = "\x1b[2J\x1b]0;title\a\r\nsaid \u202e slurm";
  const std::string text = block({sweep}, 79);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\\x1b[2J") != std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
  FinishedTrial crash = measured(0);
  crash.tokens_per_s_per_gpu.reset();
  crash.outcome = Outcome::crashed;
  crash.cause = "rank 0: \x1b]52;c;cm0gLXJm\a";
  BestSoFar best;
  CHECK(line_of(crash, std::nullopt, best) ==
      "2025-11-22 12:00:00  mini-g4-dp4tp1pp1-mb16ga1-s32-fp32-6e0b14  crashed  rank 0: "
      "\\x1b]52;c;cm0gLXJm\\x07");
}

TEST_CASE("several sweeps share the height") {
  std::vector<SweepProgress> sweeps(3, running());
  sweeps[1].status.name = "second";
  sweeps[2].status.name = "third";
  CHECK(block(sweeps, 59, 6) ==
      "quickstart  [#####..........]  37/96  about 1 min 20 s left\n"
      "  31 completed, 4 oom, 2 skipped, 1 running, 22 queued,\n"
      "  36 planned\n"
      "  best     12,346 tokens/s/GPU  dp2 tp1 pp1 mb4 ga16 z0  (\u2026\n"
      "second  [#######............]  37/96  about 1 min 20 s left\n"
      "third  [#######.............]  37/96  about 1 min 20 s left\n");
  for (std::size_t height = 1; height < 12; ++height)
    CHECK(progress_block(std::vector<SweepProgress>(31, running()), {59, height, true}).size() <=
        height);
}

TEST_CASE("time left: unknown, paused, over") {
  SweepStatus status = quickstart();
  CHECK(time_left_text(status) == "about 1 min 20 s left");
  status.corrected = false;  // no trial has ended yet
  CHECK(time_left_text(status) == "about 1 min 20 s left (predicted)");
  status.corrected = true;
  status.remaining_s = 0;
  CHECK(time_left_text(status) == "time left unknown");
  status.remaining_s = 0.2;
  CHECK(time_left_text(status) == "about 1 s left");
  SweepStatus held = status;  // no node will ever be free for its last two trials
  held.running.clear();
  held.waiting = "demo-4n: Resources";
  CHECK(time_left_text(held) == "about 1 s of runs left");
  status.state = "paused";
  CHECK(block({SweepProgress{status}}, 59)
            .starts_with("quickstart  [###########...................]  37/96  paused\n"));
  status.by_state = {{"ended", 96}};
  CHECK(time_left_text(status).empty());
  CHECK(progress_line(quickstart()) ==
      "quickstart 37/96: 31 completed, 4 oom, 2 skipped; running "
      "mini-g4-dp4tp1pp1-mb16ga1-s32-fp32-6e0b14; about 1 min 20 s left");
}

TEST_CASE("a finished trial is a line that fits, with its columns at the same place") {
  BestSoFar best;
  best.begin({{"quickstart", cell("mini", 4), "other", "dp1", 10'000, noon}});
  const FinishedTrial trial = measured(12'345);
  best.update({won(trial, 12'345, 10'000)});
  const auto at = [&](std::optional<std::size_t> width) {
    BestSoFar copy = best;
    return line_of(trial, width, copy);
  };
  CHECK(at(59) == "mini dp4 tp1 pp1 mb16 ga1 z0      12,345 tokens/s/GPU  best");
  BestSoFar other = best;
  CHECK(line_of(measured(123'456), 59, other) ==
      "mini dp4 tp1 pp1 mb16 ga1 z0     123,456 tokens/s/GPU  best");
  CHECK(at(79) == "mini dp4 tp1 pp1 mb16 ga1 z0    completed   12,345 tokens/s/GPU  best (1 run)");
  CHECK(at(199) ==
      "12:00:00  mini-g4-dp4tp1pp1-mb16ga1-s32-fp32-6e0b14       completed   12,345 "
      "tokens/s/GPU  MFU 43.1 %  10.5 MiB  best (1 run, +23.4 %)");
  CHECK(at(std::nullopt) ==
      "2025-11-22 12:00:00  mini-g4-dp4tp1pp1-mb16ga1-s32-fp32-6e0b14  completed  12,345 "
      "tokens/s/GPU  MFU 43.1 %  10.5 MiB  best (1 run, +23.4 %)");
  FinishedTrial oom = trial;
  oom.outcome = Outcome::oom;
  oom.tokens_per_s_per_gpu.reset();
  oom.cause = "rank 1: out of memory: 524288 bytes of workspace for logits";
  CHECK(line_of(oom, 79, best) ==
      "mini dp4 tp1 pp1 mb16 ga1 z0    oom  rank 1: out of memory: 524288 bytes of wo\u2026");
  oom.outcome = Outcome::hung;
  oom.again = true;
  CHECK(
      line_of(oom, 59, best) == "mini dp4 tp1 pp1 mb16 ga1 z0      hung  tried again  rank \u2026");
}

TEST_CASE("the best is what the answer of its cell says, and is told once") {
  BestSoFar best;
  FinishedTrial first = measured(100);
  first.layout = "dp1";
  CHECK_FALSE(best.take(first));  // the first one has nothing to beat
  best.update({won(first, 100, 90)});
  CHECK_FALSE(best.take(measured(110)));  // the answer names another one, whatever it measured
  best.update({won(measured(110), 110, 100)});
  const auto answer = best.take(measured(90));  // a repeat of the layout that leads
  REQUIRE(answer);
  CHECK(brief_text(*answer) == "1 run, +10.0 %");
  CHECK_FALSE(best.take(measured(120)));
  FinishedTrial marked = measured(1000);
  marked.mark = Mark::contaminated;
  marked.again = true;
  CHECK_FALSE(best.take(marked));
  CHECK(best.latest("quickstart")->tokens_per_s_per_gpu == 110);
  FinishedTrial other = measured(5);
  other.cell.gpus = 2;
  other.at = noon + 1;
  CHECK_FALSE(best.take(other));
  CellBest small = won(other, 5, 4);
  small.at = noon + 1;
  best.update({won(measured(110), 110, 100), small});
  CHECK(best.of("quickstart").size() == 2);
  CHECK(best.latest("quickstart")->cell.gpus == 2);
  CHECK(cell_text(other.cell, best.of("quickstart")) == "2 GPUs");
  CHECK(best.of("another").empty());
  CHECK(line_of(marked, std::nullopt, best) ==
      "2025-11-22 12:00:00  mini-g4-dp4tp1pp1-mb16ga1-s32-fp32-6e0b14  completed  1,000 "
      "tokens/s/GPU  MFU 43.1 %  10.5 MiB  contaminated, measured again");
  marked.mark = Mark::implausible;
  marked.doubt = "implausible: the loss is 9";
  marked.again = false;
  CHECK(line_of(marked, std::nullopt, best).ends_with("  implausible: the loss is 9"));
}

TEST_CASE("trials that are skipped for one reason are one line") {
  FinishedTrial skipped = measured(0);
  skipped.tokens_per_s_per_gpu.reset();
  skipped.outcome = Outcome::skipped;
  skipped.attempt = 0;
  skipped.cause = "nothing left beats 12,345";
  FinishedTrial second = skipped;
  FinishedTrial third = skipped;
  third.cause = "another reason";
  BestSoFar best;
  const auto lines = finished_lines({skipped, second, third, measured(7)}, best);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].trials == 2);
  CHECK(painted(finished_line(lines[0], 79, true, false), false) ==
      "2 trials                        skipped  nothing left beats 12,345");
  CHECK(painted(finished_line(lines[0], std::nullopt, true, true), false) ==
      "2025-11-22 12:00:00  quickstart/2 trials  skipped  nothing left beats 12,345");
}

TEST_CASE("colours are codes around the words, and change no width") {
  BestSoFar best;
  CHECK(line_of(measured(7), 79, best, true).find("\x1b[32mcompleted\x1b[0m") != std::string::npos);
  const auto lines = progress_block({running()}, {79, 23, true});
  std::string plain = text_of(lines, 79, true);
  for (auto at = plain.find('\x1b'); at != std::string::npos; at = plain.find('\x1b'))
    plain.erase(at, plain.find('m', at) - at + 1);
  CHECK(plain == text_of(lines, 79));
}
