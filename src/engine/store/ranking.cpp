// SPDX-License-Identifier: Apache-2.0
#include "store/ranking.hpp"

#include "filter/filter.hpp"
#include "store/deadline.hpp"
#include "text/content_hash.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace shardsweep::sqlite {
namespace {

/// A layout's runs, and the cell that it stands in.
struct Layouts {
  std::unordered_map<std::string, std::vector<Run>> runs;  ///< by group
};

std::string best_sql(const Source& source, const std::string& group) {
  return fmt::format(
      "SELECT trial_id, model, runner, runner_version, tokens_per_s_per_gpu, seq_len, nodes, "
      "gpus, sweep_id, vars, code_hash, {} FROM {} WHERE {} AND mark IS NULL AND "
      "tokens_per_s_per_gpu IS "
      "NOT NULL",
      group, source.rows, source.where);
}

/// Names the cell of each row of best_sql(). Rows of one cell mostly follow each other: then no
/// name is made.
class CellNames {
 public:
  explicit CellNames(Database& database) {
    Statement select(database, "SELECT id FROM sweeps WHERE backend = 'imported'");
    auto row = select.use();
    while (row.next())
      imported_.push_back(row.integer(0));
  }
  const std::string& of(const Statement::Use& row) {
    const std::array<std::int64_t, 3> numbers{row.integer(5), row.integer(6), row.integer(7)};
    // A search looks at each value of the vars by itself; the labels of an imported table are
    // none.
    const bool labels = !imported_.empty() && std::find(imported_.begin(), imported_.end(),
                                                        row.integer(8)) != imported_.end();
    const std::string_view vars = labels ? std::string_view() : row.view(9);
    const std::string_view model = row.view(1);
    if (!name_.empty() && numbers == numbers_ && model == model_ && vars == vars_) return name_;
    numbers_ = numbers;
    model_ = model;
    vars_ = vars;
    name_ = fmt::format("{}\x1f{}\x1f{}", model, fmt::join(numbers, "\x1f"), vars);
    return name_;
  }

