// SPDX-License-Identifier: Apache-2.0
// Measures what the README claims about the runner's speed; one JSON line per figure. Exit code
// 1 where a figure can't be had. Usage: bench_runner
#include "base/clock.hpp"
#include "base/json.hpp"
#include "device/cpu_platform.hpp"
#include "launch.hpp"
#include "measurement/meta_run.hpp"
#include "measurement/statistics.hpp"
#include "program/options.hpp"
#include "program/rules.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace {

using namespace shardbench;

// Long enough for a machine that does other things too.
constexpr double limit_s = 300;

/// The number after `mark`.
std::optional<double> number_after(const std::string& text, const std::string& mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(text.c_str() + at + mark.size(), nullptr);
}

/// Output of `world` ranks of shardbench-cpu with `flags`; empty if one of them fails.
std::string output_of(int world, std::vector<std::string> flags) {
  const ScratchFolder folder;
  flags.insert(flags.end(), {"--rendezvous", folder.path(), "--run-id", "bench"});
  const std::string output = folder.file("output");
  Launch ranks(SHARDBENCH_PROGRAM, world, flags, {.output = output});
  const std::vector<int> codes = ranks.wait(limit_s);
  const bool good = std::count(codes.begin(), codes.end(), 0) == world;
  return good ? read_file(output) : std::string();
}

/// A train step against the matrix products of its shapes alone.
std::optional<double> share_of_gemm_rate() {
  const std::string text = output_of(1,
      {"--microbench", "--layers", "2", "--hidden", "1024", "--ffn", "2816", "--heads", "16",
          "--kv-heads", "4", "--vocab", "4096", "--seq-len", "512"});
  return number_after(text, "\"share_of_gemm_rate\":");
}

std::optional<double> small_all_reduce_ms() {
  const std::string text = output_of(8, {"--microbench", "--model", "tiny"});
  return number_after(text, "\"floats\":16,\"median_ms\":");
}

/// Memory and bytes of a model with 80 billion parameters on 512 ranks.
std::optional<double> meta_s() {
  const ParsedOptions parsed =
      parse_options({"--device", "meta", "--dtype", "bf16", "--layers", "80", "--hidden", "8192",
                        "--ffn", "28672", "--heads", "64", "--kv-heads", "8", "--vocab", "131072",
                        "--seq-len", "8192", "--dp", "8", "--tp", "8", "--pp", "8", "--zero", "1",
                        "--grad-accum", "16", "--sequence-parallel"},
          [](const char*) -> const char* { return nullptr; });
  if (parsed.error || refusal(parsed.options, {cpu_platform()})) return std::nullopt;
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const TimePoint start = now();
    if (meta_json(parsed.options).empty()) return std::nullopt;
    times.push_back(seconds_since(start));
  }
  return describe(times).median;
}

bool report(const char* bench, const std::optional<double>& value, const char* unit) {
  if (!value) {
    std::fprintf(stderr, "bench_runner: no figure for %s\n", bench);
    return false;
  }
  std::puts(
      JsonObject{}.text("bench", bench).number("value", *value).text("unit", unit).str().c_str());
  // Flush, so that each figure is seen as it comes.
  (void)std::fflush(stdout);
  return true;
}

}  // namespace

int main() {
  bool good = report("runner_train_step_of_gemm_rate", share_of_gemm_rate(), "share");
  good = report("runner_all_reduce_8_ranks_16_floats", small_all_reduce_ms(), "ms") && good;
  good = report("runner_meta_80b_512_ranks", meta_s(), "s") && good;
  return good ? 0 : 1;
}
