// SPDX-License-Identifier: Apache-2.0
// How often searches of simulated machines are wrong, beside what they claim: a table with one
// line for each confidence and each kind of machine. Arguments: machines (200), first seed (1).
#include "unit/search/simulated_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

namespace {

using namespace shardsweep;
using namespace shardsweep::testing;

struct Kind {
  const char* name;
  Misfit misfit;
};

void print_row(const Kind& kind, double confidence, std::uint64_t machines, std::uint64_t first) {
  SearchSettings settings{.policy = SearchPolicy::best_first};
  settings.until = {.regret = 0.05, .confidence = confidence};
  std::vector<std::size_t> runs;
  std::vector<double> regrets;
  double wrong = 0;
  double untrue = 0;
  double launched = 0;
  double points = 0;
  for (std::uint64_t seed = first; seed < first + machines; ++seed) {
    const auto score = search(simulated_machine(seed, kind.misfit), settings);
    if (score.stopped && score.regret > settings.until.regret) ++wrong;
    if (score.stopped && score.left_over > settings.until.regret) ++untrue;
    runs.push_back(score.launched);
    regrets.push_back(score.regret);
    launched += static_cast<double>(score.launched);
    points += static_cast<double>(score.points);
  }
  std::sort(runs.begin(), runs.end());
  std::sort(regrets.begin(), regrets.end());
  const auto count = static_cast<double>(machines);
  const auto late = regrets[regrets.size() * 95 / 100];
  fmt::print("{:<34} {:>7.0f} % {:>9.1f} % {:>12.1f} % {:>8} {:>11.1f} % {:>10.1f} %\n", kind.name,
      100 * (1 - confidence), 100 * wrong / count, 100 * untrue / count, runs[runs.size() / 2],
      100 * launched / points, 100 * late);
}

}  // namespace

int main(int count, char** arguments) {
  const auto argument = [&](int at, std::uint64_t otherwise) {
    return count > at ? std::strtoull(arguments[at], nullptr, 10) : otherwise;
  };
  const auto machines = argument(1, 200);
  const auto first = argument(2, 1);
  const std::array<Kind, 4> kinds{
      {{"rates x4, structure 20 %", {}}, {"rates x4, no other misfit", {.structure = 0}},
          {"rates x4, structure 40 %", {.structure = 0.4}},
          {"rates x8, structure 20 %, noise 8 %", {.rates = 8, .noise = 0.08}}}};
  fmt::print("{:<34} {:>9} {:>11} {:>14} {:>8} {:>13} {:>12}\n", "machines", "allowed", "wrong",
      "claim untrue", "runs", "launched", "regret p95");
  for (const auto& kind : kinds) {
    for (const double confidence : {0.9, 0.95})
      print_row(kind, confidence, machines, first);
  }
  return 0;
}
