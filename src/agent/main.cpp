// SPDX-License-Identifier: Apache-2.0
#include "agent/leftovers.hpp"
#include "agent/options.hpp"
#include "agent/spawn.hpp"
#include "agent/start_lead.hpp"
#include "agent/step_rank.hpp"

#include <cstdio>
#include <string>

namespace {

using namespace shardsweep;
using namespace shardsweep::agent;

constexpr int exit_usage = 2;

int run(const Options& options, const Environment& environment) {
  const SystemClock clock;
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
  return run(*options, environment);
}
