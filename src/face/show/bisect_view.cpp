// SPDX-License-Identifier: Apache-2.0
#include "show/bisect_view.hpp"

#include "text/numbers.hpp"

#include <shardsweep/outcome.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace shardsweep {
namespace {

/// Largest share of the whole change that may stay unexplained without a sentence about it.
constexpr double most_unexplained = 0.25;

/// True if a run ended by its version's own fault, and not by what happened around it.
bool is_own_fault(const std::string& outcome) {
  const auto found = outcome_from(outcome);
  if (!found || *found == Outcome::completed || *found == Outcome::cancelled ||
      *found == Outcome::skipped)
    return false;
  return info(*found).retry != Retry::elsewhere;
}

std::optional<std::size_t> place_of(
    const std::vector<BisectVersion>& versions, const std::string& name) {
  const auto found = std::find_if(
      versions.begin(), versions.end(), [&](const auto& version) { return version.name == name; });
  if (found == versions.end()) return std::nullopt;
  return static_cast<std::size_t>(found - versions.begin());
}

double median_of_steps(std::vector<double> times) {
  if (times.empty()) return 0;
  std::sort(times.begin(), times.end());
  const auto middle = times.size() / 2;
  return times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
}

/// Two runs of one number.
struct BisectPair {
  std::map<std::size_t, const BisectRun*> runs{};  ///< runs by the place of their version
  [[nodiscard]] bool is_whole() const { return runs.size() == 2; }
  [[nodiscard]] BisectStep step() const { return {runs.begin()->first, runs.rbegin()->first}; }
  [[nodiscard]] const BisectRun& good() const { return *runs.begin()->second; }
  [[nodiscard]] const BisectRun& candidate() const { return *runs.rbegin()->second; }
  [[nodiscard]] bool is_measured() const {
    return good().speed > 0 && candidate().speed > 0 && good().allocation == candidate().allocation;
  }
};

void find_broken(const std::vector<BisectVersion>& versions, const std::vector<BisectRun>& runs,
    BisectRecord& record) {
  std::set<std::size_t> run_well;
  for (const BisectRun& run : runs) {
    const auto place = place_of(versions, run.version);
    if (place && (run.speed > 0 || run.open)) run_well.insert(*place);
  }
  for (const BisectRun& run : runs) {
    const auto place = place_of(versions, run.version);
    if (!place || run_well.contains(*place) || !is_own_fault(run.outcome)) continue;
    record.broken.try_emplace(*place, run.cause.empty() ? run.outcome : run.cause);
  }
  record.facts.broken.assign(versions.size(), false);
  for (const auto& [place, why] : record.broken)
    record.facts.broken.at(place) = true;
}

std::string name_at(const std::vector<BisectVersion>& versions, std::size_t place) {
  return versions.at(place).name;
}

std::string change_text(double log_share) {
  return percent_text(std::abs(std::expm1(log_share)));
}

std::string bisect_evidence(const BisectVerdict& verdict) {
  const auto& share = verdict.share;
  if (!share.half_width) return counted(share.pairs, "pair");
  return fmt::format("95 % interval {:.1f} to {:.1f} %, {}",
      100 * std::expm1(share.mean - *share.half_width),
      100 * std::expm1(share.mean + *share.half_width), counted(share.pairs, "pair"));
}

std::string bisect_change(const BisectVerdict& verdict) {
  const double mean = verdict.share.mean;
  return fmt::format("{} by {}", mean < 0 ? "faster" : "slower", change_text(mean));
}

const BisectVerdict* verdict_of_step(const BisectDecision& decision, BisectStep step) {
  const auto found = std::find_if(decision.verdicts.begin(), decision.verdicts.end(),
      [&](const auto& one) { return one.step == step; });
  return found == decision.verdicts.end() ? nullptr : &*found;
}

const BisectVerdict* whole_change(
    const std::vector<BisectVersion>& versions, const BisectDecision& decision) {
  return verdict_of_step(decision, {0, versions.size() - 1});
}

/// Adds the whole change, and a warning if one version does not explain all of it.
void say_share(const std::vector<BisectVersion>& versions, const BisectDecision& decision,
    std::vector<std::string>& lines) {
  const auto* own = verdict_of_step(decision, {decision.first, decision.last});
  const auto* whole = whole_change(versions, decision);
  if (own == nullptr || whole == nullptr || own == whole) return;
  lines.push_back(fmt::format("{} is {} than {} ({}).", name_at(versions, versions.size() - 1),
      bisect_change(*whole), name_at(versions, 0), bisect_evidence(*whole)));
  if (own->share.mean < (1 - most_unexplained) * whole->share.mean)
    lines.push_back(
        fmt::format("{} alone does not explain all of that: another version in between is slower, "
                    "too. A second bisection on each side would find it.",
            name_at(versions, decision.last)));
}

void say_found(const std::vector<BisectVersion>& versions, const BisectDecision& decision,
    std::vector<std::string>& lines) {
  const auto& version = versions.at(decision.last);
  const auto* own = verdict_of_step(decision, {decision.first, decision.last});
  const std::string before = name_at(versions, decision.first);
  if (decision.end == BisectEnd::unconfirmed) {
    lines.push_back(
        fmt::format("{} probably made it slower, but a direct comparison with {}, the version "
                    "before, does not show that: {} ({}).",
            version.name, before,
            own->difference == Difference::same ? "the same" : bisect_change(*own),
            bisect_evidence(*own)));
  } else {
    lines.push_back(fmt::format("{} made it {} than {}, which is before it ({}).", version.name,
        bisect_change(*own), before, bisect_evidence(*own)));
  }
  if (!version.about.empty()) lines.push_back(version.about);
  say_share(versions, decision, lines);
}

void say_range(const std::vector<BisectVersion>& versions, const BisectRecord& record,
    const BisectDecision& decision, std::vector<std::string>& lines) {
  lines.push_back(
      fmt::format("It became slower after {}: because of {}, or of one of the {} before it, which "
                  "cannot be measured:",
          name_at(versions, decision.first), name_at(versions, decision.last),
          decision.last - decision.first - 1));
  for (auto place = decision.first + 1; place < decision.last; ++place) {
    const auto why = record.broken.find(place);
    lines.push_back(fmt::format("{}: {}", name_at(versions, place),
        why == record.broken.end() ? "noise hides whether it is slower" : why->second));
  }
}

std::string broken_text(
    const std::vector<BisectVersion>& versions, const BisectRecord& record, std::size_t place) {
  const auto why = record.broken.find(place);
  return fmt::format("{} cannot be measured: {}. Without this end there is nothing to bisect.",
      name_at(versions, place), why == record.broken.end() ? "" : why->second);
}

}  // namespace

