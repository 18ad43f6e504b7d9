// SPDX-License-Identifier: Apache-2.0
// What a run says of itself is the training's alone, and adds up.
#include "launch.hpp"
#include "measurement/meta_run.hpp"
#include "measurement/run_records.hpp"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>

using namespace shardbench;

namespace {

using Codes = std::vector<int>;
using Arguments = std::vector<std::string>;

/// The number behind the last "name": in `text`; a failed test if there is none.
double number(std::string_view text, const std::string& name) {
  const std::string key = "\"" + name + "\":";
  const std::size_t at = text.rfind(key);
  REQUIRE_MESSAGE(at != std::string::npos, name);
  return std::strtod(std::string(text.substr(at + key.size(), 40)).c_str(), nullptr);
}

/// The object behind "name": in the result.
std::string object(const std::string& text, const std::string& name) {
  const std::string key = "\"" + name + "\":{";
  const std::size_t at = text.rfind(key);
  REQUIRE_MESSAGE(at != std::string::npos, name);
  return text.substr(at, text.find('}', at) - at + 1);
}

Options options_for(const Arguments& arguments) {
  Arguments all{"--model", "tiny", "--rank", "0"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const auto parsed = parse_options(all, [](const char*) -> const char* { return nullptr; });
  REQUIRE_MESSAGE(!parsed.error, (parsed.error ? parsed.error->message : std::string()));
  return parsed.options;
}

/// Records of a run of two ranks.
std::string records_of(const Arguments& arguments) {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 2, flags_in(folder, arguments));
  const Codes codes = run.wait(patience_s);
  std::string text = read_file(folder.file("records"));
  REQUIRE_MESSAGE((codes == Codes{0, 0}), text);
  return text;
}

constexpr std::array<const char*, 7> phases{
    "forward", "backward", "transfer", "reduction", "gradient_norm", "optimizer", "other"};

double sum_of_phases(const std::string& text) {
  const std::string times = object(text, "phase_ms");
  double sum = 0;
  for (const char* phase : phases) {
    CHECK_MESSAGE(number(times, phase) >= -1e-9, phase);
    sum += number(times, phase);
  }
  return sum;
}

}  // namespace

TEST_CASE("the result says which part of the experts' choices had no row") {
  const auto records = [](const Arguments& more) {
    Arguments all{"--dp", "2", "--ep", "2", "--experts", "4", "--expert-ffn", "64",
        "--experts-per-token", "1", "--moe-routing", "skewed", "--recompute", "full", "--steps",
        "2"};
    all.insert(all.end(), more.begin(), more.end());
    return records_of(all);
  };
  // The first expert has half of the rows, and a quarter of the rest: 5/8, for 1/4.
  CHECK(number(records({"--moe-capacity", "1"}), "moe_dropped") == 0.375);
  CHECK(number(records({"--moe-capacity", "2.5"}), "moe_dropped") == 0);
  CHECK(records({}).find("moe_dropped") == std::string::npos);
  CHECK(number(records({"--moe-routing", "learned", "--moe-capacity", "4"}), "moe_dropped") == 0);
  CHECK(
      number(records({"--moe-routing", "learned", "--moe-capacity", "0.5"}), "moe_dropped") >= 0.5);
}

TEST_CASE("a run whose network is probed needs no more memory than one that is not") {
  // Smaller than what a probe and the building blocks hold.
  const Arguments layout{"--layers", "1", "--hidden", "32", "--heads", "2", "--kv-heads", "1",
      "--ffn", "64", "--vocab", "64", "--seq-len", "16", "--dtype", "fp64", "--dp", "2"};
  Arguments named = layout;
  named.insert(named.end(), {"--world-size", "2"});
  const RankCost cost = cost_of_rank(options_for(named), 0);
  for (const char* beside : {"--network-probe=first", "--microbench"}) {
    CAPTURE(beside);
    Arguments arguments = layout;
    arguments.insert(arguments.end(), {beside, "--memory-limit", std::to_string(cost.peak_bytes)});
    const std::string text = records_of(arguments);
    CHECK(number(text, "peak_memory_bytes") == static_cast<double>(cost.peak_bytes));
    const auto communication = static_cast<std::size_t>(MemoryClass::communication);
    CHECK(number(object(text, "peak_memory_by_class"), "communication") ==
        static_cast<double>(cost.peak_by_class[communication]));
  }
}

TEST_CASE("what the report sums up is no communication of the training") {
  // Two stages reduce only the sum of squares, a number of 8 bytes, which one of them adds to its
  // own.
  const std::string text = records_of({"--pp", "2"});
  CHECK(number(object(text, "peak_memory_by_class"), "communication") == 16);
}

TEST_CASE("the phases of a train step add up to it") {
  for (const Arguments& layout : {Arguments{"--dp", "2", "--steps", "5"},
           Arguments{"--pp", "2", "--grad-accum", "2", "--steps", "4"},
           Arguments{"--tp", "2", "--recompute", "full"}}) {
    const std::string text = records_of(layout);
    CHECK(sum_of_phases(text) == doctest::Approx(number(text, "train_step_ms")).epsilon(1e-6));
  }
}

TEST_CASE("who waits for a slow rank waits beside the optimizer") {
  const std::string text = records_of({"--dp", "2", "--fault", "slow@train:1", "--steps", "5"});
  const std::string times = object(text, "phase_ms");
  // 50 ms between backward and update: one rank sleeps (other), the other one waits for it.
  CHECK(number(times, "other") >= 20);
  CHECK(number(times, "gradient_norm") >= 10);
  CHECK(number(times, "optimizer") < number(times, "gradient_norm") / 2);
  CHECK(number(object(text, "wait_ms"), "dp") >= 10);
}

