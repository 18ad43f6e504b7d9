// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments_predict.hpp"

#include "cli/validators.hpp"

namespace shardsweep {
namespace {

constexpr std::int64_t most_nodes = 1'000'000;
constexpr std::int64_t most_layouts = 100;

}  // namespace

CLI::App* with_suggest(CLI::App* sub, Options& options) {
  sub->add_option("--model", options.asked.model, "Preset of the model.")
      ->required()
      ->type_name("MODEL");
  sub->add_option("--cluster", options.asked.cluster, "Preset of the cluster.")
      ->required()
      ->type_name("PRESET");
  sub->add_option("--nodes", options.asked.nodes, "Number of whole nodes.")
      ->type_name("N")
      ->check(whole_number(1, most_nodes));
  sub->add_option("--gpus", options.asked.gpus, "GPUs of one node, in place of --nodes.")
      ->type_name("N")
      ->check(whole_number(1, most_nodes));
  sub->add_option("--seq-len", options.asked.seq_len, "Tokens per sample.")
      ->capture_default_str()
      ->type_name("TOKENS");
  sub->add_option("--batch-tokens", options.asked.batch_tokens, "Tokens per train step.")
      ->capture_default_str()
      ->type_name("TOKENS");
  sub->add_option("--top", options.asked.top,
                  "Layouts to show, each with another dp, tp and pp.")
      ->capture_default_str()
      ->type_name("N")
      ->check(whole_number(1, most_layouts));
  sub->add_option("--write", options.out,
                  "Write a sweep file of these layouts and their neighbours.")
      ->type_name("FILE");
  return sub;
}

CLI::App* with_extrapolate(CLI::App* sub, Options& options) {
  sub->add_option("names", options.names, "The sweep.")
      ->required()
      ->expected(1)
      ->type_name("SWEEP");
  sub->add_option("--nodes", options.asked.nodes, "Numbers of nodes, such as 16,32.")
      ->type_name("N");
  sub->add_option("--gpus", options.asked.gpus, "Numbers of GPUs, where the sweep sets gpus.")
      ->type_name("N");
  sub->add_option("--top", options.asked.top, "Layouts to show of each cell.")
      ->capture_default_str()
      ->type_name("N")
      ->check(whole_number(1, most_layouts));
  sub->add_option("--write", options.out,
                  "Write a sweep file of one trial that tests the nearest guess.")
      ->type_name("FILE");
  return sub;
}

}  // namespace shardsweep
