// SPDX-License-Identifier: Apache-2.0
#include "show/side_by_side.hpp"

#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr double two_sided_95 = 1.96;  // standard deviations of a normal distribution

std::string signed_percent(double share) {
  return (share < 0 ? "-" : "+") + percent_text(std::abs(share));
}

Difference difference_of(double share, double half_width, double resolve) {
  if (share - half_width > 0) return Difference::faster;
  if (share + half_width < 0) return Difference::slower;
  const bool small = std::abs(share) + half_width <= resolve;
  return small ? Difference::same : Difference::undecided;
}

/// Runs of each side after which the interval ends before zero, or within `resolve`. Runs again
/// round the same way.
std::int64_t runs_for(double noise_of_one, double share, double resolve, double rounding) {
  constexpr double sensible = 1000;
  const double room = std::max(std::abs(share), resolve - std::abs(share)) - rounding;
  if (room <= 0) return 0;
  const double ratio = two_sided_95 * noise_of_one / room;
  const double runs = std::ceil(ratio * ratio);
  return runs <= sensible ? static_cast<std::int64_t>(runs) : 0;
}

std::string reason_of(const Judgement& verdict, double noise_of_one, double resolve,
                      double rounding) {
  const double half = *verdict.half_width;
  std::string text = fmt::format("95 % interval {} to {}", signed_percent(verdict.share - half),
                                 signed_percent(verdict.share + half));
  if (verdict.difference == Difference::same)
    return text + fmt::format(", within {}", percent_text(resolve));
  if (verdict.difference != Difference::undecided) return text;
  if (verdict.within_rounding)
    return text + fmt::format("; within {}", rounding_text(rounding));
  const auto runs = runs_for(noise_of_one, verdict.share, resolve, rounding);
  return runs == 0 ? text : text + fmt::format("; about {} runs of each would tell", runs);
}

/// A difference of speed that is none in clock cycles is one of power and cooling. Both clocks
/// have to be known.
bool is_by_clock(const Ranked& first, const Ranked& second, const Judgement& verdict,
                 double resolve) {
  const bool differs =
      verdict.difference == Difference::faster || verdict.difference == Difference::slower;
  if (!differs || first.sm_clock_mhz <= 0 || second.sm_clock_mhz <= 0) return false;
  const double of_clocks = second.sm_clock_mhz / first.sm_clock_mhz;
  const double in_cycles = (1 + verdict.share) / of_clocks - 1;
  return difference_of(in_cycles, *verdict.half_width, resolve) != verdict.difference;
}

std::string clock_reason(const Ranked& first, const Ranked& second, const Judgement& verdict) {
  return fmt::format(
      "{} by its SM clock: {:.0f} MHz beside {:.0f} MHz; in clock cycles it is {}. Runs at one "
      "clock would tell",
      signed_percent(verdict.share), second.sm_clock_mhz, first.sm_clock_mhz,
      signed_percent((1 + verdict.share) * first.sm_clock_mhz / second.sm_clock_mhz - 1));
}

std::string text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  return {};
}

double number_of(const Value& value, double otherwise) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    return static_cast<double>(*integer);
  return otherwise;
}

std::size_t place_of(const Table& table, std::string_view column) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), column);
  return static_cast<std::size_t>(found - table.columns.begin());
}

/// What names a cell: the model, its size, and each var but the one that is compared.
std::vector<std::string> cell_columns(const Table& layouts, std::string_view by) {
  std::vector<std::string> columns{"model", "seq_len", "nodes", "gpus"};
  for (std::size_t i = place_of(layouts, "runner_version") + 1; i < layouts.columns.size();
       ++i) {
    const auto& name = layouts.columns[i];
    const bool is_figure = name == "repeats" || name == "repeat_spread" ||
                           name == "resolution" || name == "sm_clock_mhz";
    if (!is_figure) columns.push_back(name);
  }
  columns.erase(std::remove(columns.begin(), columns.end(), by), columns.end());
  return columns;
}

struct Measured {
  std::string layout;
  Ranked ranked;
};

using Layouts = std::map<std::string, Ranked>;  ///< by name

struct JoinedCell {
  std::vector<Value> values;  ///< of what names it
  Layouts layouts;
};
using JoinedCells = std::map<std::vector<std::string>, JoinedCell>;

