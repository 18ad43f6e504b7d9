// SPDX-License-Identifier: Apache-2.0
#include "show/live_view.hpp"

#include "answer/answer.hpp"
#include "answer/best_text.hpp"
#include "show/cell_text.hpp"
#include "show/exit_code.hpp"
#include "show/next_steps.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace shardsweep {
namespace {

constexpr std::size_t longest_bar = 40;
constexpr std::size_t shortest_bar = 8;
constexpr std::size_t least_name = 12;    // columns of a sweep's name that a bar leaves free
constexpr std::size_t most_sentence = 3;  // lines of one sentence in the block
constexpr std::size_t indent = 2;
constexpr std::size_t label_width = 9;  // "running  "

std::string rate_text(double tokens_per_s_per_gpu) {
  return amount_text(tokens_per_s_per_gpu) + " tokens/s/GPU";
}

// ---- the block

/// The right end of a sweep's first line: it is never cut.
std::string far_text(const SweepStatus& status) {
  const std::int64_t ended = ended_trials(status);
  std::string text = fmt::format("{}/{}", grouped(ended), grouped(status.trials));
  const std::string left = time_left_text(status);
  if (status.state != "active" && ended < status.trials) return text + "  " + status.state;
  return left.empty() ? text : text + "  " + left;
}

std::string bar_text(std::int64_t ended, std::int64_t trials, std::size_t width) {
  const std::size_t inner = width - 2;
  const double share = trials > 0 ? static_cast<double>(ended) / static_cast<double>(trials) : 1.0;
  const auto full = static_cast<std::size_t>(share * static_cast<double>(inner));
  return fmt::format("[{}{}]", std::string(full, '#'), std::string(inner - full, '.'));
}

/// Part of a job's name that its sweep does not say: "n2_3f9a01" of "grid-n2_3f9a01".
std::string job_text(const AllocationProgress& job) {
  constexpr std::size_t most_of_sweep = 24;  // characters of the sweep in a job's name
  const auto before = job.sweep.substr(0, most_of_sweep) + "-";
  return job.job_name.starts_with(before) ? job.job_name.substr(before.size()) : job.job_name;
}

/// Adds what a job does now, and for how long.
void add_now(StyledLine& line, const AllocationProgress& job, Timestamp now) {
  if (!job.claimed) {
    line.push_back({"waits for its nodes", Style::notice});
  } else if (job.trial.empty()) {
    line.push_back({"between two trials", Style::faint});
  } else {
    constexpr double microsecond = 1e-6;
    const double seconds =
        std::max(1.0, std::floor(static_cast<double>(now - job.started_at) * microsecond));
    if (now > 0 && job.started_at > 0) line.push_back({duration_text(seconds) + "  "});
    line.push_back({job.model + " " + job.layout, Style::strong});
  }
}

/// "  grid-n2  [####....]  5/12  8 s  mini dp2 tp1 …": the fifth of twelve trials runs.
StyledLine allocation_line(
    const AllocationProgress& job, std::size_t name_width, Timestamp now, const ViewSize& size) {
  constexpr std::size_t roomy = 100;  // columns from which a bar has twice its least width
  const std::string name = cut_to(job_text(job), name_width, size.utf8);
  StyledLine line{{std::string(indent, ' ') + padded(name, name_width, Align::left) + "  "}};
  if (job.claimed && job.assigned > 0) {
    const std::size_t bar = size.width >= roomy ? 2 * shortest_bar : shortest_bar;
    line.push_back({bar_text(job.ended, job.assigned, bar + 2), Style::good});
    const auto number = std::min(job.ended + (job.trial.empty() ? 0 : 1), job.assigned);
    line.push_back({fmt::format("  {}/{}  ", grouped(number), grouped(job.assigned))});
  }
  add_now(line, job, now);
  return cut_to(std::move(line), size.width, size.utf8);
}

/// Name, bar, count and time left. A narrow terminal shortens the name, then the bar.
StyledLine bar_line(const SweepStatus& status, const ViewSize& size) {
  const std::string far = far_text(status);
  const std::size_t room = size.width - std::min(size.width, width_of(far));
  const std::size_t name_width = width_of(printable(status.name));
  constexpr std::size_t gaps = 4;
  std::size_t name_room = std::min(name_width, least_name);
  std::size_t bar = 0;
  if (room >= name_room + gaps + shortest_bar) {
    bar = std::min(longest_bar, room - gaps - name_room);
    name_room = room - gaps - bar;
    // A long bar gives back the columns that the name lacks, down to the shortest bar.
    const std::size_t missing = name_width - std::min(name_width, name_room);
    const std::size_t given = std::min(missing, bar - shortest_bar);
    bar -= given;
    name_room = std::min(name_width, name_room + given);
  } else {
    name_room = std::min(name_width, room - std::min<std::size_t>(room, 2));
  }
  StyledLine line{{cut_to(status.name, name_room, size.utf8), Style::strong}};
  if (name_room > 0) line.push_back({"  "});
  if (bar > 0) {
    line.push_back({bar_text(ended_trials(status), status.trials, bar), Style::good});
    line.push_back({"  "});
  }
  line.push_back({far});
  return cut_to(std::move(line), size.width, size.utf8);
}

std::vector<StyledLine> count_lines(const SweepStatus& status, const ViewSize& size) {
  std::vector<Span> parts;
  for (const OutcomeInfo& row : outcome_table) {
    const std::int64_t count = count_of(status.by_outcome, row.name);
    if (count > 0)
      parts.push_back({fmt::format("{} {}", grouped(count), row.name), style_of(row.outcome)});
  }
  for (const State state : {State::running, State::queued, State::planned}) {
    const std::int64_t count = count_of(status.by_state, name(state));
    if (count > 0) parts.push_back({fmt::format("{} {}", grouped(count), name(state))});
  }
  return folded_list(parts, size.width, indent);
}

/// "  label    sentence", the sentence in lines of its own width, a few at most.
void add_sentence(std::vector<StyledLine>& lines, const std::string& label,
    const std::string& sentence, Style style, const ViewSize& size) {
  const std::size_t before = indent + label_width;
  const std::size_t room = std::max<std::size_t>(size.width - std::min(size.width, before), 8);
  auto parts = folded(printable(sentence), room);
  if (parts.size() > most_sentence) {
    parts.resize(most_sentence);
    parts.back() = cut_to(parts.back() + std::string(room, ' '), room, size.utf8);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string head = padded(i == 0 ? label : "", label_width, Align::left);
    lines.push_back(cut_to(
        StyledLine{{std::string(indent, ' ') + head}, {parts[i], style}}, size.width, size.utf8));
  }
}

void add_best(std::vector<StyledLine>& lines, const SweepProgress& sweep, const ViewSize& size) {
  if (!sweep.best) return;
  StyledLine line{{std::string(indent, ' ') + padded("best", label_width, Align::left)},
      {rate_text(sweep.best->tokens_per_s_per_gpu), Style::strong}, {"  " + sweep.best->layout}};
  if (!sweep.best_of.empty()) line.push_back({"  (" + sweep.best_of + ")", Style::faint});
  lines.push_back(cut_to(std::move(line), size.width, size.utf8));
}

void add_activity(
    std::vector<StyledLine>& lines, const SweepProgress& sweep, const ViewSize& size) {
  const SweepStatus& status = sweep.status;
  if (!sweep.allocations.empty() && !status.running.empty()) {
    // A line per job says what runs.
  } else if (!status.running.empty()) {
    add_sentence(lines, "running", status.running, Style::plain, size);
  } else if (ended_trials(status) == status.trials && status.last_controls > 0) {
    add_sentence(lines, "running", "the last control", Style::plain, size);
  }
  if (!status.waiting.empty()) {
    const bool runs = !status.running.empty();
    add_sentence(lines, runs ? "note" : "waiting", status.waiting,
        runs ? Style::faint : Style::notice, size);
  }
}

std::vector<StyledLine> sweep_lines(const SweepProgress& sweep, const ViewSize& size) {
  std::vector<StyledLine> lines{bar_line(sweep.status, size)};
  for (StyledLine& line : count_lines(sweep.status, size))
    lines.push_back(std::move(line));
  add_best(lines, sweep, size);
  add_activity(lines, sweep, size);
  for (const std::string& sentence : sweep.trouble)
    add_sentence(lines, "trouble", sentence, Style::bad, size);
  for (StyledLine& line : job_lines(sweep.allocations, sweep.now, size))
    lines.push_back(std::move(line));
  return lines;
}

// ---- a line per trial

/// Columns of a line, by the room that there is: the same for all lines of a terminal.
struct Columns {
  bool time = false;
  bool date = false;           ///< the date, before the time
  bool slug = false;           ///< name of the trial, in place of model and layout
  bool completed = true;       ///< the word; without it the rate says so
  bool more = false;           ///< MFU and memory
  std::size_t name_width = 0;  ///< filled up to; 0: not at all
};

constexpr std::size_t time_columns = 10;     // "12:15:16  "
constexpr std::size_t outcome_columns = 13;  // "  completed  "
constexpr std::size_t rate_columns = 20;     // "123,456 tokens/s/GPU"
constexpr std::size_t best_columns = 16;     // "  best (faster)"
constexpr std::size_t share_columns = 9;     // ", +12.3 %", of the widest lines
constexpr std::size_t more_columns = 24;     // "  MFU 45.1 %  123.4 MiB"
constexpr std::size_t slug_width = 46;
constexpr std::size_t layout_width = 36;

Columns columns_for(std::optional<std::size_t> width) {
  if (!width) return {.time = true, .date = true, .slug = true, .more = true};
  const std::size_t numbers = outcome_columns + rate_columns + best_columns;
  const std::size_t all = time_columns + numbers + more_columns;
  if (*width >= all + share_columns + slug_width)
    return {.time = true, .slug = true, .more = true, .name_width = slug_width};
  if (*width >= all + layout_width) return {.time = true, .more = true, .name_width = layout_width};
  if (*width >= time_columns + numbers + layout_width)
    return {.time = true, .name_width = layout_width};
  constexpr std::size_t least_layout = 28;
  if (*width >= numbers + least_layout) return {.name_width = *width - numbers};
  constexpr std::size_t word_best = 6;  // "  best"
  const std::size_t narrow = 1 + rate_columns + word_best;
  return {.completed = false, .name_width = *width > narrow + 8 ? *width - narrow : *width / 2};
}

std::string time_text(Timestamp at, bool date) {
  const std::string text = local_time_text(at);
  const auto blank = text.find(' ');
  return date || blank == std::string::npos ? text : text.substr(blank + 1);
}

std::string name_text(const FinishedLine& line, const Columns& columns, bool with_sweep) {
  const FinishedTrial& trial = line.trial;
  const std::string sweep = with_sweep ? trial.sweep + (columns.slug ? "/" : " ") : "";
  if (line.trials > 1) return sweep + counted(line.trials, "trial");
  return sweep + (columns.slug ? trial.trial : trial.cell.model + " " + trial.layout);
}

/// Why a measurement is not the trial's last word.
std::string again_text(const FinishedTrial& trial) {
  if (trial.mark == Mark::none) return trial.again ? "tried again" : "";
  const std::string_view mark = word_of(trial.mark);
  std::string text(trial.doubt.find(mark) == std::string::npos ? mark : trial.doubt);
  return trial.again ? text + ", measured again" : text;
}

void add_numbers(StyledLine& text, const FinishedLine& line, const Columns& columns) {
  const FinishedTrial& trial = line.trial;
  const std::string rate = rate_text(trial.tokens_per_s_per_gpu.value_or(0));
  text.push_back({columns.name_width > 0 ? padded(rate, rate_columns, Align::right) : rate});
  if (columns.more && trial.mfu) text.push_back({"  MFU " + percent_text(*trial.mfu)});
  if (columns.more && trial.peak_memory_bytes)
    text.push_back({"  " + bytes_text(*trial.peak_memory_bytes)});
  if (line.best) {
    text.push_back({"  "});
    text.push_back({columns.slug ? fmt::format("best ({})", brief_text(*line.best))
            : columns.completed  ? fmt::format("best ({})", short_form(*line.best))
                                 : std::string("best"),
        Style::strong});
  }
}

/// True if one line can tell of two trials: neither had an attempt, and they ended for the same
/// reason.
bool same_reason(const FinishedTrial& one, const FinishedTrial& other) {
  return one.attempt == 0 && other.attempt == 0 && one.outcome == other.outcome &&
      one.sweep == other.sweep && one.again == other.again &&
      (one.outcome == Outcome::cancelled || one.cause == other.cause);
}

}  // namespace

