// SPDX-License-Identifier: Apache-2.0
#include "tools/lab/readings.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::size_t kind_of(const Layout& layout, bool fused) {
  const auto zero = static_cast<std::size_t>(layout.zero);
  const auto recompute = static_cast<std::size_t>(layout.recompute);
  const auto sequence_parallel = std::size_t{layout.sequence_parallel ? 1U : 0U};
  return ((zero * recompute_words.size() + recompute) * 2 + sequence_parallel) * 2 +
      (fused ? 0 : 1);
}
static_assert(kind_of({.zero = 3,
                          .recompute = static_cast<Recompute>(recompute_words.size() - 1),
                          .sequence_parallel = true},
                  false) == reading_kinds - 1,
    "each reading has a kind of its own");

std::size_t kind_of(const Reading& reading) {
  return kind_of(reading.point.layout, reading.traits.flash_attention.value_or(true));
}

/// One more axis: each reading becomes one for each value.
template <typename Value, typename Set>
void vary(std::vector<Reading>& readings, const std::vector<Value>& values, const Set& set) {
  std::vector<Reading> all;
  for (const auto& reading : readings) {
    for (const auto& value : values) {
      auto next = reading;
      set(next, value);
      next.kind = kind_of(next);
      all.push_back(std::move(next));
    }
  }
  readings = std::move(all);
}

}  // namespace

std::vector<Reading> readings_of(const SearchPoint& point) {
  const auto& layout = point.point.layout;
  std::vector<Reading> readings{{0, point.point, point.traits}};
  readings.front().kind = kind_of(readings.front());
  if (point.unknown.zero && layout.dp > 1) {
    std::vector<std::int32_t> stages{0, 1};
    if (layout.pp == 1) stages.push_back(3);
    vary(readings, stages, [](Reading& at, std::int32_t stage) { at.point.layout.zero = stage; });
  }
  if (point.unknown.recompute) {
    vary(readings, std::vector<Recompute>{Recompute::none, Recompute::selective, Recompute::full},
        [](Reading& at, Recompute value) { at.point.layout.recompute = value; });
  }
  if (point.unknown.sequence_parallel && layout.tp > 1) {
    vary(readings, std::vector<char>{0, 1},
        [](Reading& at, char value) { at.point.layout.sequence_parallel = value != 0; });
  }
  if (point.unknown.attention) {
    vary(readings, std::vector<char>{1, 0},
        [](Reading& at, char value) { at.traits.flash_attention = value != 0; });
  }
  return readings;
}

namespace {

/// ZeRO stage, recompute, sequence parallel, attention: what kind_of() was made of.
using Habit = std::array<std::size_t, 4>;
Habit habit_of(std::size_t kind) {
  const std::size_t switches = kind / 4;
  return {
      switches / recompute_words.size(), switches % recompute_words.size(), kind / 2 % 2, kind % 2};
}

/// The reading of a point that a trainer with each habit gives, by its place in `kinds`; their
/// number if there is none. A point leaves open only what its readings differ in.
std::array<std::size_t, reading_kinds> given_by(std::span<const std::size_t> kinds) {
  Habit open{};
  for (const auto kind : kinds) {
    for (std::size_t i = 0; i < open.size(); ++i)
      open.at(i) |= std::size_t{habit_of(kind).at(i) != habit_of(kinds.front()).at(i)};
  }
  std::array<std::size_t, reading_kinds> given{};
  for (std::size_t habit = 0; habit < reading_kinds; ++habit) {
    const auto fits = [&](std::size_t kind) {
      for (std::size_t i = 0; i < open.size(); ++i) {
        if (open.at(i) != 0 && habit_of(kind).at(i) != habit_of(habit).at(i)) return false;
      }
      return true;
    };
    given.at(habit) =
        static_cast<std::size_t>(std::find_if(kinds.begin(), kinds.end(), fits) - kinds.begin());
  }
  return given;
}

}  // namespace

// Before anything is measured each counts as much as half a run.
ReadingBelief::ReadingBelief() {
  count_.fill(0.5);
  as_one_.fill(1);
}