 private:
  std::vector<std::int64_t> imported_;
  std::array<std::int64_t, 3> numbers_{};  ///< seq_len, nodes, gpus
  std::string model_;
  std::string vars_;
  std::string name_;
};

std::string best_row(const std::vector<std::string>& vars) {
  return fmt::format(
      "SELECT model, seq_len, nodes, gpus, layout, tokens_per_s_per_gpu, mfu, train_step_ms, "
      "peak_memory_bytes, ? AS repeats, ? AS measured, sweep, trial, runner, runner_version, "
      "(SELECT layout FROM all_results WHERE trial_id = ?) AS runner_up, ? AS runner_up_runs, "
      "? AS runner_up_spread, ? AS gap_share, ? AS "
      "repeat_spread, (SELECT sum(m.resolution) FROM trials AS t JOIN measurements AS m ON "
      "m.attempt = t.counted_attempt WHERE t.id IN (?, ?)) AS resolution, "
      "? AS verdict, ? AS verdict_reason, train_step_ms_spread, json_extract(software, "
      "'$.profile') AS profile{} FROM all_results WHERE trial_id = ?",
      var_columns(vars, "vars"));
}

/// How much slower the second best layout is; none where there is one alone.
std::optional<double> gap_of(const BestOfCell& cell) {
  if (!cell.runner_up) return std::nullopt;
  return 1 - cell.runner_up->tokens_per_s_per_gpu / cell.run->tokens_per_s_per_gpu;
}

using CellKey = std::pair<std::string, std::size_t>;  // cell, runner
std::map<CellKey, BestOfCell> best_cells(Database& database, const Source& source,
                                         Runners& runners, FinalStandings& standings) {
  Statement select(database, best_sql(source, group_expression(database)));
  SameLayout same_layout(database);
  CellNames names(database);
  auto row = select.use(source.chosen.sweeps, source.chosen.trials);
  std::map<CellKey, BestOfCell> cells;
  std::map<CellKey, Layouts> repeated;
  auto last = cells.end();
  while (row.next()) {
    const Run run{row.real(4), {}, row.integer(0)};
    const std::string& name = names.of(row);
    const auto runner =
        runners.see({row.view(1), row.view(2), row.view(3), row.view(10)}, true, run.trial);
    if (!row.null(11)) {
      repeated[{name, runner}].runs[row.text(11)].push_back(run);
      continue;
    }
    if (last == cells.end() || last->first.second != runner || last->first.first != name)
      last = cells.try_emplace({name, runner}).first;
    last->second.offer(run, same_layout);
  }
  for (auto& [key, layouts] : repeated) {
    for (auto& [group, runs] : layouts.runs)
      cells[key].offer(runs, same_layout);
  }
  std::unordered_map<std::int64_t, Run> all;  // runs in finals are repeats
  for (const auto& [key, layouts] : repeated) {
    for (const auto& [group, runs] : layouts.runs) {
      for (const Run& run : runs)
        all.emplace(run.trial, run);
    }
  }
  for (auto& [key, cell] : cells)
    cell.settle(standings, all);
  return cells;
}

/// The first columns are for choosing, the others for the answer.
constexpr std::size_t group_column = 5;
constexpr std::size_t resolution_column = 6;
constexpr std::size_t clock_column = 7;
constexpr std::size_t columns_for_choosing = 8;

std::string layouts_sql(const Source& source, const std::string& group,
                        const std::vector<std::string>& vars) {
  return fmt::format(
      "SELECT trial_id, model, runner, runner_version, code_hash, {}, resolution, "
      "sm_clock_mhz, model, "
      "seq_len, nodes, "
      "gpus, layout, "
      "tokens_per_s_per_gpu, mfu, train_step_ms, peak_memory_bytes, sweep, trial, runner, "
      "runner_version{} FROM {} WHERE {} AND attempt_id IS NOT NULL AND mark IS NULL AND "
      "tokens_per_s_per_gpu IS NOT NULL ORDER BY sweep_id, position, trial_id",
      group, var_columns(vars, "vars"), source.rows, source.where);
}

/// Rows of one layout, by the place of its first one.
std::vector<std::vector<std::size_t>> rows_by_layout(const Table& rows) {
  std::vector<std::vector<std::size_t>> layouts;
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    const auto* group = std::get_if<std::string>(&rows.rows[row][group_column]);
    const auto place = group == nullptr
                           ? layouts.size()
                           : places.try_emplace(*group, layouts.size()).first->second;
    if (place == layouts.size()) layouts.emplace_back();
    layouts[place].push_back(row);
  }
  return layouts;
}

std::string called(const std::string& runner, const std::string& version) {
  return version.empty() ? runner : runner + ' ' + version;
}

bool row_before(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::lexicographical_compare(a.begin(), a.begin() + 4, b.begin(), b.begin() + 4);
}

}  // namespace

std::vector<std::string> vars_of_cells(Database& database, const Source& source) {
  std::vector<std::string> names;
  Statement select(database,
                   "SELECT DISTINCT j.value FROM sweeps AS s, json_each(s.vars) AS j WHERE "
                   "s.backend <> 'imported' ORDER BY 1");
  auto row = select.use();
  while (row.next()) {
    auto name = row.text(0);
    if (std::find(source.vars.begin(), source.vars.end(), name) != source.vars.end())
      names.push_back(std::move(name));
  }
  return names;
}

const Run& median(std::vector<Run>& runs) {
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>((runs.size() - 1) / 2);
  std::nth_element(runs.begin(), middle, runs.end(), [](const Run& a, const Run& b) {
    return std::pair(a.tokens_per_s_per_gpu, a.trial) <
           std::pair(b.tokens_per_s_per_gpu, b.trial);
  });
  return *middle;
}

std::optional<double> spread_of(std::vector<Run>& runs) {
  if (runs.size() < 2) return std::nullopt;
  const auto [least, most] =
      std::minmax_element(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
        return a.tokens_per_s_per_gpu < b.tokens_per_s_per_gpu;
      });
  const double range = most->tokens_per_s_per_gpu - least->tokens_per_s_per_gpu;
  return range / median(runs).tokens_per_s_per_gpu;
}

// Trials of a lane are of one layout where these are equal: SameLayout, group_expression(), the
// order in a lane.
constexpr std::array<std::string_view, 2> not_in_lane_key{"micro_batch", "grad_accum"};
static_assert(std::all_of(axis_table.begin(), axis_table.end(), [](const AxisInfo& axis) {
  const auto* found = std::find(not_in_lane_key.begin(), not_in_lane_key.end(), axis.name);
  return axis.in_lane_key == (found == not_in_lane_key.end());
}));