JoinedCells joined_cells_of(const Table& layouts, const std::vector<std::string>& columns) {
  const auto layout = place_of(layouts, "layout");
  const auto speed = place_of(layouts, "tokens_per_s_per_gpu");
  const auto runs = place_of(layouts, "repeats");
  const auto spread = place_of(layouts, "repeat_spread");
  const auto resolution = place_of(layouts, "resolution");
  const auto clock = place_of(layouts, "sm_clock_mhz");
  std::vector<std::size_t> places;
  places.reserve(columns.size());
  for (const auto& name : columns)
    places.push_back(place_of(layouts, name));
  JoinedCells cells;
  for (const auto& row : layouts.rows) {
    std::vector<std::string> key;
    std::vector<Value> values;
    for (const auto place : places) {
      values.push_back(place < row.size() ? row[place] : Value());
      key.push_back(text_of(values.back()));
    }
    Ranked one{
        number_of(row[speed], 0), static_cast<std::int64_t>(number_of(row[runs], 1)), {}};
    if (!std::holds_alternative<std::monostate>(row[spread]))
      one.spread = number_of(row[spread], 0);
    if (resolution < row.size()) one.resolution = number_of(row[resolution], 0);
    if (clock < row.size()) one.sm_clock_mhz = number_of(row[clock], 0);
    auto& cell = cells[std::move(key)];
    cell.values = std::move(values);
    auto& known = cell.layouts[text_of(row[layout])];
    if (one.value > known.value) known = one;
  }
  return cells;
}

std::vector<Ranked> all_of(const JoinedCells& first, const JoinedCells& second) {
  std::vector<Ranked> all;
  for (const JoinedCells* cells : {&first, &second}) {
    for (const auto& [key, cell] : *cells) {
      for (const auto& [layout, ranked] : cell.layouts)
        all.push_back(ranked);
    }
  }
  return all;
}

Measured winner_of(const Layouts& layouts) {
  const auto best = std::max_element(
      layouts.begin(), layouts.end(),
      [](const auto& a, const auto& b) { return a.second.value < b.second.value; });
  return {best->first, best->second};
}

/// Joins the two sides, cell by cell.
class Joiner {
 public:
  Joiner(const Side& first, const Side& second, std::string_view by, double resolve)
      : columns_(cell_columns(first.layouts, by)),
        first_(joined_cells_of(first.layouts, columns_)),
        second_(joined_cells_of(second.layouts, columns_)),
        common_(common_noise(all_of(first_, second_))),
        resolve_(resolve) {
    both_.rows.columns = columns_;
    both_.rows.columns.insert(
        both_.rows.columns.end(),
        {"layout", "first_tokens_per_s_per_gpu", "second_tokens_per_s_per_gpu", "change_share",
         "verdict", "reason", "first_repeats", "second_repeats"});
    both_.winners.columns = columns_;
    both_.winners.columns.insert(both_.winners.columns.end(),
                                 {"first_winner", "second_winner", "winner_changes",
                                  "first_winner_gap_share", "verdict", "reason"});
  }

  SideBySide join() {
    for (const auto& [key, cell] : first_) {
      const auto partner = second_.find(key);
      join_cell(cell.values, cell.layouts,
                partner == second_.end() ? Layouts() : partner->second.layouts);
    }
    for (const auto& [key, cell] : second_) {
      if (!first_.contains(key)) join_cell(cell.values, {}, cell.layouts);
    }
    return std::move(both_);
  }

 private:
  void join_cell(const std::vector<Value>& cell, const Layouts& first, const Layouts& second) {
    for (const auto& [layout, ranked] : first) {
      const auto partner = second.find(layout);
      if (partner == second.end()) {
        ++both_.only_first;
      } else {
        add_layout(cell, layout, ranked, partner->second);
      }
    }
    both_.only_second += std::count_if(second.begin(), second.end(), [&](const auto& one) {
      return !first.contains(one.first);
    });
    if (!first.empty() && !second.empty()) add_winners(cell, first, second);
  }

  void add_layout(const std::vector<Value>& cell, const std::string& layout,
                  const Ranked& first, const Ranked& second) {
    const Judgement verdict = judge(first, second, common_, resolve_);
    ++both_.counts[static_cast<std::size_t>(verdict.difference)];
    const double loss = -verdict.share;
    if (verdict.difference == Difference::slower && loss > both_.worst_loss) {
      both_.worst_loss = loss;
      both_.worst_layout = layout;
    }
    // If no noise is known, rounding alone explains a loss.
    const bool unknown = !verdict.half_width && !verdict.within_rounding;
    if (unknown && loss > both_.worst_unknown) {
      both_.worst_unknown = loss;
      both_.worst_unknown_layout = layout;
    }
    auto& row = add_cell(both_.rows, cell);
    row.insert(row.end(), {layout, first.value, second.value, verdict.share,
                           std::string(word_of(verdict.difference)), verdict.reason, first.runs,
                           second.runs});
  }

