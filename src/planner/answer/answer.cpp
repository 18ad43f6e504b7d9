// SPDX-License-Identifier: Apache-2.0
// Decision: Who won is decided once, in a room below all that ask (store, lab, face) and above
// finals (`search`). A layout is faster if the t interval of the medians, or the confidence
// sequence of the finals, is above zero. Noise comes from runs of one layout, with the train
// steps within a run as its floor. One run each is `fastest so far`.
//
// A run beside others' load is ranked, because on a desktop there may be no other, and nothing
// that was measured vanishes. It decides nothing: a lead of it or over it is UNDECIDED by load.
// If a limit is set (watch.others_cpu_limit), what is above it is contaminated, like what a
// control has found off: measured again and not ranked. If it would lead, the answer says so.
#include "answer/answer.hpp"

#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace shardsweep {

namespace {

/// Tolerances below which a control, the network or a clock raises no doubt.
constexpr double control_tolerance = 0.05;
constexpr double network_tolerance = 0.2;
constexpr double clock_tolerance = 0.02;

/// A layout while it is ranked.
struct Entry {
  std::string name;
  std::vector<MeasuredRun> runs;  ///< slowest first
  const LayoutRuns* layout = nullptr;
  bool in_finals = false;

  /// The run in the middle by speed; the lower of two if their number is even. All numbers that are
  /// shown together come from this one run.
  [[nodiscard]] const MeasuredRun& median() const { return runs[(runs.size() - 1) / 2]; }
};

void sort_by_speed(std::vector<MeasuredRun>& runs) {
  std::sort(runs.begin(), runs.end(), [](const MeasuredRun& a, const MeasuredRun& b) {
    return std::pair(a.tokens_per_s_per_gpu, a.trial) < std::pair(b.tokens_per_s_per_gpu, b.trial);
  });
}

std::optional<double> spread_of(const std::vector<MeasuredRun>& runs, double median) {
  if (runs.size() < 2 || median <= 0) return std::nullopt;
  return (runs.back().tokens_per_s_per_gpu - runs.front().tokens_per_s_per_gpu) / median;
}

LayoutSpeed ranked_of(const Entry& entry) {
  const auto& middle = entry.median();
  return {.value = middle.tokens_per_s_per_gpu,
      .runs = std::ssize(entry.runs),
      .spread = spread_of(entry.runs, middle.tokens_per_s_per_gpu),
      .resolution = middle.resolution,
      .sm_clock_mhz = middle.sm_clock_mhz,
      .step_noise = step_noise_of(middle.step_spread, middle.steps),
      .others_cpu = middle.others_cpu};
}

/// Ties go to the older trial.
bool is_faster(const Entry& a, const Entry& b) {
  const auto key = [](const Entry& one) {
    return std::pair(-one.median().tokens_per_s_per_gpu, one.median().trial);
  };
  return key(a) < key(b);
}

std::vector<Entry> entries_of(const CellRuns& cell) {
  std::vector<Entry> entries;
  for (const auto& layout : cell.layouts) {
    if (layout.runs.empty()) continue;
    Entry& one = entries.emplace_back(Entry{layout.name, layout.runs, &layout});
    sort_by_speed(one.runs);
  }
  std::sort(entries.begin(), entries.end(), is_faster);
  return entries;
}

bool has_run(const Entry& entry, TrialId trial) {
  return std::any_of(entry.runs.begin(), entry.runs.end(),
      [trial](const MeasuredRun& run) { return run.trial == trial; });
}

/// Finds the entry that has a run of the finalist; end() if that layout was not asked for.
std::vector<Entry>::iterator find_finalist(
    std::vector<Entry>& entries, const HeldFinals& held, TrialId finalist) {
  const auto runs = held.runs.find(finalist);
  return std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return runs != held.runs.end() &&
        std::any_of(runs->second.begin(), runs->second.end(),
            [&](TrialId trial) { return has_run(entry, trial); });
  });
}

void keep_runs_of_finals(Entry& entry, const std::vector<TrialId>& runs) {
  const std::set<TrialId> of_finals(runs.begin(), runs.end());
  entry.runs.erase(std::remove_if(entry.runs.begin(), entry.runs.end(),
                       [&](const MeasuredRun& run) { return !of_finals.contains(run.trial); }),
      entry.runs.end());
  entry.in_finals = true;
}

