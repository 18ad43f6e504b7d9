// SPDX-License-Identifier: Apache-2.0
// Each golden log in tests/data/cases/trainers as terminals, launchers, other ranks and a
// broken connection hand it on: it gives the same measurement as the plain log, or none at all.
// `unit_trainer -tc='the table*' -s` prints which trainer is held by which truth checks.
#include "trainer/judge_log.hpp"
#include "trainer/log_records.hpp"
#include "trainer/trainers.hpp"
#include "trainer/version.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace shardsweep;

namespace {

using Lines = std::vector<std::string>;

struct Golden {
  std::string trainer;
  std::string file;
  /// Truth checks that what it prints allows.
  std::string_view checks;
  /// Its train step is one line longer than a launcher's buffer may be, and ends behind its
  /// numbers: wherever that line is cut nothing wrong is read.
  bool one_line = true;
};

const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all{
      {"megatron", "megatron-2023", "loss skipped consumed batch sequence"},
      {"megatron", "megatron-2024", "loss skipped consumed batch sequence world"},
      {"megatron", "megatron-2026", "loss skipped consumed batch sequence world"},
      {"megatron-bridge", "megatron-bridge-2025", "loss skipped consumed batch sequence"},
      {"megatron-bridge", "megatron-bridge", "loss skipped consumed batch sequence"},
      {"nemo", "nemo-2024", "loss consumed batch sequence", false},
      {"nemo", "nemo", "loss consumed batch sequence", false},
      {"nemo", "nemo-2025", "loss consumed batch sequence", false},
      {"nanotron", "nanotron-2024", "loss consumed batch world"},
      {"nanotron", "nanotron", "loss consumed batch world"},
      {"torchtitan", "torchtitan-0.1.0", "loss"},
      {"torchtitan", "torchtitan-2026", "loss batch"},
      {"deepspeed", "deepspeed-pipe", "loss batch sequence"},
      {"deepspeed", "deepspeed-0.16", "loss batch sequence"},
      {"deepspeed", "deepspeed-engine", "skipped batch sequence world"},
      {"gpt-neox", "gpt-neox", "loss skipped batch sequence"},
      {"gpt-neox", "gpt-neox-2026", "loss skipped batch sequence"},
      {"picotron", "picotron-2024", "loss consumed batch world"},
      {"picotron", "picotron", "loss consumed batch world"},
      {"llm-foundry", "llm-foundry-2023", "loss batch world", false},
      {"llm-foundry", "llm-foundry", "loss batch world", false},
      {"hf-trainer", "hf-trainer", "loss consumed batch sequence"},
      {"hf-trainer", "hf-trainer-2025", "loss consumed batch sequence"},
      {"axolotl", "axolotl", "loss consumed batch sequence"},
      {"axolotl", "axolotl-0.13", "loss consumed batch sequence"},
      {"olmo-core", "olmo-core", "loss consumed batch", false},
      {"olmo-core", "olmo-core-2.0", "loss consumed batch", false},
      {"primus", "primus", "loss skipped consumed batch sequence world"},
      {"primus", "primus-26.4", "loss skipped consumed batch sequence world"},
      {"composer", "llm-foundry-2023", "loss batch world", false},
      {"composer", "llm-foundry", "loss batch world", false},
      {"maxtext", "maxtext", "loss batch world sequence"},
      {"maxtext", "maxtext-2025", "loss batch world"},
      {"records", "records", "loss batch world"},
  };
  return all;
}

