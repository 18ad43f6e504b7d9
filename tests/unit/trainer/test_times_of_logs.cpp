// SPDX-License-Identifier: Apache-2.0
// Times that a log tells in other ways than by the time of a train step: since the start, by the
// stamps of its lines, and in words of older versions.
#include "trainer/judge_log.hpp"
#include "trainer/trainers.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

using namespace shardsweep;

namespace {

TrainerLog log_of_lines(std::string_view trainer, const std::string& text) {
  auto reader = LogReader::make(log_patterns(trainer));
  REQUIRE(reader);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    reader->read(line);
  return reader->finish();
}

}  // namespace

TEST_CASE("the time since the start is that of all train steps since the line before") {
  const std::tuple<std::string_view, std::string> cases[] = {
      {"hf-trainer",
          "  5%|# | 5/80 [00:40<10:00, 8.0s/it]{'loss': 2.5, 'epoch': 0.1}\n"
          "{'loss': 2.4, 'epoch': 0.1}\n"
          " 50%|# | 40/80 [05:20<05:20, 8.0s/it]{'loss': 2.3, 'epoch': 0.5}\n"
          " 75%|# | 60/80 [08:00<02:40, 8.0s/it]{'loss': 2.1, 'epoch': 0.7}\n"},
      {"hf-trainer",
          R"({"current_steps": 10, "total_steps": 90, "loss": 2.5, "lr": 0.1, "elapsed_time": "1:00:20"})"
          "\n"
          R"({"current_steps": 20, "total_steps": 90, "loss": 2.4, "lr": 0.1, "elapsed_time": "1:01:40"})"
          "\n"
          R"({"current_steps": 30, "total_steps": 90, "loss": 2.1, "lr": 0.1, "elapsed_time": "1:03:00"})"
          "\n"},
      {"ms-swift",
          "{'loss': 2.5, 'global_step/max_steps': '1/90', 'elapsed_time': '50s'}\n"
          "{'loss': 2.4, 'global_step/max_steps': '6/90', 'elapsed_time': '1m 30s'}\n"
          "{'loss': '2.1', 'global_step/max_steps': '11/90', 'elapsed_time': '2m 10s'}\n"},
      {"lightning",
          "Epoch 0: |   | 10/? [01:30<00:00,  0.11it/s, v_num=0, train_loss=2.50]\n"
          "Epoch 0: |   | 20/? [02:50<00:00,  0.12it/s, v_num=0, train_loss=2.40]\n"
          "Epoch 0: |   | 30/? [04:10<00:00,  0.12it/s, v_num=0, train_loss=2.10]\n"},
  };
  for (const auto& [trainer, text] : cases) {
    CAPTURE(trainer);
    const JudgedLog log = judge_log(log_of_lines(trainer, text));
    CHECK(log.faults.empty());
    REQUIRE(log.measurement.train_step_ms);
    CHECK(*log.measurement.train_step_ms == doctest::Approx(8000));
    CHECK(log.measurement.first_loss == doctest::Approx(2.5));
    CHECK(log.measurement.last_loss == doctest::Approx(2.1));
  }
}

TEST_CASE("a log without any time is measured by the stamps of its lines, if they are numbered") {
  // Two micro-batches for a train step: the timer counts them, and begins anew each epoch.
  std::string text;
  for (const auto& [at, step, counted] : {std::tuple("08:26:26,100", 10, "0/20"),
           {"08:26:46,150", 20, "0/40"}, {"08:27:06,200", 30, "1/10"}})
    text += fmt::format(
        "[2022-12-20 {0}] [INFO] [logging.py:69:log_dist] [Rank 0] step={1}, skipped=0, "
        "lr=[5e-05]\n"
        "[2022-12-20 {0}] [INFO] [timer.py:197:stop] {2}, RunningAvgSamplesPerSec=158.3, "
        "CurrSamplesPerSec=20.5, MemAllocated=1.75GB, MaxMemAllocated=2.6GB\n",
        at, step, counted);
  const JudgedLog log = judge_log(log_of_lines("deepspeed", text));
  CHECK(log.faults.empty());
  REQUIRE(log.measurement.train_step_ms);
  CHECK(*log.measurement.train_step_ms == doctest::Approx(2005));
  CHECK(fmt::format("{}", fmt::join(log.notes, " ")).find("computed from the times") !=
      std::string::npos);
  // While it runs the agent's clock is finer.
  CHECK_FALSE(
      judge_log(log_of_lines("deepspeed", text), {.look_s = 0.05}).measurement.train_step_ms);
  // A batch makes a time of the printed rate, which the stamps contradict.
  const auto contradicted = log_of_lines("deepspeed", " train_batch_size ............. 8\n" + text);
  CHECK(judge_log(contradicted).faults.size() == 1);
  const std::string unnumbered =
      "2024-01-01 10:00:00,000 {'loss': 2.5, }\n2024-01-01 10:00:20,000 {'loss': 2.4, }\n"
      "2024-01-01 10:00:40,000 {'loss': 2.3, }\n";
  CHECK_FALSE(judge_log(log_of_lines("hf-trainer", unnumbered)).measurement.train_step_ms);
}

