// SPDX-License-Identifier: Apache-2.0
#include "show/pivot.hpp"

#include "answer/answer.hpp"
#include "answer/best_text.hpp"
#include "show/cell_text.hpp"
#include "show/share_steps.hpp"
#include "show/table_view.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"

#include <shardsweep/metric.hpp>
#include <shardsweep/point.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

struct NaturalLess {
  bool operator()(const std::string& a, const std::string& b) const { return natural_less(a, b); }
};

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// The digits at `at`, without leading zeros.
std::string_view digits(std::string_view text, std::size_t& at) {
  while (at + 1 < text.size() && text[at] == '0' && is_digit(text[at + 1]))
    ++at;
  const auto first = at;
  while (at < text.size() && is_digit(text[at]))
    ++at;
  return text.substr(first, at - first);
}

/// Facts of one cell, gathered while its candidates go by.
struct CellTally {
  HeatmapCell cell;
  bool ranked = false;              ///< true if any candidate is ranked
  std::optional<double> predicted;  ///< tokens_per_s_per_gpu of the best prediction
  std::vector<double> values;
  std::map<Outcome, std::string> causes;
  std::string constraint;  ///< constraint that has left most points out
  std::int64_t constrained = 0;
  std::optional<double> published;  ///< MFU
  bool unranked = false;
  std::array<std::int64_t, 3> under_way{};  ///< running, queued, planned
  std::map<Outcome, std::int64_t> ended;
  std::int64_t spared = 0;
};

void take_prediction(CellTally& gathered, const CellCandidate& candidate) {
  const auto& speed = candidate.predicted_tokens_per_s_per_gpu;
  if (!speed || (gathered.predicted && *speed <= *gathered.predicted)) return;
  gathered.predicted = speed;
  gathered.cell.predicted = candidate.predicted;
  gathered.cell.predicted_layout = candidate.predicted_layout;
}

void take(CellTally& gathered, const CellCandidate& candidate) {
  auto& cell = gathered.cell;
  if (!candidate.feasible) {
    cell.infeasible += candidate.trials;
    if (candidate.trials > gathered.constrained) gathered.constraint = candidate.why;
    gathered.constrained = std::max(gathered.constrained, candidate.trials);
    return;
  }
  cell.trials += candidate.trials;
  if (!candidate.outcome) {
    cell.open += candidate.trials;
    gathered.under_way[candidate.state == State::running ? 0
            : candidate.state == State::queued           ? 1
                                                         : 2] += candidate.trials;
    // A trial that is measured again shows its counted measurement until then.
    if (!candidate.ranked) return take_prediction(gathered, candidate);
  } else if (*candidate.outcome != Outcome::completed) {
    if (candidate.spared) {
      gathered.spared += candidate.trials;
      take_prediction(gathered, candidate);
    }
    gathered.ended[*candidate.outcome] += candidate.trials;
    auto& cause = gathered.causes[*candidate.outcome];
    if (cause.empty()) cause = candidate.why;
    return;
  } else {
    cell.completed += candidate.trials;
  }
  if (candidate.published_mfu &&
      (!gathered.published || *candidate.published_mfu > *gathered.published)) {
    gathered.published = candidate.published_mfu;
    cell.published_layout = candidate.published_layout;
    cell.published_tokens_per_s_per_gpu = candidate.published_tokens_per_s_per_gpu;
    cell.published_by = candidate.published_by;
  }
  gathered.values.insert(gathered.values.end(), candidate.values.begin(), candidate.values.end());
  if (candidate.ranked) {
    gathered.ranked = true;
  } else {
    gathered.unranked = true;
  }
}

/// A point that was left out before its `auto` values were known has 0 there, which is no value
/// of the axis.
bool has_no_place(const CellCandidate& candidate, std::string_view rows, std::string_view columns) {
  const auto is_unknown = [](std::string_view axis_name, std::string_view value) {
    const auto* axis = find_axis(axis_name);
    return axis != nullptr && axis->allows_auto && value == "0";
  };
  return !candidate.feasible &&
      (is_unknown(rows, candidate.row) || is_unknown(columns, candidate.column));
}

