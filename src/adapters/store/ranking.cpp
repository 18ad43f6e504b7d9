// SPDX-License-Identifier: Apache-2.0
#include "adapters/store/ranking.hpp"

#include "adapters/filter/expression.hpp"
#include "adapters/store/deadline.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep::sqlite {
namespace {

/// A layout's runs, and the cell that it stands in.
struct Layouts {
  std::unordered_map<std::string, std::vector<Run>> runs;  ///< by group
};

struct BestOfCell {
  std::optional<Run> run;
  std::int64_t repeats = 0;
  std::int64_t measured = 0;
};

std::string best_sql(const Source& source, const std::string& group) {
  return fmt::format(
      "SELECT trial_id, model, runner, runner_version, tokens_per_s_per_gpu, model || char(31) "
      "|| seq_len || char(31) || nodes || char(31) || gpus, {} FROM {} WHERE {} AND attempt_id "
      "IS "
      "NOT NULL AND mark IS NULL AND tokens_per_s_per_gpu IS NOT NULL",
      group, source.rows, source.where);
}

constexpr std::string_view best_row =
    "SELECT model, seq_len, nodes, gpus, layout, tokens_per_s_per_gpu, mfu, train_step_ms, "
    "peak_memory_bytes, ? AS repeats, ? AS measured, sweep, trial, runner, runner_version "
    "FROM "
    "all_results WHERE trial_id = ?";

void offer(BestOfCell& cell, std::vector<Run>& runs) {
  const auto& run = median(runs);
  const auto count = static_cast<std::int64_t>(runs.size());
  cell.measured += count;
  if (cell.run && cell.run->tokens_per_s_per_gpu >= run.tokens_per_s_per_gpu) return;
  cell.run = run;
  cell.repeats = count;
}

using Key = std::pair<std::string, std::size_t>;  // cell, runner
std::map<Key, BestOfCell> best_cells(Database& database, const Source& source,
                                     Runners& runners) {
  Statement select(database, best_sql(source, group_expression(database)));
  auto row = select.use(source.chosen.sweeps, source.chosen.trials);
  std::map<Key, BestOfCell> cells;
  std::map<Key, Layouts> repeated;
  while (row.next()) {
    const Run run{row.real(4), {}, row.integer(0)};
    const Key key{row.text(5),
                  runners.see(row.view(1), row.view(2), row.view(3), true, run.trial)};
    if (row.null(6)) {
      std::vector<Run> alone{run};
      offer(cells[key], alone);
    } else {
      repeated[key].runs[row.text(6)].push_back(run);
    }
  }
  for (auto& [key, layouts] : repeated) {
    for (auto& [group, runs] : layouts.runs)
      offer(cells[key], runs);
  }
  return cells;
}

std::string called(const std::string& runner, const std::string& version) {
  return version.empty() ? runner : runner + ' ' + version;
}

/// As SQL writes a text.
std::string as_sql_text(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + '\'';
}

bool row_before(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::lexicographical_compare(a.begin(), a.begin() + 4, b.begin(), b.begin() + 4);
}

}  // namespace

const Run& median(std::vector<Run>& runs) {
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>((runs.size() - 1) / 2);
  std::nth_element(runs.begin(), middle, runs.end(), [](const Run& a, const Run& b) {
    return std::pair(a.tokens_per_s_per_gpu, a.trial) <
           std::pair(b.tokens_per_s_per_gpu, b.trial);
  });
  return *middle;
}

Mixing mixing_of(const Selection& selection) {
  const auto names = filter::read_identifiers(selection.where);
  if (!names) return {};
  return {names->contains("runner"),
          names->contains("runner_version") || names->contains("software_version")};
}

std::size_t Runners::see(std::string_view model, std::string_view runner,
                         std::string_view version, bool measured, std::int64_t trial) {
  // A handful of them: a list is faster than a map.
  std::size_t number = 0;
  while (number < seen_.size() &&
         (seen_[number].model != model || seen_[number].runner != runner ||
          seen_[number].version != version))
    ++number;
  if (number == seen_.size())
    seen_.push_back({std::string(model), std::string(runner), std::string(version), {}, 0});
  auto& seen = seen_[number];
  seen.newness = std::max(seen.newness, std::pair(measured, trial));
  ++seen.trials;
  return number;
}

/// True where only one of the two may be shown.
bool Runners::is_rival(const Seen& one, const Seen& other) const {
  if (one.model != other.model) return false;
  const bool same = one.runner == other.runner;
  return same ? !mixing_.versions : !mixing_.runners;
}

/// Where versions stand side by side, a runner is as new as the newest of its versions.
Runners::Newness Runners::newness_of(const Seen& one) const {
  if (!mixing_.versions) return one.newness;
  Newness newest = one.newness;
  for (const Seen& other : seen_) {
    if (other.model == one.model && other.runner == one.runner)
      newest = std::max(newest, other.newness);
  }
  return newest;
}

bool Runners::counts(std::size_t number) const {
  const auto& one = seen_[number];
  const auto newness = newness_of(one);
  return std::all_of(seen_.begin(), seen_.end(), [&](const Seen& other) {
    return !is_rival(one, other) || newness_of(other) <= newness;
  });
}

std::vector<std::string> Runners::shown() const {
  std::vector<std::string> names;
  for (std::size_t number = 0; number < seen_.size(); ++number) {
    auto name = called(seen_[number].runner, seen_[number].version);
    const bool known = std::find(names.begin(), names.end(), name) != names.end();
    if (counts(number) && !known) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Runners::note(std::string_view version_column) const {
  std::map<std::string, std::int64_t> left_out;
  std::string other_runner;
  std::string other_version;
  for (std::size_t number = 0; number < seen_.size(); ++number) {
    const Seen& seen = seen_[number];
    if (counts(number)) continue;
    left_out[called(seen.runner, seen.version)] += seen.trials;
    const bool runner_is_shown = std::any_of(seen_.begin(), seen_.end(), [&](const Seen& one) {
      return one.model == seen.model && one.runner == seen.runner &&
             counts(static_cast<std::size_t>(&one - seen_.data()));
    });
    (runner_is_shown ? other_version : other_runner) =
        runner_is_shown ? seen.version : seen.runner;
  }
  if (left_out.empty()) return "";
  std::string hidden;
  for (const auto& [name, trials] : left_out)
    hidden += fmt::format("{}{} ({} {})", hidden.empty() ? "" : ", ", name, trials,
                          trials == 1 ? "trial" : "trials");
  const std::string way =
      other_runner.empty() ? fmt::format("{} = {}", version_column, as_sql_text(other_version))
                           : fmt::format("runner = {}", as_sql_text(other_runner));
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
  // A lane is what differs in micro_batch, grad_accum and repeat alone.
  return "sweep_id || '/' || lane || '/' || micro_batch || '/' || grad_accum";
}

Table best(Database& database, const Selection& selection) {
  const auto source = source_of(database, selection);
  Runners runners(mixing_of(selection));
  const auto cells = best_cells(database, source, runners);
  Statement select(database, best_row);
  Table table;
  {
    auto nothing = select.use(0, 0, 0);
    table = fetch(select, nothing);
  }
  for (const auto& [key, cell] : cells) {
    if (!runners.counts(key.second)) continue;
    auto use = select.use(cell.repeats, cell.measured, cell.run->trial);
    auto one = fetch(select, use);
    if (!one.rows.empty()) table.rows.push_back(std::move(one.rows.front()));
  }
  std::stable_sort(table.rows.begin(), table.rows.end(), row_before);
  table.note = runners.note(version_column(source));
  return table;
}

}  // namespace shardsweep::sqlite