TEST_CASE("older words of a speed are read, and another program's lines are not picotron's") {
  const std::string titan =
      "[rank0]:2024-08-19 11:10:33,811 - root - INFO - step:  1  loss: 12.2  memory: "
      "81.67GiB(85.93%)  wps: 5,380  mfu: "
      "1.09%\n"
      "[rank0]:2024-08-19 11:10:37,109 - root - INFO - step: 10  loss: 12.1  memory: "
      "81.67GiB(85.93%)  wps: 111,770  "
      "mfu: 22.68%\n"
      "[rank0]:2024-08-19 11:10:40,777 - root - INFO - step: 20  loss: 11.9  memory: "
      "81.67GiB(85.93%)  wps: 111,790  "
      "mfu: 22.68%\n";
  CHECK(judge_log(log_of_lines("torchtitan", titan)).measurement.tokens_per_s_per_gpu ==
      doctest::Approx(111780));
  std::string olmo;
  for (const auto* step : {"1", "2", "3"})
    olmo += fmt::format(
        "[2024-04-17 09:42:2{0}] INFO     [olmo.train:816, rank=0] [step={0}/739328]\n"
        "    train/CrossEntropyLoss=11.25\n    throughput/device/tokens_per_second=45,40{0}\n",
        step);
  CHECK(judge_log(log_of_lines("olmo-core", olmo)).measurement.tokens_per_s_per_gpu ==
      doctest::Approx(45402.5));
  const std::string stranger =
      "[job] Step: 1 | Time: 27.02s | Tokens/s/GPU: 1213 | Loss: 1.3697\n"
      "[job] Step: 2 | Time: 15.12s | Tokens/s/GPU: 2168 | Loss: 1.3077\n";
  CHECK(log_of_lines("picotron", stranger).steps.empty());
}

TEST_CASE("what was given is not asked for") {
  const auto of_samples = [](const ExpectedRun& given) {
    auto samples = LogReader::make(
        std::vector<std::string_view>{"step {iteration},", "rate={samples_per_s},"});
    REQUIRE(samples);
    for (const auto* line : {"step 1, rate=95,", "step 2, rate=96,", "step 3, rate=96,"})
      samples->read(line);
    return judge_log(samples->finish(), given).notes.at(0);
  };
  CHECK(of_samples({}).ends_with("give --gpus and --seq-len."));
  CHECK(of_samples({.gpus = 8}).ends_with("give --seq-len."));
  CHECK(of_samples({.seq_len = 2048}).ends_with("give --gpus."));
}

TEST_CASE("a progress bar of whole seconds tells the mean of its train steps, not one of them") {
  std::string text;
  for (int step = 1; step <= 30; ++step)
    text += fmt::format("Epoch 0: |   | {}/? [00:{:02}<00:00,  0.57it/s, train_loss=2.50]\n", step,
        1 + step * 7 / 4);
  const JudgedLog log = judge_log(log_of_lines("lightning", text));
  CHECK(log.faults.empty());
  REQUIRE(log.measurement.train_step_ms);
  CHECK(*log.measurement.train_step_ms == doctest::Approx(1750).epsilon(0.02));
  CHECK(log.measurement.resolution > 0.01);
  CHECK(log.measurement.steps == 28);
}