void say(HeatmapCell& cell, const CellWord& word) {
  cell.status = word.name;
  cell.mark = word.mark;
}

void say(HeatmapCell& cell, Outcome outcome) {
  cell.status = name(outcome);
  cell.mark = info(outcome).mark;
}

Outcome most_frequent(const std::map<Outcome, std::int64_t>& ended) {
  const auto rank = [](const auto& entry) {
    return std::pair(entry.first != Outcome::skipped, entry.second);
  };
  return std::max_element(ended.begin(), ended.end(), [&](const auto& a, const auto& b) {
    return rank(a) < rank(b);
  })->first;
}

/// Quantile of the values. Between two it is the lower one: each number that is shown was measured.
double quantile(std::vector<double>& values, double share) {
  const auto last = static_cast<double>(values.size() - 1);
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(share * last);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

/// Puts an aggregate in place of the best layout's value.
void aggregate(CellTally& gathered, Aggregate how) {
  auto& cell = gathered.cell;
  cell.layout.clear();
  cell.answer = {};
  cell.published_layout.clear();
  cell.predicted.reset();
  cell.predicted_layout.clear();
  if (how == Aggregate::count) {
    cell.value = static_cast<double>(cell.completed);
  } else if (gathered.values.empty()) {
    cell.value.reset();
  } else {
    cell.value = quantile(gathered.values, how == Aggregate::median ? 0.5 : 0.9);
  }
}

std::string why_of(const CellTally& gathered, const HeatmapCell& cell) {
  if (cell.status == "infeasible") return gathered.constraint;
  const auto outcome = cell.status == "spared" ? Outcome::skipped : outcome_from(cell.status);
  const auto cause = outcome ? gathered.causes.find(*outcome) : gathered.causes.end();
  return cause == gathered.causes.end() ? "" : cause->second;
}

bool may_be_measured(const HeatmapCell& cell) {
  return cell.status == "planned" || cell.status == "queued" || cell.status == "running" ||
      cell.status == "spared";
}

HeatmapCell judged(CellTally gathered, Aggregate how) {
  auto& cell = gathered.cell;
  const auto under_way = std::find_if(gathered.under_way.begin(), gathered.under_way.end(),
      [](std::int64_t trials) { return trials > 0; });
  if (gathered.ranked) {
    say(cell, Outcome::completed);
  } else if (under_way != gathered.under_way.end()) {
    say(cell, cell_words[static_cast<std::size_t>(under_way - gathered.under_way.begin()) + 1]);
  } else if (gathered.unranked) {
    say(cell, cell_words[0]);
  } else if (!gathered.ended.empty()) {
    const auto outcome = most_frequent(gathered.ended);
    const bool spared =
        outcome == Outcome::skipped && 2 * gathered.spared > gathered.ended.at(Outcome::skipped);
    if (spared) {
      say(cell, cell_words.back());
    } else {
      say(cell, outcome);
    }
  } else {
    say(cell, cell_words[cell.infeasible > 0 ? 4 : 5]);
  }
  if (cell.published_layout == cell.layout) {
    cell.published_layout.clear();
    cell.published_tokens_per_s_per_gpu = 0;
    cell.published_by.clear();
  } else if (cell.answer.winner() != nullptr && !cell.published_layout.empty()) {
    cell.published_gap =
        1 - cell.published_tokens_per_s_per_gpu / cell.answer.winner()->tokens_per_s_per_gpu;
  }
  cell.why = why_of(gathered, cell);
  if (!may_be_measured(cell)) {
    cell.predicted.reset();
    cell.predicted_layout.clear();
  }
  if (how != Aggregate::best) aggregate(gathered, how);
  return std::move(cell);
}

}  // namespace

