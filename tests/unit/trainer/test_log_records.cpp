// SPDX-License-Identifier: Apache-2.0
#include "trainer/log_records.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

using namespace shardsweep;

namespace {

TrainerRun run_of(std::string log, std::vector<std::string> patterns = {}) {
  return {.log = std::move(log),
      .patterns = std::move(patterns),
      .warmup = 2,
      .steps = 3,
      .dp = 2,
      .seq_len = 100,
      .tokens_per_step = 800};
}

std::string megatron(int iteration, double ms, double loss = 6) {
  return fmt::format(
      " iteration {}/ 5 | elapsed time per iteration (ms): {:.1f} | global batch size: 8 | lm "
      "loss: {:E} | number of skipped iterations: 0 | number of nan iterations: {} |",
      iteration, ms, loss, std::isnan(loss) ? 1 : 0);
}

LogRecords reader_of(const TrainerRun& run) {
  auto records = LogRecords::make(run, 2);
  REQUIRE(records);
  return *std::move(records);
}

double number(const WrittenRecord& record, const char* key) {
  REQUIRE_MESSAGE(record.numbers.contains(key), key);
  return record.numbers.at(key);
}

std::string message_of(const WrittenRecord& record) {
  CHECK(record.type == "error");
  return record.texts.at("message");
}

}  // namespace

TEST_CASE("an iteration that no whole number holds is none") {
  auto log = reader_of(run_of("megatron"));
  std::string line = megatron(1, 4000);
  line.replace(line.find("1/"), 1, std::string(100, '3'));
  CHECK(log.read(line, 1).empty());
  CHECK_FALSE(log.has_steps());
  CHECK_FALSE(log.read(megatron(1, 4000), 2).empty());
  CHECK(log.has_steps());
}

TEST_CASE("train steps become records, the timed ones a result") {
  auto log = reader_of(run_of("megatron"));
  CHECK(log.read("using world size: 2, data-parallel size: 2", 0).empty());
  CHECK_FALSE(log.has_steps());
  const auto first = log.read(megatron(1, 4000), 1);
  REQUIRE(first.size() == 2);
  CHECK(first[0] == WrittenRecord{"phase", {{"phase", "train"}}, {}});
  CHECK(number(first[1], "step") == 1);
  CHECK(number(first[1], "step_ms") == 4000);
  CHECK(log.read(megatron(1, 4000), 2).empty());  // of another rank
  CHECK(log.read(megatron(2, 3000), 3).size() == 1);
  for (int i = 3; i < 5; ++i)
    CHECK(log.read(megatron(i, 100), 0.1 * i).size() == 1);
  CHECK_FALSE(log.is_complete());
  (void)log.read(megatron(5, 100), 5);
  CHECK(log.is_complete());
  (void)log.read(megatron(6, 9000), 6);  // more than was asked for
  const auto result = log.finish(0.1);
  CHECK(result.type == "result");
  CHECK(number(result, "train_step_ms") == 100);
  CHECK(number(result, "tokens_per_s_per_gpu") == doctest::Approx(800 / 0.1 / 2));
  CHECK(number(result, "tokens_per_s") == doctest::Approx(8000));
  CHECK(number(result, "steps") == 3);
  CHECK(number(result, "loss") == doctest::Approx(6));
}

