// SPDX-License-Identifier: Apache-2.0
#include "fleet/remeasure.hpp"

#include "answer/verdict.hpp"
#include "search/finals.hpp"
#include "text/content_hash.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

/// Somebody is woken up by it.
constexpr double alarm_error = 0.01;
constexpr double shown_error = 0.05;
/// A drop is said when so many runs, or pairs, have shown it.
constexpr std::int64_t least_runs = 3;
/// A program that never comes to a result in so many rounds is broken.
constexpr std::int32_t rounds_of_broken = 2;

using RowsOfLayout = std::vector<const FinalsRow*>;
using Layouts = std::map<std::pair<std::string, std::string>, RowsOfLayout>;

double median_of_speeds(std::vector<double> speeds) {
  std::sort(speeds.begin(), speeds.end());
  return speeds.empty() ? 0 : speeds[(speeds.size() - 1) / 2];
}

std::vector<double> speeds_of(const RowsOfLayout& rows) {
  std::vector<double> speeds;
  for (const FinalsRow* row : rows)
    if (row->tokens_per_s_per_gpu > 0) speeds.push_back(row->tokens_per_s_per_gpu);
  return speeds;
}

Ranked ranked_of(const std::vector<double>& speeds) {
  Ranked ranked{.value = median_of_speeds(speeds), .runs = std::ssize(speeds)};
  if (speeds.size() > 1 && ranked.value > 0) {
    const auto [least, most] = std::minmax_element(speeds.begin(), speeds.end());
    ranked.spread = (*most - *least) / ranked.value;
  }
  return ranked;
}

class OneLayout {
 public:
  OneLayout(const RowsOfLayout& rows, TrialId of, const RemeasureInput& input)
      : of_(of), input_(input) {
    for (const FinalsRow* row : rows) {
      if (row->again < input_.number && row->side == SideRun::none) before_.push_back(row);
      if (row->again != input_.number) continue;
      rounds_[row->final_round].push_back(row);
      name_ = row->layout;
      waits_ = waits_ || row->open;
      cancelled_ = cancelled_ || row->cancelled;
    }
    if (name_.empty() && !rows.empty()) name_ = rows.front()->layout;
    judge();
  }

  [[nodiscard]] bool waits() const { return waits_; }
  [[nodiscard]] bool is_over() const { return !waits_ && settled_; }
  [[nodiscard]] const Remeasured& found() const { return found_; }

  /// The next round; its order alternates, so that a drift hits both programs alike.
  void add_round(std::vector<NewFinal>& due) const {
    const std::int32_t round = rounds_.empty() ? 1 : rounds_.rbegin()->first + 1;
    NewFinal now{.of = of_, .round = round, .again = input_.number};
    // The image as it was is no longer there.
    if (input_.asked.on == RemeasureOn::runner) now.software = input_.is;
    if (!is_paired()) return due.push_back(now);
    NewFinal before = now;
    before.software = input_.was;
    before.before = true;
    const bool first = round % 2 == 1;
    due.push_back(first ? before : now);
    due.push_back(first ? now : before);
  }

 private:
  [[nodiscard]] bool is_paired() const {
    return input_.asked.on == RemeasureOn::runner && input_.was != input_.is;
  }

  void judge() {
    found_.of = of_;
    if (rounds_.empty()) return;
    if (cancelled_) {
      settled_ = true;
      found_.text = fmt::format("{}: cancelled", name_);
    } else if (is_paired()) {
      judge_pairs();
    } else {
      judge_runs();
    }
  }

  void say(bool slower, const std::string& text) {
    settled_ = true;
    found_.slower = slower;
    found_.text = fmt::format("{}: {}", name_, text);
  }

  [[nodiscard]] std::string programs_text() const {
    return fmt::format("the program as it is ({}) and as it was ({}), in one allocation",
        short_hash(input_.is), short_hash(input_.was));
  }

