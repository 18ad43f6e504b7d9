// SPDX-License-Identifier: Apache-2.0
// One rank dies (SIGKILL) or stands still (SIGSTOP), in every phase and at any moment: the
// others end in time with the right class, and the flight recorders name it.
//
// What is random is tried a few times; --full, or SHARDBENCH_TRIES=N, tries it 100 or N times.
// Each try has a seed of its own, which a failure names: SHARDBENCH_SEED=S SHARDBENCH_TRIES=1
// repeats it.
#include "clock.hpp"
#include "launch.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <random>
#include <utility>

using namespace shardbench;

namespace {

using Codes = std::vector<int>;
constexpr unsigned few_tries = 3;
// From the launch until after the first train steps; within train, some of its steps.
constexpr unsigned longest_start_us = 100000;
constexpr unsigned longest_wait_us = 200000;
constexpr std::array<const char*, 6> phases{"start",  "rendezvous", "init",
                                            "warmup", "train",      "teardown"};
// Above every deadline of flags_in and what is added to it.
constexpr double in_time_s = 8 * slowness;

/// The whole number in variable `name`, or `otherwise`.
unsigned setting(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

/// What happens to whom.
struct Blow {
  int victim;
  int signal;
  bool stops() const { return signal == SIGSTOP; }
};

/// How the survivors have to end.
enum class End {
  deadline,  // before the connections nobody hears of a death: somebody's deadline passes
  told,      // a death is seen and told; of a standstill, a deadline tells
  either,
  done,  // nobody needs the victim any more
};
End end_of(const std::string& phase) {
  if (phase == "start" || phase == "rendezvous") return End::deadline;
  return phase == "teardown" ? End::done : End::told;
}

void check_codes(Codes codes, const Blow& blow, End end) {
  const int own = codes[static_cast<std::size_t>(blow.victim)];
  CHECK(own == (blow.stops() ? Launch::still_running : -SIGKILL));
  codes.erase(codes.begin() + blow.victim);
  const auto count = [&codes](int code) {
    return std::count(codes.begin(), codes.end(), code);
  };
  const auto all = static_cast<std::ptrdiff_t>(codes.size());
  if (end == End::done) {
    CHECK(count(0) == all);
    return;
  }
  CHECK(count(13) + count(14) == all);
  if (blow.stops() || end == End::deadline) CHECK(count(13) >= 1);
  if (!blow.stops() && end == End::told) CHECK(count(14) == all);
}

/// What --read-recorder prints.
std::string verdict_of(const ScratchFolder& folder) {
  const std::string output = folder.file("verdict");
  Launch reader(SHARDBENCH_PROGRAM, 1, {"--read-recorder", folder.file("recorder")},
                {.output = output});
  CHECK(reader.wait(patience_s) == Codes{0});
  return read_file(output);
}

/// Of a victim that the others have left in peace, silence alone tells: the verdict may take a
/// second.
void check_named(const ScratchFolder& folder, int victim) {
  CHECK(wait_for_guilty(folder, {victim}, in_time_s));
  const std::string verdict = verdict_of(folder);
  CAPTURE(verdict);
  CHECK(verdict.find("\"guilty\":[" + std::to_string(victim) + ']') != std::string::npos);
}

/// That a connection ended is seen without any deadline: one too long to wait for shows it.
std::vector<std::string> flags_against(const Blow& blow, const ScratchFolder& folder,
                                       std::vector<std::string> more) {
  if (!blow.stops()) more.insert(more.end(), {"--deadline", deadline("comm", patience_s)});
  return flags_in(folder, std::move(more));
}

/// The victim waits in `phase` for what befalls it, so that no other phase is hit.
void strike_in(const std::string& phase, const Blow& blow) {
  CAPTURE(phase);
  CAPTURE(blow.victim);
  CAPTURE(blow.signal);
  const ScratchFolder folder;
  const std::string errors = folder.file("stderr");
  std::vector<std::string> flags{"--dp", "3", "--fault",
                                 "hang@" + phase + ":" + std::to_string(blow.victim)};
  // Whoever waits for a victim that never comes need not wait long.
  if (end_of(phase) == End::deadline)
    flags.insert(flags.end(), {"--deadline", deadline("rendezvous", 0.5)});
  Launch run(SHARDBENCH_PROGRAM, 3, flags_against(blow, folder, flags), {.errors = errors});
  REQUIRE(wait_for_text(errors, "hangs in phase " + phase, patience_s));
  // A rank that is still on its way to teardown needs the victim's connection.
  if (end_of(phase) == End::done) (void)run.wait(patience_s, blow.victim);
  run.signal(blow.victim, blow.signal);
  check_codes(run.wait(in_time_s, blow.stops() ? blow.victim : -1), blow, end_of(phase));
  check_named(folder, blow.victim);
}

/// Strikes `wait_us` after the launch or, if `in_train`, after rank 0 began to train: whatever
/// the victim is doing then.
void strike_after(bool in_train, unsigned wait_us, const Blow& blow) {
  CAPTURE(in_train);
  CAPTURE(wait_us);
  CAPTURE(blow.victim);
  CAPTURE(blow.signal);
  const ScratchFolder folder;
  Launch run(
      SHARDBENCH_PROGRAM, 4,
      flags_against(blow, folder,
                    {"--dp", "2", "--pp", "2", "--grad-accum", "2", "--steps", "100000"}));
  if (in_train)
    REQUIRE(wait_for_text(folder.file("records"), "\"phase\":\"train\"", patience_s));
  (void)::usleep(wait_us);
  run.signal(blow.victim, blow.signal);
  const Codes codes = run.wait(in_time_s, blow.stops() ? blow.victim : -1);
  check_codes(codes, blow, in_train ? End::told : End::either);
  check_named(folder, blow.victim);
}

/// One random blow: at a rank that waits for it in some phase, soon after the launch, or amid
/// the train steps.
void strike_at_random(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&random](unsigned limit) {
    return static_cast<unsigned>(random()) % limit;
  };
  const int signal = below(2) == 0 ? SIGSTOP : SIGKILL;
  switch (below(3)) {
    case 0:
      strike_in(phases[below(phases.size())], {static_cast<int>(below(3)), signal});
      return;
    case 1:
      strike_after(false, below(longest_start_us), {static_cast<int>(below(4)), signal});
      return;
    default:
      strike_after(true, below(longest_wait_us), {static_cast<int>(below(4)), signal});
  }
}

}  // namespace

TEST_CASE("a rank killed in any phase ends the others in time and is named") {
  for (const char* phase : phases)
    strike_in(phase, {1, SIGKILL});
}

TEST_CASE("a rank stopped in any phase ends the others in time and is named") {
  for (const char* phase : phases)
    strike_in(phase, {1, SIGSTOP});
}

TEST_CASE("a rank stopped or killed at any moment is named and the others end in time") {
  const unsigned first_seed = setting("SHARDBENCH_SEED", 2024);
  const unsigned tries = setting("SHARDBENCH_TRIES", few_tries);
  MESSAGE(tries << " tries, seeds from " << first_seed);
  for (unsigned seed = first_seed; seed < first_seed + tries; ++seed) {
    CAPTURE(seed);
    strike_at_random(seed);
  }
}
