// SPDX-License-Identifier: Apache-2.0
// Decision: Two sides are joined by cell and layout, and a change is named if its 95 %
// interval says so. What a side has no var of is compared with each of its values: which one
// it would have had is not known, and the first to be named must not decide. The sides ran at
// different times: a change of nodes counts as one of the layout. A change that is none in clock
// cycles is UNDECIDED.
#include "show/side_by_side.hpp"

#include "answer/verdict.hpp"
#include "show/ranked_layouts.hpp"
#include "text/numbers.hpp"

#include <shardsweep/typed_rows.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::array<std::string_view, 4> always_there{"model", "seq_len", "nodes", "gpus"};

bool has_setting(const RankedLayouts& layouts, const std::string& name) {
  return std::find(layouts.settings.begin(), layouts.settings.end(), name) !=
      layouts.settings.end();
}

/// Columns that name a cell: model, size, and each setting of either side but the one that is
/// compared. The cluster is left out if a side has one alone.
std::vector<std::string> cell_columns(
    const RankedLayouts& first, const RankedLayouts& second, std::string_view by) {
  std::vector<std::string> columns(always_there.begin(), always_there.end());
  for (const auto* side : {&first, &second}) {
    for (const auto& name : side->settings) {
      const bool on_one_side = !has_setting(first, name) || !has_setting(second, name);
      if (name == "cluster" && on_one_side) continue;
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    }
  }
  std::erase(columns, by);
  return columns;
}

/// Marks the columns that a side lacks: it has no such setting at all.
std::vector<bool> lacking(const RankedLayouts& layouts, const std::vector<std::string>& columns) {
  std::vector<bool> lacks(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool always =
        std::find(always_there.begin(), always_there.end(), columns[i]) != always_there.end();
    lacks[i] = !always && !has_setting(layouts, columns[i]);
  }
  return lacks;
}

/// Values of these columns; a setting that a side lacks is NULL.
std::vector<Value> cell_of(const RankedLayouts& layouts, const RankedLayout& one,
    const std::vector<std::string>& columns) {
  std::vector<Value> values;
  for (const auto& name : columns) {
    const auto setting = std::find(layouts.settings.begin(), layouts.settings.end(), name);
    values.push_back(name == "model" ? Value(one.model)
            : name == "seq_len"      ? Value(one.seq_len)
            : name == "nodes"        ? Value(one.nodes)
            : name == "gpus"         ? Value(one.gpus)
            : setting == layouts.settings.end()
            ? Value()
            : one.settings[static_cast<std::size_t>(setting - layouts.settings.begin())]);
  }
  return values;
}

struct PlacedSpeed {
  LayoutSpeed ranked{};
  std::int64_t rank = 0;  ///< place in the answer of its cell, from 1
};

using ByLayout = std::map<std::string, PlacedSpeed>;  ///< measurements by the layout's name

struct JoinedCell {
  std::vector<Value> values;  ///< values of the columns that name it
  ByLayout layouts;
};
using JoinedCells = std::map<std::vector<std::string>, JoinedCell>;

JoinedCells joined_cells_of(const RankedLayouts& layouts, const std::vector<std::string>& columns) {
  JoinedCells cells;
  for (const RankedLayout& one : layouts.rows) {
    auto values = cell_of(layouts, one, columns);
    std::vector<std::string> key(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      fill_field(key[i], values[i]);
    auto& cell = cells[std::move(key)];
    cell.values = std::move(values);
    // Runs under other settings and of other software may have the same name. The one that stands
    // first in its answer stands for it, and need not be the fastest.
    const PlacedSpeed measured{one.speed(), one.rank};
    const auto [known, fresh] = cell.layouts.try_emplace(one.layout, measured);
    const auto order = [](const PlacedSpeed& m) { return std::pair(m.rank, -m.ranked.value); };
    if (!fresh && order(measured) < order(known->second)) known->second = measured;
  }
  return cells;
}

std::vector<LayoutSpeed> all_of(const JoinedCells& first, const JoinedCells& second) {
  std::vector<LayoutSpeed> all;
  for (const JoinedCells* cells : {&first, &second}) {
    for (const auto& [key, cell] : *cells) {
      for (const auto& [layout, measured] : cell.layouts)
        all.push_back(measured.ranked);
    }
  }
  return all;
}

/// Winner of a cell; of several answers, each with a winner of its own, the fastest winner.
const ByLayout::value_type& winner_of(const ByLayout& layouts) {
  return *std::min_element(layouts.begin(), layouts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.rank, -a.second.ranked.value) <
        std::pair(b.second.rank, -b.second.ranked.value);
  });
}