/// How finals rank the entries: verdicts of the first to each other finalist.
struct FinalRanking {
  std::size_t finalists = 0;           ///< the first entries; 0: the finals say nothing of them
  std::vector<SpeedVerdict> verdicts;  ///< the first compared to the second, third, …
};

/// Index of the highest median among the first finalist and those that finals can't tell apart from
/// it. `verdicts`: the first compared to each other one.
std::size_t highest_of_tied(
    const std::vector<Entry>& finalists, const std::vector<SpeedVerdict>& verdicts) {
  std::size_t highest = 0;
  for (std::size_t i = 1; i < finalists.size(); ++i) {
    const bool tied = verdicts[i - 1].difference != Difference::faster;
    if (tied && is_faster(finalists[i], finalists[highest])) highest = i;
  }
  return highest;
}

/// Entries that took part in the finals, in their order. Empty if one of the first two is missing:
/// then the finals answer another question than the one asked.
std::vector<Entry> finalists_of(
    std::vector<Entry>& entries, const HeldFinals& held, std::vector<SpeedVerdict>& verdicts) {
  std::vector<Entry> finalists;
  const auto& ranking = held.finals.ranking;
  std::vector<TrialId> found;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const auto entry = find_finalist(entries, held, ranking[i]);
    if (entry == entries.end()) {
      if (i < 2) return {};
      continue;
    }
    finalists.push_back(*entry);
    keep_runs_of_finals(finalists.back(), held.runs.at(ranking[i]));
    if (i > 0) verdicts.push_back(verdict_of_finals(held.finals.verdicts[i - 1], held.settings));
    found.push_back(ranking[i]);
  }
  return finalists;
}

FinalRanking settle(std::vector<Entry>& entries, const HeldFinals& held) {
  FinalRanking ranking;
  if (held.finals.verdicts.empty() || held.finals.verdicts.front().share.pairs == 0) return {};
  auto finalists = finalists_of(entries, held, ranking.verdicts);
  if (finalists.size() < 2) return {};
  const auto highest = highest_of_tied(finalists, ranking.verdicts);
  if (highest > 0) {
    // Verdicts of the finals compare their first layout with others. They say nothing about another
    // first layout, except the pairs of the two.
    const SpeedVerdict between = reversed(ranking.verdicts[highest - 1]);
    std::rotate(finalists.begin(), finalists.begin() + static_cast<std::ptrdiff_t>(highest),
        finalists.begin() + static_cast<std::ptrdiff_t>(highest) + 1);
    ranking.verdicts = {between};
  }
  std::vector<Entry> others;
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(others), [&](const Entry& entry) {
    return std::none_of(finalists.begin(), finalists.end(),
        [&](const Entry& one) { return one.layout == entry.layout; });
  });
  ranking.finalists = finalists.size();
  entries = std::move(finalists);
  entries.insert(entries.end(), std::make_move_iterator(others.begin()),
      std::make_move_iterator(others.end()));
  return ranking;
}

void add(CellAnswer& answer, DoubtKind kind, std::string text) {
  answer.doubts.push_back({kind, std::move(text)});
}

/// Adds doubts about one of the first two layouts: others' load, an unusual network or control,
/// contradictions.
void doubt_the_runs(CellAnswer& answer, const Entry& entry) {
  const auto& run = entry.median();
  if (is_loaded(run.others_cpu))
    add(answer, DoubtKind::load,
        fmt::format("other processes used {} of the CPUs while {} ran",
            percent_text(run.others_cpu), entry.name));
  if (run.network_ratio > 0 && std::abs(std::log(run.network_ratio)) > network_tolerance)
    add(answer, DoubtKind::network,
        fmt::format("the network had {} of its usual speed when {} ran",
            percent_text(run.network_ratio), entry.name));
  if (run.control_ratio > 0 && std::abs(run.control_ratio - 1) > control_tolerance)
    add(answer, DoubtKind::network,
        fmt::format("the control had {} of its usual speed when {} ran",
            percent_text(run.control_ratio), entry.name));
  const auto& runs = entry.layout->runs;
  const auto odd = std::find_if(
      runs.begin(), runs.end(), [](const MeasuredRun& one) { return !one.also.empty(); });
  if (odd != runs.end())
    add(answer, DoubtKind::contradiction, fmt::format("{}: {}", entry.name, odd->also));
}

/// The larger one of both.
double step_spread_of(const std::vector<Entry>& entries) {
  double spread = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(entries.size(), 2); ++i)
    spread = std::max(spread, entries[i].median().step_spread);
  return spread;
}