Lines lines_of(const std::string& file) {
  std::ifstream in(std::filesystem::path(SHARDSWEEP_SOURCE_DIR) / "tests" / "data" / "cases" /
      "trainers" / (file + ".log"));
  REQUIRE(in);
  Lines lines;
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

constexpr std::int64_t tokens = 1048576;
constexpr double real_step_ms = 511.6;

TrainerRun run_of(const Golden& golden) {
  return {.log = golden.trainer,
      .warmup = 1,
      .steps = 5,
      .dp = 2,
      .seq_len = 4096,
      .tokens_per_step = tokens};
}

/// The record that an attempt would get whose ranks print these lines within no time.
WrittenRecord record_of(const TrainerRun& run, const Lines& lines, std::int64_t gpus = 16) {
  auto log = LogRecords::make(run, gpus);
  REQUIRE(log);
  for (const auto& line : lines)
    (void)log->read(line, 0);
  return log->finish(0.05);
}

Lines each(Lines lines, const std::function<std::string(const std::string&)>& change) {
  std::transform(lines.begin(), lines.end(), lines.begin(), change);
  return lines;
}

/// As loggers colour each number.
std::string with_coloured_numbers(const std::string& line) {
  if (line.find('\x1b') != std::string::npos) return line;  // it has colours of its own
  std::string text = "\x1b[1;31m";
  bool inside = false;
  for (const char c : line) {
    const bool digit = (c >= '0' && c <= '9') || (inside && (c == '.' || c == ','));
    if (digit != inside) text += digit ? "\x1b[38;5;208m" : "\x1b[0m";
    inside = digit;
    text += c;
  }
  return text + "\x1b[0m";
}

/// What other ranks print in between. None of it is a train step of any of these trainers.
const Lines noise{
    "",
    "[rank3]: /opt/trainer/utils.py:77: UserWarning: iteration of a generator was interrupted",
    "n17:4242:4250 [2] NCCL INFO comm 0x55d0 rank 2 nranks 16 cudaDev 2 - Init COMPLETE",
    " validation loss at iteration 4 | lm loss value: 4.861200E+00 | lm loss PPL: 1.29E+02 |",
    "(min, max) time across ranks (ms):",
    "    forward-backward ...............................: (480.11, 500.20)",
    "[rank1]:[W ProcessGroupNCCL.cpp:1250] Warning: iteration 3 of 9 | elapsed",
    "Evaluating:  30%|███       | 3/10 [00:01<00:04,  1.61it/s]\r",
    "wandb: step 3, loss 3.2",
};

Lines among_noise(const Lines& lines) {
  Lines all;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    all.insert(all.end(), noise.begin(), noise.end());
    all.push_back(lines[i]);
  }
  return all;
}

std::string describe(const WrittenRecord& record) {
  std::string text = record.type;
  for (const auto& [key, value] : record.texts)
    text += fmt::format(" {}={}", key, value);
  for (const auto& [key, value] : record.numbers)
    text += fmt::format(" {}={}", key, value);
  return text;
}

/// Of a log that was damaged: what it really was, within its own rounding and what fewer train
/// steps change, or nothing.
bool is_right_or_nothing(const WrittenRecord& record) {
  if (record.type != "result") return record.numbers.empty();
  const double slack = 0.01 + record.numbers.at("resolution");
  const double speed = static_cast<double>(tokens) / 16 / (real_step_ms * 1e-3);
  const bool speed_is_right =
      std::abs(record.numbers.at("tokens_per_s_per_gpu") / speed - 1) < slack;
  const auto step = record.numbers.find("train_step_ms");
  return speed_is_right &&
      (step == record.numbers.end() || std::abs(step->second / real_step_ms - 1) < slack);
}

bool has_step_time(const std::string& line) {
  return line.find("512.4") != std::string::npos || line.find("0.512") != std::string::npos ||
      line.find(" 512 ") != std::string::npos || line.find("127.90K") != std::string::npos ||
      line.find("499.6096") != std::string::npos || line.find("127,900") != std::string::npos ||
      line.find("1.9516") != std::string::npos || line.find("'4.723'") != std::string::npos ||
      line.find("4.7227") != std::string::npos;
}

Lines cut_at(const std::string& line, std::size_t place) {
  return {line.substr(0, place), line.substr(place)};
}

}  // namespace

