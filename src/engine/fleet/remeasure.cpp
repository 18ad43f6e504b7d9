// SPDX-License-Identifier: Apache-2.0
#include "fleet/remeasure.hpp"

#include "answer/answer.hpp"
#include "answer/series.hpp"
#include "sweep/layout_text.hpp"
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

/// Probability of a false alarm. An alarm may wake somebody up.
constexpr double alarm_error = 0.01;
constexpr double shown_error = 0.05;
/// Runs, or pairs of runs, that must show a drop before it is reported.
constexpr std::int64_t least_runs = 3;
/// Rounds without a result after which a program counts as broken.
constexpr std::int32_t rounds_of_broken = 2;

using RowsOfLayout = std::vector<const FinalsRow*>;
using Layouts = std::map<std::pair<CellKey, std::string>, RowsOfLayout>;

double median_of_speeds(std::vector<SeriesPoint> points) {
  std::sort(
      points.begin(), points.end(), [](const auto& a, const auto& b) { return a.speed < b.speed; });
  return points.empty() ? 0 : points[(points.size() - 1) / 2].speed;
}

/// Measurements of a layout in the order of `history`: the oldest first.
std::vector<SeriesPoint> points_of(RowsOfLayout rows) {
  std::erase_if(rows, [](const FinalsRow* row) {
    return row->side != SideRun::none || row->tokens_per_s_per_gpu <= 0;
  });
  std::sort(rows.begin(), rows.end(), [](const FinalsRow* a, const FinalsRow* b) {
    return std::pair(a->again, a->id) < std::pair(b->again, b->id);
  });
  std::vector<SeriesPoint> points;
  for (const FinalsRow* row : rows)
    points.push_back({.speed = row->tokens_per_s_per_gpu,
        .at = static_cast<double>(points.size()),
        .time = fmt::to_string(row->again),
        .nodes = hosts_text(row->hosts),
        .resolution = row->resolution,
        .step_noise = step_noise_of(row->step_spread, row->steps),
        .sm_clock_mhz = row->sm_clock_mhz,
        .others_cpu = row->others_cpu});
  return points;
}