/// Joins the two sides, cell by cell.
class Joiner {
 public:
  Joiner(
      const RankedLayouts& first, const RankedLayouts& second, std::string_view by, double resolve)
      : columns_(cell_columns(first, second, by)),
        first_lacks_(lacking(first, columns_)),
        second_lacks_(lacking(second, columns_)),
        first_(joined_cells_of(first, columns_)),
        second_(joined_cells_of(second, columns_)),
        common_(common_noise(all_of(first_, second_))),
        resolve_(resolve) {
    both_.rows.columns = columns_;
    both_.rows.columns.insert(both_.rows.columns.end(),
        {"layout", "first_tokens_per_s_per_gpu", "second_tokens_per_s_per_gpu", "change_share",
            "verdict", "reason", "first_repeats", "second_repeats"});
    both_.winners.columns = columns_;
    both_.winners.columns.insert(both_.winners.columns.end(),
        {"first_winner", "second_winner", "winner_changes", "second_winner_lead_share", "verdict",
            "reason"});
  }

  SideBySide join() {
    std::map<std::vector<std::string>, std::vector<JoinedCells::const_pointer>> partners;
    for (const auto& cell : second_)
      partners[in_common(cell.first)].push_back(&cell);
    std::map<JoinedCells::const_pointer, std::set<std::string>> joined;
    for (const auto& cell : first_) {
      for (const auto* partner : partners[in_common(cell.first)]) {
        auto values = cell.second.values;
        for (std::size_t i = 0; i < values.size(); ++i)
          if (first_lacks_[i]) values[i] = partner->second.values[i];
        for (const auto& layout : join_cell(values, cell.second.layouts, partner->second.layouts)) {
          joined[&cell].insert(layout);
          joined[partner].insert(layout);
        }
      }
    }
    for (const auto& cell : first_)
      both_.only_first += std::ssize(cell.second.layouts) - std::ssize(joined[&cell]);
    for (const auto& cell : second_)
      both_.only_second += std::ssize(cell.second.layouts) - std::ssize(joined[&cell]);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (first_lacks_[i]) both_.first_lacks.push_back(columns_[i]);
      if (second_lacks_[i]) both_.second_lacks.push_back(columns_[i]);
    }
    return std::move(both_);
  }

 private:
  /// The part of a cell's key that both sides have.
  [[nodiscard]] std::vector<std::string> in_common(const std::vector<std::string>& key) const {
    std::vector<std::string> common;
    for (std::size_t i = 0; i < key.size(); ++i)
      if (!first_lacks_[i] && !second_lacks_[i]) common.push_back(key[i]);
    return common;
  }

  /// The layouts that both have measured.
  std::vector<std::string> join_cell(
      const std::vector<Value>& cell, const ByLayout& first, const ByLayout& second) {
    std::vector<std::string> joined;
    for (const auto& [layout, measured] : first) {
      const auto partner = second.find(layout);
      if (partner == second.end()) continue;
      joined.push_back(layout);
      add_layout(cell, layout, measured.ranked, partner->second.ranked);
    }
    add_winners(cell, first, second);
    return joined;
  }

  void add_layout(const std::vector<Value>& cell, const std::string& layout,
      const LayoutSpeed& first, const LayoutSpeed& second) {
    SpeedVerdict verdict = compared(second, first, common_, resolve_);
    // The side without the var may have had any of its values.
    const bool lacks =
        std::find(first_lacks_.begin(), first_lacks_.end(), true) != first_lacks_.end() ||
        std::find(second_lacks_.begin(), second_lacks_.end(), true) != second_lacks_.end();
    if (lacks && verdict.difference != Difference::same) {
      verdict.reason = "only one of the two sides has the var";
      verdict.open = Open::mixed_state;
      verdict.difference = Difference::undecided;
    }
    ++both_.counts[static_cast<std::size_t>(verdict.difference)];
    if (verdict.difference == Difference::undecided)
      ++both_.open_counts[static_cast<std::size_t>(verdict.open)];
    const double loss = -verdict.share;
    if (verdict.difference == Difference::slower && loss > both_.worst_loss) {
      both_.worst_loss = loss;
      both_.worst_layout = layout;
    }
    const bool open = verdict.difference == Difference::undecided && !verdict.within_rounding;
    if (open && loss > both_.worst_open) {
      both_.worst_open = loss;
      both_.worst_open_layout = layout;
      both_.worst_open_reason = verdict.reason;
    }
    auto& row = add_cell(both_.rows, cell);
    row.insert(row.end(),
        {layout, first.value, second.value, verdict.share, std::string(word_of(verdict.difference)),
            verdict.reason, first.runs, second.runs});
  }

  /// Adds a row with both winners. If they differ, it says how far the new one leads the old one on
  /// the second side.
  void add_winners(const std::vector<Value>& cell, const ByLayout& first, const ByLayout& second) {
    const auto& before = winner_of(first);
    const auto& after = winner_of(second);
    const bool changes = before.first != after.first;
    both_.changed_winners += changes ? 1 : 0;
    auto& row = add_cell(both_.winners, cell);
    row.insert(row.end(), {before.first, after.first, std::string(changes ? "yes" : "no")});
    const auto old = second.find(before.first);
    if (!changes || old == second.end()) {
      row.insert(row.end(),
          {Value(), Value(),
              changes ? Value("the first side's winner was not measured on the second one")
                      : Value()});
      return;
    }
    const auto& was = old->second.ranked;
    const auto& is = after.second.ranked;
    const SpeedVerdict verdict = compared(is, was, common_, resolve_);
    both_.sure_changes += verdict.difference == Difference::faster ? 1 : 0;
    row.insert(row.end(),
        {is.value / was.value - 1, std::string(word_of(verdict.difference)), verdict.reason});
  }

  static std::vector<Value>& add_cell(Table& table, const std::vector<Value>& cell) {
    return table.rows.emplace_back(cell);
  }

  std::vector<std::string> columns_;
  std::vector<bool> first_lacks_;
  std::vector<bool> second_lacks_;
  JoinedCells first_;
  JoinedCells second_;
  Noise common_;
  double resolve_;
  SideBySide both_;
};

