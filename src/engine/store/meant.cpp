// SPDX-License-Identifier: Apache-2.0
#include "store/meant.hpp"

#include "store/deletion.hpp"
#include "store/reader.hpp"
#include "store/row_sql.hpp"
#include "store/selection.hpp"

#include <fmt/format.h>

namespace shardsweep::sqlite {
namespace {

struct MeantSql {
  const char* named =
      "SELECT s.id FROM sweeps AS s WHERE ?2 OR s.id IN (SELECT value FROM json_each(?1)) ORDER BY "
      "s.id";
  const char* open =
      "SELECT s.id FROM sweeps AS s WHERE EXISTS (SELECT 1 FROM trials AS t WHERE t.sweep = s.id "
      "AND t.hidden = 0 AND t.state <> 'ended')";
};
constexpr MeantSql meant_sql;

}  // namespace

TrialSelection selected(
    Database& database, const std::vector<std::string>& names, const std::string& where) {
  const auto chosen = resolve_names(database, names);
  const auto vars = chosen_vars(database, chosen);
  const auto condition = checked_where(database, where, vars);
  TrialSelection all;
  {
    Statement select(database, meant_sql.named);
    auto row = select.use(chosen.sweeps, chosen.all);
    while (row.next())
      all.sweeps.push_back(row.integer(0));
  }
  Statement select(database,
      fmt::format("SELECT {} FROM trials AS t WHERE (t.hidden = 0 OR t.state IN ('queued', "
                  "'running')) AND {} AND t.id IN (SELECT trial_id FROM (SELECT r.*{} FROM "
                  "all_results AS r) WHERE {}) ORDER BY t.sweep, t.position, t.id",
          trial_row_columns(), chosen_condition(chosen, "t.sweep", "t.id"),
          var_columns(vars, "r.vars"), condition));
  auto row = select.use(chosen.sweeps, chosen.trials);
  while (row.next())
    all.trials.push_back(read_row<TrialRow>(row));
  return all;
}

VerbScope meant(
    Database& database, const std::vector<std::string>& names, const std::string& where) {
  VerbScope found;
  read_rows(database, fmt::format("SELECT {} FROM sweeps", columns_of<SweepRow>()), found.sweeps);
  {
    Statement select(database, meant_sql.open);
    auto row = select.use();
    while (row.next())
      found.open[row.integer(0)] = true;
  }
  found.selected = selected(database, names, where);
  for (const SweepId sweep : found.selected.sweeps)
    found.contents.emplace(sweep, contents(database, sweep));
  return found;
}

}  // namespace shardsweep::sqlite