TEST_CASE("tokens per train step follow from their count since the start") {
  std::string text;
  for (int step = 1; step <= 6; ++step)
    text += fmt::format(
        "{{'loss': '2.5', 'num_input_tokens_seen': {}, 'train_runtime': '{}.5', "
        "'train_tokens_per_second': '1'}}\n",
        4096 * step, 2 * step);
  const JudgedLog log = judge_log(log_of_lines("hf-trainer", text), {.gpus = 2});
  CHECK(log.faults.empty());
  REQUIRE(log.measurement.tokens_per_s_per_gpu);
  CHECK(*log.measurement.tokens_per_s_per_gpu == doctest::Approx(1024));
}

TEST_CASE("a pattern that takes no train step's number is told which one is missing") {
  auto reader = LogReader::make(std::vector<std::string_view>{"'loss': '{loss}'"});
  REQUIRE(reader);
  reader->read("{'loss': '5.566', 'grad_norm': '1'}");
  const JudgedLog log = judge_log(reader->finish());
  REQUIRE_FALSE(log.faults.empty());
  CHECK(log.faults.front().find("{iteration:next}") != std::string::npos);
}

TEST_CASE(
    "five lies about a mixture's shape and layout are seen in what Megatron-LM says of itself") {
  const std::string honest =
      "  expert_model_parallel_size ...................... 2\n"
      "  expert_tensor_parallel_size ..................... 2\n"
      "  moe_ffn_hidden_size ............................. 64\n"
      "  moe_router_topk ................................. 2\n"
      "  num_experts ..................................... 4\n"
      "  num_query_groups ................................ 2\n";
  const ExpectedRun asked{.tp = 2,
      .axes = {{"ep", "2"}, {"expert_tp", "0"}, {"expert_ffn", "64"}, {"experts_per_token", "2"},
          {"experts", "4"}, {"kv_heads", "2"}}};
  CHECK(judge_facts(log_of_lines("megatron", honest), asked).empty());
  const std::tuple<std::string_view, std::string_view, std::string_view> lies[] = {
      {"parallel_size ...................... 2", "parallel_size ...................... 1",
          "The log says ep 1, but 2 was asked for"},
      {"parallel_size ..................... 2", "parallel_size ..................... 1",
          "The log says expert_tp 1, but tp, which is 2, was asked for"},
      {"size ............................. 64", "size ............................. 128",
          "The log says expert_ffn 128, but 64 was asked for"},
      {"topk ................................. 2", "topk ................................. 1",
          "The log says experts_per_token 1, but 2 was asked for"},
      {"experts ..................................... 4", "experts ... 8",
          "The log says experts 8, but 4 was asked for"},
      {"groups ................................ 2", "groups ................................ 4",
          "The log says kv_heads 4, but 2 was asked for"}};
  for (const auto& [from, to, why] : lies) {
    std::string lie = honest;
    lie.replace(lie.find(from), from.size(), to);
    const auto faults = judge_facts(log_of_lines("megatron", lie), asked);
    REQUIRE(faults.size() == 1);
    CHECK(faults.front().starts_with(why));
  }
  CHECK(judge_facts(log_of_lines("megatron", honest), {.axes = {{"experts", "0"}}}).size() == 1);
}

TEST_CASE("a speed that later train steps alone print is not held against the times of all") {
  // AMD's Primus leaves it out of the first two lines (log_avg_skip_iterations).
  std::string text;
  for (const auto& [step, times, speed] : {std::tuple(1, "1082.2 |", ""), {2, "1490.7 |", ""},
           {3, "1665.8/1665.8 |", "307.4/307.4"}, {4, "976.4/1321.1 |", "524.4/387.6"}})
    text += fmt::format(
        " iteration {}/ 4 | consumed samples: {} | elapsed time per iteration (ms): {} "
        "tokens/s/GPU inst/harmonic mean: {} | global batch size: 16 | lm loss: 5.9E+00 |\n",
        step, 16 * step, times, speed);
  const JudgedLog log =
      judge_log(log_of_lines("primus", text), {.gpus = 2, .seq_len = 64, .tokens_per_step = 1024});
  CHECK(log.faults.empty());
  REQUIRE(log.measurement.train_step_ms);
  CHECK(*log.measurement.train_step_ms == doctest::Approx(1490.7));
}