TEST_CASE("a log that contradicts the layout is an error, and no result") {
  SUBCASE("another world") {
    auto log = reader_of(run_of("megatron"));
    (void)log.read("using world size: 4, data-parallel size: 4", 0);
    for (int i = 1; i < 6; ++i)
      (void)log.read(megatron(i, 100), 0.1 * i);
    const auto said = message_of(log.finish(0.1));
    CHECK(said ==
        "its log is no measurement: The log says gpus 4, but 2 was asked for. The log says "
        "dp 4, but 2 was asked for.");
  }
  SUBCASE("another batch") {
    auto run = run_of("megatron");
    run.tokens_per_step = 1600;
    auto log = reader_of(run);
    for (int i = 1; i < 6; ++i)
      (void)log.read(megatron(i, 100), 0.1 * i);
    CHECK(message_of(log.finish(0.1))
              .find("a global batch of 8 samples of 100 tokens, but 1600 tokens per train step "
                    "were asked for") != std::string::npos);
  }
  SUBCASE("too few train steps") {
    auto log = reader_of(run_of("megatron"));
    (void)log.read(megatron(1, 100), 1);
    CHECK(message_of(log.finish(0.1))
              .find("The log has 1 train steps. At least 4 are needed, because the first 2 are not "
                    "timed.") != std::string::npos);
  }
  SUBCASE("none") {
    auto log = reader_of(run_of("megatron"));
    CHECK(message_of(log.finish(0.1)).find("no train step that this reader knows") !=
        std::string::npos);
  }
  SUBCASE("a loss that is no number") {
    auto log = reader_of(run_of("megatron"));
    for (int i = 1; i < 6; ++i)
      (void)log.read(megatron(i, 100, i > 2 ? std::nan("") : 6), 0.1 * i);
    const auto error = log.finish(0.1);
    CHECK(error.texts.at("class") == "nan");
  }
}

TEST_CASE("a log without times is measured by when it is read, or not at all") {
  auto log = reader_of(run_of("", {"step {iteration} loss {loss}"}));
  for (int i = 1; i < 6; ++i)
    (void)log.read(fmt::format("step {} loss 3.5", i), 10 + i * 2.0);
  const auto fine = log.finish(0.1);
  CHECK(fine.type == "result");
  CHECK(number(fine, "train_step_ms") == doctest::Approx(2000));
  CHECK(number(fine, "steps") == 3);
  CHECK(number(fine, "resolution") == doctest::Approx(0.1 / 6));
  const auto coarse = message_of(log.finish(1));
  CHECK(coarse.find("all timed train steps took only 6.0 s") != std::string::npos);
}

TEST_CASE("what another start would print again is final, the rest is tried once more") {
  const auto class_of = [](const TrainerRun& run, std::string_view facts, double loss, int steps) {
    auto log = reader_of(run);
    (void)log.read(facts, 0);
    for (int i = 1; i <= steps; ++i)
      (void)log.read(megatron(i, 100, i > 2 ? loss : 6), 0.1 * i);
    const auto error = log.finish(0.1);
    CHECK(error.type == "error");
    return error.texts.at("class");
  };
  const TrainerRun run = run_of("megatron");
  constexpr std::string_view right = "using world size: 2, data-parallel size: 2";
  constexpr std::string_view other = "using world size: 4, data-parallel size: 4";
  CHECK(class_of(run, other, 6, 5) == "invalid_layout");
  CHECK(class_of(run, other, std::nan(""), 5) == "invalid_layout");
  CHECK(class_of(run, right, 6, 3) == "internal");
  CHECK(class_of(run, right, std::nan(""), 5) == "nan");
  auto small = run;
  small.tp = small.pp = 1;
  small.parameters = 1'000'000;
  constexpr std::string_view model =
      " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): ";
  CHECK(class_of(small, fmt::format("{}9000000", model), 6, 5) == "invalid_layout");
  // What is cut short and a rank that runs alone are held against the same facts.
  auto cut = reader_of(run);
  (void)cut.read(other, 0);
  (void)cut.read(megatron(1, 100), 1);
  REQUIRE(cut.contradiction());
  CHECK(cut.contradiction()->texts.at("class") == "invalid_layout");
  auto pretended = run;
  pretended.fake_world = 16;
  auto alone = reader_of(pretended);
  (void)alone.read(other, 0);
  (void)alone.read("memory (MB) | allocated: 1.0 | max allocated: 900.5 |", 0);
  CHECK(alone.finish(0.1).texts.at("class") == "invalid_layout");
}

TEST_CASE("a log or a pattern that is not known is a fault") {
  CHECK_FALSE(LogRecords::make(run_of("megatrn"), 1));
  const auto wrong = LogRecords::make(run_of("", {"took {step_mss} ms"}), 1);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().what.find("step_ms") != std::string::npos);
}