std::string_view aggregate_text(Aggregate aggregate) {
  switch (aggregate) {
    case Aggregate::best:
      return "of the fastest layout of each cell";
    case Aggregate::median:
      return "median over the measured layouts of each cell";
    case Aggregate::p90:
      return "90th percentile over the measured layouts of each cell";
    case Aggregate::count:
      break;
  }
  return "number of measured trials of each cell";
}

bool natural_less(std::string_view a, std::string_view b) {
  // Numbers stand before words, or "1e3", "1f" and "2" would each be before the next in a ring.
  const auto x = number(a);
  const auto y = number(b);
  if (x.has_value() != y.has_value()) return x.has_value();
  if (x && *x != *y) return *x < *y;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto left = digits(a, i);
      const auto right = digits(b, j);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else if (a[i] != b[j]) {
      return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    } else {
      ++i;
      ++j;
    }
  }
  if (i < a.size() || j < b.size()) return j < b.size();
  return a < b;  // equal but for leading zeros
}

Heatmap pivot(const Cells& cells, const HeatmapRequest& request) {
  const auto& column_name = request.columns.empty() ? cells.columns : request.columns;
  std::set<std::string, NaturalLess> rows;
  std::set<std::string, NaturalLess> columns;
  std::map<std::pair<std::string_view, std::string_view>, CellTally> gathered;
  for (const auto& candidate : cells.candidates) {
    if (has_no_place(candidate, request.rows, column_name)) continue;
    rows.insert(candidate.row);
    columns.insert(candidate.column);
    take(gathered[{candidate.row, candidate.column}], candidate);
  }
  for (const auto& one : cells.answers) {
    const auto found = gathered.find({one.row, one.column});
    if (found == gathered.end() || one.answer.winner() == nullptr) continue;
    auto& cell = found->second.cell;
    cell.answer = one.answer;
    cell.answer.open = cell.open;
    cell.layout = one.answer.winner()->name;
    cell.value = one.value;
  }
  Heatmap heatmap{request.rows, column_name, request.value, {rows.begin(), rows.end()},
      {columns.begin(), columns.end()}, {}, cells.note, cells.runners, request.aggregate};
  for (const auto& row : heatmap.rows) {
    auto& line = heatmap.cells.emplace_back();
    for (const auto& column : heatmap.columns)
      line.push_back(judged(gathered[{row, column}], request.aggregate));
  }
  return heatmap;
}

bool is_measured(const HeatmapCell& cell) {
  return cell.status == name(Outcome::completed);
}

ColourScale colour_scale(const Heatmap& heatmap) {
  ColourScale scale;
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      if (cell.value) scale.take(*cell.value);
    }
  }
  return scale;
}

std::string heatmap_title(const Heatmap& heatmap) {
  const auto* metric = find_metric(heatmap.value_name);
  const bool count = heatmap.aggregate == Aggregate::count;
  const auto human = title_of(heatmap.value_name);
  // A name that is its unit says it once.
  const bool unit = metric != nullptr && metric->unit != "1" && metric->unit != human;
  std::string title;
  if (!heatmap.facet_name.empty()) {
    title = printable(fmt::format("{} {}: ", title_of(heatmap.facet_name),
        humanised(heatmap.facet_name, heatmap.facet_value)));
  }
  if (count) return title + std::string(aggregate_text(heatmap.aggregate));
  return title +
      fmt::format("{}{} {}", human, unit ? fmt::format(" [{}]", metric->unit) : "",
          aggregate_text(heatmap.aggregate));
}

std::string value_text(const Heatmap& heatmap, double value) {
  if (heatmap.aggregate == Aggregate::count) return grouped(static_cast<std::int64_t>(value));
  return humanised(heatmap.value_name, value);
}

std::string layout_of(const Heatmap& heatmap, const HeatmapCell& cell) {
  const bool predicted = cell.layout.empty() && heatmap.value_name != "outcome";
  return predicted ? cell.predicted_layout : cell.layout;
}

std::string certainty_text(const HeatmapCell& cell) {
  return is_measured(cell) ? brief_text(cell.answer) : std::string();
}