void doubt_contradictions(CellAnswer& answer, const Entry& entry, const Noise& noise) {
  constexpr double units = 3;
  constexpr double least = 0.05;  // smallest contradiction, even if no noise is known
  const auto ranked = ranked_of(entry);
  const double own = std::max({noise_of_run(ranked).value_or(0), noise.of_run, ranked.step_noise});
  for (const auto& other : entry.layout->elsewhere) {
    const double share = other.tokens_per_s_per_gpu / ranked.value - 1;
    if (std::abs(share) <= std::max(units * std::sqrt(2.0) * own, least)) continue;
    add(answer, DoubtKind::contradiction,
        fmt::format("sweep {} measured {} tokens/s/GPU of {}, {} {}", other.sweep,
            amount_text(other.tokens_per_s_per_gpu), entry.name, percent_text(std::abs(share)),
            share < 0 ? "less" : "more"));
  }
}

void doubt(CellAnswer& answer, const std::vector<Entry>& entries, const Noise& noise) {
  const auto& first = answer.layouts.front();
  const auto* second = answer.runner_up();
  const auto& verdict = first.verdict;
  if (first.runs.size() < 2 || (second != nullptr && second->runs.size() < 2))
    add(answer, DoubtKind::one_run,
        fmt::format("{} ran once", first.runs.size() < 2 ? first.name : second->name));
  const double steps = step_spread_of(entries);
  if (second != nullptr && steps > 0 && steps >= std::abs(verdict.share) &&
      verdict.difference == Difference::undecided)
    add(answer, DoubtKind::steps_vary, fmt::format("step times vary by {}", percent_text(steps)));
  if (verdict.within_rounding && verdict.difference == Difference::undecided)
    add(answer, DoubtKind::rounding,
        fmt::format("the difference is within {}",
            rounding_text(entries[0].median().resolution + entries[1].median().resolution)));
  for (std::size_t i = 0; i < std::min<std::size_t>(entries.size(), 2); ++i) {
    doubt_the_runs(answer, entries[i]);
    doubt_contradictions(answer, entries[i], noise);
  }
  if (second != nullptr) {
    const double a = entries[0].median().sm_clock_mhz;
    const double b = entries[1].median().sm_clock_mhz;
    if (a > 0 && b > 0 && std::abs(a / b - 1) > clock_tolerance)
      add(answer, DoubtKind::clocks, fmt::format("SM clocks were {:.0f} and {:.0f} MHz", a, b));
  }
  if (!answer.mixed.empty())
    add(answer, DoubtKind::mixed_software, fmt::format("ranked together: {}", answer.mixed));
}

/// Adds a doubt if another layout might lead: one that is not ranked, or one that others' load has
/// slowed down.
void doubt_the_others(CellAnswer& answer, const std::vector<Entry>& entries,
    const std::optional<UnrankedRun>& unranked) {
  const double best = answer.layouts.front().tokens_per_s_per_gpu;
  if (unranked && unranked->tokens_per_s_per_gpu > best)
    add(answer, DoubtKind::unranked,
        fmt::format("{} measured {} tokens/s/GPU and is not ranked: {}", unranked->name,
            amount_text(unranked->tokens_per_s_per_gpu), unranked->mark));
  for (std::size_t i = 2; i < entries.size(); ++i) {
    const auto& run = entries[i].median();
    if (!is_loaded(run.others_cpu)) continue;
    if (run.tokens_per_s_per_gpu / (1 - std::min(run.others_cpu, 0.99)) < best) continue;
    return add(answer, DoubtKind::load,
        fmt::format("{} is slower, but other processes used {} of the CPUs while it ran",
            entries[i].name, percent_text(run.others_cpu)));
  }
}

void doubt_confirmation(CellAnswer& answer, const FinalVerdict& verdict) {
  if (verdict.to_be_confirmed)
    add(answer, DoubtKind::unconfirmed, "to be confirmed on other nodes");
  if (!verdict.not_confirmed.empty())
    add(answer, DoubtKind::unconfirmed,
        fmt::format("not confirmed on other nodes: {}", verdict.not_confirmed));
}

bool has(const CellAnswer& answer, DoubtKind kind) {
  return std::any_of(answer.doubts.begin(), answer.doubts.end(),
      [kind](const Doubt& one) { return one.kind == kind; });
}

