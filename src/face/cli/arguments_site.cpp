// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments_site.hpp"

#include <CLI/CLI.hpp>

namespace shardsweep {

CLI::App* with_init(CLI::App* sub, Options& options) {
  sub->add_option("file", options.file,
                  "File to write; - prints it. An existing file is kept. Default: "
                  "~/.config/shardsweep/site.yaml.")
      ->type_name("FILE");
  sub->add_flag("--on-a-node", options.on_a_node,
                "Also ask a node, by a short job: GPUs, containers, CUDA, NCCL.");
  return sub;
}

CLI::App* with_selftest(CLI::App* sub, Options& options) {
  sub->add_option("--nodes", options.asked.nodes, "Number of nodes. Default: 1.")
      ->type_name("N");
  sub->add_option("--cluster", options.asked.cluster,
                  "Preset of the cluster. Default: two slots without GPUs on each node.")
      ->type_name("PRESET");
  return sub;
}

}  // namespace shardsweep