TEST_CASE("facts of one node and train steps of another meet") {
  auto first = reader_of(run_of("megatron"));
  auto last = reader_of(run_of("megatron"));
  (void)first.read("using world size: 4, data-parallel size: 4", 0);
  (void)first.read(
      "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: "
      "900.5 | reserved: 2.0 | max reserved: 1000.0",
      0);
  for (int i = 1; i < 6; ++i)
    (void)last.read(megatron(i, 100), 0.1 * i);
  CHECK(last.finish(0.1).type == "result");  // what it has not heard it can't check
  REQUIRE(last.add_facts(first.facts_text() + "complete\n"));
  CHECK(message_of(last.finish(0.1)).find("The log says gpus 4, but 2 was asked for.") !=
      std::string::npos);

  auto own = reader_of(run_of("megatron"));
  (void)own.read(
      "[Rank 2] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: "
      "800.0 | reserved: 2.0 | max reserved: 1200.0",
      0);
  for (int i = 1; i < 6; ++i)
    (void)own.read(megatron(i, 100), 0.1 * i);
  auto memory = reader_of(run_of("megatron"));
  (void)memory.read("memory (MB) | allocated: 1.0 | max allocated: 900.5 |", 0);
  REQUIRE(own.add_facts(memory.facts_text()));
  const auto result = own.finish(0.1);
  CHECK(number(result, "peak_allocated_bytes") == doctest::Approx(900.5 * 1048576));
  CHECK(number(result, "peak_reserved_bytes") == doctest::Approx(1200.0 * 1048576));
  REQUIRE(own.add_facts("no facts at all\ngpus many 3\n\n"));
}

TEST_CASE("where a log rounds its times the finer time of reading counts") {
  const auto run = run_of("nanotron");
  const auto measured = [&](double step_s) {
    auto log = reader_of(run);
    for (int i = 1; i < 6; ++i)
      (void)log.read(
          fmt::format("iteration: {} / 5 | time_per_iteration_ms: 1.23K | lm_loss: 6.1 |", i),
          10 + i * step_s);
    return log.finish(0.0005);
  };
  const auto fine = measured(1.2345);
  CHECK(number(fine, "train_step_ms") == doctest::Approx(1234.5));
  CHECK(number(fine, "resolution") < 0.001);
  // Something else than train steps was between the lines.
  const auto other = measured(1.5);
  CHECK(number(other, "train_step_ms") == doctest::Approx(1230));
  CHECK(number(other, "resolution") > 0.002);
  CHECK(other.texts.at("trainer_note") ==
      "The log prints 1230.0 ms per train step, but by the times of its lines a step takes 1500.0 "
      "ms.");
  CHECK(message_of(measured(2)).find("by the times of its lines a step takes 2000.0 ms") !=
      std::string::npos);
}

TEST_CASE("a rank alone tells its memory, and neither speed nor loss") {
  auto run = run_of("megatron");
  run.fake_world = 16;
  run.dp = 16;
  const std::string memory =
      "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: 900.5 | "
      "reserved: 2.0 | max reserved: 1000.0";
  auto log = reader_of(run);
  CHECK_FALSE(log.is_complete());
  (void)log.read("using world size: 16, data-parallel size: 16", 0);
  (void)log.read(memory, 1);
  CHECK(log.is_complete());
  const auto result = log.finish(0.1);
  CHECK(result.type == "result");
  CHECK(number(result, "proof") == 1);
  CHECK(number(result, "peak_memory_bytes") == doctest::Approx(900.5 * 1048576));
  CHECK_FALSE(result.numbers.contains("tokens_per_s_per_gpu"));

  auto timed = reader_of(run);
  (void)timed.read(memory, 0);
  for (int i = 1; i < 6; ++i)
    (void)timed.read(megatron(i, 100, std::nan("")), 0.1 * i);
  const auto with_time = timed.finish(0.1);
  CHECK(with_time.type == "result");
  CHECK(number(with_time, "train_step_ms") == 100);

  auto other = reader_of(run);
  (void)other.read("using world size: 2, data-parallel size: 2", 0);
  (void)other.read(memory, 1);
  CHECK(message_of(other.finish(0.1)).find("The log says gpus 2, but 16 was asked for.") !=
      std::string::npos);
  auto silent = reader_of(run);
  CHECK(message_of(silent.finish(0.1)).find("The log has no peak memory.") != std::string::npos);
}

