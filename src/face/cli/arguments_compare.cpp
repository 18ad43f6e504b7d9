// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments_compare.hpp"

#include <CLI/CLI.hpp>

namespace shardsweep {

CLI::App* with_compare(CLI::App* sub, Options& options) {
  constexpr int two = 2;
  sub->add_option("names", options.names,
                  "The two sides, the older one first: sweeps, or values of the column that "
                  "--by names.")
      ->required()
      ->expected(two)
      ->type_name("A B");
  sub->add_option("--by", options.compare.by,
                  "Column whose values the sides are: sweep, runner_version, code_hash, image, "
                  "site (the cluster), or one of your vars.")
      ->capture_default_str()
      ->type_name("COLUMN");
  sub->add_option("--resolve", options.compare.resolve,
                  "A change that is surely smaller than this is SAME.")
      ->capture_default_str()
      ->type_name("SHARE");
  sub->add_option("--fail-on", options.compare.fail_on,
                  "Exit with 1 if a layout got slower by this much or more, such as slower=2%. "
                  "What noise may explain does not count.")
      ->type_name("slower=SHARE");
  sub->add_flag("--winners", options.compare.winners,
                "Print the fastest layout of each cell on both sides, not every layout.");
  return sub;
}

}  // namespace shardsweep
