// SPDX-License-Identifier: Apache-2.0
#include "store/answers.hpp"

#include "store/row_sql.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

namespace shardsweep::sqlite {
namespace {

/// So many of those that ran once are kept, until the layouts among them have to be told apart.
constexpr std::size_t kept_alone = 64;

/// Layouts of an answer that are read in detail, beside finalists: steps, clocks, controls, cost.
constexpr std::size_t in_detail_at_most = 24;

// Trials of a lane are of one layout if these are equal, too.
constexpr std::array<std::string_view, 2> not_in_lane_key{"micro_batch", "grad_accum"};
static_assert(std::all_of(axis_table.begin(), axis_table.end(), [](const AxisInfo& axis) {
  const auto* found = std::find(not_in_lane_key.begin(), not_in_lane_key.end(), axis.name);
  return axis.in_lane_key == (found == not_in_lane_key.end());
}));

bool slower(const Run& a, const Run& b) {
  return std::pair(a.tokens_per_s_per_gpu, a.trial) < std::pair(b.tokens_per_s_per_gpu, b.trial);
}

/// The faster run first. Ties go to the older trial, in whatever order runs are read.
bool before(const Run& a, const Run& b) {
  return std::pair(-a.tokens_per_s_per_gpu, a.trial) < std::pair(-b.tokens_per_s_per_gpu, b.trial);
}

bool is_finalist(const std::vector<Run>& runs, const FinalStanding* standing) {
  return standing != nullptr && std::any_of(runs.begin(), runs.end(), [&](const Run& run) {
    return standing->measured.contains(run.trial);
  });
}

}  // namespace

LayoutNames::LayoutNames(Database& database, const std::string& label)
    : key_(database,
          fmt::format("SELECT {} FROM trials WHERE id = ?",
              layout_and_settings_sql("", "counted_attempt"))),
      name_(database, fmt::format("SELECT {} FROM all_results WHERE trial_id = ?", label)) {}

std::string LayoutNames::key(TrialId trial) {
  auto row = key_.use(trial);
  return row.next() ? row.text(0) : std::string();
}

std::string LayoutNames::name(TrialId trial) {
  auto row = name_.use(trial);
  return row.next() ? row.text(0) : std::string();
}

void RunsOfCell::count(const Run& run) {
  ++measured_;
  fastest_ = std::max(fastest_, run.tokens_per_s_per_gpu);
}

void RunsOfCell::take_contaminated(const Run& run) {
  if (!contaminated_ || before(run, *contaminated_)) contaminated_ = run;
}

void RunsOfCell::add_to(LeftOutRuns& left_out) const {
  left_out.runs += measured_;
  left_out.tokens_per_s_per_gpu = std::max(left_out.tokens_per_s_per_gpu, fastest_);
}

void RunsOfCell::take(const Run& run, std::size_t most, LayoutNames& names) {
  count(run);
  if (slowest_kept_ && run.tokens_per_s_per_gpu < *slowest_kept_) return;
  alone_.push_back(run);
  if (most > 0 && alone_.size() >= 2 * std::max(kept_alone, most)) forget(most, names);
}

void RunsOfCell::take(const std::string& group, const Run& run) {
  count(run);
  repeated_[group].push_back(run);
}

/// A layout that several sweeps measured takes one place.
void RunsOfCell::forget(std::size_t most, LayoutNames& names) {
  std::sort(alone_.begin(), alone_.end(), before);
  std::unordered_set<std::string> seen;
  std::vector<Run> kept;
  for (const Run& run : alone_) {
    if (kept.size() == std::max(kept_alone, most)) break;
    if (seen.insert(names.key(run.trial)).second) kept.push_back(run);
  }
  // `kept` stays short if many sweeps measured the same few layouts. Then a slower run may be of a
  // new one.
  if (kept.size() == std::max(kept_alone, most)) slowest_kept_ = kept.back().tokens_per_s_per_gpu;
  alone_ = std::move(kept);
}

AnswerMaker::AnswerMaker(Database& database, const std::string& label, std::size_t most)
    : names_(database, label),
      standings_(database),
      detail_(database,
          "SELECT ifnull(train_step_ms_spread, 0), ifnull(steps, 0), ifnull(resolution, 0), "
          "ifnull(sm_clock_mhz, 0), iif(started_at > 0, (ended_at - started_at) * gpus / 3600e6, "
          "0), ifnull(control_ratio, 0), ifnull(network_ratio, 0), ifnull(others_cpu, 0), "
          "ifnull((SELECT also FROM attempts WHERE id = attempt_id), '') FROM all_results WHERE "
          "trial_id = ?"),
      elsewhere_(database,
          "SELECT s.name, o.counted_speed FROM trials AS t JOIN sweeps AS s ON s.id <> t.sweep "
          "JOIN trials AS o ON o.sweep = s.id AND o.identity = t.identity WHERE t.id = ? AND "
          "o.counted_speed IS NOT NULL AND o.counted_mark IS NULL AND o.hidden = 0 ORDER BY s.id"),
      ranked_twin_(database,
          fmt::format("SELECT EXISTS (SELECT 1 FROM trials AS t JOIN trials AS o ON o.sweep = "
                      "t.sweep AND o.lane = t.lane AND {} = {} AND o.again = t.again WHERE t.id = "
                      "? AND o.counted_speed IS NOT NULL AND o.counted_mark IS NULL)",
              layout_key_sql("o."), layout_key_sql("t."))),
      most_(most),
      several_sweeps_(database.integer("SELECT count(*) FROM sweeps") > 1) {}

/// The fastest first.
std::vector<AnswerMaker::Entry> AnswerMaker::entries_of(const RunsOfCell& runs) {
  std::vector<Entry> entries;
  for (const Run& run : runs.alone_)
    entries.push_back({{run}});
  for (const auto& [group, repeats] : runs.repeated_) {
    entries.push_back({repeats});
    std::sort(entries.back().runs.begin(), entries.back().runs.end(), slower);
  }
  std::sort(entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return before(a.median(), b.median()); });
  return entries;
}

