// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments_trainers.hpp"

#include "cli/emitting.hpp"
#include "trainer/configuration.hpp"
#include "trainer/trainers.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace shardsweep {

CLI::App* with_read_log(CLI::App* sub, Options& options) {
  std::vector<std::string> names;
  for (const Trainer& trainer : trainers())
    names.emplace_back(trainer.name);
  sub->add_option("files", options.names, "Logs of one run, such as those of its ranks.")
      ->type_name("FILE");
  sub->add_flag("--list", options.logs.list,
                "List the trainers that are known, and what to set.");
  sub->add_option("--log", options.trainer.log,
                  "Trainer that wrote the log. Default: found out.")
      ->type_name("TRAINER")
      ->check(CLI::IsMember(names));
  sub->add_option("--pattern", options.trainer.patterns,
                  "Your own pattern, such as 'step {iteration} took {step_ms} ms'; * is any "
                  "text. Repeatable.")
      ->type_name("PATTERN")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  sub->add_option("--gpus", options.trainer.gpus,
                  "GPUs of the run, where the log leaves them out.")
      ->type_name("N");
  sub->add_option("--seq-len", options.trainer.seq_len, "Tokens per sample.")
      ->type_name("TOKENS");
  sub->add_option("--batch-tokens", options.trainer.batch_tokens, "Tokens per train step.")
      ->type_name("TOKENS");
  sub->add_option("--vocab", options.trainer.vocab,
                  "Entries of the vocabulary, to check the first loss.")
      ->type_name("N");
  return sub;
}

CLI::App* with_emit(CLI::App* sub, Options& options) {
  std::vector<std::string> names;
  for (const auto trainer : configurable_trainers())
    names.emplace_back(trainer);
  const auto words = emit_words();
  auto* emit = sub->add_option("--emit", options.trainer.emit,
                               "Print these layouts, to paste, in the words of: " +
                                   CLI::detail::join(words, ", ") + ".")
                   ->type_name("WORDS")
                   ->check(CLI::IsMember(words));
  auto* from = sub->add_option("--from-args", options.trainer.from_args,
                               "Where this layout ranks: a trainer's present flags, or a file "
                               "(@FILE).")
                   ->type_name("TEXT")
                   ->excludes(emit);
  sub->add_option("--for", options.trainer.log,
                  "With --from-args: whose flags. Default: the sweep's trainer, or megatron.")
      ->type_name("TRAINER")
      ->check(CLI::IsMember(names))
      ->needs(from);
  sub->add_option("--gpus", options.trainer.gpus,
                  "With --from-args: GPUs of the run, where the sweep has several worlds.")
      ->type_name("N")
      ->needs(from);
  return sub;
}

void with_point(CLI::App* sub, Options& options, const char* name, const std::string& begin) {
  sub->add_option(name, options.trainer.point,
                  begin + "by number in the plan's order or by axes: 3, tp=2,micro_batch=4.")
      ->type_name("POINT");
}

}  // namespace shardsweep
