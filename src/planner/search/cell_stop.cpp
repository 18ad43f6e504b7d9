// SPDX-License-Identifier: Apache-2.0
#include "search/cell_stop.hpp"

#include "search/value.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardsweep {

using Status = Candidate::Status;

double CellStop::chance_of_better(const Candidate& point, const OwnRuns& runs) const {
  if (!runs.best()) return point.fits;
  // The best may be slower than its log says.
  const double rounded = runs.leader() ? std::min(runs.leader()->resolution, 0.5) : 0;
  const double needed = *runs.best() + std::log1p(-rounded) + std::log1p(until_.regret);
  return point.fits * chance_above(point.speeds, needed);
}

/// Chance that no waiting point beats the best by until.regret; `with_spared`: nor a spared one.
double CellStop::chance_of_none(Points points, bool with_spared) const {
  double none = 1;
  for (const auto& point : points) {
    const bool counts =
        point.status == Status::waiting || (with_spared && point.status == Status::spared);
    if (counts) none *= 1 - point.better;
  }
  return none;
}

std::optional<std::string> CellStop::limit_reached(const OwnRuns& runs, double gpu_hours) const {
  if (until_.runs > 0 && runs.started() >= until_.runs)
    return fmt::format("Search stopped: this cell has used its {} (search.until.runs).",
        counted(until_.runs, "run"));
  if (until_.gpu_hours > 0 && gpu_hours >= until_.gpu_hours)
    return fmt::format(
        "Search stopped: this cell has used {:.2f} of its {:g} GPU-hours "
        "(search.until.gpu_hours).",
        gpu_hours, until_.gpu_hours);
  return std::nullopt;
}

namespace {

/// A point that is still running may beat the best, so it is no part of what is said about untested
/// points.
std::string still_running(CellStop::Points points) {
  const auto running = std::count_if(points.begin(), points.end(),
      [](const Candidate& point) { return point.status == Status::started; });
  if (running == 0) return "";
  return fmt::format(" Not yet measured: {} of this cell.", counted(running, "run"));
}

}  // namespace

std::optional<std::string> CellStop::nothing_better(Points points, const OwnRuns& runs) const {
  const double none = chance_of_none(points, false);
  if (until_.regret <= 0 || none < until_.confidence) return std::nullopt;
  // Round down, because 99.9 % is no certainty.
  const double sure = std::min(std::floor(100 * none), 99.0);
  if (!runs.best())
    return fmt::format(
        "Search stopped: {:.0f} % sure that nothing untested fits into memory.", sure);
  const auto& leader = runs.leader();
  return fmt::format(
      "Search stopped: {:.0f} % sure that nothing untested beats {} tokens/s per GPU by {:g} "
      "%{}.{}",
      sure, grouped(std::llround(std::exp(*runs.best()))), 100 * until_.regret,
      leader && leader->resolution > 0
          ? fmt::format(" (its log rounds {} away)", percent_text(leader->resolution))
          : "",
      still_running(points));
}

bool CellStop::is_contradicted(Points points) const {
  constexpr double as_large_again = 1.5;
  return 1 - chance_of_none(points, true) > as_large_again * (1 - until_.confidence);
}

}  // namespace shardsweep