/// A lead over single runs only holds if both ran under equal conditions.
void demote(CellAnswer& answer) {
  SpeedVerdict& verdict = answer.layouts.front().verdict;
  const bool decided = verdict.difference != Difference::undecided;
  if (!decided || verdict.pairs > 0 || answer.layouts.size() < 2) return;
  const auto leave_open = [&verdict](Open why) {
    verdict.difference = Difference::undecided;
    verdict.open = why;
  };
  if (answer.layouts.front().runs.size() < 2) return leave_open(Open::too_little_data);
  if (has(answer, DoubtKind::network)) leave_open(Open::mixed_state);
}

/// Pairs that decide most finals: 1 % takes six of them.
constexpr std::int64_t usual_pairs = 6;

void add_settling(CellAnswer& answer, const std::vector<Entry>& entries) {
  const auto& verdict = answer.layouts.front().verdict;
  if (answer.layouts.size() < 2 || verdict.difference != Difference::undecided) return;
  if (verdict.open == Open::clocks) return;
  if (verdict.open == Open::load) {
    answer.settling.text = "run both again while no other process uses the CPUs";
    return;
  }
  const double pair = entries[0].median().gpu_hours + entries[1].median().gpu_hours;
  const auto pairs = verdict.pairs > 0 ? verdict.more : std::max(verdict.more, usual_pairs);
  if (pairs == 0 || (verdict.within_rounding && verdict.pairs == 0)) return;
  auto& settling = answer.settling;
  settling.gpu_hours = pair * static_cast<double>(pairs);
  const std::string_view what = verdict.pairs > 0 ? "more pair" : "pair";
  settling.text = decided_by(pairs, fmt::format("{}{} of final runs", what, pairs == 1 ? "" : "s"));
  constexpr double worth_a_word = 0.01;
  if (settling.gpu_hours >= worth_a_word && pairs <= most_worth_starting)
    settling.text += fmt::format(" ({} GPU-h)", amount_text(settling.gpu_hours));
}

AnsweredLayout answered(const Entry& entry, const Noise& noise) {
  const auto ranked = ranked_of(entry);
  AnsweredLayout layout{.name = entry.name,
      .trial = entry.median().trial,
      .tokens_per_s_per_gpu = ranked.value,
      .spread = ranked.spread,
      .in_finals = entry.in_finals,
      .resolution = ranked.resolution,
      .sm_clock_mhz = ranked.sm_clock_mhz,
      .step_noise = ranked.step_noise,
      .others_cpu = ranked.others_cpu};
  for (const auto& run : entry.runs)
    layout.runs.push_back(run.trial);
  LayoutSpeed exact = ranked;
  exact.runs = 1000000;  // a value that is known exactly: the half width is the layout's own
  exact.spread.reset();
  exact.step_noise = 0;
  layout.half_width = compared(ranked, exact, noise, 0).half_width;
  return layout;
}

}  // namespace

CellAnswer answer_of(const CellRuns& cell) {
  CellAnswer answer{.open = cell.open, .mixed = cell.mixed};
  auto entries = entries_of(cell);
  for (const auto& entry : entries)
    answer.measured += std::ssize(entry.runs);
  answer.measured = std::max(answer.measured, cell.measured);
  if (entries.empty()) return answer;
  FinalRanking finals;
  if (cell.finals != nullptr) finals = settle(entries, *cell.finals);
  answer.by_finals = finals.finalists > 0;
  if (answer.by_finals) doubt_confirmation(answer, cell.finals->finals.verdicts.front());
  std::vector<LayoutSpeed> ranked;
  ranked.reserve(entries.size());
  for (const auto& entry : entries)
    ranked.push_back(ranked_of(entry));
  const Noise noise = cell.noise ? *cell.noise : common_noise(ranked);
  answer.noise_of_run = noise.of_run;
  answer.noise_freedom = noise.freedom;
  for (const auto& entry : entries)
    answer.layouts.push_back(answered(entry, noise));
  for (std::size_t i = 1; i < entries.size(); ++i)
    answer.layouts[i].verdict = i <= finals.verdicts.size()
        ? finals.verdicts[i - 1]
        : compared(ranked[0], ranked[i], noise, usual_resolve);
  if (entries.size() > 1) answer.layouts[0].verdict = answer.layouts[1].verdict;
  doubt(answer, entries, noise);
  demote(answer);
  doubt_the_others(answer, entries, cell.unranked);
  if (entries.size() > 1) answer.layouts[1].verdict = answer.layouts[0].verdict;
  add_settling(answer, entries);
  return answer;
}

