// SPDX-License-Identifier: Apache-2.0
// suggest: a layout before anything has run.
#include "cli/command.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "show/suggest_view.hpp"
#include "text/pieces.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {
namespace {

std::int64_t constant(const SweepSpec& sweep, std::string_view name) {
  for (const auto& each : sweep.constants) {
    if (each.axis->name == name && !each.values.empty()) return each.values.front();
  }
  return 0;
}

struct AskedValue {
  std::string_view option;
  std::string_view key;  ///< of the sweep file
  const std::string& value;
};

/// A mistake of the sweep that nobody has written, in words of the options: without the line
/// and the caret below it, which show the key.
Fault of_options(const Fault& mistake, const std::vector<AskedValue>& asked) {
  std::string text;
  for (const auto line : split(mistake.what, '\n')) {
    std::string shown(line);
    for (const auto& one : asked) {
      const std::string setting = fmt::format("{}={}", one.key, one.value);
      if (line == setting) shown.clear();
      if (line.starts_with("--set " + setting))
        shown = fmt::format("{} {}", one.option, line.substr(6 + one.key.size() + 1));
    }
    if (shown.find_first_not_of(" ^") == std::string::npos) continue;
    text += (text.empty() ? "" : "\n") + shown;
  }
  return {mistake.kind, text};
}

/// What is asked for, read as a sweep file's values are: the same units, presets and messages.
Result<SweepSpec> asked(const Session& session) {
  const Options& options = session.options;
  if (options.asked.nodes.empty() == options.asked.gpus.empty())
    return fault(FaultKind::invalid_input, "Give --nodes or --gpus, and not both.");
  const bool whole_nodes = !options.asked.nodes.empty();
  const std::vector<AskedValue> asked{
      {"--cluster", "cluster", options.asked.cluster},
      {"--model", "constants.model", options.asked.model},
      {"--seq-len", "constants.seq_len", options.asked.seq_len},
      {"--batch-tokens", "constants.global_batch_tokens", options.asked.batch_tokens},
      whole_nodes ? AskedValue{"--nodes", "constants.nodes", options.asked.nodes}
                  : AskedValue{"--gpus", "constants.gpus", options.asked.gpus}};
  std::vector<std::string> set;
  for (const auto& one : asked)
    set.push_back(fmt::format("{}={}", one.key, one.value));
  auto sweep =
      load_sweep_text("name: suggest\n", "suggest", {session.installation.presets, set});
  if (!sweep) return tl::unexpected<Fault>(of_options(sweep.error(), asked));
  return sweep;
}

Result<void> write_sweep(const Session& session, const SuggestRequest& request,
                         const Suggestion& suggestion) {
  const Options& options = session.options;
  SHARDSWEEP_TRY(write_new_file(
      options.out,
      suggested_sweep(request, suggestion, options.asked.model, options.asked.cluster)));
  say(fmt::format("Wrote {}. Next: shardsweep plan {}", options.out, options.out));
  return {};
}

Result<ExitCode> run_suggest(const Session& session) {
  SHARDSWEEP_ASSIGN(const SweepSpec sweep, asked(session));
  SHARDSWEEP_ASSIGN(const Family* family, find_family(session.options.asked.family.empty()
                                                          ? "shardbench"
                                                          : session.options.asked.family));
  SuggestRequest request;
  request.model = sweep.models.at(0);
  request.cluster = sweep.cluster;
  request.family = family;
  request.nodes = static_cast<std::int32_t>(constant(sweep, "nodes"));
  request.gpus = static_cast<std::int32_t>(request.nodes > 0 ? std::int64_t{request.nodes} *
                                                                   sweep.cluster.gpus_per_node
                                                             : constant(sweep, "gpus"));
  request.seq_len = static_cast<std::int32_t>(constant(sweep, "seq_len"));
  request.global_batch_tokens = sweep.global_batch_tokens.value_or(0);
  request.most = static_cast<std::size_t>(session.options.asked.top);
  SHARDSWEEP_ASSIGN(const auto suggestion, suggest(request));
  SHARDSWEEP_TRY(print_result(suggestion_text(request, suggestion, table_style(session))));
  if (suggestion.layouts.empty()) return ExitCode::failed;
  if (!session.options.out.empty()) SHARDSWEEP_TRY(write_sweep(session, request, suggestion));
  return ExitCode::done;
}

}  // namespace

extern const Command command_suggest{
    .name = "suggest",
    .heading = Heading::other,
    .help = "Predict the fastest layouts: memory, batch, throughput.",
    .examples = "shardsweep suggest --model mini --cluster cpu-2x --nodes 2",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          constexpr std::int64_t most_nodes = 1'000'000;
          constexpr std::int64_t most_layouts = 100;
          grammar.option("--model", options.asked.model, "MODEL", "Preset of the model.")
              .required();
          grammar.option("--cluster", options.asked.cluster, "PRESET", "Preset of the cluster.")
              .required();
          grammar.option("--nodes", options.asked.nodes, "N", "Number of whole nodes.")
              .whole_number(1, most_nodes);
          grammar
              .option("--gpus", options.asked.gpus, "N",
                      "GPUs of one node, in place of --nodes.")
              .whole_number(1, most_nodes);
          grammar.option("--seq-len", options.asked.seq_len, "TOKENS", "Tokens per sample.")
              .with_default();
          grammar
              .option("--batch-tokens", options.asked.batch_tokens, "TOKENS",
                      "Tokens per train step.")
              .with_default();
          grammar
              .option("--top", options.asked.top, "N",
                      "Layouts to show, each with another dp, tp and pp.")
              .with_default()
              .whole_number(1, most_layouts);
          grammar.option("--write", options.out, "FILE",
                         "Write a sweep file of these layouts and their neighbours.");
          grammar.family("Family of the trainer. Default: shardbench.");
          grammar.format();
        },
    .run = run_suggest};

}  // namespace shardsweep
