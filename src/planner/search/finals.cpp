// SPDX-License-Identifier: Apache-2.0
// Decision: Finalists run in rounds in one allocation: chance is 0.3 % there and 2 % between
// allocations. The interval is a confidence sequence (t test with a normal mixture; Robbins,
// Lai), so that one may look after each pair. In simulation 1 % takes 6 pairs.
#include "search/finals.hpp"

#include "text/median.hpp"
#include "text/numbers.hpp"

#include <shardsweep/sweep.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

constexpr double cell_error = 0.05;  // error over all sample sizes and all finalists of a cell

/// Precision of the normal mixture over effect sizes, in standard deviations: 1 / 3^2. Differences
/// of three are typical here: 1 % beside 0.3 %. A smaller precision finds large differences sooner,
/// and small ones later.
constexpr double mixture = 1.0 / 9;

using Rounds = std::map<std::int32_t, std::vector<const FinalRun*>>;

const FinalRun* run_of(const std::vector<const FinalRun*>& round, TrialId layout) {
  const auto found = std::find_if(
      round.begin(), round.end(), [&](const FinalRun* run) { return run->layout == layout; });
  return found == round.end() ? nullptr : *found;
}

struct Pairs {
  std::vector<double> time;    ///< ln(a / b) of the speeds
  std::vector<double> cycles;  ///< ln(a / b) of tokens per clock cycle
  std::vector<double> clocks;  ///< ln(a / b) of the clocks
  std::set<AllocationId> allocations;
  std::int64_t thrown_away = 0;
};

void add_pair(Pairs& pairs, const FinalRun& a, const FinalRun& b) {
  pairs.allocations.insert(a.allocation);
  pairs.time.push_back(std::log(a.speed / b.speed));
  if (a.sm_clock_mhz <= 0 || b.sm_clock_mhz <= 0) return;
  pairs.clocks.push_back(std::log(a.sm_clock_mhz / b.sm_clock_mhz));
  pairs.cycles.push_back(pairs.time.back() - pairs.clocks.back());
}

/// Two runs of one round, measured in the same allocation. Any other run has no partner.
Pairs pairs_of(const Rounds& rounds, TrialId first, TrialId second) {
  Pairs pairs;
  for (const auto& [number, round] : rounds) {
    const FinalRun* a = run_of(round, first);
    const FinalRun* b = run_of(round, second);
    const bool measured_a = a != nullptr && a->speed > 0;
    const bool measured_b = b != nullptr && b->speed > 0;
    if (measured_a && measured_b && a->allocation == b->allocation) {
      add_pair(pairs, *a, *b);
    } else if (a != nullptr && b != nullptr && !a->open && !b->open) {
      pairs.thrown_away += (measured_a ? 1 : 0) + (measured_b ? 1 : 0);
    }
  }
  return pairs;
}

/// Count of further pairs after which the interval excludes zero, or lies within `resolve`, if mean
/// and spread stay as they are. 0: too many.
std::int64_t pairs_needed(const Interval& now, double s, double alpha, double resolve) {
  constexpr std::int64_t sensible = 1000;
  const double margin = std::max(std::abs(now.mean), resolve - std::abs(now.mean));
  for (std::int64_t n = now.pairs + 1; n <= sensible; ++n) {
    const auto half = half_width(n, s, alpha);
    if (half && *half < margin) return n - now.pairs;
  }
  return 0;
}

double deviation_of(std::span<const double> sample) {
  if (sample.size() < 2) return 0;
  const auto n = static_cast<double>(sample.size());
  const double mean = std::accumulate(sample.begin(), sample.end(), 0.0) / n;
  double squares = 0;
  for (const double value : sample)
    squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (n - 1));
}

/// Reason that held the layout's clock back in more than half of its runs; empty: none.
std::string held_back_by(const Rounds& rounds, TrialId layout) {
  std::map<std::string, std::size_t> counts;
  std::size_t measured = 0;
  for (const auto& [number, round] : rounds) {
    const FinalRun* run = run_of(round, layout);
    if (run == nullptr || run->speed <= 0) continue;
    ++measured;
    ++counts[run->throttled];
  }
  for (const auto& [words, count] : counts) {
    if (2 * count > measured) return words;
  }
  return "";
}