TEST_CASE("colours, labels of ranks and line ends change nothing") {
  const std::vector<std::function<std::string(const std::string&)>> disguises{
      [](const auto& line) { return "\x1b[32m" + line + "\x1b[0m"; },
      with_coloured_numbers,
      [](const auto& line) { return "[default15]:" + line; },
      [](const auto& line) { return "15: " + line; },
      [](const auto& line) { return "[rank15]:" + line; },
      [](const auto& line) { return "[15]:" + line; },
      [](const auto& line) { return " 15: [default7]:\x1b[33m" + line + "\x1b[39m\r"; },
      [](const auto& line) { return line + "\r"; },
  };
  for (const Golden& golden : goldens()) {
    CAPTURE(golden.file);
    const auto lines = lines_of(golden.file);
    const auto plain = record_of(run_of(golden), lines);
    REQUIRE_MESSAGE(plain.type == "result", describe(plain));
    for (std::size_t i = 0; i < disguises.size(); ++i) {
      CAPTURE(i);
      const auto record = record_of(run_of(golden), each(lines, disguises[i]));
      CHECK(describe(record) == describe(plain));
    }
  }
}

TEST_CASE("what other ranks print in between changes nothing") {
  for (const Golden& golden : goldens()) {
    CAPTURE(golden.file);
    const auto lines = lines_of(golden.file);
    CHECK(describe(record_of(run_of(golden), among_noise(lines))) ==
        describe(record_of(run_of(golden), lines)));
  }
}

namespace {

/// The line `found` in two; another rank's line comes between the halves.
Lines with_one_cut(const Lines& lines, Lines::const_iterator found, std::size_t place) {
  Lines cut(lines.begin(), found);
  for (const auto& half : cut_at(*found, place)) {
    cut.push_back(half);
    cut.push_back(noise[place % noise.size()]);
  }
  cut.insert(cut.end(), found + 1, lines.end());
  return cut;
}

}  // namespace

TEST_CASE("one train step cut in two anywhere gives the same speed or none") {
  for (const Golden& golden : goldens()) {
    CAPTURE(golden.file);
    const auto lines = lines_of(golden.file);
    const auto found = std::find_if(lines.begin(), lines.end(), has_step_time);
    REQUIRE(found != lines.end());
    for (std::size_t place = 0; place <= found->size(); ++place) {
      CAPTURE(place);
      const auto record = record_of(run_of(golden), with_one_cut(lines, found, place));
      CHECK_MESSAGE(is_right_or_nothing(record), describe(record));
    }
  }
}

namespace {

/// Each line in two, where it is that long.
Lines with_all_cut(const Lines& lines, std::size_t place) {
  Lines cut;
  for (const auto& line : lines) {
    const auto halves = line.size() > place ? cut_at(line, place) : Lines{line};
    cut.insert(cut.end(), halves.begin(), halves.end());
  }
  return cut;
}

std::size_t longest_of(const Lines& lines) {
  std::size_t longest = 0;
  for (const auto& line : lines)
    longest = std::max(longest, line.size());
  return longest;
}

}  // namespace

TEST_CASE("each line cut at the same place gives the same speed or none") {
  for (const Golden& golden : goldens()) {
    if (!golden.one_line) continue;
    CAPTURE(golden.file);
    const auto lines = lines_of(golden.file);
    for (std::size_t place = 1; place < longest_of(lines); ++place) {
      CAPTURE(place);
      const auto record = record_of(run_of(golden), with_all_cut(lines, place));
      CHECK_MESSAGE(is_right_or_nothing(record), describe(record));
    }
  }
}