/// A layout that several sweeps measured is there by its finals, else by its fastest sweep. No
/// layout is the runner-up of itself.
std::vector<AnswerMaker::Entry> AnswerMaker::distinct(
    std::vector<Entry> entries, const FinalStanding* standing) {
  std::vector<Entry> found;
  std::unordered_map<std::string, std::size_t> places;
  for (Entry& entry : entries) {
    const bool finalist = is_finalist(entry.runs, standing);
    if (most_ > 0 && found.size() >= most_ && !finalist) continue;
    const auto [place, added] = places.try_emplace(names_.key(entry.median().trial), found.size());
    if (added) {
      found.push_back(std::move(entry));
    } else if (finalist && !is_finalist(found[place->second].runs, standing)) {
      found[place->second] = std::move(entry);
    }
  }
  return found;
}

/// Noise by all layouts that ran several times: no entry has been dropped yet.
Noise AnswerMaker::noise_of(const std::vector<Entry>& entries) {
  std::vector<LayoutSpeed> repeated;
  for (const Entry& entry : entries) {
    if (entry.runs.size() < 2) continue;
    const double median = entry.median().tokens_per_s_per_gpu;
    const double range =
        entry.runs.back().tokens_per_s_per_gpu - entry.runs.front().tokens_per_s_per_gpu;
    repeated.push_back({.value = median,
        .runs = std::ssize(entry.runs),
        .spread = median > 0 ? std::optional(range / median) : std::nullopt});
  }
  return common_noise(repeated);
}

MeasuredRun AnswerMaker::measured(const Run& run) {
  MeasuredRun one{.trial = run.trial, .tokens_per_s_per_gpu = run.tokens_per_s_per_gpu};
  auto row = detail_.use(run.trial);
  if (!row.next()) return one;
  read_fields(row, 0, one.step_spread, one.steps, one.resolution, one.sm_clock_mhz, one.gpu_hours,
      one.control_ratio, one.network_ratio, one.others_cpu, one.also);
  return one;
}

LayoutRuns AnswerMaker::measured(const Entry& entry, bool in_detail) {
  LayoutRuns layout{.name = names_.name(entry.median().trial), .runs = {}};
  for (const Run& run : entry.runs)
    layout.runs.push_back(in_detail
            ? measured(run)
            : MeasuredRun{.trial = run.trial, .tokens_per_s_per_gpu = run.tokens_per_s_per_gpu});
  if (!several_sweeps_ || !in_detail) return layout;
  // The first run is the one that other sweeps have, too.
  const auto first = std::min_element(entry.runs.begin(), entry.runs.end(),
      [](const Run& a, const Run& b) { return a.trial < b.trial; });
  auto row = elsewhere_.use(first->trial);
  while (row.next())
    layout.elsewhere.push_back({row.text(0), row.real(1)});
  return layout;
}

/// A layout that is ranked by other runs of it is not missing.
std::optional<UnrankedRun> AnswerMaker::unranked(const Run& run) {
  auto row = ranked_twin_.use(run.trial);
  if (row.next() && row.integer(0) != 0) return std::nullopt;
  return UnrankedRun{
      names_.name(run.trial), run.tokens_per_s_per_gpu, std::string(word_of(Mark::contaminated))};
}

CellAnswer AnswerMaker::answer(const RunsOfCell& runs) {
  auto all = entries_of(runs);
  if (all.empty()) return {};
  const FinalStanding* standing = standings_.of(all.front().median().trial);
  const Noise noise = noise_of(all);
  const auto entries = distinct(std::move(all), standing);
  // A layout of another sweep that is as fast was in no finals.
  if (entries.size() > 1 && standings_.of(entries[1].median().trial) != standing)
    standing = nullptr;
  CellRuns cell;
  cell.noise = noise;
  cell.measured = runs.measured_;
  for (const Entry& entry : entries) {
    const bool in_detail =
        cell.layouts.size() < in_detail_at_most || is_finalist(entry.runs, standing);
    cell.layouts.push_back(measured(entry, in_detail));
  }
  if (standing != nullptr) cell.finals = &standing->held;
  if (runs.contaminated_ &&
      runs.contaminated_->tokens_per_s_per_gpu > entries.front().median().tokens_per_s_per_gpu)
    cell.unranked = unranked(*runs.contaminated_);
  return answer_of(cell);
}

}  // namespace shardsweep::sqlite