FinalVerdict verdict_of(
    const Rounds& rounds, TrialId winner, TrialId other, double alpha, double resolve) {
  const Pairs pairs = pairs_of(rounds, winner, other);
  FinalVerdict verdict{.winner = winner, .other = other};
  verdict.share = interval_of(pairs.time, alpha);
  verdict.thrown_away = pairs.thrown_away;
  verdict.allocations = static_cast<std::int64_t>(pairs.allocations.size());
  if (!pairs.clocks.empty()) verdict.clock_ratio = std::exp(interval_of(pairs.clocks, 1).mean);
  const bool clocked = pairs.cycles.size() == pairs.time.size() && !pairs.time.empty();
  const bool in_cycles = !clocked || interval_of(pairs.cycles, alpha).above(0);
  if (verdict.share.above(0)) {
    // Different clocks say more about a GPU's power and cooling than about the layout.
    constexpr double most_of_it = 0.5;
    const double of_clocks = clocked ? interval_of(pairs.clocks, alpha).mean : 0;
    verdict.by_clock = !in_cycles && of_clocks > most_of_it * verdict.share.mean;
    if (verdict.by_clock) verdict.held_back = held_back_by(rounds, other);
    if (in_cycles) verdict.difference = Difference::faster;
  } else if (verdict.share.half_width && verdict.share.mean + *verdict.share.half_width < 0) {
    verdict.difference = Difference::slower;
  } else if (verdict.share.within(resolve)) {
    verdict.difference = Difference::same;
  }
  if (verdict.difference == Difference::undecided && !verdict.by_clock) {
    // If clocks vary by chance, cycles take more pairs to tell than times.
    const auto& open = verdict.share.above(0) ? pairs.cycles : pairs.time;
    verdict.more_pairs = pairs_needed(interval_of(open, alpha), deviation_of(open), alpha, resolve);
  }
  return verdict;
}

double median_speed(const Rounds& rounds, TrialId layout) {
  std::vector<double> speeds;
  for (const auto& [number, round] : rounds) {
    const FinalRun* run = run_of(round, layout);
    if (run != nullptr && run->speed > 0) speeds.push_back(run->speed);
  }
  return median_of(std::move(speeds), Even::lower);
}

/// How many of the others a finalist beats in the mean of their pairs.
std::int64_t wins_of(const std::vector<TrialId>& finalists, const Rounds& rounds, TrialId one) {
  return std::count_if(finalists.begin(), finalists.end(), [&](TrialId other) {
    const Pairs pairs = pairs_of(rounds, one, other);
    return other != one && std::accumulate(pairs.time.begin(), pairs.time.end(), 0.0) > 0;
  });
}

/// Finalists by wins, then by median speed; those never measured come last.
std::vector<TrialId> ranked(const std::vector<TrialId>& finalists, const Rounds& rounds) {
  using Mark = std::pair<std::int64_t, double>;
  std::map<TrialId, std::pair<bool, Mark>> marks;
  for (const TrialId one : finalists) {
    const double speed = median_speed(rounds, one);
    marks[one] = {speed > 0, {wins_of(finalists, rounds, one), speed}};
  }
  std::vector<TrialId> ranking = finalists;
  std::stable_sort(
      ranking.begin(), ranking.end(), [&](TrialId a, TrialId b) { return marks[a] > marks[b]; });
  return ranking;
}

bool never_measured(const Rounds& rounds, TrialId layout) {
  constexpr std::int64_t tries = 3;
  const auto tried = std::count_if(rounds.begin(), rounds.end(),
      [&](const auto& round) { return run_of(round.second, layout) != nullptr; });
  return median_speed(rounds, layout) == 0 && tried >= tries;
}