std::vector<StyledLine> job_lines(
    const std::vector<AllocationProgress>& jobs, Timestamp now, const ViewSize& size) {
  constexpr std::size_t most = 8;
  constexpr std::size_t most_name = 24;
  const std::size_t shown = jobs.size() > most ? most - 1 : jobs.size();
  std::size_t name_width = 0;
  for (std::size_t i = 0; i < shown; ++i)
    name_width = std::max(name_width, width_of(printable(job_text(jobs[i]))));
  name_width = std::min({name_width, most_name, size.width / 4});
  std::vector<StyledLine> lines;
  for (std::size_t i = 0; i < shown; ++i)
    lines.push_back(allocation_line(jobs[i], name_width, now, size));
  if (shown == jobs.size()) return lines;
  const auto running = std::count_if(jobs.begin() + static_cast<std::ptrdiff_t>(shown), jobs.end(),
      [](const auto& job) { return job.claimed; });
  const auto rest = static_cast<std::int64_t>(jobs.size() - shown);
  lines.push_back(
      cut_to(StyledLine{{fmt::format("{}and {}: {} running, {} waiting", std::string(indent, ' '),
                             counted(rest, "more job"), running, rest - running),
                 Style::faint}},
          size.width, size.utf8));
  return lines;
}

std::string time_left_text(const SweepStatus& status) {
  const std::string left = time_left(status);
  if (left.empty()) return left;
  if (!(status.remaining_s > 0)) return "time left " + left;
  // Until a trial has ended, nothing says how far the prediction is off.
  return fmt::format("about {} left{}", left, status.corrected ? "" : " (predicted)");
}