std::vector<double> ReadingBelief::weights(std::span<const std::size_t> kinds, bool mixed) const {
  std::vector<double> weights(kinds.size(), 0);
  if (mixed) {
    for (std::size_t i = 0; i < kinds.size(); ++i)
      weights[i] = count_.at(kinds[i]);
  } else {
    const auto given = given_by(kinds);
    for (std::size_t habit = 0; habit < reading_kinds; ++habit) {
      if (given.at(habit) < kinds.size()) weights[given.at(habit)] += as_one_.at(habit);
    }
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (auto& weight : weights)
    weight /= sum;
  return weights;
}

std::vector<double> ReadingBelief::learn(
    std::span<const std::size_t> kinds, std::span<const double> likelihoods, bool mixed) {
  auto likely = weights(kinds, mixed);
  double sum = 0;
  for (std::size_t i = 0; i < likely.size(); ++i)
    sum += likely[i] *= likelihoods[i];
  for (std::size_t i = 0; i < likely.size(); ++i) {
    likely[i] = sum > 0 ? likely[i] / sum : 1 / static_cast<double>(likely.size());
    count_.at(kinds[i]) += likely[i];
  }
  // A run says nothing of a habit that gives none of these readings.
  const double nothing = std::accumulate(likelihoods.begin(), likelihoods.end(), 0.0) /
      static_cast<double>(likelihoods.size());
  const auto given = given_by(kinds);
  double best = 0;
  for (std::size_t habit = 0; habit < reading_kinds; ++habit) {
    const auto reading = given.at(habit);
    if (sum > 0) as_one_.at(habit) *= reading < kinds.size() ? likelihoods[reading] : nothing;
    best = std::max(best, as_one_.at(habit));
  }
  // One odd run settles nothing, and no product vanishes.
  constexpr double least = 1e-6;
  for (auto& one : as_one_)
    one = std::max(one / best, least);
  return likely;
}

std::string signature_of(const SearchPoint& point) {
  std::string signature = point.software;
  for (const auto& axis : axes())
    signature += fmt::format("|{}", axis.get(point.point));
  return signature;
}

std::vector<Alternative> Readings::of(const SearchPoint& point) const {
  std::vector<Alternative> all;
  for (auto& reading : readings_of(point))
    all.push_back({std::move(reading.point), reading.traits});
  return all;
}

std::size_t Readings::add(const SearchPoint& point, bool elsewhere) {
  auto& member = members_.emplace_back();
  for (const auto& reading : readings_of(point))
    member.kinds.push_back(reading.kind);
  if (elsewhere) return members_.size() - 1;
  if (groups_.empty()) software_ = point.software;
  member.group = &groups_[signature_of(point)];
  mixed_ |= ++member.group->points > 1 || point.software != software_;
  return members_.size() - 1;
}

/// A factor for each reading: a sweep has few layouts twice, so that what another point of the
/// group most likely was is not this one's.
std::vector<double> Readings::not_taken(const Member& member) const {
  constexpr double rarely = 0.1;
  std::vector<double> factors(member.kinds.size(), 1);
  if (member.group == nullptr) return factors;
  // If there are more points than readings, so many of them are repeats.
  const auto points = static_cast<double>(member.group->points);
  const double repeats = points - static_cast<double>(factors.size());
  const double again = std::max(rarely, points > 1 ? repeats / (points - 1) : 0);
  for (const auto& likely : member.group->ended) {
    for (std::size_t i = 0; i < factors.size(); ++i)
      factors[i] *= 1 - (1 - again) * likely[i];
  }
  return factors;
}

std::vector<double> Readings::weights(std::size_t number) const {
  const auto& member = members_[number];
  auto weights = kinds_.weights(member.kinds, mixed_);
  const auto factors = not_taken(member);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    sum += weights[i] *= factors[i];
  for (auto& weight : weights)
    weight /= sum;
  return weights;
}

std::vector<double> Readings::learn(std::size_t number, std::vector<double> likelihoods) {
  auto& member = members_[number];
  const auto factors = not_taken(member);
  for (std::size_t i = 0; i < likelihoods.size(); ++i)
    likelihoods[i] *= factors[i];
  auto likely = kinds_.learn(member.kinds, likelihoods, mixed_);
  if (member.group != nullptr) member.group->ended.push_back(likely);
  return likely;
}

std::unique_ptr<Alternatives> make_readings() {
  return std::make_unique<Readings>();
}

}  // namespace shardsweep
