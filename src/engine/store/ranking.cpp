// SPDX-License-Identifier: Apache-2.0
// Decision: A runner is called what its `--capabilities` say, else by its file name. Readers
// rank one runner, version and program at a time.
#include "store/ranking.hpp"

#include "filter/filter.hpp"
#include "store/reading.hpp"
#include "store/row_sql.hpp"
#include "store/unmixed.hpp"
#include "sweep/layout_text.hpp"
#include "text/content_hash.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <unordered_map>

namespace shardsweep::sqlite {
namespace {

/// Trials of the time when their sweep was measured again last, by the program that it had then.
constexpr const char* measured_now_sql =
    "SELECT t.id FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE t.again > 0 AND t.again "
    "= (SELECT max(o.again) FROM trials AS o WHERE o.sweep = t.sweep AND o.again > 0 AND "
    "o.counted_speed IS NOT NULL) AND t.software IN ('', iif(s.remeasuring, s.remeasured_is, "
    "s.remeasured_was))";

enum RankedColumn : std::uint8_t {
  ranked_trial,
  ranked_speed,
  ranked_runner,
  ranked_version,
  ranked_code,
  ranked_sweep,
  ranked_group,
  ranked_cell,
};

std::string best_sql(
    const Source& source, const std::string& group, const char* mark, const std::string& only) {
  return fmt::format(
      "SELECT trial_id, tokens_per_s_per_gpu, runner, runner_version, code_hash, sweep_id, {}, {} "
      "FROM {} WHERE {} AND mark {} AND tokens_per_s_per_gpu IS NOT NULL{}",
      group, cell_columns(""), source.rows, source.where, mark, only);
}

/// The cell of a run, with what must not be mixed in it.
struct RankedCell {
  CellKey cell;
  std::size_t runner = 0;
  std::size_t hardware = 0;
  auto operator<=>(const RankedCell&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Finds the cell of each row of best_sql(). Rows of one cell mostly follow each other: then no
/// key is made.
class RankedCells {
 public:
  explicit RankedCells(Database& database) {
    Statement select(database, imported_tables_sql);
    auto row = select.use();
    while (row.next())
      imported_.push_back(row.integer(0));
  }
  RunsOfCell& of(const Statement::Use& row, std::size_t runner, std::size_t hardware) {
    // A search looks at each value of the vars by itself; the labels of an imported table are
    // none.
    const bool labels = !imported_.empty() &&
        std::find(imported_.begin(), imported_.end(), row.integer(ranked_sweep)) != imported_.end();
    const std::string_view vars = labels ? std::string_view() : row.view(ranked_cell + 4);
    const auto is_last = [&] {
      const CellKey& last = last_.cell;
      return runner == last_.runner && hardware == last_.hardware &&
          last.seq_len == row.integer(ranked_cell + 1) &&
          last.nodes == row.integer(ranked_cell + 2) && last.gpus == row.integer(ranked_cell + 3) &&
          last.model == row.view(ranked_cell) && last.vars == vars;
    };
    if (runs_ != nullptr && is_last()) return *runs_;
    last_ = {read_cell(row, ranked_cell), runner, hardware};
    last_.cell.vars = vars;
    runs_ = &cells_[last_];
    return *runs_;
  }
  [[nodiscard]] const std::map<RankedCell, RunsOfCell>& all() const { return cells_; }

 private:
  std::map<RankedCell, RunsOfCell> cells_;
  std::vector<std::int64_t> imported_;
  RankedCell last_;
  RunsOfCell* runs_ = nullptr;
};

/// Row of the layout that has won, with the answer around it. Cluster and vars, which tell cells
/// apart, stand between profile and certainty.
std::string best_row(const std::vector<std::string>& vars, bool with_cluster) {
  return fmt::format(
      "SELECT model, seq_len, nodes, gpus, layout, tokens_per_s_per_gpu, mfu, train_step_ms, "
      "peak_memory_bytes, ?1 AS repeats, ?2 AS measured, sweep, trial, runner, runner_version, "
      "(SELECT layout FROM all_results WHERE trial_id = ?3) AS runner_up, ?4 AS runner_up_runs, ?5 "
      "AS runner_up_spread, ?6 AS lead_share, ?7 AS repeat_spread, (SELECT sum(m.resolution) FROM "
      "trials AS t JOIN measurements AS m ON m.attempt = t.counted_attempt WHERE t.id IN (?3, ?8)) "
      "AS resolution, ?9 AS verdict, ?10 AS verdict_reason, train_step_ms_spread, "
      "json_extract(software, '$.profile') AS profile{}{}, ?11 AS certainty, ?12 AS doubts, ?13 AS "
      "to_settle FROM all_results WHERE trial_id = ?8",
      with_cluster ? ", cluster" : "", var_columns(vars, "vars"));
}

std::optional<std::string> word_or_null(std::string text) {
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

Table row_of(Statement& select, const CellAnswer& answer) {
  const auto& first = *answer.winner();
  const auto* second = answer.runner_up();
  auto use = select.use();
  use.bind(std::ssize(first.runs));
  use.bind(answer.measured);
  use.bind(second != nullptr ? std::optional(second->trial) : std::nullopt);
  use.bind(second != nullptr ? std::optional(std::ssize(second->runs)) : std::nullopt);
  use.bind(second != nullptr ? second->spread : std::nullopt);
  use.bind(lead_of(answer));
  use.bind(first.spread);
  use.bind(first.trial);
  use.bind(second != nullptr ? std::optional(word_of(first.verdict.difference)) : std::nullopt);
  use.bind(
      second != nullptr ? std::optional(std::string_view(first.verdict.reason)) : std::nullopt);
  use.bind(std::string_view(certainty_text(answer)));
  use.bind(word_or_null(doubts_text(answer)));
  use.bind(word_or_null(answer.settling.text));
  return fetch(select, use);
}

/// First columns of layouts_sql(): the trial, and what goes into a layout's figures. The columns
/// that name and show a layout stand behind them.
constexpr std::ptrdiff_t columns_for_figures = 6;
constexpr std::array<const char*, 8> figures_of_layouts{"repeats", "repeat_spread", "resolution",
    "sm_clock_mhz", "step_spread", "steps", "others_cpu", "rank"};

/// Rows of measured layouts. Cluster and vars, which tell cells apart as well, stand behind
/// runner_version.
std::string layouts_sql(
    const Source& source, const std::vector<std::string>& vars, bool with_cluster) {
  return fmt::format(
      "SELECT trial_id, resolution, sm_clock_mhz, train_step_ms_spread, steps, others_cpu, model, "
      "seq_len, nodes, gpus, layout, tokens_per_s_per_gpu, mfu, train_step_ms, peak_memory_bytes, "
      "sweep, trial, runner, runner_version{}{} FROM {} WHERE {} AND attempt_id IS NOT NULL AND "
      "mark IS NULL AND tokens_per_s_per_gpu IS NOT NULL ORDER BY sweep_id, position, trial_id",
      with_cluster ? ", cluster" : "", var_columns(vars, "vars"), source.rows, source.where);
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
      fmt::format("SELECT DISTINCT j.value FROM sweeps AS s, json_each(s.vars) AS j WHERE s.id NOT "
                  "IN ({}) ORDER BY 1",
          imported_tables_sql));
  auto row = select.use();
  while (row.next()) {
    auto name = row.text(0);
    if (std::find(source.vars.begin(), source.vars.end(), name) != source.vars.end())
      names.push_back(std::move(name));
  }
  return names;
}

namespace {

RunnerOfRow runner_of(const Statement::Use& row, std::size_t hardware) {
  return {row.view(ranked_cell), row.view(ranked_runner), row.view(ranked_version),
      row.view(ranked_code), hardware};
}

/// Rows of the runs that an answer is of.
struct RankedRows {
  Database& database;
  const Source& source;
  const std::string& only;  ///< a condition
  const Hardware& hardware;
};

void take_runs(const RankedRows& rows, Runners& runners, AnswerMaker& maker, RankedCells& cells) {
  Statement select(
      rows.database, best_sql(rows.source, group_expression(rows.database), "IS NULL", rows.only));
  auto row = select.use(rows.source.chosen.sweeps, rows.source.chosen.trials);
  while (row.next()) {
    const Run run{row.integer(ranked_trial), row.real(ranked_speed)};
    const auto on = rows.hardware.of(row.integer(ranked_sweep));
    const auto runner = runners.see(runner_of(row, on), true, run.trial);
    RunsOfCell& cell = cells.of(row, runner, on);
    if (row.null(ranked_group)) {
      cell.take(run, maker.most(), maker.names());
    } else {
      cell.take(row.text(ranked_group), run);
    }
  }
}

/// Takes contaminated runs of software that has ranked runs, too: other software wins nothing.
void take_contaminated(const RankedRows& rows, Runners& runners, RankedCells& cells) {
  Statement select(rows.database, best_sql(rows.source, "NULL", "= 'contaminated'", rows.only));
  auto row = select.use(rows.source.chosen.sweeps, rows.source.chosen.trials);
  while (row.next()) {
    const auto on = rows.hardware.of(row.integer(ranked_sweep));
    const auto runner = runners.find(runner_of(row, on), true);
    if (runner < runners.size())
      cells.of(row, runner, on)
          .take_contaminated({row.integer(ranked_trial), row.real(ranked_speed)});
  }
}

/// A cell without its software.
using AnySoftware = std::pair<CellKey, std::size_t>;
AnySoftware any_software(const RankedCell& key) {
  return {key.cell, key.hardware};
}
using LeftOutOfCells = std::map<AnySoftware, LeftOutRuns>;

LeftOutOfCells left_out_of(const RankedCells& cells, const Runners& runners) {
  LeftOutOfCells left_out;
  std::map<AnySoftware, std::set<std::size_t>> software;
  for (const auto& [key, runs] : cells.all()) {
    if (runners.counts(key.runner)) continue;
    const auto cell = any_software(key);
    runs.add_to(left_out[cell]);
    software[cell].insert(key.runner);
  }
  for (auto& [cell, one] : left_out)
    one.software = runners.names(software[cell]);
  return left_out;
}

}  // namespace

std::string only_ranked(Database& database, RankedAt at) {
  const bool any = database.integer("SELECT EXISTS (SELECT 1 FROM trials WHERE again > 0)") != 0;
  if (at == RankedAt::now) {
    if (!any)
      fail(FaultKind::invalid_input,
          "no layout was measured again: the key 'remeasure' of a sweep file does that");
    return fmt::format(" AND trial_id IN ({})", measured_now_sql);
  }
  return any ? " AND trial_id NOT IN (SELECT id FROM trials WHERE again > 0)" : "";
}

std::string not_ranked_now(Database& database, const Source& source, RankedAt at) {
  if (at != RankedAt::now) return {};
  constexpr std::int64_t most_named = 3;
  Statement select(database,
      fmt::format("SELECT layout, count(*) OVER () FROM {0} WHERE {1} AND mark IS NULL AND "
                  "tokens_per_s_per_gpu IS NOT NULL AND remeasured IS NULL AND {4} NOT IN (SELECT "
                  "{4} FROM trials WHERE id IN ({2})) GROUP BY layout ORDER BY "
                  "max(tokens_per_s_per_gpu) DESC LIMIT {3}",
          source.rows, source.where, measured_now_sql, most_named, layout_key_sql("")));
  auto row = select.use(source.chosen.sweeps, source.chosen.trials);
  std::vector<std::string> names;
  std::int64_t all = 0;
  while (row.next()) {
    names.push_back(row.text(0));
    all = row.integer(1);
  }
  if (names.empty()) return {};
  const auto more = all - std::ssize(names);
  return fmt::format("Not measured again, so not ranked: {}{}.", fmt::join(names, ", "),
      more > 0 ? fmt::format(" and {}", counted(more, "more layout")) : "");
}

std::vector<AnsweredCell> answered_cells(
    Database& database, const Source& source, RankedAt at, Runners& runners, AnswerMaker& maker) {
  RankedCells cells(database);
  const Hardware hardware(database);
  const auto only = only_ranked(database, at);
  const RankedRows rows{database, source, only, hardware};
  take_runs(rows, runners, maker, cells);
  take_contaminated(rows, runners, cells);
  const auto left_out = left_out_of(cells, runners);
  std::vector<AnsweredCell> answered;
  answered.reserve(cells.all().size());
  std::map<RankedCell, std::vector<SizedAnswer>> sizes;
  for (const auto& [key, runs] : cells.all()) {
    if (!runners.counts(key.runner)) continue;
    auto& cell =
        answered.emplace_back(AnsweredCell{maker.answer(runs), key.cell, key.runner, key.hardware});
    if (cell.answer.winner() == nullptr) {
      answered.pop_back();
      continue;
    }
    if (const auto found = left_out.find(any_software(key)); found != left_out.end())
      add_left_out(cell.answer, found->second);
    auto of_any_size = key;
    of_any_size.cell.nodes = of_any_size.cell.gpus = 0;
    sizes[of_any_size].push_back({key.cell.gpus, &cell.answer});
  }
  for (auto& [family, all] : sizes)
    doubt_scaling(std::move(all), "GPU");
  return answered;
}

SoftwareMix software_mix_of(const Selection& selection) {
  if (selection.all_versions) return {true, true, true};
  const auto names = filter::read_identifiers(selection.where);
  if (!names) return {};
  return {names->contains("runner"),
      names->contains("runner_version") || names->contains("software_version"),
      names->contains("code_hash")};
}

std::string Runners::group_key(const RunnerOfRow& row, std::size_t parts) {
  const std::array<std::string_view, 4> names{row.model, row.runner, row.version, row.code};
  std::string key = fmt::to_string(row.hardware);
  for (std::size_t i = 0; i + 1 < parts; ++i) {
    key += '\x1f';
    key += names[i];
  }
  return key;
}

const Runners::Group& Runners::group_of(const SoftwareRuns& one, std::size_t parts) const {
  return groups_.at(group_key({one.model, one.runner, one.version, one.code, one.hardware}, parts));
}

std::size_t Runners::number_of(const RunnerOfRow& row) const {
  const auto found = numbers_.find(group_key(row, all_codes + 1));
  return found == numbers_.end() ? seen_.size() : found->second;
}

/// A trial without a measurement has no code of its own: it goes with the newest that there is.
std::size_t Runners::find(const RunnerOfRow& row, bool measured) const {
  if (!measured && row.code.empty()) {
    const auto group = groups_.find(group_key(row, all_codes));
    return group == groups_.end() ? seen_.size() : group->second.newest;
  }
  // Rows of the same software mostly follow each other: then no key is made.
  if (last_ < seen_.size()) {
    const SoftwareRuns& last = seen_[last_];
    if (last.model == row.model && last.runner == row.runner && last.version == row.version &&
        last.hardware == row.hardware && last.code == row.code)
      return last_;
  }
  return number_of(row);
}

std::size_t Runners::see(const RunnerOfRow& row, bool measured, std::int64_t trial) {
  last_ = find(row, measured);
  if (last_ == seen_.size()) {
    numbers_.emplace(group_key(row, all_codes + 1), last_);
    codes_[called(std::string(row.runner), std::string(row.version))].emplace(row.code);
    seen_.push_back({std::string(row.model), std::string(row.runner), std::string(row.version),
        std::string(row.code), row.hardware, {}});
  }
  auto& seen = seen_[last_];
  if (measured) ++seen.runs;
  const Newness newness(measured, trial);
  if (newness <= seen.newness) return last_;
  seen.newness = newness;
  for (const auto parts : {all_runners, all_versions, all_codes}) {
    auto& group = groups_[group_key(row, parts)];
    if (group.newness < newness) group = {newness, last_};
  }
  return last_;
}

std::string Runners::name(std::size_t number) const {
  const SoftwareRuns& one = seen_[number];
  const auto name = called(one.runner, one.version);
  // Several programs were called so.
  return codes_.at(name).size() > 1 ? with_code(name, one.code) : name;
}

/// The newest runner, of it the newest version, and of that the newest code, as far as each of
/// them may not stand beside others.
bool Runners::counts(std::size_t number) const {
  const SoftwareRuns& one = seen_[number];
  const auto runner = group_of(one, all_versions).newness;
  const auto version = group_of(one, all_codes).newness;
  if (!mixing_.runners && runner < group_of(one, all_runners).newness) return false;
  if (mixing_.versions) return true;
  return version == runner && (mixing_.codes || one.newness == version);
}

std::vector<std::string> Runners::shown() const {
  std::set<std::string> names;
  for (std::size_t number = 0; number < seen_.size(); ++number) {
    if (counts(number)) names.insert(name(number));
  }
  return {names.begin(), names.end()};
}

std::string Runners::names(const std::set<std::size_t>& numbers) const {
  constexpr std::size_t most_named = 3;
  std::vector<std::size_t> by_age(numbers.begin(), numbers.end());
  std::sort(by_age.begin(), by_age.end(),
      [this](auto a, auto b) { return seen_[b].newness < seen_[a].newness; });
  std::vector<std::string> named;
  std::set<std::string> all;
  for (const auto number : by_age) {
    auto called = name(number);
    if (all.insert(called).second && named.size() < most_named) named.push_back(std::move(called));
  }
  std::sort(named.begin(), named.end());
  auto text = fmt::format("{}", fmt::join(named, ", "));
  if (all.size() > named.size()) text += fmt::format(" and {} more", all.size() - named.size());
  return text;
}

/// Ranked runs are counted: whoever asks, and whatever else it shows, the number is the same.
std::string Runners::note() const {
  std::set<std::size_t> left_out;
  std::set<std::size_t> ranked;
  std::int64_t runs = 0;
  for (std::size_t number = 0; number < seen_.size(); ++number) {
    if (counts(number)) {
      ranked.insert(number);
    } else if (seen_[number].runs > 0) {
      left_out.insert(number);
      runs += seen_[number].runs;
    }
  }
  if (left_out.empty()) return "";
  return fmt::format(
      "Ranked: {}. Not ranked: {} of other software ({}). --all-versions ranks them too.",
      names(ranked), counted(runs, "run"), names(left_out));
}

std::string_view version_column(const Source& source) {
  constexpr std::string_view of_a_table = "software_version";
  const bool imported =
      std::find(source.vars.begin(), source.vars.end(), of_a_table) != source.vars.end();
  return imported ? of_a_table : "runner_version";
}

std::string group_expression(Database& database) {
  if (database.integer("SELECT EXISTS (SELECT 1 FROM trials WHERE repeat > 1)") == 0) return "NULL";
  // A lane is what differs in micro_batch, grad_accum and repeat alone. Runs under other
  // settings of NCCL or of the allocator, as ranks found them, or of other programs, are no
  // repeats of each other.
  return fmt::format(
      "iif(sweep_id IN (SELECT sweep FROM trials WHERE repeat > 1), sweep_id || '/' || {} || '/' "
      "|| code_hash, NULL)",
      layout_and_settings_sql("", "attempt_id"));
}

namespace {

/// Cells of one name differ in the vars alone: which of their values is the best one?
std::string best_vars_text(const std::vector<AnsweredCell>& cells) {
  constexpr std::size_t most_told = 6;
  std::map<RankedCell, std::vector<const AnsweredCell*>> by_name;
  for (const auto& cell : cells) {
    RankedCell name{cell.cell, cell.runner, cell.hardware};
    name.cell.vars.clear();
    by_name[std::move(name)].push_back(&cell);
  }
  const auto speed = [](const AnsweredCell* one) {
    return one->answer.winner()->tokens_per_s_per_gpu;
  };
  std::vector<std::string> told;
  for (const auto& [name, all] : by_name) {
    if (all.size() < 2) continue;
    std::vector<CellAnswer> winners;
    std::vector<std::string> vars;
    const AnsweredCell* best = all.front();
    for (const auto* cell : all) {
      vars.push_back(cell->cell.vars);
      winners.push_back(cell->answer);
      winners.back().layouts.resize(1);
      if (speed(cell) > speed(best)) best = cell;
    }
    const auto answer = joined(winners);
    if (short_form(answer) == "tie" && lead_of(answer) == 0.0) {
      std::vector<std::string> equal;
      for (const auto* cell : all) {
        if (speed(cell) == speed(best)) equal.push_back(vars_text_among(cell->cell.vars, vars));
      }
      const auto last = equal.back();
      equal.pop_back();
      told.push_back(fmt::format("{}, {}: {} and {} are equally fast.", name.cell.model,
          counted(name.cell.gpus, "GPU"), fmt::join(equal, ", "), last));
      continue;
    }
    told.push_back(fmt::format("{}, {}: {} {} {} values: {}.", name.cell.model,
        counted(name.cell.gpus, "GPU"), vars_text_among(best->cell.vars, vars),
        short_form(answer) == "tie" ? "comes first of" : "is the best of", all.size(),
        certainty_text(answer)));
  }
  const auto all = told.size();
  if (all > most_told) {
    told.resize(most_told);
    told.push_back(fmt::format("The same holds for {} more cells.", all - most_told));
  }
  return fmt::format("{}", fmt::join(told, "\n"));
}

}  // namespace

Table best(Database& database, const Selection& selection) {
  const auto source = source_of(database, selection);
  Runners runners(software_mix_of(selection));
  AnswerMaker maker(database, "layout", 2);
  const auto cells = answered_cells(database, source, selection.at, runners, maker);
  Statement select(
      database, best_row(vars_of_cells(database, source), on_several_clusters(database, source)));
  Table table;
  {
    auto nothing = select.use();
    table = fetch(select, nothing);
  }
  for (const auto& cell : cells) {
    auto one = row_of(select, cell.answer);
    if (!one.rows.empty()) table.rows.push_back(std::move(one.rows.front()));
  }
  std::stable_sort(table.rows.begin(), table.rows.end(), row_before);
  table.note = runners.note();
  for (const auto& text : {best_vars_text(cells), not_ranked_now(database, source, selection.at)}) {
    if (!text.empty()) table.note += (table.note.empty() ? "" : "\n") + text;
  }
  return table;
}

Table layouts(Database& database, const Selection& selection) {
  const auto source = source_of(database, selection);
  Runners runners(software_mix_of(selection));
  AnswerMaker maker(database, "layout", 0);
  const auto cells = answered_cells(database, source, selection.at, runners, maker);
  Statement select(database,
      layouts_sql(source, vars_of_cells(database, source), on_several_clusters(database, source)));
  auto use = select.use(source.chosen.sweeps, source.chosen.trials);
  const Table rows = fetch(select, use);
  std::unordered_map<TrialId, std::size_t> places;
  for (std::size_t row = 0; row < rows.rows.size(); ++row)
    places.emplace(std::get<std::int64_t>(rows.rows[row][0]), row);
  Table table{{rows.columns.begin() + columns_for_figures, rows.columns.end()}, {}};
  table.columns.insert(table.columns.end(), figures_of_layouts.begin(), figures_of_layouts.end());
  std::map<std::size_t, std::vector<Value>> in_order;  // rows by their layout's first trial
  for (const auto& cell : cells) {
    for (std::size_t i = 0; i < cell.answer.layouts.size(); ++i) {
      const auto& layout = cell.answer.layouts[i];
      const auto place = places.find(layout.trial);
      if (place == places.end()) continue;
      const auto& chosen = rows.rows[place->second];
      std::size_t first = place->second;
      for (const TrialId run : layout.runs) {
        if (const auto other = places.find(run); other != places.end())
          first = std::min(first, other->second);
      }
      auto& row = in_order[first];
      row.assign(chosen.begin() + columns_for_figures, chosen.end());
      row.insert(row.end(),
          {static_cast<std::int64_t>(layout.runs.size()),
              layout.spread ? Value(*layout.spread) : Value(), chosen[1], chosen[2], chosen[3],
              chosen[4], chosen[5], static_cast<std::int64_t>(i + 1)});
    }
  }
  for (auto& [place, row] : in_order)
    table.rows.push_back(std::move(row));
  table.note = runners.note();
  return table;
}

}  // namespace shardsweep::sqlite
