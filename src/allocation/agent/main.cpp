// SPDX-License-Identifier: Apache-2.0
#include "agent/lead.hpp"
#include "agent/log.hpp"
#include "agent/options.hpp"
#include "agent/reap.hpp"
#include "agent/slurm_step.hpp"
#include "agent/spawn.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

namespace {

using namespace shardsweep;
using namespace shardsweep::agent;

constexpr int exit_usage = 2;
constexpr int exit_broken = 70;

int run(const Options& options, const Environment& environment) {
  const SystemClock wall;
  const AnchoredClock clock(wall);
  switch (options.verb) {
    case Verb::help:
      std::fputs(usage_text.data(), stdout);
      return 0;
    case Verb::version:
      std::puts("shardsweep-agent " SHARDSWEEP_VERSION);
      return 0;
    case Verb::lead:
      return run_lead(options.dir, clock);
    case Verb::node:
      return run_node(options.node, clock);
    case Verb::rank:
      return run_step_rank(options.dir, environment);
    case Verb::check:
      return run_check(options.check, clock);
    case Verb::sweep_leftovers:
      return sweep_leftovers(options.token, clock);
  }
  return exit_usage;
}

}  // namespace

int main(int argc, char** argv) {
  const Environment environment = current_environment();
  const auto options = parse_options({argv + 1, argv + argc}, environment);
  if (!options) {
    const std::string why = "shardsweep-agent: " + options.error().what + "\n\n";
    std::fputs((why + std::string(usage_text)).c_str(), stderr);
    return exit_usage;
  }
  try {
    return run(*options, environment);
  } catch (const std::exception& broken) {
    // Lead, guard or node agent, whoever this is: what it would do next is not to be trusted.
    // It ends as by kill -9, which all that watch it are made for.
    const SystemClock clock;
    Log(clock, "agent").line(std::string("found a defect in itself and ends: ") + broken.what());
    ::kill(::getpid(), SIGKILL);
    return exit_broken;
  }
}