std::string progress_line(const SweepStatus& status) {
  const std::int64_t ended = ended_trials(status);
  std::string line = fmt::format("{} {}/{}", status.name, ended, status.trials);
  if (const std::string outcomes = outcomes_text(status); !outcomes.empty())
    line += ": " + outcomes;
  if (!status.running.empty()) {
    line += "; running " + status.running;
  } else if (ended == status.trials && status.last_controls > 0) {
    line += "; the last control runs";
  }
  if (status.state != "active" && ended < status.trials) line += "; " + status.state;
  const std::string left = time_left_text(status);
  return left.empty() ? line : line + "; " + left;
}

std::vector<StyledLine> progress_block(
    const std::vector<SweepProgress>& sweeps, const ViewSize& size) {
  std::vector<StyledLine> lines;
  for (std::size_t i = 0; i < sweeps.size(); ++i) {
    auto own = sweep_lines(sweeps[i], size);
    const std::size_t rest = sweeps.size() - i;
    const std::size_t room = size.height - std::min(size.height, lines.size());
    // The others have their first line at least, as long as there is room for it.
    const std::size_t kept = room > rest - 1 ? room - (rest - 1) : 1;
    if (room < 2 && rest > 1) {
      lines.push_back(
          {{fmt::format("and {} more", counted(static_cast<std::int64_t>(rest), "sweep")),
              Style::faint}});
      break;
    }
    own.resize(std::min(own.size(), kept));
    lines.insert(lines.end(), own.begin(), own.end());
  }
  lines.resize(std::min(lines.size(), size.height));
  return lines;
}