SameLayout::SameLayout(Database& database)
    : select_(database,
              "SELECT 1 FROM trials AS a, trials AS b WHERE a.id = ? AND b.id = ? AND "
              "(a.lane, a.micro_batch, a.grad_accum) = (b.lane, b.micro_batch, b.grad_accum)") {
}

void BestOfCell::take(const Run& offered, std::int64_t runs, std::optional<double> its_spread,
                      SameLayout& same_layout) {
  measured += runs;
  // Of two that are alike the older trial counts, in whatever order they are read.
  const auto beats = [&offered](const std::optional<Run>& other) {
    return !other || std::pair(offered.tokens_per_s_per_gpu, -offered.trial) >
                         std::pair(other->tokens_per_s_per_gpu, -other->trial);
  };
  if (!beats(run)) {
    if (!beats(runner_up) || same_layout(offered, *run)) return;
    runner_up = offered;
    runner_up_repeats = runs;
    runner_up_spread = its_spread;
    return;
  }
  // No layout is the runner-up of itself.
  if (run && !same_layout(offered, *run)) {
    runner_up = run;
    runner_up_repeats = repeats;
    runner_up_spread = spread;
  }
  run = offered;
  repeats = runs;
  spread = its_spread;
}

void BestOfCell::offer(const Run& alone, SameLayout& same_layout) {
  take(alone, 1, std::nullopt, same_layout);
}

void BestOfCell::offer(std::vector<Run>& runs, SameLayout& same_layout) {
  const auto its_spread = spread_of(runs);
  take(median(runs), static_cast<std::int64_t>(runs.size()), its_spread, same_layout);
}

void BestOfCell::settle(FinalStandings& standings,
                        const std::unordered_map<std::int64_t, Run>& repeated) {
  const FinalStanding* const held = run ? standings.of(run->trial) : nullptr;
  if (held == nullptr || (runner_up && standings.of(runner_up->trial) != held)) return;
  std::array<std::vector<Run>, 2> runs;
  for (std::size_t place = 0; place < runs.size(); ++place) {
    const auto found = held->runs.find(held->finals.ranking[place]);
    if (found == held->runs.end()) return;
    for (const TrialId trial : found->second) {
      if (const auto one = repeated.find(trial); one != repeated.end())
        runs[place].push_back(one->second);
    }
    // What was asked for leaves a finalist out: its finals say nothing of the others.
    if (runs[place].empty()) return;
  }
  const auto count = [](const auto& some) { return static_cast<std::int64_t>(some.size()); };
  spread = spread_of(runs[0]);
  run = median(runs[0]);
  repeats = count(runs[0]);
  runner_up_spread = spread_of(runs[1]);
  runner_up = median(runs[1]);
  runner_up_repeats = count(runs[1]);
  standing = held;
}

Mixing mixing_of(const Selection& selection) {
  const auto names = filter::read_identifiers(selection.where);
  if (!names) return {};
  return {names->contains("runner"),
          names->contains("runner_version") || names->contains("software_version"),
          names->contains("code_hash")};
}

/// A trial without a measurement has no code of its own: it goes with the newest that there is.
std::size_t Runners::find(const RunnerOfRow& row, bool measured) const {
  const bool any_code = !measured && row.code.empty();
  const auto is = [&](const Seen& one) {
    return one.model == row.model && one.runner == row.runner && one.version == row.version &&
           (any_code || one.code == row.code);
  };
  // A handful of them, and mostly the same as before: a list is faster than a map.
  if (!any_code && last_ < seen_.size() && is(seen_[last_])) return last_;
  std::size_t found = seen_.size();
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    if (is(seen_[i]) && (found == seen_.size() || seen_[found].newness < seen_[i].newness))
      found = i;
  }
  return found;
}

std::size_t Runners::see(const RunnerOfRow& row, bool measured, std::int64_t trial) {
  last_ = find(row, measured);
  if (last_ == seen_.size())
    seen_.push_back({std::string(row.model),
                     std::string(row.runner),
                     std::string(row.version),
                     std::string(row.code),
                     {},
                     0,
                     trial});
  auto& seen = seen_[last_];
  seen.newness = std::max(seen.newness, std::pair(measured, trial));
  seen.oldest = std::min(seen.oldest, trial);
  ++seen.trials;
  return last_;
}