void plan_next(Finals& finals, const Rounds& rounds, const FinalsSettings& settings) {
  const auto done = static_cast<std::int32_t>(rounds.size());
  const std::int32_t most = settings.rounds > 0 ? settings.rounds : most_rounds;
  if (done >= most) return;
  std::vector<TrialId> left;
  bool resolved = done > 0;
  for (const FinalVerdict& verdict : finals.verdicts) {
    const bool lost = verdict.difference == Difference::faster;
    if (never_measured(rounds, verdict.other) || (lost && settings.rounds == 0)) continue;
    left.push_back(verdict.other);
    const bool decided = verdict.difference != Difference::undecided || verdict.by_clock;
    resolved = resolved && decided && settings.rounds == 0;
  }
  if (left.empty() || resolved) return;
  // Sorted by trial, so that rounds differ by direction alone.
  left.push_back(finals.ranking.front());
  std::sort(left.begin(), left.end());
  if (done % 2 == 1) std::reverse(left.begin(), left.end());
  finals.next = std::move(left);
}

bool any_run(const std::vector<FinalRun>& runs, bool FinalRun::*is) {
  return std::any_of(runs.begin(), runs.end(), [&](const FinalRun& run) { return run.*is; });
}

/// Finals on one set of nodes. `ranking` empty: these runs rank the finalists.
Finals finals_on(const std::vector<TrialId>& finalists, const std::vector<TrialId>& ranking,
    const std::vector<FinalRun>& runs, const FinalsSettings& settings) {
  Finals finals;
  Rounds rounds;
  for (const auto& run : runs)
    rounds[run.round].push_back(&run);
  finals.ranking = ranking.empty() ? ranked(finalists, rounds) : ranking;
  // The winner is not known beforehand: any two finalists may turn out to be the first two.
  const std::size_t twosomes = finalists.size() * (finalists.size() - 1) / 2;
  const double alpha = cell_error / static_cast<double>(twosomes);
  for (auto other = finals.ranking.begin() + 1; other != finals.ranking.end(); ++other)
    finals.verdicts.push_back(
        verdict_of(rounds, finals.ranking.front(), *other, alpha, settings.resolve));
  finals.waits = any_run(runs, &FinalRun::open);
  if (!finals.waits && !any_run(runs, &FinalRun::cancelled)) plan_next(finals, rounds, settings);
  return finals;
}

std::vector<FinalRun> runs_on(const std::vector<FinalRun>& runs, std::int32_t set) {
  std::vector<FinalRun> found;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(found),
      [&](const FinalRun& run) { return run.set == set; });
  return found;
}

/// A difference that shows only on the first set of nodes may come from the nodes.
void join_confirmation(FinalVerdict& verdict, const FinalVerdict& other) {
  verdict.confirmations.push_back({other.difference, other.share, other.by_clock});
  if (other.difference == verdict.on_first) return;
  verdict.difference = Difference::undecided;
  if (verdict.more_pairs == 0) verdict.more_pairs = other.more_pairs;
}

/// The first two on further sets of nodes, one set after the other.
void confirm(Finals& finals, const std::vector<FinalRun>& runs, const FinalsSettings& settings) {
  FinalVerdict& verdict = finals.verdicts.front();
  verdict.on_first = verdict.difference;
  const bool is_open = finals.waits || !finals.next.empty();
  if (settings.node_sets < 2 || verdict.difference == Difference::undecided) return;
  const std::vector<TrialId> two{finals.ranking[0], finals.ranking[1]};
  for (std::int32_t set = 2; set <= settings.node_sets; ++set) {
    const auto own = runs_on(runs, set);
    const auto skipped = std::find_if(
        own.begin(), own.end(), [](const FinalRun& run) { return !run.skipped.empty(); });
    if (skipped != own.end()) {
      verdict.not_confirmed = skipped->skipped;
      return;
    }
    Finals further;
    if (!is_open) further = finals_on(two, two, own, settings);
    const bool over = !is_open && !further.waits && further.next.empty();
    if (!further.verdicts.empty() && further.verdicts.front().share.pairs > 0 && over)
      join_confirmation(verdict, further.verdicts.front());
    if (over && static_cast<std::int32_t>(verdict.confirmations.size()) + 1 < set)
      verdict.not_confirmed = "no pair was measured.";
    if (over && verdict.difference != Difference::undecided && verdict.not_confirmed.empty())
      continue;
    if (over) return;
    verdict.difference = Difference::undecided;
    verdict.to_be_confirmed = true;
    finals.waits = finals.waits || further.waits;
    if (finals.next.empty()) {
      finals.next = std::move(further.next);
      finals.next_set = set;
    }
    return;
  }
}