namespace {

/// A line of DeepSpeed's engine: 8 samples in a tenth of a second.
std::string deepspeed_line(int step) {
  return fmt::format(
      "epoch=0/micro_step={}/global_step={}, RunningAvgSamplesPerSec=1.0, "
      "CurrSamplesPerSec=80.0, MemAllocated=1.0GB, MaxMemAllocated=2.0GB",
      step, step);
}

/// Of a run that trains this many steps: its timer prints none before the third.
LogRecords after_deepspeed(std::int64_t warmup, std::int64_t steps, int trained) {
  TrainerRun run = run_of("deepspeed");
  run.warmup = warmup;
  run.steps = steps;
  auto log = reader_of(run);
  (void)log.read("  train_batch_size ............. 8", 0);
  for (int i = 3; i <= trained; ++i)
    (void)log.read(deepspeed_line(i), 0.1 * i);
  return log;
}

}  // namespace

TEST_CASE("train steps that DeepSpeed never prints are warm-up") {
  const auto short_warmup = after_deepspeed(1, 4, 5);
  CHECK(short_warmup.is_complete());
  CHECK(number(short_warmup.finish(0.1), "steps") == 3);
  const auto long_warmup = after_deepspeed(3, 4, 7);
  CHECK(long_warmup.is_complete());
  CHECK_FALSE(long_warmup.is_past());
  CHECK(number(long_warmup.finish(0.1), "steps") == 4);
  CHECK_FALSE(after_deepspeed(3, 4, 6).is_complete());
  CHECK(after_deepspeed(3, 4, 8).is_past());
  CHECK(message_of(after_deepspeed(1, 2, 3).finish(0.1))
            .find("The log leaves out its first 2 train steps, and has 1 timed one. At least 2 "
                  "are needed: raise 'warmup' of 'measure' to 2.") != std::string::npos);
}

TEST_CASE("of Megatron-DeepSpeed the loss is read, and its model's size held against the sweep's") {
  const auto ended = [](std::int64_t layers) {
    TrainerRun run = run_of("deepspeed");
    run.steps = 2;
    run.axes["layers"] = "4";
    auto log = reader_of(run);
    (void)log.read("  train_batch_size ............. 8", 0);
    (void)log.read(fmt::format("  num_layers ................... {}", layers), 0);
    for (int i = 1; i <= 4; ++i) {
      (void)log.read(
          fmt::format(
              " iteration {:8}/{:8} | consumed samples: {:12} | elapsed time per iteration (ms): "
              "{}.5 | global batch size: {:5} | lm loss: 5.9{}0000E+00 | loss scale: 1.0 | "
              "number of skipped iterations:   0 | number of nan iterations:   0 |",
              i, 4, 8 * i, 100 * i, 8, i),
          0.1 * i);
    }
    return log.finish(0.1);
  };
  CHECK(number(ended(4), "loss") == doctest::Approx(5.94));
  CHECK(message_of(ended(8)).find("The log says layers 8, but 4 was asked for.") !=
      std::string::npos);
}

TEST_CASE("a log without train steps says what makes its trainer print them") {
  CHECK(message_of(reader_of(run_of("deepspeed")).finish(0.1))
            .find("no train step that this reader knows. DeepSpeed prints each if you set "
                  "\"steps_per_print\": 1, \"log_level\": \"info\".") != std::string::npos);
  CHECK(message_of(reader_of(run_of("megatron")).finish(0.1))
            .find("Megatron-LM prints each if you set --log-interval 1 --log-throughput.") !=
      std::string::npos);
}