/// True where only one of the two may be shown.
bool Runners::is_rival(const Seen& one, const Seen& other) const {
  if (one.model != other.model) return false;
  if (one.runner != other.runner) return !mixing_.runners;
  if (one.version != other.version) return !mixing_.versions;
  return one.code != other.code && !mixing_.codes;
}

/// Where versions stand side by side, a runner is as new as the newest of its versions; and so
/// a version, where its codes do.
Runners::Newness Runners::newness_of(const Seen& one) const {
  Newness newest = one.newness;
  for (const Seen& other : seen_) {
    if (other.model != one.model || other.runner != one.runner) continue;
    const bool stands_beside =
        other.version == one.version ? mixing_.versions || mixing_.codes : mixing_.versions;
    if (stands_beside) newest = std::max(newest, other.newness);
  }
  return newest;
}

/// Several programs were called by this runner's name and version.
bool Runners::has_codes(const Seen& one) const {
  return std::any_of(seen_.begin(), seen_.end(), [&](const Seen& other) {
    return other.runner == one.runner && other.version == one.version && other.code != one.code;
  });
}

std::string Runners::name_of(const Seen& one) const {
  const auto name = called(one.runner, one.version);
  return has_codes(one) ? with_code(name, one.code) : name;
}

bool Runners::counts(std::size_t number) const {
  const auto& one = seen_[number];
  const auto newness = newness_of(one);
  return std::all_of(seen_.begin(), seen_.end(), [&](const Seen& other) {
    return !is_rival(one, other) || newness_of(other) <= newness;
  });
}

std::string Runners::name(std::size_t number) const {
  return name_of(seen_[number]);
}

