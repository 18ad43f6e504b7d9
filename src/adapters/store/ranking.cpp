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
      "SELECT trial_id, model, runner_version, tokens_per_s_per_gpu, model || char(31) || "
      "seq_len || char(31) || nodes || char(31) || gpus, {} FROM {} WHERE {} AND attempt_id IS "
      "NOT NULL AND mark IS NULL AND tokens_per_s_per_gpu IS NOT NULL",
      group, source.rows, source.where);
}

constexpr std::string_view best_row =
    "SELECT model, seq_len, nodes, gpus, layout, tokens_per_s_per_gpu, mfu, train_step_ms, "
    "peak_memory_bytes, ? AS repeats, ? AS measured, sweep, trial, runner_version FROM "
    "all_results WHERE trial_id = ?";

void offer(BestOfCell& cell, std::vector<Run>& runs) {
  const auto& run = median(runs);
  const auto count = static_cast<std::int64_t>(runs.size());
  cell.measured += count;
  if (cell.run && cell.run->tokens_per_s_per_gpu >= run.tokens_per_s_per_gpu) return;
  cell.run = run;
  cell.repeats = count;
}

using Key = std::pair<std::string, std::size_t>;  // cell, version
std::map<Key, BestOfCell> best_cells(Database& database, const Source& source,
                                     Versions& versions) {
  Statement select(database, best_sql(source, group_expression(database)));
  auto row = select.use(source.chosen.sweeps, source.chosen.trials);
  std::map<Key, BestOfCell> cells;
  std::map<Key, Layouts> repeated;
  while (row.next()) {
    const Run run{row.real(3), {}, row.integer(0)};
    const Key key{row.text(4), versions.see(row.view(1), row.view(2), true, run.trial)};
    if (row.null(5)) {
      std::vector<Run> alone{run};
      offer(cells[key], alone);
    } else {
      repeated[key].runs[row.text(5)].push_back(run);
    }
  }
  for (auto& [key, layouts] : repeated) {
    for (auto& [group, runs] : layouts.runs)
      offer(cells[key], runs);
  }
  return cells;
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

std::size_t Versions::see(std::string_view model, std::string_view version, bool measured,
                          std::int64_t trial) {
  // A handful of them: a list is faster than a map.
  std::size_t number = 0;
  while (number < seen_.size() &&
         (seen_[number].model != model || seen_[number].version != version))
    ++number;
  if (number == seen_.size())
    seen_.push_back({std::string(model), std::string(version), {}, 0});
  auto& seen = seen_[number];
  seen.newness = std::max(seen.newness, std::pair(measured, trial));
  ++seen.trials;
  return number;
}

bool Versions::counts(std::size_t number) const {
  const auto& one = seen_[number];
  return std::all_of(seen_.begin(), seen_.end(), [&](const Seen& other) {
    return other.model != one.model || other.newness <= one.newness;
  });
}

std::string Versions::note() const {
  std::map<std::string, std::int64_t> left_out;
  for (std::size_t number = 0; number < seen_.size(); ++number) {
    if (!counts(number)) left_out[seen_[number].version] += seen_[number].trials;
  }
  std::string text;
  for (const auto& [version, trials] : left_out)
    text += fmt::format("{}{} trials of runner version {}", text.empty() ? "" : ", ", trials,
                        version);
  if (text.empty()) return text;
  return fmt::format("left out: {}; versions are not mixed unless --where names runner_version",
                     text);
}

bool names_runner_version(const Selection& selection) {
  const auto names = filter::read_identifiers(selection.where);
  return names && (names->contains("runner_version") || names->contains("software_version"));
}

std::string group_expression(Database& database) {
  if (database.integer("SELECT EXISTS (SELECT 1 FROM trials WHERE repeat > 1)") == 0)
    return "NULL";
  // A lane is what differs in micro_batch, grad_accum and repeat alone.
  return "sweep_id || '/' || lane || '/' || micro_batch || '/' || grad_accum";
}

Table best(Database& database, const Selection& selection) {
  const auto source = source_of(database, selection);
  Versions versions;
  const auto cells = best_cells(database, source, versions);
  const bool all = names_runner_version(selection);
  Statement select(database, best_row);
  Table table;
  {
    auto nothing = select.use(0, 0, 0);
    table = fetch(select, nothing);
  }
  for (const auto& [key, cell] : cells) {
    if (!all && !versions.counts(key.second)) continue;
    auto use = select.use(cell.repeats, cell.measured, cell.run->trial);
    auto one = fetch(select, use);
    if (!one.rows.empty()) table.rows.push_back(std::move(one.rows.front()));
  }
  std::stable_sort(table.rows.begin(), table.rows.end(), row_before);
  if (!all) table.note = versions.note();
  return table;
}

}  // namespace shardsweep::sqlite
