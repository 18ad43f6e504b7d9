// SPDX-License-Identifier: Apache-2.0
#include "show/status_view.hpp"

#include "answer/answer.hpp"
#include "answer/best_text.hpp"
#include "show/arrange.hpp"
#include "show/cell_text.hpp"
#include "show/exit_code.hpp"
#include "show/next_steps.hpp"
#include "text/numbers.hpp"

#include <shardsweep/duration.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace shardsweep {
namespace {

constexpr std::size_t least_outcomes = 24;  // columns; else they go below
constexpr std::size_t least_sweep_name = 12;
constexpr std::size_t most_bests_shown = 6;  // `best` prints more

std::string left_text(const SweepStatus& status) {
  return status.state == "active" ? time_left(status) : "";
}

Style state_style(const SweepStatus& status) {
  if (status.state == "paused") return Style::notice;
  return ended_trials(status) < status.trials ? Style::strong : Style::plain;
}

std::vector<Span> outcome_parts(const SweepStatus& status) {
  std::vector<Span> parts;
  for (const OutcomeInfo& row : outcome_table) {
    const std::int64_t count = count_of(status.by_outcome, row.name);
    if (count > 0)
      parts.push_back({fmt::format("{} {}", grouped(count), row.name), style_of(row.outcome)});
  }
  return parts;
}

/// The cells of a row before its outcomes, and their widths.
using RowCells = std::array<std::string, 4>;
constexpr std::array<Align, 4> aligns{Align::left, Align::left, Align::right, Align::left};

RowCells cells_of(const SweepStatus& status) {
  return {printable(status.name), state_text(status),
      fmt::format("{}/{}", grouped(ended_trials(status)), grouped(status.trials)),
      left_text(status)};
}

std::array<std::size_t, 4> widths_of(const std::vector<RowCells>& rows, std::size_t width) {
  std::array<std::size_t, 4> widths{};
  for (const RowCells& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width_of(row[i]));
  }
  // Names give way to the outcomes, down to a few columns.
  const std::size_t others = widths[1] + widths[2] + widths[3] + 4 * column_gap + least_outcomes;
  const std::size_t room = width > others ? width - others : 0;
  widths[0] = std::min(widths[0], std::max(room, least_sweep_name));
  return widths;
}

StyledLine row_line(
    const RowCells& row, const std::array<std::size_t, 4>& widths, Style state, bool utf8) {
  StyledLine line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Style style = i == 1 ? state : Style::plain;
    line.push_back({padded(cut_to(row[i], widths[i], utf8), widths[i], aligns[i]), style});
    line.push_back({std::string(column_gap, ' ')});
  }
  return line;
}

/// A label and what it says, in as many lines as that takes.
void add(std::vector<StyledLine>& lines, const std::string& label, const std::string& value,
    Style style, const ViewSize& size) {
  constexpr std::size_t label_width = 12;
  if (value.empty()) return;
  const std::size_t room =
      std::max<std::size_t>(size.width - std::min(size.width, label_width), least_sweep_name);
  std::string head = label;
  for (std::string& part : folded(printable(value), room)) {
    lines.push_back(cut_to(StyledLine{{padded(head, label_width, Align::left), Style::faint},
                               {std::move(part), style}},
        size.width, size.utf8));
    head.clear();
  }
}

std::string trials_text(const SweepStatus& status) {
  std::string text =
      fmt::format("{} of {} ended", grouped(ended_trials(status)), grouped(status.trials));
  for (const State state : {State::running, State::queued, State::planned}) {
    const std::int64_t count = count_of(status.by_state, name(state));
    if (count > 0) text += fmt::format(", {} {}", grouped(count), name(state));
  }
  return text;
}

/// Text on running trials that the sweep file no longer has. No count of the sweep includes them,
/// and one of them may be the trial that is named as running.
std::string removed_text(const SweepStatus& status) {
  if (status.removed_running == 0) return "";
  const bool one = status.removed_running == 1;
  return fmt::format("{} that {} no longer in the sweep file still {}; {} kept",
      counted(status.removed_running, "trial"), one ? "is" : "are", one ? "runs" : "run",
      one ? "its result is" : "their results are");
}

std::string ago_text(Timestamp at, Timestamp now) {
  if (at == 0) return "";
  const double s = std::max(0.0, std::round(to_seconds(now - at)));
  return fmt::format("{} ({} ago)", local_time_text(at), duration_text(s));
}

}  // namespace