std::string share_text(double log_ratio) {
  const double share = std::expm1(log_ratio);
  return (share < 0 ? "-" : "") + percent_text(std::abs(share));
}

std::string evidence_text(const FinalVerdict& verdict) {
  const Interval& share = verdict.share;
  std::string text = share.half_width
      ? fmt::format("95 % interval of the difference: {} to {}, ",
            share_text(share.mean - *share.half_width), share_text(share.mean + *share.half_width))
      : "";
  text += counted(share.pairs, "pair");
  if (verdict.allocations > 1) text += fmt::format(" in {} allocations", verdict.allocations);
  if (verdict.thrown_away > 0)
    text += fmt::format(", {} without a partner", counted(verdict.thrown_away, "run"));
  return text;
}

}  // namespace

std::optional<double> half_width(std::int64_t n, double s, double alpha) {
  if (n < 2) return std::nullopt;
  const auto count = static_cast<double>(n);
  const double ratio = mixture / (count + mixture);
  const double bound = std::pow(1 / (alpha * std::sqrt(ratio)), 2 / count);
  if (bound * ratio >= 1) return std::nullopt;
  const double t_squared = (bound - 1) / (1 - bound * ratio) * (count - 1);
  return std::sqrt(t_squared / count) * s;
}

Interval interval_of(std::span<const double> sample, double alpha) {
  Interval interval;
  interval.pairs = static_cast<std::int64_t>(sample.size());
  if (sample.empty()) return interval;
  interval.mean =
      std::accumulate(sample.begin(), sample.end(), 0.0) / static_cast<double>(sample.size());
  interval.half_width = half_width(interval.pairs, deviation_of(sample), alpha);
  return interval;
}

Finals finals_of(const std::vector<TrialId>& finalists, const std::vector<FinalRun>& runs,
    const FinalsSettings& settings) {
  if (finalists.size() < 2) return {};
  Finals finals = finals_on(finalists, {}, runs_on(runs, 1), settings);
  confirm(finals, runs, settings);
  // Numbers go on over all sets: a round is named by its own.
  const auto last = std::max_element(runs.begin(), runs.end(),
      [](const FinalRun& a, const FinalRun& b) { return a.round < b.round; });
  if (!finals.next.empty()) finals.next_round = (last == runs.end() ? 0 : last->round) + 1;
  return finals;
}

namespace {

std::string word_text(Difference difference, const Interval& share, double resolve) {
  switch (difference) {
    case Difference::faster:
      return fmt::format("FASTER by {}", share_text(share.mean));
    case Difference::slower:
      return fmt::format("SLOWER by {}", share_text(-share.mean));
    case Difference::same:
      return fmt::format("SAME within {}", percent_text(resolve));
    case Difference::undecided:
      break;
  }
  return fmt::format("not told apart ({})", share_text(share.mean));
}

/// "on other nodes FASTER by 1.1 %, 4 pairs".
std::string confirmations_text(const FinalVerdict& verdict, double resolve) {
  std::string text;
  for (const Confirmation& one : verdict.confirmations)
    text += fmt::format("; on other nodes {}{}, {}", word_text(one.difference, one.share, resolve),
        one.by_clock ? " only because of the SM clock" : "", counted(one.share.pairs, "pair"));
  if (verdict.to_be_confirmed) text += "; to be confirmed on other nodes";
  if (!verdict.not_confirmed.empty())
    text += fmt::format("; not confirmed on other nodes: {}", verdict.not_confirmed);
  return text;
}

}  // namespace