class OneLayout {
 public:
  OneLayout(const RowsOfLayout& rows, TrialId of, const RemeasureInput& input, const Noise& noise)
      : of_(of), input_(input), noise_(noise), points_(points_of(rows)) {
    for (const FinalsRow* row : rows) {
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
  [[nodiscard]] const RemeasureVerdict& found() const { return found_; }

  /// The next round. Its order alternates, so that a drift affects both programs alike.
  void add_round(std::vector<NewFinal>& due) const {
    const std::int32_t round = rounds_.empty() ? 1 : rounds_.rbegin()->first + 1;
    NewFinal now{.of = of_, .round = round, .set = 0, .again = input_.number};
    // Only a program can be run as it was; an earlier image no longer exists.
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

  [[nodiscard]] bool was_slower() const { return input_.slower.contains(of_); }

  void say(bool slower, const std::string& text) {
    say(!slower            ? EventKind::remeasured
            : was_slower() ? EventKind::still_regressed
                           : EventKind::regressed,
        text);
  }

  void say(EventKind kind, const std::string& text) {
    settled_ = true;
    found_.slower = kind != EventKind::remeasured;
    found_.kind = kind;
    found_.text = fmt::format("{}: {}", name_, text);
  }

  [[nodiscard]] std::string programs_text() const {
    return fmt::format("the program now ({}) and the earlier one ({}), in one allocation",
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
    if (sure.within(input_.finals.resolve)) {
      // The loss of an earlier program remains, if there was one: this program is as slow.
      say(was_slower(), fmt::format("SAME ({})", evidence()));
    } else if (sure.above(0)) {
      say(EventKind::regressed, fmt::format("SLOWER by {} ({})", change(), evidence()));
    } else if (sure.half_width && sure.mean + *sure.half_width < 0) {
      say(false, fmt::format("FASTER by {} ({})", change(), evidence()));
    } else if (slower_by.empty() && failed >= rounds_of_broken) {
      say(true,
          fmt::format("fails in each of {}, but the earlier program still runs ({})",
              counted(failed, "run"), programs_text()));
    } else if (std::ssize(rounds_) >= most_pair_rounds) {
      say(was_slower(),
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
    const auto this_time = fmt::to_string(input_.number);
    const auto first = std::find_if(points_.begin(), points_.end(),
        [&](const SeriesPoint& point) { return point.time == this_time; });
    const auto before = first - points_.begin();
    const auto now = points_.end() - first;
    const bool last = std::ssize(rounds_) >= most_single_rounds;
    if (now == 0) {
      if (std::ssize(rounds_) >= rounds_of_broken)
        say(before > 0,
            fmt::format("failed {}, but was measured successfully before",
                std::ssize(rounds_) == 2 ? "twice" : "each time"));
      return;
    }
    if (before == 0) return say(false, "measured for the first time");
    const auto series = answer_of_series(points_, {input_.finals.resolve, noise_});
    const auto* change = series.last_sure();
    const bool slower = change != nullptr && series.loss() > input_.finals.resolve;
    const bool shown =
        change != nullptr && std::cmp_greater_equal(change->first, before) && now >= least_runs;
    if (moves(first) && !last && !shown) return;
    std::string image;
    if (input_.asked.on == RemeasureOn::image)
      image = fmt::format("; image {} in place of {}", input_.is, input_.was);
    // A drop in doubt is no regression, but is reported until the layout is as fast again.
    const auto* stands = series.standing();
    const bool looks_slower = stands != nullptr && stands->verdict.share < 0 &&
        stands->verdict.difference == Difference::undecided;
    const auto& verdict = slower ? change->verdict
        : looks_slower           ? stands->verdict
                                 : series.points.back();
    const auto text = fmt::format("{} ({} now, {} before{})", verdict_text(verdict),
        counted(now, "run"), counted(before, "run"), image);
    const bool is_news = !was_slower() || (shown && verdict.difference == Difference::slower);
    if (slower && now >= least_runs && is_news) return say(EventKind::regressed, text);
    say(slower && was_slower() ? EventKind::still_regressed : EventKind::remeasured, text);
  }

  /// True if this remeasurement is slower than the one before; or faster, if the layout was slow.
  [[nodiscard]] bool moves(std::vector<SeriesPoint>::const_iterator first) const {
    const auto& time = std::prev(first)->time;
    const auto begin = std::find_if(
        points_.begin(), first, [&](const SeriesPoint& point) { return point.time == time; });
    const double ratio =
        median_of_speeds({first, points_.end()}) / median_of_speeds({begin, first});
    return ratio < 1 - input_.finals.resolve || (was_slower() && ratio > 1 + input_.finals.resolve);
  }

  TrialId of_;
  const RemeasureInput& input_;
  std::string name_;
  const Noise& noise_;
  std::vector<SeriesPoint> points_;
  std::map<std::int32_t, RowsOfLayout> rounds_;  ///< rounds of this remeasurement
  bool waits_ = false;
  bool cancelled_ = false;
  bool settled_ = false;
  RemeasureVerdict found_;
};

/// The trial that stands for a layout: its first one.
TrialId first_of(const RowsOfLayout& rows) {
  for (const FinalsRow* row : rows)
    if (row->final_of == 0) return row->id;
  return 0;
}

/// The layouts that lead each cell, as `best` ranks them; if this remeasurement has begun, its own.
std::map<TrialId, RowsOfLayout> chosen(
    const std::vector<FinalsRow>& rows, const Layouts& layouts, const RemeasureInput& input) {
  std::map<TrialId, RowsOfLayout> chosen;
  for (const FinalsRow& row : rows)
    if (row.again == input.number) chosen[row.final_of] = layouts.at({row.cell, row.layout});
  if (!chosen.empty()) return chosen;
  for (const auto& [cell, answer] : answers_of(rows, input.finals)) {
    const auto most = static_cast<std::size_t>(input.asked.layouts);
    for (std::size_t i = 0; i < std::min(most, answer.layouts.size()); ++i) {
      const auto& own = layouts.at({cell, answer.layouts[i].name});
      chosen.emplace(first_of(own), own);
    }
  }
  return chosen;
}

}  // namespace

RemeasurePlan plan_remeasure(const std::vector<FinalsRow>& rows, const RemeasureInput& input) {
  Layouts layouts;
  for (const FinalsRow& row : rows)
    layouts[{row.cell, row.layout}].push_back(&row);
  std::vector<std::vector<SeriesPoint>> all;
  for (const auto& [key, own] : layouts)
    all.push_back(points_of(own));
  const Noise noise = noise_of_others(all, all);
  RemeasurePlan plan{.over = true};
  for (const auto& [of, own] : chosen(rows, layouts, input)) {
    const OneLayout layout(own, of, input, noise);
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
