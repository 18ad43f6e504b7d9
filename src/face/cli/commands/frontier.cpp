// SPDX-License-Identifier: Apache-2.0
// frontier: what more memory, or more nodes, buy.
#include "show/frontier.hpp"

#include "cli/command.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/charts.hpp"

#include <shardsweep/drawing.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {
namespace {

struct FrontierOptions {
  std::string by = "memory";  ///< memory, nodes
};

/// Size and vars, which tell cells apart as the model does.
std::vector<std::string_view> names_of(const Frontier& found) {
  const auto& all = found.table.columns;
  const auto layout = std::find(all.begin(), all.end(), "layout");
  return {std::find(all.begin(), layout, "gpus"), layout};
}

std::vector<std::string_view> important_of(const Frontier& found) {
  std::vector<std::string_view> columns{"layout"};
  if (found.by == FrontierCost::memory) columns.emplace_back("peak_memory_bytes");
  columns.insert(columns.end(), {"tokens_per_s_per_gpu", "tokens_per_s"});
  const auto names = names_of(found);
  columns.insert(columns.end(), names.begin(), names.end());
  return columns;
}

Result<ExitCode> print_frontier(const Session& session, const Options& options, Frontier& found) {
  if (!options.out.empty()) {
    if (!found.table.note.empty()) say(found.table.note);
    return deliver(table_text(found.table, options.format), options.out);
  }
  if (options.format == Format::table) drop_nodes_where_none(found.table);
  auto style = table_style(session, important_of(found));
  style.names = names_of(found);
  return print_table(found.table, style);
}

Result<ExitCode> run_frontier(const Session& session) {
  SHARDSWEEP_ASSIGN(const Options options, with_form(session.options, {"svg", "png"}));
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto layouts, reader->layouts(selection_of(options)));
  if (layouts.rows.empty()) SHARDSWEEP_TRY(say_why_empty(*reader, options));
  Frontier found = frontier(layouts, *from_word<FrontierCost>(options.of<FrontierOptions>().by));
  if (options.picture == PictureForm::none) return print_frontier(session, options, found);
  if (!found.table.note.empty()) say(found.table.note);
  SHARDSWEEP_ASSIGN(const auto source, source_of(session, *reader, selection_of(options)));
  const auto drawing = with_source(frontier_picture(found), source);
  if (options.picture == PictureForm::svg)
    return deliver(svg_text(drawing, SvgUse::file), options.out);
  SHARDSWEEP_ASSIGN(const auto bytes, png_bytes(drawing, options.png_width));
  return deliver(bytes, options.out);
}

}  // namespace

Result<std::string> frontier_html(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto layouts, reader->layouts(selection_of(session.options)));
  if (layouts.rows.empty()) {
    SHARDSWEEP_ASSIGN(const auto why, why_empty(*reader, session.options));
    return fault(FaultKind::invalid_input, why);
  }
  const std::array both{
      frontier(layouts, FrontierCost::memory), frontier(layouts, FrontierCost::nodes)};
  return frontier_page(both, made_text(session));
}

extern const Command command_frontier{.name = "frontier",
    .heading = Heading::results,
    .help = "Show which layouts no other one beats in speed and cost.",
    .examples =
        "shardsweep frontier my-sweep\n"
        "shardsweep frontier my-sweep --by nodes -o nodes.svg",
    .declare =
        [](Grammar& grammar) {
          grammar.selection();
          grammar.versions();
          grammar.format({"svg", "png"});
          grammar.output();
          grammar
              .option("--by", grammar.own<FrontierOptions>().by, "COST",
                  "Cost to compare speed with: memory of a GPU within a cell, or nodes.")
              .one_of({"memory", "nodes"});
        },
    .run = run_frontier,
    .last_sweep = true};

}  // namespace shardsweep
