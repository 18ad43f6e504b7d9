// SPDX-License-Identifier: Apache-2.0
// Logs in tests/data/cases/trainers, written after each trainer's format strings: six train
// steps of 1,048,576 tokens on 16 GPUs. The first takes 4,210.3 ms, the others 512.4, 510.9,
// 511.6, 513.0 and 510.2 ms.
#include "trainer/judge_log.hpp"
#include "trainer/log_records.hpp"
#include "trainer/trainers.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace shardsweep;

namespace {

const std::filesystem::path logs =
    std::filesystem::path(SHARDSWEEP_SOURCE_DIR) / "tests" / "data" / "cases" / "trainers";

std::string text_of(const std::string& file) {
  std::ifstream in(logs / (file + ".log"), std::ios::binary);
  REQUIRE(in);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TrainerLog read_text(std::string_view trainer, const std::string& text) {
  const Trainer* found = find_trainer(trainer);
  REQUIRE(found != nullptr);
  auto reader = LogReader::make(log_patterns(found->name));
  REQUIRE(reader);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    reader->read(line);
  return reader->finish();
}

JudgedLog judged(
    std::string_view trainer, const std::string& file, const ExpectedRun& expected = {}) {
  return judge_log(read_text(trainer, text_of(file)), expected);
}

/// The one fault of a log.
std::string fault_of(
    std::string_view trainer, const std::string& file, const ExpectedRun& expected = {}) {
  return fmt::format("{}", fmt::join(judged(trainer, file, expected).faults, " "));
}

constexpr double tokens_per_s_per_gpu = 1048576.0 / 16 / 0.5116;

struct Case {
  std::string_view trainer;
  std::string file;
  ExpectedRun expected;      ///< what its log does not say
  double resolution;         ///< at most
  double allocated_gib = 0;  ///< 0: not printed
  double reserved_gib = 0;
};

}  // namespace

TEST_CASE("the log of each trainer gives its measurement") {
  const ExpectedRun all{.gpus = 16, .seq_len = 4096, .tokens_per_step = 1048576};
  const ExpectedRun length{.gpus = 16, .seq_len = 4096};
  const std::vector<Case> cases{
      {"megatron", "megatron-2026", {}, 1e-4, 50.034, 50.815},
      {"megatron", "megatron-2023", length, 1e-4},
      {"megatron", "megatron-2024", {}, 1e-4, 50.034, 50.815},
      {"megatron", "megatron-interleaved", {}, 1e-4, 50.0, 50.815},
      {"megatron", "megatron-cut", {}, 1e-4},
      {"megatron-bridge", "megatron-bridge", length, 1e-4, 50.034, 51.326},
      {"megatron-bridge", "megatron-bridge-2025", length, 1e-4, 50.034, 51.326},
      {"nemo", "nemo", length, 1e-3},
      {"nemo", "nemo-2024", length, 1e-3},
      {"nemo", "nemo-2025", length, 1e-3, 50.034, 50.815},
      {"nanotron", "nanotron", {.gpus = 16}, 5e-3, 50.034, 50.815},
      {"nanotron", "nanotron-2024", {.gpus = 16}, 5e-3, 50.034, 50.815},
      {"torchtitan", "torchtitan-2026", {.gpus = 16}, 1e-5, 0, 52.25},
      {"torchtitan", "torchtitan-0.1.0", all, 1e-5, 0, 52.25},
      // What each rank writes beside its output: one line for the begin and one for the end of
      // each part.
      {"torchtitan", "torchtitan-structured", all, 1e-9},
      {"deepspeed", "deepspeed-pipe", length, 1e-3},
      {"deepspeed", "deepspeed-0.16", length, 1e-3},
      {"deepspeed", "deepspeed-engine", length, 1e-9, 50.03},
      {"gpt-neox", "gpt-neox", {.gpus = 16}, 1e-4, 50.034, 50.815},
      {"gpt-neox", "gpt-neox-2026", {.gpus = 16}, 1e-4, 50.034, 50.815},
      {"picotron", "picotron", all, 2e-4, 0, 51.325},
      {"picotron", "picotron-2024", all, 2e-4, 0, 51.325},
      {"llm-foundry", "llm-foundry", all, 1e-4, 50.034, 50.815},
      {"llm-foundry", "llm-foundry-2023", all, 1e-4, 50.034, 50.815},
      {"hf-trainer", "hf-trainer", all, 3e-3},
      {"hf-trainer", "hf-trainer-2025", all, 3e-4},
      {"axolotl", "axolotl", all, 3e-3, 50.03, 50.82},
      {"axolotl", "axolotl-0.13", all, 3e-4, 50.03, 50.82},
      {"olmo-core", "olmo-core", all, 1e-5, 0, 50.81},
      {"olmo-core", "olmo-core-2.0", all, 1e-5, 0, 50.81},
      {"primus", "primus", all, 1e-4, 0, 54.25},
      {"primus", "primus-26.4", all, 1e-4, 0, 54.25},
      {"composer", "llm-foundry", all, 1e-4, 50.034, 50.815},
      {"maxtext", "maxtext", all, 2e-3},
      {"maxtext", "maxtext-2025", all, 2e-3},
      {"records", "records", {.gpus = 16}, 1e-3, 50.034, 50.815},
  };
  for (const Case& one : cases) {
    CAPTURE(one.file);
    const JudgedLog log = judged(one.trainer, one.file, one.expected);
    CHECK(fmt::format("{}", fmt::join(log.faults, " ")) == "");
    const LogMeasurement& found = log.measurement;
    CHECK(found.resolution <= one.resolution);
    CHECK(found.resolution > 0);
    REQUIRE(found.tokens_per_s_per_gpu);
    const double slack = std::max(2e-3, found.resolution);
    CHECK(std::abs(*found.tokens_per_s_per_gpu / tokens_per_s_per_gpu - 1) <= slack);
    CHECK(found.steps >= 4);
    if (found.train_step_ms) CHECK(*found.train_step_ms == doctest::Approx(511.6).epsilon(4e-3));
    CHECK(found.allocated_bytes.value_or(0) / 1073741824 ==
        doctest::Approx(one.allocated_gib).epsilon(1e-3));
    CHECK(found.reserved_bytes.value_or(0) / 1073741824 ==
        doctest::Approx(one.reserved_gib).epsilon(1e-3));
  }
}

TEST_CASE(
    "of ms-swift and Lightning steps and losses are read, and the time of their lines counts") {
  for (const auto* trainer : {"ms-swift", "lightning"}) {
    CAPTURE(trainer);
    std::string text = text_of(trainer);
    std::replace(text.begin(), text.end(), '\r', '\n');  // a progress bar writes over its line
    const TrainerLog log = read_text(trainer, text);
    REQUIRE(log.steps.size() >= 6);
    const LoggedStep& last = log.steps.back();
    CHECK(last.iteration == 6);
    CHECK(last.values.find("loss")->second.value ==
        doctest::Approx(trainer[0] == 'm' ? 9.2204 : 8.4));
    CHECK_FALSE(judge_log(log).measurement.train_step_ms);
  }
}

TEST_CASE("train steps without a number are counted, and timed by the time since the start") {
  const std::string patterns[] = {"{iteration:next}*loss={loss}", "loss=*after {elapsed_s} s"};
  const std::string_view views[] = {patterns[0], patterns[1]};
  auto reader = LogReader::make(views);
  REQUIRE(reader);
  for (const auto* line : {"begins after 1 s", "loss=10.8 after 9.00 s", "loss=10.1 after 9.5 s",
           "other", "loss=9.8 after 10.11 s", "loss=9.6 after 10.51 s", "ended after 99 s"})
    reader->read(line);
  const TrainerLog log = reader->finish();
  REQUIRE(log.steps.size() == 4);
  CHECK(log.steps.front().iteration == 1);
  CHECK(log.steps.back().values.at("elapsed_s").value == 10.51);
  const LogMeasurement found = judge_log(log, {.gpus = 2, .tokens_per_step = 1000}).measurement;
  CHECK(found.steps == 3);
  CHECK(found.train_step_ms == doctest::Approx(500));
  CHECK(found.tokens_per_s_per_gpu == doctest::Approx(1000));
  CHECK(found.resolution == doctest::Approx(0.02));  // 0.01 s of 0.5 s
}

TEST_CASE("a skipped train step is left out and said, unless too few are left") {
  const auto judged = [](const std::vector<int>& skipped, std::int64_t steps) {
    std::string text;
    for (int i = 1; i <= 8; ++i) {
      const bool is_skipped = std::find(skipped.begin(), skipped.end(), i) != skipped.end();
      text += fmt::format(
          " iteration {}/ 8 | elapsed time per iteration (ms): {} | lm loss: 6.0 | number of "
          "skipped iterations: {} |\n",
          i, is_skipped ? 10 : 500, is_skipped ? 1 : 0);
    }
    return judge_log(read_text("megatron", text), {.warmup = 2, .steps = steps});
  };
  const JudgedLog late = judged({1, 5}, 0);
  CHECK(late.faults.empty());
  CHECK(late.measurement.steps == 5);
  CHECK(late.measurement.train_step_ms == 500);
  CHECK(late.notes.front() == "2 of 8 train steps skipped and left out.");
  CHECK(judged({1, 2}, 0).faults.empty());
  const JudgedLog few = judged({3, 4}, 3);
  REQUIRE(few.faults.size() == 1);
  CHECK(few.faults.front() ==
      "2 of its 3 timed train steps skipped, and at least 2 others are needed: raise 'warmup' of "
      "'measure' to 4 or more.");
}

TEST_CASE("a speed is held against the clock of its own lines") {
  // DeepSpeed's rate of the last micro-batch, beside the time between its lines.
  const auto judged = [](double rate, std::string_view clock) {
    std::string text = "[config.py:1004:print]   train_batch_size ..... 64\n";
    for (int i = 1; i <= 6; ++i)
      text += fmt::format(
          "[2026-11-28 23:59:{}] [INFO] [timer.py:260:stop] epoch=0/micro_step={}/global_step={}, "
          "RunningAvgSamplesPerSec=1.0, CurrSamplesPerSec={}, MemAllocated=0.1GB,\n",
          fmt::format(fmt::runtime(clock), 50 + i), i, i, rate);
    return judge_log(read_text("deepspeed", text), {.gpus = 1, .seq_len = 32});
  };
  CHECK(judged(64, "{},125").faults.empty());
  CHECK(judged(64, "{},125").notes.empty());
  CHECK(judged(56, "{},125").notes.size() == 1);
  for (const double rate : {32.0, 128.0, 560.0}) {
    const JudgedLog other = judged(rate, "{},125");
    REQUIRE(other.faults.size() == 1);
    CHECK(other.will_repeat);
    CHECK(other.faults.front().find(" 1000.0 ms") != std::string::npos);
  }
  // Whole seconds say nothing of steps of one.
  CHECK(judged(560, "{}").faults.empty());
}

TEST_CASE("Megatron-DeepSpeed's own line counts before DeepSpeed's rate") {
  const std::string head = "[config.py:1004:print]   train_batch_size ..... 256\n";
  std::string lines;
  for (int i = 3; i < 7; ++i)
    lines += fmt::format(
        "[timer.py:260:stop] epoch=0/micro_step={0}/global_step={0}, RunningAvgSamplesPerSec=74.7, "
        "CurrSamplesPerSec=74.8, MemAllocated=4.75GB, MaxMemAllocated=15.59GB\n"
        "[training:1251] -  iteration=       {0}/  317892 | elapsed_time_per_iteration_ms=16071.8 "
        "| "
        "global_batch_size=  256 | lm loss=11.2 | number_of_skipped_iterations=  0 | "
        "tokens_per_gpu_per_second_tgs=8155.393 | TFLOPs=159.66 |\n",
        i);
  const JudgedLog both =
      judge_log(read_text("deepspeed", head + lines), {.gpus = 8, .seq_len = 4096});
  CHECK(both.faults.empty());
  CHECK(both.measurement.tokens_per_s_per_gpu == doctest::Approx(8155.3).epsilon(1e-4));
}

TEST_CASE("a batch of samples under the name of tokens is read as samples") {
  std::string text;
  for (int i = 991; i < 995; ++i)
    text += fmt::format(
        "iteration: {} / 1000 | consumed_tokens: {}K | elapsed_time_per_iteration_ms: 272 | "
        "tokens_per_sec: 2.35K | tokens_per_sec_per_gpu: 294 | global_batch_size: 20 | lm_loss: "
        "9.63 |\n",
        i, i - 357);
  for (const std::int64_t length : {0, 32}) {
    const JudgedLog old = judge_log(read_text("nanotron", text), {.seq_len = length});
    CHECK(old.faults.empty());
    CHECK(old.measurement.tokens_per_s_per_gpu == 294);
  }
  const JudgedLog told =
      judge_log(read_text("nanotron", text), {.gpus = 8, .seq_len = 32, .tokens_per_step = 1280});
  CHECK_FALSE(told.faults.empty());
}

TEST_CASE("a log that can't be believed gives no measurement") {
  CHECK(
      fault_of("megatron", "megatron-nan") == "2 timed train steps with a loss that is no number.");
  CHECK(fault_of("megatron", "megatron-other-layout") ==
      "The log's parallel degrees make 32 ranks, but the log says that it ran on 16.");
  CHECK(fault_of("megatron", "megatron-2026", {.dp = 4}) ==
      "The log says dp 2, but 4 was asked for.");
  CHECK(fault_of("megatron", "megatron-2026", {.seq_len = 8192}) ==
      "The log says seq_len 4096, but 8192 was asked for.");
  CHECK(fault_of("megatron", "megatron-2026", {.vocab = 32000}) ==
      "The first loss is 10.831. An untrained model with vocabulary 32000 begins near 10.373.");
  CHECK(
      fault_of("nanotron", "megatron-2026") == "The log has no train step that this reader knows.");
  CHECK(fault_of("llm-foundry", "llm-foundry", {.gpus = 8, .tokens_per_step = 1048576}) ==
      "The log's step time means 256206 tokens/s/GPU, but the log prints 128100.");
  CHECK(fault_of("nanotron", "nanotron", {.gpus = 8}) ==
      "The log's tokens/s and tokens/s/GPU mean 16 GPUs, but 8 were asked for.");
}

namespace {

struct Wrong {
  std::string_view trainer;
  std::string file;
};
const std::vector<Wrong> one_of_each{{"megatron", "megatron-2026"}, {"megatron", "megatron-2024"},
    {"megatron", "megatron-2023"}, {"megatron-bridge", "megatron-bridge"}, {"nemo", "nemo"},
    {"nanotron", "nanotron"}, {"nanotron", "nanotron-2024"}, {"torchtitan", "torchtitan-2026"},
    {"deepspeed", "deepspeed-pipe"}, {"deepspeed", "deepspeed-engine"}, {"gpt-neox", "gpt-neox"},
    {"picotron", "picotron"}, {"llm-foundry", "llm-foundry"}, {"records", "records"}};

/// The record that an attempt with this log would get.
WrittenRecord record_of(const Wrong& one, const std::string& text, std::int64_t tokens) {
  auto log = LogRecords::make({.log = std::string(one.trainer),
                                  .warmup = 1,
                                  .steps = 5,
                                  .seq_len = 4096,
                                  .tokens_per_step = tokens},
      16);
  REQUIRE(log);
  std::istringstream lines(text);
  double now_s = 0;
  for (std::string line; std::getline(lines, line);)
    (void)log->read(line, now_s += 0.001);
  return log->finish(0.05);
}

}  // namespace

TEST_CASE("no reader reports a number where a truth check fails") {
  for (const Wrong& one : one_of_each) {
    CAPTURE(one.file);
    const std::string text = text_of(one.file);
    CHECK(record_of(one, text, 1048576).type == "result");
    const auto other_batch = record_of(one, text, 2097152);
    CHECK(other_batch.type == "error");
    CHECK(other_batch.numbers.empty());
    // All losses but the first two are no numbers.
    std::string broken = text;
    for (const auto* loss : {"1.022100E+01", "10.22100", "10.2210", "10.221", "10.22", "10.2"}) {
      for (auto at = broken.find(loss); at != std::string::npos; at = broken.find(loss))
        broken.replace(at, std::string_view(loss).size(), "nan");
    }
    if (broken == text) continue;  // it prints none
    const auto without_loss = record_of(one, broken, 1048576);
    CHECK(without_loss.type == "error");
    CHECK(without_loss.texts.at("class") == "nan");
    CHECK(without_loss.numbers.empty());
  }
}

TEST_CASE("samples and tokens that are counted otherwise than asked for are told") {
  std::string text = text_of("megatron-2026");
  const auto at = text.find("consumed samples:         1536");
  REQUIRE(at != std::string::npos);
  text.replace(at, 30, "consumed samples:         1280");
  const JudgedLog log = judge_log(read_text("megatron", text));
  REQUIRE(log.faults.size() == 1);
  CHECK(log.faults[0] == "The log counts 1024 samples in 5 train steps, but 1280 were asked for.");
}

TEST_CASE("parameters of another model are told, where all ranks print theirs") {
  const std::string text = text_of("megatron-2026");
  CHECK(judge_log(read_text("megatron", text), {.parameters = 1'600'000'000}).faults.empty());
  const auto other = judge_log(read_text("megatron", text), {.parameters = 8'000'000'000});
  REQUIRE(other.faults.size() == 1);
  CHECK(other.faults[0].starts_with(
      "The log's model has 1700000000 parameters, but the sweep's has 8000000000."));
  CHECK(judge_log(
      read_text("megatron", text), {.parameters = 8'000'000'000, .unchecked = {"parameters"}})
            .faults.empty());
}

namespace {

/// What Megatron-LM prints of a model with experts. One line for each (tp, pp), of the first
/// data parallel rank: all that is no expert, and the experts of that rank alone.
struct MoePrint {
  std::int64_t ep, expert_tp;
  std::int64_t printed;  ///< sum of the lines
  std::int64_t whole;    ///< the model of the sweep
  bool right;
};

// 4 layers of 32 experts, hidden 64, width 256, gated: 6,291,456 parameters are experts'. All
// else has 300,000.
constexpr std::array<MoePrint, 8> moe_prints{
    {{1, 2, 6'591'456, 6'591'456, true}, {2, 2, 3'445'728, 6'591'456, true},
        {8, 2, 1'086'432, 6'591'456, true}, {8, 1, 1'872'864, 6'591'456, true},
        {8, 2, 6'591'456, 6'591'456, true}, {8, 2, 1'086'432, 65'000'000, false},
        {8, 2, 1'086'432, 2'000'000, false}, {1, 2, 1'086'432, 6'591'456, false}}};

std::string moe_log(const MoePrint& one, bool with_shape) {
  std::string text = fmt::format(
      "using world size: 16, data-parallel size: 8, context-parallel size: 1, "
      "tensor-model-parallel size: 2, pipeline-model-parallel size: 1\n"
      "  expert_model_parallel_size ...................... {}\n"
      "  expert_tensor_parallel_size ..................... {}\n"
      "  num_experts ..................................... 32\n",
      one.ep, one.expert_tp);
  if (with_shape)
    text +=
        "  ffn_hidden_size ................................. 1024\n"
        "  hidden_size ..................................... 64\n"
        "  moe_ffn_hidden_size ............................. 256\n"
        "  moe_layer_freq .................................. 1\n"
        "  num_layers ...................................... 4\n";
  for (int tp = 0; tp < 2; ++tp)
    text += fmt::format(
        " > number of parameters on (tensor, pipeline) model parallel rank ({}, 0): {}\n", tp,
        one.printed / 2);
  return text;
}

std::vector<std::string> faults_of_moe(const MoePrint& one, bool with_shape) {
  return judge_facts(read_text("megatron", moe_log(one, with_shape)),
      {.gpus = 16, .tp = 2, .pp = 1, .parameters = one.whole});
}

}  // namespace

TEST_CASE("experts that are shared among ranks are counted whole") {
  for (const MoePrint& one : moe_prints) {
    CAPTURE(one.ep);
    CAPTURE(one.expert_tp);
    CAPTURE(one.whole);
    const auto faults = faults_of_moe(one, true);
    CHECK_MESSAGE(faults.empty() == one.right, fmt::format("{}", fmt::join(faults, " ")));
  }
  CHECK(faults_of_moe(moe_prints.at(2), false).empty());
  REQUIRE_FALSE(faults_of_moe(moe_prints.at(5), false).empty());
  CHECK(faults_of_moe(moe_prints.at(5), true).at(0) ==
      "The log's model has 4756448 to 6591456 parameters with all of its experts, but the sweep's "
      "has 65000000. If this is right, write 'unchecked: [parameters]'.");
}

namespace {

/// What DeepSpeed calls world_size: ranks of data parallelism where somebody tells it of
/// others, else all ranks.
struct WorldPrint {
  std::int64_t printed;
  ExpectedRun expected;
  bool right;
};
const std::vector<WorldPrint> world_prints{
    {1, {.gpus = 2, .dp = 1, .tp = 1, .pp = 2, .cp = 1}, true},
    {2, {.gpus = 16, .dp = 2, .tp = 4, .pp = 2, .cp = 1}, true},
    {4, {.gpus = 8, .dp = 2, .tp = 2, .pp = 1, .cp = 2}, true},
    {16, {.gpus = 16, .dp = 16, .tp = 1, .pp = 1, .cp = 1}, true}, {16, {.gpus = 16}, true},
    {2, {.gpus = 16}, true}, {5, {.gpus = 16}, false},
    {3, {.gpus = 16, .dp = 2, .tp = 4, .pp = 2, .cp = 1}, false},
    {8, {.gpus = 16, .dp = 16, .tp = 1, .pp = 1, .cp = 1}, false},
    {1, {.gpus = 16, .dp = 2, .tp = 4, .pp = 2, .cp = 1}, false}};

}  // namespace

TEST_CASE("DeepSpeed's world_size is its data parallel degree, whoever made the ranks") {
  for (const WorldPrint& one : world_prints) {
    CAPTURE(one.printed);
    CAPTURE(one.expected.dp);
    const auto log = read_text("deepspeed",
        fmt::format("[INFO] [config.py:1004:print]   world_size "
                    "................... {}\n",
            one.printed));
    const auto faults = judge_facts(log, one.expected);
    CHECK_MESSAGE(faults.empty() == one.right, fmt::format("{}", fmt::join(faults, " ")));
  }
  // A pipeline of two stages: it says 1, and nobody knows the GPUs.
  const JudgedLog alone = judged("deepspeed", "deepspeed-pipe", {.seq_len = 4096});
  CHECK_FALSE(alone.measurement.tokens_per_s_per_gpu);
  CHECK(alone.notes.at(0) == "tokens/s can't be computed from the log alone. Also give --gpus.");
}

TEST_CASE("torchtitan's validation is no train step, and its memory no peak") {
  const auto line = [](const char* what, int step, double loss, double memory) {
    return fmt::format(
        "[titan] 2026-08-23 10:00:01,123 - root - INFO - {}step: {:2}  loss: {:8.5f}  "
        "{}memory: {:5.2f}GiB({:.2f}%)  tps: {}  tflops: 1.00  mfu: 1.00%\n",
        what, step, loss, *what == 0 ? "grad_norm:  1.0000  " : "", memory, memory,
        *what == 0 ? 1000 : 9000);
  };
  std::string text;
  for (int i = 1; i <= 4; ++i)
    text += line("", i, 6, 20);
  const auto plain = judge_log(read_text("torchtitan", text));
  text += line("validate ", 4, 7.5, 70);
  text += line("validate ", 9, 7.5, 70);
  const auto validated = judge_log(read_text("torchtitan", text));
  CHECK(validated.faults.empty());
  CHECK(validated.measurement.steps == plain.measurement.steps);
  CHECK(validated.measurement.last_loss == 6.0);
  CHECK(validated.measurement.tokens_per_s_per_gpu == 1000.0);
  CHECK(validated.measurement.reserved_bytes == plain.measurement.reserved_bytes);
}

TEST_CASE("too few train steps are no measurement") {
  std::string text = text_of("megatron-2026");
  text.erase(text.find("iteration        3/"));
  const JudgedLog log = judge_log(read_text("megatron", text));
  REQUIRE(log.faults.size() == 1);
  CHECK(log.faults[0].find("2 train steps. At least 3 ") != std::string::npos);
}

TEST_CASE("parameters are summed over the model parallel ranks") {
  CHECK(read_text("megatron", text_of("megatron-2026")).parameters == 4 * 210e6 + 4 * 215e6);
}

TEST_CASE("what a log leaves out is said, and how to give it") {
  const JudgedLog log = judged("megatron", "megatron-2023");
  CHECK(log.faults.empty());
  CHECK_FALSE(log.measurement.tokens_per_s_per_gpu);
  REQUIRE(log.notes.size() == 1);
  CHECK(log.notes[0].ends_with("give --gpus and --seq-len."));
  auto reader =
      LogReader::make(std::vector<std::string_view>{"step {iteration},", "wps={tokens_per_s},"});
  REQUIRE(reader);
  for (const auto* line : {"step 1, wps=950,", "step 2, wps=962,", "step 3, wps=960,"})
    reader->read(line);
  CHECK(judge_log(reader->finish()).notes.at(0) ==
      "The log has tokens/s of all GPUs together. Also give --gpus.");
  CHECK(judged("gpt-neox", "gpt-neox").notes.at(0) ==
      "tokens/s can't be computed from the log alone. Also give --gpus.");
}

namespace {

/// A line in two pieces, cut here and there, and with a byte of nothing.
void read_in_pieces(LogReader& reader, std::string line) {
  for (std::size_t cut = 0; cut < line.size(); cut += 7) {
    reader.read(line.substr(0, cut));
    reader.read(line.substr(cut));
  }
  line[line.size() / 2] = '\0';
  reader.read(line);
}

}  // namespace

TEST_CASE("a line cut anywhere, and bytes of any kind, harm nobody") {
  for (const Trainer& trainer : trainers()) {
    CAPTURE(trainer.name);
    auto reader = LogReader::make(log_patterns(trainer.name));
    REQUIRE(reader);
    for (const auto& file : std::filesystem::directory_iterator(logs)) {
      std::istringstream lines(text_of(file.path().stem().string()));
      for (std::string line; std::getline(lines, line);)
        read_in_pieces(*reader, line);
    }
    (void)judge_log(reader->finish());
  }
}

TEST_CASE("own patterns are checked") {
  const auto fault_with = [](std::string_view pattern) {
    const std::vector<std::string_view> patterns{pattern};
    const auto reader = LogReader::make(patterns);
    return reader ? std::string() : reader.error().what;
  };
  CHECK(fault_with("step {iteration} took {step_ms} ms") == "");
  CHECK(fault_with("took {stepms} ms")
            .starts_with("pattern 'took {stepms} ms': unknown key 'stepms'"));
}

namespace {

/// The log of a run of Megatron-LM, with the dump of its arguments that a version of today
/// prints.
std::vector<std::string> faults_of_echo(std::map<std::string, std::string> asked,
    const std::vector<std::string>& arguments, std::string_view trainer = "megatron") {
  auto run =
      LogRecords::make({.log = std::string(trainer), .steps = 4, .axes = std::move(asked)}, 1);
  REQUIRE(run);
  for (const auto& line : arguments)
    (void)run->read(line, 0);
  for (int step = 1; step <= 5; ++step)
    (void)run->read(fmt::format(" iteration {}/ 5 | elapsed time per iteration (ms): 10.0 | "
                                "global batch size: 8 | lm loss: 6.2E+00 |",
                        step),
        step);
  if (const auto said = run->contradiction()) {
    for (const auto& [key, value] : said->texts) {
      if (key == "message") return {value};
    }
  }
  return {};
}

/// The sentence names the axis with the log's value, and the value that was asked for.
bool names(const std::string& said, const std::string& axis, const std::string& logged,
    const std::string& asked) {
  return said.find(' ' + axis + ' ' + logged + ", but " + asked + ' ') != std::string::npos;
}

}  // namespace

TEST_CASE("a flag that Megatron-LM ignores is seen in the arguments that it prints") {
  const std::vector<std::string> printed{"  expert_model_parallel_size ...................... 1",
      "  micro_batch_size ................................ 4",
      "  recompute_granularity ........................... None",
      "  sequence_parallel ............................... False",
      "  use_distributed_optimizer ....................... True",
      "  data_parallel_sharding_strategy ................. no_shard",
      "  use_torch_fsdp2 ................................. False",
      "  virtual_pipeline_model_parallel_size ............ None"};
  CHECK(faults_of_echo(
      {{"ep", "1"}, {"micro_batch", "4"}, {"recompute", "none"}, {"sequence_parallel", "false"},
          {"zero", "1"}, {"vpp", "1"}, {"bucket_mb", "25"}},
      printed)
            .empty());
  const std::vector<std::tuple<std::string, std::string, std::string>> ignored{{"ep", "2", "1"},
      {"micro_batch", "2", "4"}, {"recompute", "full", "none"},
      {"sequence_parallel", "true", "false"}, {"zero", "0", "1"}, {"vpp", "2", "1"}};
  for (const auto& [axis, asked, logged] : ignored) {
    const auto faults = faults_of_echo({{axis, asked}}, printed);
    REQUIRE(faults.size() == 1);
    CHECK(names(faults.front(), axis, logged, asked));
  }
}

TEST_CASE("axes of today are held against the arguments that Megatron-LM prints") {
  const std::vector<std::string> printed{
      "  cuda_graph_impl ................................. local",
      "  decoder_first_pipeline_num_layers ............... 7",
      "  decoder_last_pipeline_num_layers ................ None",
      "  expert_tensor_parallel_size ..................... 2",
      "  optimizer_cpu_offload ........................... True",
      "  recompute_granularity ........................... selective",
      "tensor-model-parallel size: 2"};
  const auto faults = [&](const std::string& axis, const std::string& asked) {
    const auto found = faults_of_echo({{axis, asked}}, printed);
    return found.empty() ? std::string("right") : found.front();
  };
  for (const auto& [axis, asked] :
      std::vector<std::pair<std::string, std::string>>{{"cuda_graphs", "true"},
          {"first_stage_layers", "7"}, {"last_stage_layers", "3"}, {"expert_tp", "2"},
          {"expert_tp", "0"}, {"offload", "optimizer"}, {"recompute", "layernorm+moe_act"}}) {
    CHECK(axis + ' ' + faults(axis, asked) == axis + " right");
  }
  for (const auto& [axis, asked, logged] :
      std::vector<std::tuple<std::string, std::string, std::string>>{
          {"cuda_graphs", "false", "true"}, {"first_stage_layers", "6", "7"},
          {"expert_tp", "1", "2"}, {"offload", "none", "optimizer"},
          {"recompute", "full", "selective"}}) {
    CHECK(names(faults(axis, asked), axis, logged, asked));
  }
}

TEST_CASE("the ZeRO stage of Megatron-LM is read from all of its flags") {
  const auto stage = [](const std::string& asked, const std::string& optimizer,
                         const std::string& sharding, const std::string& fsdp,
                         const std::string& torch_fsdp) {
    return faults_of_echo({{"zero", asked}},
        {"  data_parallel_sharding_strategy ... " + sharding,
            "  use_distributed_optimizer ......... " + optimizer,
            "  use_megatron_fsdp ................. " + fsdp,
            "  use_torch_fsdp2 ................... " + torch_fsdp});
  };
  // Newer versions print a strategy by default, which means nothing without FSDP.
  CHECK(stage("0", "False", "optim_grads_params", "False", "False").empty());
  CHECK(stage("1", "True", "optim_grads_params", "False", "False").empty());
  CHECK(stage("1", "False", "optim_grads_params", "False", "False").size() == 1);
  // FSDP is given with the flag of the distributed optimizer, and without.
  CHECK(stage("3", "True", "optim_grads_params", "True", "False").empty());
  CHECK(stage("2", "False", "optim_grads", "True", "False").empty());
  CHECK(stage("3", "True", "optim_grads", "True", "False").size() == 1);
  // Stages of PyTorch's FSDP are not said.
  CHECK(stage("3", "False", "no_shard", "False", "True").empty());
}

TEST_CASE("what other trainers print of their configuration is held against the layout") {
  const std::vector<std::string> deepspeed{
      "[2026-08-22 10:00:00,000] [INFO] [config.py:1000:print]   gradient_accumulation_steps "
      ".. 2",
      "[2026-08-22 10:00:00,000] [INFO] [config.py:1000:print]   zero_optimization_stage "
      "...... 1"};
  const std::vector<std::string> nanotron{
      "08/22/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]:        tokens=TokensArgs(sequence_length=64,",
      "08/22/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]:            micro_batch_size=2,",
      "08/22/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]:            batch_accumulation_per_replica=2,",
      "08/22/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]:            recompute_layer=True,",
      "08/22/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]:            zero_stage=1,"};
  const std::vector<std::string> torchtitan{
      "[titan] 2026-02-20 10:00:00 - root - INFO - Running with configs: {",
      R"(    "expert_parallel_degree": 2,)", R"(    "mode": "full",)"};
  // Since August 2026 it counts tokens, and names what computes activations again.
  const std::vector<std::string> titan_of_tokens{
      R"(    "num_tokens_per_microbatch_per_dp_rank": 128,)",
      R"(    "fsdp_reshard_after_forward": "never",)", R"(    "enable_sequence_parallel": true,)",
      "[titan] 2026-11-29 20:59:03,933 - root - INFO - Applied SelectiveAC activation "
      "checkpointing to the model"};
  const auto ending = [](std::string_view trainer, std::map<std::string, std::string> asked,
                          const std::vector<std::string>& printed) {
    auto run = LogRecords::make(
        {.log = std::string(trainer), .steps = 4, .seq_len = 64, .axes = std::move(asked)}, 1);
    REQUIRE(run);
    for (const auto& line : printed)
      (void)run->read(line, 0);
    std::string text;
    if (const auto said = run->contradiction()) text = said->texts.at("message");
    return text;
  };
  CHECK(ending("deepspeed", {{"grad_accum", "2"}, {"zero", "1"}}, deepspeed).empty());
  CHECK(ending("deepspeed", {{"zero", "2"}}, deepspeed).find("zero 1, but 2 was") !=
      std::string::npos);
  CHECK(ending("nanotron",
      {{"grad_accum", "2"}, {"micro_batch", "2"}, {"recompute", "full"}, {"zero", "1"}}, nanotron)
            .empty());
  CHECK(
      ending("nanotron", {{"recompute", "none"}}, nanotron).find("recompute full, but none was") !=
      std::string::npos);
  CHECK(ending("torchtitan", {{"ep", "2"}, {"recompute", "full"}}, torchtitan).empty());
  CHECK(ending("torchtitan", {{"recompute", "selective"}}, torchtitan)
            .find("recompute full, but selective was") != std::string::npos);
  CHECK(ending("torchtitan",
      {{"micro_batch", "2"}, {"recompute", "selective"}, {"sequence_parallel", "true"},
          {"zero", "2"}},
      titan_of_tokens)
            .empty());
  const auto titan_says = [&](const char* axis, const char* asked, std::string_view told) {
    return ending("torchtitan", {{axis, asked}}, titan_of_tokens).find(told) != std::string::npos;
  };
  CHECK(titan_says("micro_batch", "1", "micro_batch 2, but 1 was"));
  CHECK(titan_says("zero", "3", "zero 2, but 3 was"));
  CHECK(titan_says("sequence_parallel", "false", "sequence_parallel true, but false was"));
}