void BestSoFar::begin(const std::vector<CellBest>& cells) {
  told_.clear();
  for (const CellBest& cell : cells)
    told_[{cell.sweep, cell.cell}] = cell.layout;
  update(cells);
}

void BestSoFar::update(const std::vector<CellBest>& cells) {
  cells_.clear();
  for (const CellBest& cell : cells)
    cells_[{cell.sweep, cell.cell}] = cell;
}

std::optional<CellAnswer> BestSoFar::take(const FinishedTrial& trial) {
  if (trial.outcome != Outcome::completed || !trial.tokens_per_s_per_gpu ||
      trial.mark != Mark::none || trial.again)
    return std::nullopt;
  const std::pair place(trial.sweep, trial.cell);
  const auto [told, first] = told_.try_emplace(place, trial.layout);
  const auto found = cells_.find(place);
  if (first || found == cells_.end()) return std::nullopt;
  const CellBest& best = found->second;
  if (best.layout != trial.layout || best.layout == told->second) return std::nullopt;
  told->second = best.layout;
  return best.answer;
}

std::vector<CellBest> BestSoFar::of(const std::string& sweep) const {
  std::vector<CellBest> cells;
  for (const auto& [key, cell] : cells_) {
    if (key.first == sweep) cells.push_back(cell);
  }
  return cells;
}

