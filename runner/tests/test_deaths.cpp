// SPDX-License-Identifier: Apache-2.0
// One rank dies (SIGKILL) or stands still (SIGSTOP) in every phase: the others end by the right
// deadline with the right class, and the flight recorders name it. At any moment, and by
// real seconds: tests/soak/runner_deaths.
#include "launch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

using namespace shardbench;

namespace {

using Codes = std::vector<int>;
constexpr std::array<const char*, 6> phases{
    "start", "rendezvous", "init", "warmup", "train", "teardown"};

/// Signal to a victim.
struct Blow {
  int victim;
  int signal;
  bool stops() const { return signal == SIGSTOP; }
};

/// How the survivors have to end.
enum class End {
  deadline,  // no connections yet, so no rank hears of the death: some deadline passes
  told,      // a death is seen and told; of a standstill, a deadline tells
  done,      // no rank needs the victim any more
};
End end_of(const std::string& phase) {
  if (phase == "start" || phase == "rendezvous") return End::deadline;
  return phase == "teardown" ? End::done : End::told;
}

void check_codes(Codes codes, const Blow& blow, End end) {
  const int own = codes[static_cast<std::size_t>(blow.victim)];
  CHECK(own == (blow.stops() ? Launch::still_running : -SIGKILL));
  codes.erase(codes.begin() + blow.victim);
  const auto count = [&codes](int code) { return std::count(codes.begin(), codes.end(), code); };
  const auto all = static_cast<std::ptrdiff_t>(codes.size());
  if (end == End::done) {
    CHECK(count(0) == all);
    return;
  }
  CHECK(count(13) + count(14) == all);
  if (blow.stops() || end == End::deadline) CHECK(count(13) >= 1);
  if (!blow.stops() && end == End::told) CHECK(count(14) == all);
}

/// Output of --read-recorder.
std::string verdict_of(const ScratchFolder& folder) {
  const std::string output = folder.file("verdict");
  Launch reader(
      SHARDBENCH_PROGRAM, 1, {"--read-recorder", folder.file("recorder")}, {.output = output});
  CHECK(reader.wait(patience_s) == Codes{0});
  return read_file(output);
}

/// Checks that the recorder names a victim after a second of silence.
void check_named(const ScratchFolder& folder, int victim) {
  let_pass(2);
  const std::string verdict = verdict_of(folder);
  CAPTURE(verdict);
  CHECK(verdict.find("\"guilty\":[" + std::to_string(victim) + ']') != std::string::npos);
}

/// Sets a deadline longer than the test: the end of a connection is seen without it.
std::vector<std::string> flags_against(
    const Blow& blow, const ScratchFolder& folder, std::vector<std::string> more) {
  if (!blow.stops()) more.insert(more.end(), {"--deadline", deadline("comm", patience_s)});
  return flags_in(folder, std::move(more));
}

/// Strikes a victim that waits for it in `phase`, so that no other phase is hit.
void strike_in(const std::string& phase, const Blow& blow) {
  CAPTURE(phase);
  CAPTURE(blow.victim);
  CAPTURE(blow.signal);
  const ScratchFolder folder;
  const std::string errors = folder.file("stderr");
  std::vector<std::string> flags{
      "--dp", "3", "--fault", "hang@" + phase + ":" + std::to_string(blow.victim)};
  // Shorten the wait for a victim that never comes.
  if (end_of(phase) == End::deadline)
    flags.insert(flags.end(), {"--deadline", deadline("rendezvous", 0.5)});
  Launch run(SHARDBENCH_PROGRAM, 3, flags_against(blow, folder, flags), {.errors = errors});
  REQUIRE(wait_for_text(errors, "hangs in phase " + phase, patience_s));
  // A rank that is still on its way to teardown needs the victim's connection.
  if (end_of(phase) == End::done) (void)run.wait(patience_s, blow.victim);
  run.signal(blow.victim, blow.signal);
  check_codes(run.wait(patience_s, blow.stops() ? blow.victim : -1), blow, end_of(phase));
  check_named(folder, blow.victim);
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