namespace {

/// The whole lines in front of `count`, and the first bytes of that one.
Lines ended_at(const Lines& lines, std::size_t count, std::size_t bytes) {
  Lines cut(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(count));
  if (bytes > 0) cut.push_back(lines.at(count).substr(0, bytes));
  return cut;
}

/// How often a log that ends within the line `count` is a measurement; each must be right.
int check_ends_within(const Golden& golden, const Lines& lines, std::size_t count) {
  int measured = 0;
  // Half a line, as a reader finds it that does not wait for the line's end.
  const std::size_t bytes = count < lines.size() && golden.one_line ? lines[count].size() : 1;
  for (std::size_t place = 0; place < bytes; place += 3) {
    CAPTURE(place);
    const auto record = record_of(run_of(golden), ended_at(lines, count, place));
    CHECK_MESSAGE(is_right_or_nothing(record), describe(record));
    if (record.type == "result") ++measured;
  }
  return measured;
}

}  // namespace

TEST_CASE("a log that ends anywhere gives the same speed or none") {
  for (const Golden& golden : goldens()) {
    CAPTURE(golden.file);
    const auto lines = lines_of(golden.file);
    int measured = 0;
    for (std::size_t count = 0; count <= lines.size(); ++count) {
      CAPTURE(count);
      measured += check_ends_within(golden, lines, count);
    }
    CHECK(measured > 0);
  }
}

namespace {

/// What an attempt gets whose probe finds this version; `known`: it is not refused at once.
WrittenRecord record_with_version(const Golden& golden, const char* version, bool known) {
  auto log = LogRecords::make(run_of(golden), 16);
  REQUIRE(log);
  const auto seen = log->see_version(fmt::format("shardsweep-probe: {}", version));
  CHECK(seen.has_value() == known);
  if (!seen)
    CHECK(seen.error().what.find(fmt::format(
              "'{}' of {}", version, find_trainer(golden.trainer)->title)) != std::string::npos);
  for (const auto& line : lines_of(golden.file))
    (void)log->read(line, 0);
  return log->finish(0.05);
}

}  // namespace

TEST_CASE("the log of each trainer in an older version is no measurement, in a newer it is") {
  for (const Golden& golden : goldens()) {
    const Trainer* trainer = find_trainer(golden.trainer);
    if (trainer->from.empty()) continue;
    CAPTURE(golden.file);
    const auto older = record_with_version(golden, "0.0.1", false);
    CHECK(older.type == "error");
    CHECK(older.texts.at("class") == "usage");
    CHECK(older.numbers.empty());
    const auto newer = record_with_version(golden, "9999.1", true);
    CHECK_MESSAGE(newer.type == "result", describe(newer));
    CHECK(newer.texts.at("trainer_note").find("newer than tested") != std::string::npos);
    for (const auto& version : {trainer->from, trainer->to}) {
      CHECK(check_version(*trainer, version));
      CHECK_FALSE(is_newer_than_tested(*trainer, version));
    }
  }
}

TEST_CASE("a log that says its own version is refused by it, or keeps it with the result") {
  const auto told = [](const std::string& file) {
    const Golden golden{"deepspeed", file, ""};
    auto log = LogRecords::make(run_of(golden), 16);
    REQUIRE(log);
    for (const auto& line : lines_of(file)) {
      (void)log->see_version(line);
      (void)log->read(line, 0);
    }
    return log->finish(0.05);
  };
  const auto old = told("deepspeed-0.5");
  CHECK(old.type == "error");
  CHECK(old.numbers.empty());
  CHECK(old.texts.at("message").find("Version '0.5.10' of DeepSpeed was found.") !=
      std::string::npos);
  const auto known = told("deepspeed-0.16");
  CHECK(known.type == "result");
  CHECK(known.texts.at("trainer_version") == "0.16.4");
}

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

Lines with(const Lines& lines, const std::string& from, const std::string& to) {
  return each(lines, [&](const auto& line) { return replaced(line, from, to); });
}

/// As if the optimizer had refused to step: in the words of each trainer.
Lines with_skipped(const Lines& lines) {
  int step = 0;
  return each(lines, [&](const auto& line) {
    std::string text = replaced(line, "skipped iterations:   0", "skipped iterations:   1");
    if (text.find("skipped=0") != std::string::npos)
      text = replaced(text, "skipped=0", fmt::format("skipped={}", ++step));
    return text;
  });
}