void add_left_out(CellAnswer& answer, const LeftOutRuns& left_out) {
  if (left_out.runs == 0) return;
  const auto* winner = answer.winner();
  const bool faster =
      winner == nullptr || left_out.tokens_per_s_per_gpu > winner->tokens_per_s_per_gpu;
  answer.doubts.insert(answer.doubts.begin(),
      {DoubtKind::partial,
          fmt::format("{} of {} {} not ranked (--all-versions){}", counted(left_out.runs, "run"),
              left_out.software, left_out.runs == 1 ? "is" : "are",
              faster ? fmt::format(
                           ", up to {} tokens/s/GPU", amount_text(left_out.tokens_per_s_per_gpu))
                     : "")});
}

void doubt_scaling(std::vector<SizedAnswer> cells, std::string_view noun) {
  // Caches, or a layout that needs more memory, may make larger jobs a little more efficient.
  constexpr double tolerance = 0.1;
  std::sort(cells.begin(), cells.end(),
      [](const SizedAnswer& a, const SizedAnswer& b) { return a.size < b.size; });
  for (std::size_t i = 1; i < cells.size(); ++i) {
    const auto* fewer = cells[i - 1].answer->winner();
    const auto* more = cells[i].answer->winner();
    if (fewer == nullptr || more == nullptr || cells[i - 1].size == cells[i].size) continue;
    const double share = more->tokens_per_s_per_gpu / fewer->tokens_per_s_per_gpu;
    if (share <= 1 + tolerance) continue;
    const auto text =
        fmt::format("efficiency above 100 %: each of {} does {} of the work that each of {} does",
            counted(cells[i].size, noun), percent_text(share), counted(cells[i - 1].size, noun));
    for (CellAnswer* answer : {cells[i - 1].answer, cells[i].answer})
      add(*answer, DoubtKind::scaling, text);
  }
}

namespace {

LayoutSpeed ranked_of(const AnsweredLayout& layout) {
  return {.value = layout.tokens_per_s_per_gpu,
      .runs = std::ssize(layout.runs),
      .spread = layout.spread,
      .resolution = layout.resolution,
      .sm_clock_mhz = layout.sm_clock_mhz,
      .step_noise = layout.step_noise,
      .others_cpu = layout.others_cpu};
}

/// Cells that have a winner, the fastest winner first.
std::vector<const CellAnswer*> by_winner(const std::vector<CellAnswer>& cells) {
  std::vector<const CellAnswer*> ranked;
  for (const auto& cell : cells) {
    if (cell.winner() != nullptr) ranked.push_back(&cell);
  }
  const auto key = [](const CellAnswer* one) {
    return std::pair(-one->winner()->tokens_per_s_per_gpu, one->winner()->trial);
  };
  std::sort(
      ranked.begin(), ranked.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
  return ranked;
}

/// The median of the cells' own, so that it does not depend on how many layouts an answer has.
Noise noise_of_all(const std::vector<const CellAnswer*>& cells) {
  Noise noise;
  std::vector<double> known;
  for (const CellAnswer* one : cells) {
    if (one->noise_freedom == 0) continue;
    known.push_back(one->noise_of_run);
    noise.freedom += one->noise_freedom;
  }
  if (known.empty()) return noise;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end());
  noise.of_run = *middle;
  return noise;
}

}  // namespace

CellAnswer joined(const std::vector<CellAnswer>& cells) {
  const auto ranked = by_winner(cells);
  CellAnswer answer;
  if (!ranked.empty()) answer = *ranked.front();
  answer.open = answer.measured = 0;
  for (const auto& cell : cells) {
    answer.open += cell.open;
    answer.measured += cell.measured;
  }
  if (ranked.size() < 2) return answer;
  const Noise noise = noise_of_all(ranked);
  answer.noise_of_run = noise.of_run;
  answer.noise_freedom = noise.freedom;
  auto& layouts = answer.layouts;
  const auto first = ranked_of(layouts.front());
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    for (auto layout : ranked[i]->layouts) {
      layout.verdict = compared(first, ranked_of(layout), noise, usual_resolve);
      const auto slower = std::find_if(layouts.begin() + 1, layouts.end(),
          [&](const auto& one) { return one.tokens_per_s_per_gpu < layout.tokens_per_s_per_gpu; });
      layouts.insert(slower, std::move(layout));
    }
  }
  const auto* const before = ranked.front()->runner_up();
  if (before != nullptr && before->trial == layouts[1].trial) return answer;
  // The runner-up has another value of the var.
  answer.by_finals = false;
  answer.settling = {};
  layouts[0].verdict = layouts[1].verdict;
  demote(answer);
  layouts[1].verdict = layouts[0].verdict;
  return answer;
}

