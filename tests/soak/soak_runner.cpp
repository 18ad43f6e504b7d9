// SPDX-License-Identifier: Apache-2.0
// A rank of the runner dies (SIGKILL) or stands still (SIGSTOP) at any moment, by real seconds:
// the others end within their deadlines with the right class, and the flight recorders name it.
//
//   soak_runner [TRIES] [SEED]     a failure names its seed: soak_runner 1 SEED repeats it
#include "base/clock.hpp"
#include "launch.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

using namespace shardbench;

namespace {

constexpr double comm_s = 1;  // of a rank that stands still nothing but a deadline tells
constexpr double in_time_s = 8;

struct Try {
  bool in_train;
  int wait_ms;
  int victim;
  int signal;
};

Try draw(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
  const bool in_train = below(2) == 0;
  return {in_train, below(in_train ? 200 : 100), below(4), below(2) == 0 ? SIGSTOP : SIGKILL};
}

/// How long the others took; negative: not in time, or with a wrong end.
double strike(const Try& blow, bool& named) {
  const ScratchFolder folder;
  Launch run(SHARDBENCH_PROGRAM, 4,
      flags_in(folder,
          {"--dp", "2", "--pp", "2", "--grad-accum", "2", "--steps", "100000", "--deadline",
              deadline("comm", comm_s), "--deadline", deadline("rendezvous", 2)}));
  if (blow.in_train) (void)wait_for_text(folder.file("records"), "\"phase\":\"train\"", 60);
  sleep_ms(blow.wait_ms);
  run.signal(blow.victim, blow.signal);
  const TimePoint struck = now();
  const auto codes = run.wait(in_time_s, blow.victim);
  const double took_s = seconds_since(struck);
  named = wait_for_guilty(folder, {blow.victim}, in_time_s);
  bool right = true;
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == blow.victim) continue;
    const int code = codes[static_cast<std::size_t>(rank)];
    right = right && (code == 13 || code == 14);
  }
  return right ? took_s : -took_s;
}

}  // namespace

int main(int argc, char** argv) {
  const int tries = argc > 1 ? std::atoi(argv[1]) : 50;
  const auto first = static_cast<unsigned>(argc > 2 ? std::atoi(argv[2]) : 2024);
  std::vector<double> took;
  int wrong = 0;
  for (unsigned seed = first; seed < first + static_cast<unsigned>(tries); ++seed) {
    const Try blow = draw(seed);
    bool named = false;
    const double took_s = strike(blow, named);
    took.push_back(std::abs(took_s));
    if (took_s >= 0 && named) continue;
    ++wrong;
    std::printf("seed %u: rank %d by signal %d, %s%d ms: %s, %s\n", seed, blow.victim, blow.signal,
        blow.in_train ? "in train + " : "after ", blow.wait_ms,
        took_s < 0 ? "the others did not end as they should" : "ended",
        named ? "named" : "not named");
  }
  std::sort(took.begin(), took.end());
  std::printf(
      "a rank struck at any moment: %d tries, %d wrong; the others ended within median "
      "%.2f s, most %.2f s\n",
      tries, wrong, took[took.size() / 2], took.back());
  return wrong == 0 ? 0 : 1;
}