/// One batch fewer than there were train steps.
Lines with_less_consumed(const Lines& lines) {
  Lines all = with(lines, "1536", "1280");
  all = with(all, "consumed_tokens: 6.29M", "consumed_tokens: 5.24M");
  all = with(all, "total tokens=6,291,456", "total tokens=5,242,880");
  all = with(all, "tokens_seen': 6291456", "tokens_seen': 5242880");
  return with(all, "Tokens:   6.29M", "Tokens:   5.24M");
}

struct Untruth {
  std::string name;
  std::string check;  ///< which one has to find it; empty: all logs allow it
  std::function<WrittenRecord(const Golden&, const Lines&)> told;
};

const std::vector<Untruth>& untruths() {
  static const std::vector<Untruth> all{
      {"batch", "batch",
          [](const Golden& golden, const Lines& lines) {
            auto run = run_of(golden);
            run.tokens_per_step = 2 * tokens;
            return record_of(run, lines);
          }},
      {"first loss", "loss",
          [](const Golden& golden, const Lines& lines) {
            auto run = run_of(golden);
            run.vocab = 1000;
            return record_of(run, lines);
          }},
      {"nan", "loss",
          [](const Golden& golden, const Lines& lines) {
            Lines broken = lines;
            for (const char* loss : {"9.871300E+00", "9.87130", "9.8713", "9.871", "9.87 "})
              broken = with(broken, loss, std::string(loss).ends_with(' ') ? "nan " : "nan");
            return record_of(run_of(golden), broken);
          }},
      {"too few steps", "",
          [](const Golden& golden, const Lines& lines) {
            auto run = run_of(golden);
            run.warmup = 5;
            return record_of(run, lines);
          }},
      {"world", "world",
          [](const Golden& golden, const Lines& lines) {
            return record_of(run_of(golden), lines, 32);
          }},
      {"skipped", "skipped",
          [](const Golden& golden, const Lines& lines) {
            return record_of(run_of(golden), with_skipped(lines));
          }},
      {"consumed", "consumed",
          [](const Golden& golden, const Lines& lines) {
            return record_of(run_of(golden), with_less_consumed(lines));
          }},
      {"sequence", "sequence",
          [](const Golden& golden, const Lines& lines) {
            auto run = run_of(golden);
            run.seq_len = 8192;
            return record_of(run, lines);
          }},
  };
  return all;
}

}  // namespace

TEST_CASE("the table of trainers and truth checks: a check that fails leaves no number") {
  std::string table;
  for (const Golden& golden : goldens()) {
    const auto lines = lines_of(golden.file);
    table += fmt::format("{:22}", golden.file);
    for (const Untruth& untruth : untruths()) {
      CAPTURE(golden.file);
      CAPTURE(untruth.name);
      const bool printed = golden.checks.find(untruth.check) != std::string_view::npos;
      const auto record = untruth.told(golden, lines);
      CHECK_MESSAGE((record.type == "error") == printed, describe(record));
      if (printed) CHECK(record.numbers.empty());
      table += fmt::format(" {:13}", printed ? untruth.name : "-");
    }
    table += '\n';
  }
  MESSAGE("\n" << table);
}

TEST_CASE("each trainer has a golden log, and each that has changed its form has two") {
  // They print no time: that at which their lines are read counts (test_trainers.cpp).
  const std::set<std::string_view> timeless{"lightning", "ms-swift"};
  for (const Trainer& trainer : trainers()) {
    CAPTURE(trainer.name);
    if (timeless.contains(trainer.name)) continue;
    const auto count = std::count_if(goldens().begin(), goldens().end(),
        [&](const auto& one) { return one.trainer == trainer.name; });
    CHECK(count >= (trainer.from.empty() ? 1 : 2));
  }
}