namespace {

const Doubt* steps_doubt(const CellAnswer& answer) {
  const auto found = std::find_if(answer.doubts.begin(), answer.doubts.end(),
      [](const Doubt& one) { return one.kind == DoubtKind::steps_vary; });
  return found == answer.doubts.end() ? nullptr : &*found;
}

}  // namespace

std::optional<double> lead_of(const CellAnswer& answer) {
  if (answer.runner_up() == nullptr) return std::nullopt;
  return answer.winner()->verdict.share;
}

std::string certainty_text(const CellAnswer& answer) {
  const auto* winner = answer.winner();
  if (winner == nullptr) return {};
  if (answer.runner_up() == nullptr)
    return fmt::format("the only layout measured ({})", counted(std::ssize(winner->runs), "run"));
  const auto& verdict = winner->verdict;
  const bool few = verdict.difference == Difference::undecided &&
      verdict.open == Open::too_little_data && verdict.share > 0;
  auto text = verdict_text(verdict);
  if (few) text = fmt::format("fastest so far: {}", text);
  if (const auto* steps = steps_doubt(answer); steps != nullptr)
    text += fmt::format("{} {}: may be chance",
        text.find(", but ") == std::string::npos ? ", but" : " and", steps->text);
  if (!answer.settling.text.empty() && verdict.pairs > 0)
    text += fmt::format("; {}", answer.settling.text);
  return text;
}

std::string_view short_form(const CellAnswer& answer) {
  if (answer.winner() == nullptr) return {};
  if (answer.runner_up() == nullptr) return "alone";
  return short_form(answer.winner()->verdict);
}

std::string doubts_text(const CellAnswer& answer) {
  std::string text;
  for (const auto& one : answer.doubts) {
    if (one.kind == DoubtKind::one_run || one.kind == DoubtKind::steps_vary) continue;
    text += (text.empty() ? "" : "; ") + one.text;
  }
  return text;
}

std::optional<HeldFinals> held_finals(
    const FinalCell& cell, const std::vector<FinalsRow>& rows, const FinalsSettings& settings) {
  if (!cell.holds || cell.finalists.size() < 2) return std::nullopt;
  HeldFinals held{finals_of(cell.finalists, cell.runs, settings), settings, {}};
  if (held.finals.verdicts.front().share.pairs == 0) return std::nullopt;
  for (const FinalsRow& row : rows) {
    if (row.final_of != 0 && row.again == 0 && row.tokens_per_s_per_gpu > 0)
      held.runs[row.final_of].push_back(row.id);
  }
  return held;
}

std::map<CellKey, CellAnswer> answers_of(
    const std::vector<FinalsRow>& rows, const FinalsSettings& settings) {
  std::map<CellKey, std::map<std::string, LayoutRuns>> cells;
  for (const FinalsRow& row : rows) {
    if (row.side != SideRun::none || row.again > 0 || row.tokens_per_s_per_gpu <= 0) continue;
    auto& layout = cells[row.cell][row.layout];
    layout.name = row.layout;
    layout.runs.push_back({.trial = row.id,
        .tokens_per_s_per_gpu = row.tokens_per_s_per_gpu,
        .sm_clock_mhz = row.sm_clock_mhz});
  }
  std::map<CellKey, HeldFinals> finals;
  for (const FinalCell& cell : final_cells(rows, 0)) {
    if (auto held = held_finals(cell, rows, settings)) finals.emplace(cell.cell, *std::move(held));
  }
  std::map<CellKey, CellAnswer> answers;
  for (auto& [name, layouts] : cells) {
    CellRuns cell;
    for (auto& [layout, runs] : layouts)
      cell.layouts.push_back(std::move(runs));
    if (const auto held = finals.find(name); held != finals.end()) cell.finals = &held->second;
    answers.emplace(name, answer_of(cell));
  }
  return answers;
}

}  // namespace shardsweep