std::string final_text(const FinalVerdict& verdict, const FinalsSettings& settings) {
  const std::string evidence = evidence_text(verdict);
  if (verdict.by_clock)
    return fmt::format(
        "UNDECIDED: faster by {}, but its SM clock was {:.3f} times the other's{}: "
        "no difference in clock cycles ({})",
        share_text(verdict.share.mean), verdict.clock_ratio,
        verdict.held_back.empty() ? "" : fmt::format(" (held back: {})", verdict.held_back),
        evidence);
  const std::string others = confirmations_text(verdict, settings.resolve);
  if (verdict.difference != Difference::undecided)
    return fmt::format("{} ({}{})", word_text(verdict.difference, verdict.share, settings.resolve),
        evidence, others);
  if (verdict.on_first != Difference::undecided)
    return fmt::format("UNDECIDED: {} ({}{})",
        word_text(verdict.on_first, verdict.share, settings.resolve), evidence, others);
  if (verdict.more_pairs == 0) return fmt::format("UNDECIDED: {}", evidence);
  return fmt::format("UNDECIDED: {}; {}", evidence,
      decided_by(verdict.more_pairs,
          verdict.more_pairs == 1 ? "more pair of final runs" : "more pairs of final runs"));
}

namespace {

struct CellFinals {
  std::vector<Contender> layouts;
  std::vector<FinalRun> runs;
};

FinalRun run_of(const FinalsRow& row) {
  return {.layout = row.final_of,
      .round = row.final_round,
      .allocation = row.allocation,
      .speed = row.open ? 0 : row.tokens_per_s_per_gpu,
      .sm_clock_mhz = row.sm_clock_mhz,
      .throttled = row.throttled,
      .open = row.open,
      .cancelled = row.cancelled,
      .set = std::max(row.final_set, 1),
      .skipped = row.skipped};
}

FinalCell cell_of(const CellKey& key, CellFinals gathered, std::size_t most) {
  std::set<TrialId> have_run;
  for (const FinalRun& run : gathered.runs)
    have_run.insert(run.layout);
  std::sort(
      gathered.layouts.begin(), gathered.layouts.end(), [](const Contender& a, const Contender& b) {
        return std::pair(-a.speed, a.layout) < std::pair(-b.speed, b.layout);
      });
  const std::size_t count = finalists_among(gathered.layouts, most);
  FinalCell cell{.cell = key};
  std::size_t missed = 0;
  for (const auto& [speed, spread, layout] : gathered.layouts) {
    const bool chosen = most > 0 ? cell.finalists.size() < count : have_run.contains(layout);
    if (!chosen) {
      ++missed;
      continue;
    }
    cell.finalists.push_back(layout);
    cell.holds = missed == 0;
  }
  std::copy_if(gathered.runs.begin(), gathered.runs.end(), std::back_inserter(cell.runs),
      [&](const FinalRun& run) {
        return std::find(cell.finalists.begin(), cell.finalists.end(), run.layout) !=
            cell.finalists.end();
      });
  return cell;
}

}  // namespace

std::size_t finalists_among(const std::vector<Contender>& contenders, std::size_t most) {
  std::size_t count = 0;
  while (count < std::min(most, contenders.size())) {
    const Contender& first = contenders.front();
    const Contender& one = contenders[count];
    const double chance = std::max({Measure::slower_at_most, first.step_spread, one.step_spread});
    if (one.speed < (1 - chance) * first.speed) break;
    ++count;
  }
  return count;
}

std::vector<FinalCell> final_cells(const std::vector<FinalsRow>& rows, std::size_t most) {
  std::map<CellKey, CellFinals> cells;
  for (const FinalsRow& row : rows) {
    if (row.side != SideRun::none || row.again > 0) continue;
    CellFinals& cell = cells[row.cell];
    if (row.final_of != 0) {
      cell.runs.push_back(run_of(row));
    } else if (row.tokens_per_s_per_gpu > 0) {
      cell.layouts.push_back({row.tokens_per_s_per_gpu, row.step_spread, row.id});
    }
  }
  std::vector<FinalCell> all;
  all.reserve(cells.size());
  for (auto& [key, gathered] : cells)
    all.push_back(cell_of(key, std::move(gathered), most));
  return all;
}

std::string decided_by(std::int64_t count, std::string_view of_what) {
  if (count > most_worth_starting) return "cannot be decided at this noise";
  return fmt::format("about {} {} would decide it", count, of_what);
}

}  // namespace shardsweep
