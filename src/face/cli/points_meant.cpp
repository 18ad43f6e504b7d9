// SPDX-License-Identifier: Apache-2.0
#include "cli/points_meant.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

namespace shardsweep {
namespace {

using Fits = std::function<bool(const Point&)>;

Result<Fits> condition(const SweepSpec& sweep, std::string_view name, std::string value) {
  for (std::size_t i = 0; i < sweep.vars.size(); ++i) {
    if (sweep.vars[i].name != name) continue;
    return [&values = sweep.vars[i].values, i, value = std::move(value)](const Point& point) {
      return values.at(static_cast<std::size_t>(point.vars.at(i))) == value;
    };
  }
  const AxisInfo* axis = find_axis(name);
  if (axis == nullptr) {
    std::vector<std::string_view> names;
    for (const AxisInfo& one : axes())
      names.push_back(one.name);
    return fault(FaultKind::invalid_input,
                 fmt::format("no axis is called {}{} A point is a number, or such as "
                             "tp=2,micro_batch=4.",
                             in_quotes(name),
                             nearest(name, names).empty() ? "." : did_you_mean(name, names)));
  }
  return [axis, &sweep, value = std::move(value)](const Point& point) {
    if (axis->kind == AxisKind::model)
      return sweep.models.at(static_cast<std::size_t>(point.model)).name == value;
    return axis_text(*axis, axis->get(point)) == value;
  };
}

Result<std::vector<Fits>> conditions(const SweepSpec& sweep, const std::string& text) {
  std::vector<Fits> all;
  for (const std::string_view piece : split(text, ',')) {
    const auto equals = piece.find('=');
    if (equals == std::string_view::npos)
      return fault(FaultKind::invalid_input,
                   fmt::format("{} is no point; write a number, or such as "
                               "tp=2,micro_batch=4",
                               in_quotes(text)));
    SHARDSWEEP_ASSIGN(Fits fits, condition(sweep, trimmed(piece.substr(0, equals)),
                                           std::string(trimmed(piece.substr(equals + 1)))));
    all.push_back(std::move(fits));
  }
  return all;
}

}  // namespace

Result<std::vector<const PlannedTrial*>> points_meant(const Planned& planned,
                                                      const std::string& text) {
  const auto& trials = planned.plan.trials;
  std::vector<const PlannedTrial*> found;
  std::size_t number = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (!text.empty() && read.ec == std::errc() && read.ptr == end) {
    if (number < 1 || number > trials.size())
      return fault(
          FaultKind::invalid_input,
          fmt::format("the plan has trials 1 to {}, and no {}", trials.size(), number));
    return std::vector<const PlannedTrial*>{&trials[number - 1]};
  }
  std::vector<Fits> wanted;
  if (!text.empty()) {
    SHARDSWEEP_ASSIGN(wanted, conditions(planned.sweep, text));
  }
  for (const PlannedTrial& trial : trials) {
    if (std::all_of(wanted.begin(), wanted.end(),
                    [&](const Fits& fits) { return fits(trial.point); }))
      found.push_back(&trial);
  }
  if (found.empty())
    return fault(FaultKind::invalid_input,
                 fmt::format("no trial of the plan has {}; 'shardsweep plan {}' lists them",
                             text.empty() ? "a point" : text, planned.sweep.name));
  return found;
}

}  // namespace shardsweep