std::optional<CellBest> BestSoFar::latest(const std::string& sweep) const {
  const auto cells = of(sweep);
  const auto found = std::max_element(
      cells.begin(), cells.end(), [](const CellBest& a, const CellBest& b) { return a.at < b.at; });
  return found == cells.end() ? std::nullopt : std::optional(*found);
}

std::vector<FinishedLine> finished_lines(
    const std::vector<FinishedTrial>& trials, BestSoFar& best) {
  std::vector<FinishedLine> lines;
  for (const FinishedTrial& trial : trials) {
    if (!lines.empty() && same_reason(lines.back().trial, trial)) {
      ++lines.back().trials;
      continue;
    }
    lines.push_back({trial, 1, best.take(trial)});
  }
  return lines;
}

std::vector<StyledLine> answer_lines(const std::vector<CellBest>& cells) {
  std::vector<StyledLine> lines;
  for (const CellBest& cell : cells) {
    lines.push_back({{best_text(cell, cells)}});
    if (const auto doubts = doubts_text(cell.answer); !doubts.empty())
      lines.push_back({{fmt::format("doubtful: {}", doubts), Style::notice}});
    if (!cell.answer.settling.text.empty() && !cell.answer.by_finals)
      lines.push_back({{fmt::format("open: {}", cell.answer.settling.text), Style::faint}});
  }
  return lines;
}

StyledLine finished_line(
    const FinishedLine& line, std::optional<std::size_t> width, bool utf8, bool with_sweep) {
  const Columns columns = columns_for(width);
  const FinishedTrial& trial = line.trial;
  const bool measured = trial.tokens_per_s_per_gpu.has_value();
  StyledLine text;
  if (columns.time) text.push_back({time_text(trial.at, columns.date) + "  ", Style::faint});
  const std::string shown = printable(name_text(line, columns, with_sweep));
  text.push_back({columns.name_width == 0
          ? shown
          : padded(cut_to(shown, columns.name_width, utf8), columns.name_width, Align::left)});
  text.push_back({columns.name_width == 0 || columns.completed || !measured ? "  " : " "});
  if (columns.completed || !measured) {
    text.push_back({std::string(name(trial.outcome)), style_of(trial.outcome)});
    if (measured) text.push_back({"  "});
  }
  if (measured) add_numbers(text, line, columns);
  if (const std::string again = again_text(trial); !again.empty())
    text.push_back({"  " + again, Style::notice});
  if (!measured) text.push_back({"  " + line.trial.cause, Style::faint});
  if (!width) return text;
  return cut_to(std::move(text), *width, utf8);
}

}  // namespace shardsweep