BisectRecord bisect_record(const std::vector<BisectVersion>& versions,
    const std::vector<BisectRun>& runs, const std::map<std::size_t, std::string>& unbuilt) {
  BisectRecord record;
  record.facts.versions = versions.size();
  record.broken = unbuilt;
  find_broken(versions, runs, record);
  std::map<std::int64_t, BisectPair> pairs;
  for (const BisectRun& run : runs) {
    record.open = record.open || run.open;
    record.runs += run.speed > 0 ? 1 : 0;
    if (const auto place = place_of(versions, run.version))
      pairs[run.pair].runs.emplace(*place, &run);
  }
  std::map<BisectStep, std::pair<std::vector<double>, std::vector<double>>> times;
  for (const auto& [number, pair] : pairs) {
    if (!pair.is_whole()) continue;
    const auto step = pair.step();
    record.pairs.emplace_back(number, step);
    if (std::find(record.steps.begin(), record.steps.end(), step) == record.steps.end())
      record.steps.push_back(step);
    auto& measured = record.facts.measured[step];
    if (!pair.is_measured()) {
      ++measured.lost;
      continue;
    }
    measured.slower_by.push_back(std::log(pair.good().speed / pair.candidate().speed));
    times[step].first.push_back(pair.good().step_ms);
    times[step].second.push_back(pair.candidate().step_ms);
  }
  for (auto& [step, both] : times)
    record.step_ms[step] = {median_of_steps(both.first), median_of_steps(both.second)};
  return record;
}

