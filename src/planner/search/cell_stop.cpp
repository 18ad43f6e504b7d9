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
  const double works = point.fits * runs.chance_to_run(point);
  if (!runs.best()) return works;
  // The best may be slower than its log says.
  const double rounded = runs.leader() ? std::min(runs.leader()->resolution, 0.5) : 0;
  const double needed = *runs.best() + std::log1p(-rounded) + std::log1p(until_.regret);
  return works * chance_above(point.speeds, needed);
}

/// That no point which waits is faster than the best by `regret`.
double CellStop::chance_of_none(Points points, bool with_spared) const {
  double none = 1;
  for (const auto& point : points) {
    const bool counts =
        point.status == Status::waiting || (with_spared && point.status == Status::spared);
    if (counts) none *= 1 - point.better;
  }
  return none;
}

Standing CellStop::standing_of(const Candidate& point, const OwnRuns& runs) const {
  switch (point.status) {
    case Status::tried:
      return Standing::tried;
    case Status::gone:
      return Standing::gone;
    case Status::started:
      return Standing::running;
    case Status::waiting:
    case Status::spared:
      break;
  }
  // Of its error that much has to be explained by measurements before its bound is one.
  constexpr double explained = 0.5;
  constexpr double likely = 0.5;
  const double negligible = (1 - until_.confidence) / 4;
  const bool is_bounded = point.known >= explained && point.better < negligible;
  return point.fits * runs.chance_to_run(point) < likely || is_bounded ? Standing::bounded
                                                                       : Standing::open;
}

const std::vector<Uncovered>& CellStop::missing(Points points, const OwnRuns& runs) {
  if (missing_) return *missing_;
  std::vector<StructuredPoint> structured;
  structured.reserve(points.size());
  for (const auto& point : points)
    structured.push_back({point.site().structure, standing_of(point, runs)});
  missing_ = uncovered(structured);
  return *missing_;
}

std::span<const Uncovered> CellStop::only_missing(Points points, const OwnRuns& runs) {
  if (until_.regret <= 0 || !runs.best()) return {};
  if (chance_of_none(points, false) < until_.confidence) return {};
  return missing(points, runs);
}

bool CellStop::covers(
    const Candidate& point, const OwnRuns& runs, std::span<const Uncovered> missing) const {
  return standing_of(point, runs) == Standing::open && would_cover(point.site().structure, missing);
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

/// A run that goes on may beat the best: it is part of no claim about what is untested.
std::string still_running(CellStop::Points points) {
  const auto running = std::count_if(points.begin(), points.end(),
      [](const Candidate& point) { return point.status == Status::started; });
  if (running == 0) return "";
  return fmt::format(" Not yet measured: {} of this cell.", counted(running, "run"));
}

}  // namespace

std::optional<std::string> CellStop::nothing_better(Points points, const OwnRuns& runs) {
  const double none = chance_of_none(points, false);
  if (until_.regret <= 0 || none < until_.confidence) return std::nullopt;
  // Rounded down: 99.9 % is not certainty.
  const double sure = std::min(std::floor(100 * none), 99.0);
  if (!runs.best())
    return fmt::format(
        "Search stopped: {:.0f} % sure that nothing untested fits into memory.", sure);
  if (!missing(points, runs).empty()) return std::nullopt;
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