TEST_CASE("transfers between stages are a phase of their own") {
  const std::string text = records_of({"--pp", "2"});
  CHECK(number(object(text, "phase_ms"), "transfer") > 0);
  CHECK(number(object(records_of({"--dp", "2"}), "phase_ms"), "transfer") == 0);
}

TEST_CASE("the meta device finds the rank with the largest parts of uneven sums") {
  const Options options = options_for(
      {"--layers", "2", "--hidden", "32", "--heads", "4", "--kv-heads", "2", "--ffn", "51",
          "--vocab", "50", "--seq-len", "8", "--dtype", "fp64", "--world-size", "5", "--dp", "5"});
  i64 most = 0;
  for (i64 rank = 0; rank < 5; ++rank)
    most = std::max(most, cost_of_rank(options, rank).peak_bytes);
  CHECK(cost_of_rank(options, 0).peak_bytes < most);
  CHECK(number(meta_json(options), "peak_memory_bytes") == static_cast<double>(most));
}

TEST_CASE("no rank needs or sends more than the meta device says of its stage") {
  for (const Arguments& layout : {Arguments{"--dp", "6", "--dp-replicate", "2", "--zero", "2"},
           Arguments{"--dp", "3", "--tp", "2", "--zero", "1"},
           Arguments{"--dp", "3", "--pp", "2", "--grad-accum", "2", "--rank-order", "dp-tp-pp"}}) {
    Arguments arguments{"--ffn", "130", "--layers", "3"};
    arguments.insert(arguments.end(), layout.begin(), layout.end());
    arguments.insert(arguments.end(), {"--world-size", "6"});
    const Options options = options_for(arguments);
    i64 peak = 0;
    i64 sent = 0;
    for (i64 rank = 0; rank < 6; ++rank) {
      const RankCost cost = cost_of_rank(options, rank);
      peak = std::max(peak, cost.peak_bytes);
      sent =
          std::max(sent, std::accumulate(cost.sent_bytes.begin(), cost.sent_bytes.end(), i64{0}));
    }
    const std::string meta = meta_json(options);
    // The last "peak_memory_bytes" of the text is that of the last stage: ask for the first.
    const std::string key = "\"peak_memory_bytes\":";
    const double said = std::strtod(meta.c_str() + meta.find(key) + key.size(), nullptr);
    CHECK(said == static_cast<double>(peak));
    CHECK(sent > 0);
  }
}

TEST_CASE("all ranks give up together after two timed steps above the bound") {
  const std::string text = records_of({"--dp", "2", "--steps", "50", "--give-up-above", "1e-6"});
  // The count is two if both take alike; on a busy machine it is more, until their noise explains
  // less.
  CHECK(number(text, "steps") >= 2);
  CHECK(number(text, "steps") < 50);
  CHECK(number(text, "gave_up_above_ms") == doctest::Approx(1e-6));
  CHECK(text.find("\"loss_reference\":null") != std::string::npos);
  // Figures per train step are divided by the steps that there were.
  const std::string whole = records_of({"--dp", "2", "--steps", "4"});
  CHECK(object(text, "sent_bytes_per_step") == object(whole, "sent_bytes_per_step"));
}

TEST_CASE("a run within the bound, or at its last step, ends as it does without one") {
  for (const Arguments& arguments : {Arguments{"--dp", "2", "--give-up-above", "1e9"},
           Arguments{"--dp", "2", "--steps", "2", "--give-up-above", "1e-6"}}) {
    const std::string text = records_of(arguments);
    CHECK(text.find("gave_up") == std::string::npos);
  }
}

TEST_CASE("giving up needs two steps and more than their noise") {
  CHECK_FALSE(gives_up({}, 120));
  CHECK_FALSE(gives_up({500}, 120));
  CHECK(gives_up({130, 130}, 120));
  CHECK_FALSE(gives_up({120, 120}, 120));
  CHECK_FALSE(gives_up({110, 900, 900}, 120));
  CHECK_FALSE(gives_up({130, 160}, 120));
  CHECK(gives_up({130, 160, 131}, 120));
}

TEST_CASE("steps that warm up count where they are long and far above the bound") {
  CHECK_FALSE(gives_up_warming_up({}, 10e3));
  CHECK_FALSE(gives_up_warming_up({90e3}, 10e3));
  CHECK(gives_up_warming_up({25e3, 24e3}, 10e3));
  // The second step is below twice the bound.
  CHECK_FALSE(gives_up_warming_up({25e3, 19e3}, 10e3));
  // A first step may cost much once.
  CHECK_FALSE(gives_up_warming_up({90e3, 30e3}, 10e3));
  CHECK(gives_up_warming_up({90e3, 30e3, 30e3}, 10e3));
  // A hiccup in a short step says nothing.
  CHECK_FALSE(gives_up_warming_up({9e3, 9e3}, 100));
}

TEST_CASE("a run that warms up over the bound in short steps is judged by its timed steps") {
  const std::string text =
      records_of({"--dp", "2", "--warmup", "3", "--steps", "50", "--give-up-above", "1e-6"});
  CHECK(number(text, "steps") >= 2);
  CHECK(number(text, "steps") < 50);
  CHECK(number(text, "warmup") == 3);
}

// Sleep of a rank is then all that takes time, and the others wait for it.
int main(int argc, char** argv) {
  use_hand_clock(SHARDBENCH_HAND_CLOCK);
  return doctest::Context(argc, argv).run();
}