std::vector<std::string> Runners::shown() const {
  std::vector<std::string> names;
  for (std::size_t number = 0; number < seen_.size(); ++number) {
    auto name = name_of(seen_[number]);
    const bool known = std::find(names.begin(), names.end(), name) != names.end();
    if (counts(number) && !known) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Numbers, that of the oldest trial first.
std::vector<std::size_t> Runners::by_age() const {
  std::vector<std::size_t> numbers(seen_.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  std::sort(numbers.begin(), numbers.end(),
            [this](std::size_t a, std::size_t b) { return seen_[a].oldest < seen_[b].oldest; });
  return numbers;
}

/// The condition that shows what is hidden.
std::string Runners::way_to(const Seen& hidden, std::string_view version_column) const {
  const auto is_shown = [&](auto&& like) {
    return std::any_of(seen_.begin(), seen_.end(), [&](const Seen& one) {
      return one.model == hidden.model && one.runner == hidden.runner && like(one) &&
             counts(static_cast<std::size_t>(&one - seen_.data()));
    });
  };
  if (!is_shown([](const Seen&) { return true; }))
    return fmt::format("runner = {}", literal(hidden.runner));
  if (!is_shown([&](const Seen& one) { return one.version == hidden.version; }))
    return fmt::format("{} = {}", version_column, literal(hidden.version));
  return fmt::format("code_hash = {}", literal(hidden.code));
}

std::string Runners::note(std::string_view version_column) const {
  std::map<std::string, std::int64_t> left_out;
  std::string way;
  for (const std::size_t number : by_age()) {
    if (counts(number)) continue;
    left_out[name(number)] += seen_[number].trials;
    way = way_to(seen_[number], version_column);
  }
  if (left_out.empty()) return "";
  std::string hidden;
  for (const auto& [name, trials] : left_out)
    hidden += fmt::format("{}{} ({} {})", hidden.empty() ? "" : ", ", name, trials,
                          trials == 1 ? "trial" : "trials");
  return fmt::format("Showing {} only, without {}; add --where \"{}\".",
                     fmt::join(shown(), ", "), hidden, way);
}

std::string_view version_column(const Source& source) {
  constexpr std::string_view of_a_table = "software_version";
  const bool imported =
      std::find(source.vars.begin(), source.vars.end(), of_a_table) != source.vars.end();
  return imported ? of_a_table : "runner_version";
}

std::string group_expression(Database& database) {
  if (database.integer("SELECT EXISTS (SELECT 1 FROM trials WHERE repeat > 1)") == 0)
    return "NULL";
  // A lane is what differs in micro_batch, grad_accum and repeat alone. Runs under other
  // settings of NCCL or of the allocator, as ranks found them, or of other programs, are no
  // repeats of each other.
  return "iif(sweep_id IN (SELECT sweep FROM trials WHERE repeat > 1), sweep_id || '/' || "
         "lane || '/' || micro_batch || '/' || grad_accum || '/' || ifnull((SELECT m.settings "
         "FROM "
         "measurements AS m WHERE m.attempt = attempt_id), '') || '/' || code_hash, NULL)";
}

Table best(Database& database, const Selection& selection) {
  const auto source = source_of(database, selection);
  Runners runners(mixing_of(selection));
  FinalStandings standings(database);
  const auto cells = best_cells(database, source, runners, standings);
  Statement select(database, best_row(vars_of_cells(database, source)));
  Table table;
  {
    auto nothing = select.use(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    table = fetch(select, nothing);
  }
  for (const auto& [key, cell] : cells) {
    if (!runners.counts(key.second)) continue;
    const auto second = cell.runner_up ? std::optional(cell.runner_up->trial) : std::nullopt;
    const auto second_runs =
        cell.runner_up ? std::optional(cell.runner_up_repeats) : std::nullopt;
    // Of a layout without a rival its own number stands twice.
    const TrialId rival = second.value_or(cell.run->trial);
    const auto* const held = cell.standing;
    const auto verdict =
        held == nullptr ? std::nullopt : std::optional(word_of(held->verdict.difference));
    const auto reason =
        held == nullptr ? std::nullopt : std::optional(std::string_view(held->reason));
    auto use = select.use(cell.repeats, cell.measured, second, second_runs,
                          cell.runner_up_spread, gap_of(cell), cell.spread, cell.run->trial,
                          rival, verdict, reason, cell.run->trial);
    auto one = fetch(select, use);
    if (!one.rows.empty()) table.rows.push_back(std::move(one.rows.front()));
  }
  std::stable_sort(table.rows.begin(), table.rows.end(), row_before);
  table.note = runners.note(version_column(source));
  return table;
}

Table layouts(Database& database, const Selection& selection) {
  const auto source = source_of(database, selection);
  Statement select(database, layouts_sql(source, group_expression(database),
                                         vars_of_cells(database, source)));
  auto use = select.use(source.chosen.sweeps, source.chosen.trials);
  const Table rows = fetch(select, use);
  Runners runners(mixing_of(selection));
  const auto text = [&rows](std::size_t row, std::size_t column) {
    return std::string_view(std::get<std::string>(rows.rows[row][column]));
  };
  const auto speed_at = static_cast<std::size_t>(
      std::find(rows.columns.begin(), rows.columns.end(), "tokens_per_s_per_gpu") -
      rows.columns.begin());
  std::vector<std::size_t> numbers;
  for (std::size_t row = 0; row < rows.rows.size(); ++row)
    numbers.push_back(runners.see({text(row, 1), text(row, 2), text(row, 3), text(row, 4)},
                                  true, std::get<std::int64_t>(rows.rows[row][0])));
  constexpr auto skipped = static_cast<std::ptrdiff_t>(columns_for_choosing);
  Table table{{rows.columns.begin() + skipped, rows.columns.end()}, {}};
  table.columns.insert(table.columns.end(),
                       {"repeats", "repeat_spread", "resolution", "sm_clock_mhz"});
  for (const auto& places : rows_by_layout(rows)) {
    std::vector<Run> runs;
    for (const auto row : places) {
      if (runners.counts(numbers[row]))
        runs.push_back(
            {std::get<double>(rows.rows[row][speed_at]), {}, static_cast<std::int64_t>(row)});
    }
    if (runs.empty()) continue;
    const auto& chosen = rows.rows[static_cast<std::size_t>(median(runs).trial)];
    const Value& resolution = chosen[resolution_column];
    const Value& clock = chosen[clock_column];
    auto& row = table.rows.emplace_back(chosen.begin() + skipped, chosen.end());
    row.emplace_back(static_cast<std::int64_t>(runs.size()));
    const auto spread = spread_of(runs);
    row.push_back(spread ? Value(*spread) : Value());
    row.push_back(resolution);
    row.push_back(clock);
  }
  table.note = runners.note(version_column(source));
  return table;
}

}  // namespace shardsweep::sqlite