  /// Of a new winner it counts how far the old one is behind, on the second side.
  void add_winners(const std::vector<Value>& cell, const Layouts& first,
                   const Layouts& second) {
    const Measured before = winner_of(first);
    const Measured after = winner_of(second);
    const bool changes = before.layout != after.layout;
    both_.changed_winners += changes ? 1 : 0;
    auto& row = add_cell(both_.winners, cell);
    row.insert(row.end(), {before.layout, after.layout, std::string(changes ? "yes" : "no")});
    const auto old = second.find(before.layout);
    if (!changes || old == second.end()) {
      row.insert(row.end(),
                 {Value(), Value(),
                  changes ? Value("the first side's winner was not measured on the second one")
                          : Value()});
      return;
    }
    const Judgement verdict = judge(old->second, after.ranked, common_, resolve_);
    row.insert(row.end(), {1 - old->second.value / after.ranked.value,
                           std::string(word_of(verdict.difference)), verdict.reason});
  }

  static std::vector<Value>& add_cell(Table& table, const std::vector<Value>& cell) {
    return table.rows.emplace_back(cell);
  }

  std::vector<std::string> columns_;
  JoinedCells first_;
  JoinedCells second_;
  std::optional<double> common_;
  double resolve_;
  SideBySide both_;
};

}  // namespace

Judgement judge(const Ranked& first, const Ranked& second, std::optional<double> common,
                double resolve) {
  Judgement verdict;
  if (first.value > 0) verdict.share = second.value / first.value - 1;
  const double rounding = first.resolution + second.resolution;
  verdict.within_rounding = rounding > 0 && std::abs(verdict.share) <= rounding;
  const auto noise = noise_of_difference(first, second, common);
  if (!noise) {
    verdict.reason = "noise unknown: no layout ran twice on either side";
    if (verdict.within_rounding)
      verdict.reason = fmt::format("{} is within {}", signed_percent(verdict.share),
                                   rounding_text(rounding));
    return verdict;
  }
  verdict.half_width = two_sided_95 * noise->of_medians + rounding;
  verdict.difference = difference_of(verdict.share, *verdict.half_width, resolve);
  verdict.reason = reason_of(verdict, noise->of_one_run_each, resolve, rounding);
  if (is_by_clock(first, second, verdict, resolve)) {
    verdict.difference = Difference::undecided;
    verdict.reason = clock_reason(first, second, verdict);
  }
  return verdict;
}

SideBySide side_by_side(const Side& first, const Side& second, std::string_view by,
                        double resolve) {
  return Joiner(first, second, by, resolve).join();
}

SweepVerdict judge_limit(const SideBySide& both, double limit) {
  if (both.worst_loss >= limit) {
    return {ExitCode::failed,
            fmt::format("exit 1: {} is slower by {}; --fail-on allows less than {}.",
                        both.worst_layout, percent_text(both.worst_loss), percent_text(limit))};
  }
  if (both.worst_unknown >= limit) {
    return {
        ExitCode::undecided,
        fmt::format("exit 3: {} seems slower by {}, but no layout ran twice, so the noise is "
                    "unknown. Measure with `repeats` above 1.",
                    both.worst_unknown_layout, percent_text(both.worst_unknown))};
  }
  return {};
}

std::string summary_text(const SideBySide& both, const Side& first, const Side& second) {
  std::string text = fmt::format(
      "{} on both sides", counted(static_cast<std::int64_t>(both.rows.rows.size()), "layout"));
  for (std::size_t i = 0; i < both.counts.size(); ++i) {
    if (both.counts[i] > 0)
      text += fmt::format("{} {} {}", text.ends_with("sides") ? ":" : ",",
                          grouped(both.counts[i]), word_of(static_cast<Difference>(i)));
  }
  text += fmt::format(". {} only in {}, {} only in {}.", grouped(both.only_first), first.name,
                      grouped(both.only_second), second.name);
  const auto cells = static_cast<std::int64_t>(both.winners.rows.size());
  if (cells > 0)
    text += fmt::format(" The winner changes in {} of {}.", grouped(both.changed_winners),
                        counted(cells, "cell"));
  return text;
}

}  // namespace shardsweep