std::string regressions_text(const std::vector<Regression>& regressions) {
  constexpr std::size_t most_told = 3;
  std::vector<std::string> told;
  for (std::size_t i = 0; i < std::min(regressions.size(), most_told); ++i)
    told.push_back(fmt::format("{}: slower since {}: {}.", regressions[i].sweep,
        local_time_text(regressions[i].since), regressions[i].text));
  if (regressions.size() > most_told)
    told.push_back(fmt::format("{} more became slower.",
        counted(std::ssize(regressions) - static_cast<std::ptrdiff_t>(most_told), "layout")));
  return fmt::format("{}", fmt::join(told, "\n"));
}

std::string state_text(const SweepStatus& status) {
  if (status.state != "active") return status.state;
  if (status.trials > 0 && is_over(status)) return "done";
  return count_of(status.by_state, name(State::running)) > 0 ? "running" : "waiting";
}

std::vector<StyledLine> status_table_lines(
    const std::vector<SweepStatus>& sweeps, const ViewSize& size) {
  std::vector<RowCells> rows{{"sweep", "state", "ended", "time left"}};
  for (const SweepStatus& sweep : sweeps)
    rows.push_back(cells_of(sweep));
  const auto widths = widths_of(rows, size.width);
  const std::size_t used = widths[0] + widths[1] + widths[2] + widths[3] + 4 * column_gap;
  const bool beside = used + least_outcomes <= size.width;
  const std::size_t indent = beside ? used : column_gap;

  std::vector<StyledLine> lines;
  const auto push = [&](StyledLine line) {
    lines.push_back(cut_to(std::move(line), size.width, size.utf8));
  };
  StyledLine header = row_line(rows[0], widths, Style::plain, size.utf8);
  if (beside) header.push_back({"outcomes"});
  push(std::move(header));
  for (std::size_t i = 0; i < sweeps.size(); ++i) {
    StyledLine line = row_line(rows[i + 1], widths, state_style(sweeps[i]), size.utf8);
    auto more = folded_list(outcome_parts(sweeps[i]), size.width, indent);
    if (beside && !more.empty()) {
      line.insert(line.end(), more.front().begin() + 1, more.front().end());
      more.erase(more.begin());
    }
    push(std::move(line));
    for (StyledLine& below : more)
      push(std::move(below));
  }
  return lines;
}

std::vector<StyledLine> status_lines(const SweepStatus& sweep, const std::vector<CellBest>& best,
    Timestamp now, const ViewSize& size) {
  std::vector<StyledLine> lines;
  add(lines, "sweep", sweep.name, Style::strong, size);
  add(lines, "state", state_text(sweep), state_style(sweep), size);
  add(lines, "trials", trials_text(sweep), Style::plain, size);
  add(lines, "outcomes", outcomes_text(sweep), Style::plain, size);
  if (sweep.left_out > 0) {
    add(lines, "left out", counted(sweep.left_out, "point") + " of the grid cannot run",
        Style::plain, size);
  }
  add(lines, "time left", left_text(sweep), Style::plain, size);
  for (std::size_t i = 0; i < std::min(best.size(), most_bests_shown); ++i) {
    const std::string cell = cell_text(best[i].cell, best);
    add(lines, i == 0 ? "best" : "",
        fmt::format("{} tokens/s/GPU  {}{}  {}", amount_text(best[i].tokens_per_s_per_gpu),
            best[i].layout, cell.empty() ? "" : "  (" + cell + ")", certainty_text(best[i].answer)),
        Style::plain, size);
    if (const auto doubts = doubts_text(best[i].answer); !doubts.empty())
      add(lines, "", "doubtful: " + doubts, Style::notice, size);
  }
  if (best.size() > most_bests_shown) {
    add(lines, "",
        fmt::format("and {} more: `shardsweep best {}`",
            counted(static_cast<std::int64_t>(best.size() - most_bests_shown), "cell"), sweep.name),
        Style::faint, size);
  }
  add(lines, "running", sweep.running, Style::plain, size);
  add(lines, "removed", removed_text(sweep), Style::notice, size);
  add(lines, "waiting", why_it_waits(sweep), Style::notice, size);
  for (const auto& [bound, trials] : sweep.spared)
    add(lines, "skipped", fmt::format("{}: {}", grouped(trials), bound), Style::plain, size);
  add(lines, "submitted", ago_text(sweep.submitted_at, now), Style::plain, size);
  add(lines, "last event", ago_text(sweep.last_event_at, now), Style::plain, size);
  return lines;
}

}  // namespace shardsweep