/// " a has no compile: compared with each value of it, and nothing of it is sure."; empty: it has
/// all.
std::string lacking_text(const Side& side, const std::vector<std::string>& settings) {
  if (settings.empty()) return {};
  return fmt::format(
      " {} has no {}, so it is compared with each value of {}, and no difference is certain.",
      side.name, fmt::join(settings, " and no "), settings.size() == 1 ? "it" : "them");
}

}  // namespace

SideBySide side_by_side(
    const Side& first, const Side& second, std::string_view by, double resolve) {
  return Joiner(ranked_layouts(first.layouts), ranked_layouts(second.layouts), by, resolve).join();
}

SweepVerdict judge_limit(const SideBySide& both, double limit) {
  if (both.worst_loss >= limit) {
    return {ExitCode::failed,
        fmt::format("exit 1: {} is slower by {}; --fail-on allows less than {}.", both.worst_layout,
            percent_text(both.worst_loss), percent_text(limit))};
  }
  if (both.worst_open >= limit) {
    return {ExitCode::done,
        fmt::format(
            "{} seems slower by {}, but that is UNDECIDED, so --fail-on does not count it: {}.",
            both.worst_open_layout, percent_text(both.worst_open), both.worst_open_reason)};
  }
  return {};
}

std::string summary_text(const SideBySide& both, const Side& first, const Side& second) {
  std::string text = fmt::format(
      "{} on both sides", counted(static_cast<std::int64_t>(both.rows.rows.size()), "layout"));
  for (std::size_t i = 0; i < both.counts.size(); ++i) {
    if (both.counts[i] > 0)
      text += fmt::format("{} {} {}", text.ends_with("sides") ? ":" : ",", grouped(both.counts[i]),
          word_of(static_cast<Difference>(i)));
  }
  std::string open;
  for (std::size_t i = 1; i < both.open_counts.size(); ++i) {
    if (both.open_counts[i] > 0)
      open += fmt::format("{}{} {}", open.empty() ? "" : ", ", grouped(both.open_counts[i]),
          word_of(static_cast<Open>(i)));
  }
  if (!open.empty()) text += fmt::format(" ({})", open);
  text += fmt::format(". {} only in {}, {} only in {}.", grouped(both.only_first), first.name,
      grouped(both.only_second), second.name);
  text += lacking_text(first, both.first_lacks) + lacking_text(second, both.second_lacks);
  const auto cells = static_cast<std::int64_t>(both.winners.rows.size());
  if (cells > 0)
    text += fmt::format(" The fastest layout differs in {} of {}{}.", grouped(both.changed_winners),
        counted(cells, "cell"),
        both.changed_winners > 0 && both.sure_changes == 0 ? "; no difference is certain" : "");
  return text;
}

}  // namespace shardsweep