Table bisect_table(const std::vector<BisectVersion>& versions, const BisectRecord& record,
    const BisectDecision& decision) {
  Table table;
  table.columns = {"step", "version", "against", "verdict", "slower_share", "low_share",
      "high_share", "noise_share", "pairs", "lost_pairs", "train_step_ms", "against_train_step_ms",
      "about"};
  std::int64_t number = 0;
  for (const auto step : record.steps) {
    const auto* verdict = verdict_of_step(decision, step);
    if (verdict == nullptr) continue;
    const auto& share = verdict->share;
    const bool is_broken = record.broken.contains(step.candidate);
    const auto bound = [&](double sign) {
      return share.half_width ? Value(std::expm1(share.mean + sign * *share.half_width)) : Value();
    };
    const auto times = record.step_ms.find(step);
    const bool timed = times != record.step_ms.end();
    table.rows.push_back({++number, versions.at(step.candidate).name, versions.at(step.good).name,
        is_broken ? std::string("BROKEN") : std::string(word_of(verdict->difference)),
        share.pairs > 0 ? Value(std::expm1(share.mean)) : Value(), bound(-1), bound(1),
        share.pairs > 1 ? Value(verdict->noise) : Value(), share.pairs,
        record.facts.measured.at(step).lost, timed ? Value(times->second.second) : Value(),
        timed ? Value(times->second.first) : Value(),
        is_broken ? record.broken.at(step.candidate) : versions.at(step.candidate).about});
  }
  return table;
}

std::vector<std::string> bisect_answer(const std::vector<BisectVersion>& versions,
    const BisectRecord& record, const BisectDecision& decision) {
  std::vector<std::string> lines;
  const std::string first = name_at(versions, 0);
  const std::string last = name_at(versions, versions.size() - 1);
  const auto* whole = whole_change(versions, decision);
  switch (decision.end) {
    case BisectEnd::goes_on:
      break;
    case BisectEnd::found:
    case BisectEnd::unconfirmed:
      say_found(versions, decision, lines);
      break;
    case BisectEnd::range:
      say_range(versions, record, decision, lines);
      break;
    case BisectEnd::absent:
      lines.push_back(fmt::format(
          "{} is not slower than {}: the same ({}).", last, first, bisect_evidence(*whole)));
      break;
    case BisectEnd::faster:
      lines.push_back(fmt::format("{} is {} than {} ({}): nothing became slower.", last,
          bisect_change(*whole), first, bisect_evidence(*whole)));
      break;
    case BisectEnd::undecided:
      lines.push_back(fmt::format(
          "Noise hides whether {} is slower than {} ({}). --most-pairs allows more runs.", last,
          first, whole == nullptr ? "no pair was measured" : bisect_evidence(*whole)));
      break;
    case BisectEnd::first_broken:
      lines.push_back(broken_text(versions, record, 0));
      break;
    case BisectEnd::last_broken:
      lines.push_back(broken_text(versions, record, versions.size() - 1));
      break;
  }
  if (decision.end != BisectEnd::goes_on)
    lines.push_back(fmt::format(
        "{} in {}.", counted(record.runs, "run"), counted(std::ssize(record.steps), "step")));
  return lines;
}

std::string bisect_step_text(
    const std::vector<BisectVersion>& versions, const BisectVerdict& verdict) {
  const std::string name = name_at(versions, verdict.step.candidate);
  const std::string against = name_at(versions, verdict.step.good);
  switch (verdict.difference) {
    case Difference::slower:
    case Difference::faster:
      return fmt::format("{} is {} than {} ({}).", name, bisect_change(verdict), against,
          bisect_evidence(verdict));
    case Difference::same:
      return fmt::format("{} is not slower than {} ({}).", name, against, bisect_evidence(verdict));
    case Difference::undecided:
      break;
  }
  return fmt::format("{} beside {} is open ({}).", name, against, bisect_evidence(verdict));
}

}  // namespace shardsweep
