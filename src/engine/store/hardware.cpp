// SPDX-License-Identifier: Apache-2.0
#include "store/hardware.hpp"

#include "store/deadline.hpp"

#include <fmt/format.h>

#include <variant>

namespace shardsweep::sqlite {
namespace {

constexpr const char* any_other_sql = "SELECT count(DISTINCT cluster) > 1 FROM sweeps";

}  // namespace

Hardware::Hardware(Database& database) {
  std::unordered_map<std::string, std::size_t> known;
  Statement select(database, "SELECT id, cluster FROM sweeps ORDER BY id");
  auto row = select.use();
  while (row.next())
    numbers_.emplace(row.integer(0), known.try_emplace(row.text(1), known.size()).first->second);
}

std::size_t Hardware::of(std::int64_t sweep) const {
  if (sweep != last_sweep_) {
    const auto found = numbers_.find(sweep);
    last_ = found == numbers_.end() ? 0 : found->second;
    last_sweep_ = sweep;
  }
  return last_;
}

bool on_several_clusters(Database& database) {
  return database.integer(any_other_sql) != 0;
}

bool on_several_clusters(Database& database, const Source& source) {
  if (!on_several_clusters(database)) return false;
  Statement select(database,
      fmt::format("SELECT count(DISTINCT (SELECT cluster FROM sweeps WHERE id = sweep_id)) > 1 "
                  "FROM {} WHERE {} AND tokens_per_s_per_gpu IS NOT NULL",
          source.trial_rows, source.where));
  auto row = select.use(source.chosen.sweeps, source.chosen.trials);
  return row.next() && row.integer(0) != 0;
}

std::string keep_one_cluster(Database& database, Source& source) {
  if (!on_several_clusters(database)) return {};
  Statement select(database,
      fmt::format("SELECT (SELECT cluster FROM sweeps WHERE id = sweep_id), count(*), sum(outcome "
                  "IS 'completed') FROM {} WHERE {} GROUP BY 1 ORDER BY 3 DESC, 2 DESC, 1",
          source.trial_rows, source.where));
  auto use = select.use(source.chosen.sweeps, source.chosen.trials);
  const auto clusters = fetch(select, use).rows;
  if (clusters.size() < 2) return {};
  const auto name = [&](std::size_t place) {
    const auto* text = std::get_if<std::string>(&clusters[place][0]);
    return literal(text == nullptr ? "" : *text);
  };
  source.where = fmt::format(
      "({}) AND sweep_id IN (SELECT id FROM sweeps WHERE cluster = {})", source.where, name(0));
  return fmt::format(
      "The trials ran on {} clusters. Shown: cluster = {}. For others add --where \"cluster = "
      "{}\".",
      clusters.size(), name(0), name(1));
}

}  // namespace shardsweep::sqlite
