// SPDX-License-Identifier: Apache-2.0
// What it costs to find why a run failed in a log of 20 MB: train steps of three trainers, what
// libraries print between them, and a traceback at the end. One JSON line; with a file as argument
// the log is that file.
#include "causes/failed_log.hpp"

#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

namespace {

using namespace shardsweep;

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
      static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

/// Lines of one train step and what stands between them, as rank `rank` prints them.
std::string lines_of(int step, int rank) {
  return fmt::format(
      " [2024-05-01 12:{1:02}:{2:02}] iteration {0:8}/  100000 | consumed samples: {0:12} | "
      "elapsed "
      "time per iteration (ms): 512.{1:02} | learning rate: 1.200E-04 | lm loss: 2.3{2:02}E+00 | "
      "loss scale: 1.0 | grad norm: 0.3{1:02} | number of skipped iterations:   0 |\n"
      "05/01/2024 12:{1:02}:{2:02} [INFO|DP={3}|PP=0|TP=0|n1]: iteration: {0} / 100000 | "
      "consumed_tokens: 1.2M | elapsed_time_per_iteration_ms: 512 | tokens_per_sec: 40K | lm_loss: "
      "2.3{2:02} | model_tflops_per_gpu: 310 | grad_norm: 0.3{1:02}\n"
      "[rank{3}]:[titan] 2024-05-01 12:{1:02}:{2:02} - root - INFO - step: {0:5}  loss: 2.3{2:02}  "
      "memory: 40.{1:02}GiB(50.1%)  tps: 6,300  mfu: 41.2%\n"
      "n1:2813{1:02}:2814{2:02} [{3}] NCCL INFO Channel {1:02}/0 : {3}[{3}] -> 4[4] via P2P/CUMEM\n"
      "[W501 12:{1:02}:{2:02} socket.cpp:464] [c10d] The server socket has failed to listen on any "
      "local network address; retrying\n"
      "/opt/lib/python3.10/site-packages/torch/utils/checkpoint.py:{2}: UserWarning: None of the "
      "inputs have requires_grad=True. Gradients will be None\n"
      "  warnings.warn(\n"
      " {1:2}%|#####     | {0}/100000 [12:{1:02}<1:{2:02}:00,  1.95it/s]\r"
      "wandb: Network error resolved after 0:00:0{4}, resuming normal operation.\n",
      step, step % 60, step / 60 % 60, rank, step % 10);
}

std::string made_log() {
  constexpr std::size_t size = 20'000'000;
  constexpr int ranks = 8;
  std::string log;
  for (int step = 1; log.size() < size; ++step)
    log += lines_of(step, step % ranks);
  return log +
      "[rank3]: Traceback (most recent call last):\n"
      "[rank3]:   File \"/opt/train.py\", line 7, in train_step\n"
      "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::string log;
  if (argc > 1) {
    std::ifstream file(argv[1], std::ios::binary);
    log.assign(std::istreambuf_iterator<char>(file), {});
  } else {
    log = made_log();
  }
  constexpr int rounds = 5;
  double best = std::numeric_limits<double>::max();
  std::string rule;
  for (int round = 0; round < rounds; ++round) {
    const double start = cpu_s();
    const auto finding = find_cause(log, {});
    best = std::min(best, cpu_s() - start);
    rule = finding ? finding->rule : "none";
  }
  const double megabytes = static_cast<double>(log.size()) / 1e6;
  fmt::print(
      "{{\"bench\":\"log\",\"mb\":{:.1f},\"rounds\":{},\"rule\":\"{}\",\"per_mb_ms\":{:.3f}}}\n",
      megabytes, rounds, rule, 1e3 * best / megabytes);
  return 0;
}