std::string told_runner(std::string name) {
  constexpr std::string_view untold = " unknown";
  if (name.ends_with(untold))
    name.replace(name.size() - untold.size(), untold.size(), " (version not told)");
  return name;
}

std::string runners_text(const Heatmap& heatmap) {
  std::vector<std::string> names;
  for (const std::string& name : heatmap.runners)
    names.push_back(told_runner(name));
  return fmt::format("runner: {}", fmt::join(names, ", "));
}

std::string certainty_meaning(const HeatmapCell& cell) {
  const auto text = certainty_text(cell);
  if (text.empty()) return {};
  const auto sentence = certainty_text(cell.answer);
  return sentence.starts_with(text + ": ") ? sentence : text + ": " + sentence;
}

const HeatmapCell* most_certain(const Heatmap& heatmap) {
  const HeatmapCell* most = nullptr;
  std::size_t length = 0;
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      // The length of the sentence tells how many numbers it has.
      const auto own = certainty_meaning(cell).size();
      if (own > length) most = &cell;
      length = std::max(length, own);
    }
  }
  return most;
}

std::string published_text(const HeatmapCell& cell) {
  if (cell.published_layout.empty()) return {};
  auto text = fmt::format("{}, {} tokens/s/GPU", cell.published_layout,
      amount_text(cell.published_tokens_per_s_per_gpu));
  if (!cell.published_by.empty())
    return text +
        fmt::format(
            ": not ranked here, because other software ({}) measured it. --all-versions ranks it "
            "too.",
            cell.published_by);
  // A slower run of the same cell has the higher MFU only if its FLOPs are counted otherwise.
  if (cell.published_gap && *cell.published_gap > 0)
    text += fmt::format(
        ": {} slower. Its MFU is higher only because the table counts more FLOPs per token for it.",
        percent_text(*cell.published_gap));
  return text;
}

std::string rule_of(const HeatmapCell& cell) {
  return cell.status == "infeasible" ? cell.why.substr(0, cell.why.find(':')) : "";
}

std::string_view cell_meaning(std::string_view status) {
  if (status == name(Outcome::skipped))
    return "not run: a layout with the same or a smaller memory need ran out of memory";
  if (const auto outcome = outcome_from(status)) return info(*outcome).meaning;
  for (const auto& word : cell_words) {
    if (word.name == status) return word.meaning;
  }
  return {};
}

std::string cell_sentence(const Heatmap& heatmap, std::size_t row, std::size_t column) {
  const auto& cell = heatmap.cells[row][column];
  std::string text = fmt::format("{} {}, {} {}: ", heatmap.row_name, heatmap.rows[row],
      heatmap.column_name, heatmap.columns[column]);
  if (is_measured(cell)) {
    text += cell.value ? value_text(heatmap, *cell.value) : "no value";
    const auto* metric = find_metric(heatmap.value_name);
    if (metric != nullptr && metric->unit == "tokens/s/GPU") text += " tokens/s/GPU";
    if (!cell.layout.empty()) text += fmt::format(", {}", cell.layout);
    if (const auto certainty = certainty_text(cell.answer); !certainty.empty())
      text += fmt::format(", {}", certainty);
    if (const auto* second = cell.answer.runner_up(); second != nullptr)
      text += fmt::format("; runner-up {}", second->name);
    if (const auto doubts = doubts_text(cell.answer); !doubts.empty())
      text += fmt::format("; {}", doubts);
    if (cell.open > 0) text += fmt::format(", {} not run yet", counted(cell.open, "trial"));
    if (!cell.published_layout.empty())
      text += "; the table's MFU column prefers " + published_text(cell);
  } else {
    text += fmt::format("{}: {}", cell.status, cell_meaning(cell.status));
    if (cell.predicted)
      text += fmt::format(
          "; predicted {} with {}", value_text(heatmap, *cell.predicted), cell.predicted_layout);
    if (!cell.why.empty()) text += fmt::format(" ({})", cell.why);
  }
  return printable(text);
}

}  // namespace shardsweep
