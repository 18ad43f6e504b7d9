// SPDX-License-Identifier: Apache-2.0
// heatmap: a metric over two axes, as text, as a picture, as a page.
#include "cli/command.hpp"
#include "cli/commands/pages.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "cli/terminal.hpp"
#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/page.hpp"
#include "report/report_page.hpp"
#include "show/cell_text.hpp"
#include "show/heatmap_view.hpp"
#include "show/pivot.hpp"

#include <shardsweep/drawing.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::size_t most_facets = 50;

/// Options that heatmap alone has.
struct HeatmapOptions {
  std::string rows = "model";
  std::string cols;  ///< empty: nodes, or gpus if worlds are counted by them
  std::string value = "tokens_per_s_per_gpu";
  bool long_form = false;
  std::string aggregate = "best";  ///< best, median, p90, count
  std::string facet;               ///< column with a heatmap for each of its values
};

HeatmapRequest request_of(const Options& options) {
  const auto& own = options.of<HeatmapOptions>();
  return {.selection = selection_of(options),
      .rows = own.rows,
      .columns = own.cols,
      .value = own.value,
      .aggregate = *from_word<Aggregate>(own.aggregate),
      // A page shows the ten fastest of each cell.
      .layouts = options.picture == PictureForm::html ? std::size_t{10} : std::size_t{2}};
}

/// Heatmaps for each value of the facet's column, or one if there is no facet.
Result<std::vector<Heatmap>> heatmaps_of(Reader& reader, const Options& options) {
  const auto& own = options.of<HeatmapOptions>();
  auto request = request_of(options);
  std::vector<Heatmap> heatmaps;
  if (own.facet.empty()) {
    SHARDSWEEP_ASSIGN(const auto cells, reader.cells(request));
    heatmaps.push_back(pivot(cells, request));
    return heatmaps;
  }
  SHARDSWEEP_ASSIGN(const auto values, reader.values(request.selection, own.facet));
  if (values.size() > most_facets) {
    return fault(FaultKind::invalid_input,
        "{} has {} values. A heatmap for each of at most {} is shown; select fewer with --where.",
        own.facet, values.size(), most_facets);
  }
  const auto where = request.selection.where;
  for (const auto& value : values) {
    const auto is_it = fmt::format("{} = {}", own.facet, literal_of(value));
    request.selection.where = where.empty() ? is_it : fmt::format("({}) and {}", where, is_it);
    SHARDSWEEP_ASSIGN(const auto cells, reader.cells(request));
    auto& heatmap = heatmaps.emplace_back(pivot(cells, request));
    heatmap.facet_name = own.facet;
    heatmap.facet_value = value;
  }
  return heatmaps;
}

/// Facets of one scale could not be told apart if their values lie far from each other.
Drawing drawing_of(const std::vector<Heatmap>& heatmaps) {
  std::vector<Drawing> drawings;
  drawings.reserve(heatmaps.size());
  for (const auto& heatmap : heatmaps)
    drawings.push_back(heatmap_picture(heatmap));
  return stacked(std::move(drawings));
}

Result<std::string> page_of(const Session& session, const Options& options, Reader& reader,
    const std::vector<Heatmap>& heatmaps) {
  SHARDSWEEP_ASSIGN(auto input, page_input(session, reader, request_of(options).selection));
  input.heatmap = heatmaps.front();
  return heatmap_page(input, heatmaps);
}

Result<std::string> text_of(const Session& session, const Options& options, Reader& reader,
    const std::vector<Heatmap>& heatmaps) {
  if (options.picture == PictureForm::svg || options.picture == PictureForm::png) {
    SHARDSWEEP_ASSIGN(const auto source, source_of(session, reader, request_of(options).selection));
    const auto drawing = with_source(drawing_of(heatmaps), source);
    if (options.picture == PictureForm::png) return png_bytes(drawing, options.png_width);
    return svg_text(drawing, SvgUse::file);
  }
  if (options.picture == PictureForm::html) return page_of(session, options, reader, heatmaps);
  const bool unlimited = options.wide || !options.out.empty();
  return heatmap_text(heatmaps,
      {.format = options.format,
          .list = options.of<HeatmapOptions>().long_form,
          .terminal = unlimited ? Terminal{} : terminal_of(STDOUT_FILENO)});
}

Result<ExitCode> run_heatmap(const Session& session) {
  SHARDSWEEP_ASSIGN(const Options options, with_form(session.options, {"svg", "png", "html"}));
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  SHARDSWEEP_ASSIGN(const auto heatmaps, heatmaps_of(*reader, options));
  for (const auto& heatmap : heatmaps) {
    if (heatmap.note.empty()) continue;
    say(heatmap.facet_name.empty()
            ? heatmap.note
            : fmt::format("{} {}: {}", heatmap.facet_name,
                  humanised(heatmap.facet_name, heatmap.facet_value), heatmap.note));
  }
  SHARDSWEEP_ASSIGN(const auto changed, changed_since(*reader, selection_of(options)));
  if (!changed.empty()) say(changed);
  SHARDSWEEP_ASSIGN(const auto text, text_of(session, options, *reader, heatmaps));
  return deliver(text, options.out);
}

}  // namespace

extern const Command command_heatmap{.name = "heatmap",
    .heading = Heading::results,
    .help = "Show a metric over two axes.",
    .examples =
        "shardsweep heatmap\n"
        "shardsweep heatmap my-sweep --rows tp --cols micro_batch\n"
        "shardsweep heatmap --value outcome -o outcomes.svg",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<HeatmapOptions>();
          grammar.selection();
          grammar.versions();
          grammar.format({"svg", "png", "html"});
          grammar.output();
          grammar.option("--rows", own.rows, "AXIS", "Axis of the rows.");
          grammar.option("--cols", own.cols, "AXIS",
              "Axis of the columns. Default: nodes, or gpus if the sweep sets gpus.");
          grammar.option("--value", own.value, "METRIC", "Metric to show, or outcome.");
          grammar
              .option("--aggregate", own.aggregate, "WORD",
                  "What a cell shows of its layouts: best, median, p90 or count.")
              .one_of({"best", "median", "p90", "count"});
          grammar.option("--facet", own.facet, "COLUMN",
              "Column with a heatmap of its own for each of its values.");
          grammar.flag(
              "--long", own.long_form, "With csv: one line per cell, with layout and status.");
        },
    .run = run_heatmap,
    .last_sweep = true};

}  // namespace shardsweep