  void judge_pairs() {
    std::vector<double> slower_by;
    std::int32_t failed = 0;
    for (const auto& [number, round] : rounds_) {
      const FinalsRow* was = run_with(round, input_.was);
      const FinalsRow* is = run_with(round, input_.is);
      if (was == nullptr || is == nullptr || was->tokens_per_s_per_gpu <= 0) continue;
      if (is->tokens_per_s_per_gpu <= 0) ++failed;
      if (is->tokens_per_s_per_gpu > 0 && is->allocation == was->allocation)
        slower_by.push_back(std::log(was->tokens_per_s_per_gpu / is->tokens_per_s_per_gpu));
    }
    const auto sure = interval_of(slower_by, alarm_error);
    const auto shown = interval_of(slower_by, shown_error);
    const auto evidence = [&] {
      return fmt::format("95 % interval {:.1f} to {:.1f} %, {} of {}",
          100 * std::expm1(shown.mean - *shown.half_width),
          100 * std::expm1(shown.mean + *shown.half_width), counted(shown.pairs, "pair"),
          programs_text());
    };
    const auto change = [&] { return percent_text(std::abs(std::expm1(shown.mean))); };
    if (sure.within(input_.resolve)) {
      say(false, fmt::format("SAME ({})", evidence()));
    } else if (sure.above(0)) {
      say(true, fmt::format("SLOWER by {} ({})", change(), evidence()));
    } else if (sure.half_width && sure.mean + *sure.half_width < 0) {
      say(false, fmt::format("FASTER by {} ({})", change(), evidence()));
    } else if (slower_by.empty() && failed >= rounds_of_broken) {
      say(true,
          fmt::format("fails in each of {}, where the program as it was runs ({})",
              counted(failed, "run"), programs_text()));
    } else if (std::ssize(rounds_) >= most_pair_rounds) {
      say(false,
          fmt::format(
              "UNDECIDED after {} of {}", counted(std::ssize(slower_by), "pair"), programs_text()));
    }
  }

  static const FinalsRow* run_with(const RowsOfLayout& round, const std::string& software) {
    const auto found = std::find_if(round.begin(), round.end(),
        [&](const FinalsRow* row) { return row->software == software; });
    return found == round.end() ? nullptr : *found;
  }

  void judge_runs() {
    RowsOfLayout own;
    for (const auto& [number, round] : rounds_)
      own.insert(own.end(), round.begin(), round.end());
    const auto now = ranked_of(speeds_of(own));
    const auto before = ranked_of(speeds_of(before_));
    const bool last = std::ssize(rounds_) >= most_single_rounds;
    if (now.runs == 0) {
      if (std::ssize(rounds_) >= rounds_of_broken)
        say(before.runs > 0,
            fmt::format("failed {}, and was measured before",
                std::ssize(rounds_) == 2 ? "twice" : "each time"));
      return;
    }
    if (before.runs == 0) return say(false, "measured for the first time");
    const auto verdict = compared(now, before, common_noise({now, before}), input_.resolve);
    const bool slower = verdict.difference == Difference::slower;
    const bool drops = now.value < before.value * (1 - input_.resolve);
    if (drops && !last && !(slower && now.runs >= least_runs)) return;
    std::string image;
    if (input_.asked.on == RemeasureOn::image)
      image = fmt::format("; image {} in place of {}", input_.is, input_.was);
    say(slower && now.runs >= least_runs,
        fmt::format("{} ({} now, {} before{})", verdict_text(verdict), counted(now.runs, "run"),
            counted(before.runs, "run"), image));
  }

  TrialId of_;
  const RemeasureInput& input_;
  std::string name_;
  RowsOfLayout before_;
  std::map<std::int32_t, RowsOfLayout> rounds_;  ///< of this time
  bool waits_ = false;
  bool cancelled_ = false;
  bool settled_ = false;
  Remeasured found_;
};

/// The trial that stands for a layout: its first one.
TrialId first_of(const RowsOfLayout& rows) {
  for (const FinalsRow* row : rows)
    if (row->final_of == 0) return row->id;
  return 0;
}

/// The best layouts of each cell, by their medians; those of this time, if it has begun.
std::map<TrialId, RowsOfLayout> chosen(const Layouts& layouts, const RemeasureInput& input) {
  std::map<TrialId, RowsOfLayout> begun;
  std::map<std::string, std::vector<std::pair<double, const RowsOfLayout*>>> cells;
  for (const auto& [key, rows] : layouts) {
    for (const FinalsRow* row : rows)
      if (row->again == input.number) begun[row->final_of] = rows;
    RowsOfLayout own;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(own),
        [](const FinalsRow* row) { return row->final_of == 0; });
    const double speed = median_of_speeds(speeds_of(own));
    if (speed > 0) cells[key.first].emplace_back(-speed, &rows);
  }
  if (!begun.empty()) return begun;
  for (auto& [cell, ranked] : cells) {
    std::stable_sort(ranked.begin(), ranked.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(input.asked.layouts)));
    for (const auto& [speed, rows] : ranked)
      begun.emplace(first_of(*rows), *rows);
  }
  return begun;
}

}  // namespace

RemeasurePlan plan_remeasure(const std::vector<FinalsRow>& rows, const RemeasureInput& input) {
  Layouts layouts;
  for (const FinalsRow& row : rows)
    layouts[{row.cell, row.layout}].push_back(&row);
  RemeasurePlan plan{.over = true};
  for (const auto& [of, own] : chosen(layouts, input)) {
    const OneLayout layout(own, of, input);
    if (layout.is_over()) {
      plan.found.push_back(layout.found());
      continue;
    }
    plan.over = false;
    if (!layout.waits()) layout.add_round(plan.due);
  }
  return plan;
}

}  // namespace shardsweep
