// SPDX-License-Identifier: Apache-2.0
// best: the fastest layout of each cell.
#include "cli/command.hpp"
#include "cli/emitting.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"

#include <shardsweep/results.hpp>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

/// Columns between which `best` has the vars.
constexpr std::string_view before_vars = "profile";
constexpr std::string_view behind_vars = "certainty";

Result<ExitCode> run_best(const Session& session) {
  if (!session.options.trainer.emit.empty()) return emit_best(session);
  if (!session.options.trainer.from_args.empty()) return rank_among_results(session);
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const auto selection = selection_of(session.options);
  SHARDSWEEP_ASSIGN(Table table, reader->best(selection));
  SHARDSWEEP_ASSIGN(const auto changed, changed_since(*reader, selection));
  if (!changed.empty()) table.note += (table.note.empty() ? "" : "\n") + changed;
  if (table.rows.empty()) SHARDSWEEP_TRY(say_why_empty(*reader, session.options));
  if (session.options.format == Format::table) drop_nodes_where_none(table);
  std::vector<std::string_view> important{"layout", "tokens_per_s_per_gpu"};
  // A var tells cells apart as the model does.
  const auto first = std::find(table.columns.begin(), table.columns.end(), before_vars);
  const auto last = std::find(first, table.columns.end(), behind_vars);
  const std::vector<std::string_view> vars(first == last ? first : first + 1, last);
  important.insert(important.end(), vars.begin(), vars.end());
  auto style = table_style(session, std::move(important));
  style.names = vars;
  return print_table(table, style);
}

}  // namespace

extern const Command command_best{.name = "best",
    .heading = Heading::results,
    .help = "Show the fastest layout per model, sequence length and size.",
    .examples =
        "shardsweep best my-sweep\n"
        "shardsweep best my-sweep --emit megatron",
    .declare =
        [](Grammar& grammar) {
          grammar.selection();
          grammar.versions();
          grammar.format();
          declare_emit(grammar);
        },
    .run = run_best,
    .last_sweep = true};

}  // namespace shardsweep
