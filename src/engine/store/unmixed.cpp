// SPDX-License-Identifier: Apache-2.0
#include "store/unmixed.hpp"

#include "store/ranking.hpp"
#include "store/reading.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace shardsweep::sqlite {
namespace {

/// The first shape behind `last` in the index, where `same` of its columns are alike.
std::optional<std::vector<Value>> next_shape(
    Database& database, const std::vector<Value>& last, std::size_t same) {
  std::string condition = "1";
  for (std::size_t i = 0; i < same; ++i)
    condition += fmt::format(" AND {} = ?", Shapes::names[i]);
  if (!last.empty()) condition += fmt::format(" AND {} > ?", Shapes::names[same]);
  Statement select(database,
      fmt::format("SELECT {0}, 0, 0 FROM trials WHERE {1} ORDER BY {0} LIMIT 1",
          fmt::join(Shapes::names, ", "), condition));
  auto use = select.use();
  for (std::size_t i = 0; !last.empty() && i <= same; ++i)
    use.bind_value(last[i]);
  auto rows = fetch(select, use).rows;
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

}  // namespace

Shapes shapes_of(Database& database, const Source& source) {
  Statement select(database,
      fmt::format(
          "SELECT {0}, count(*), sum(outcome IS 'completed') FROM {1} WHERE {2} GROUP BY {0}",
          fmt::join(Shapes::names, ", "), source.trial_rows, source.where));
  auto use = select.use(source.chosen.sweeps, source.chosen.trials);
  return {fetch(select, use).rows};
}

std::optional<Shapes> few_shapes(Database& database) {
  constexpr std::size_t many = 1000;
  Shapes shapes;
  auto next = next_shape(database, {}, 0);
  while (next) {
    if (shapes.rows.size() == many) return std::nullopt;
    shapes.rows.push_back(std::move(*next));
    next.reset();
    for (std::size_t same = Shapes::names.size(); !next && same > 0; --same)
      next = next_shape(database, shapes.rows.back(), same - 1);
  }
  return shapes;
}

namespace {

/// Columns in which numbers of one cell must not differ, beside the axes that were asked for.
std::vector<std::string> unmixed_columns(const HeatmapRequest& request) {
  const auto is_axis = [&](std::string_view name) {
    return request.rows == name || request.columns == name;
  };
  std::vector<std::string> columns;
  for (const char* name : {"model", "seq_len"}) {
    if (!is_axis(name)) columns.emplace_back(name);
  }
  if (!is_axis("gpus") && !is_axis("nodes")) columns.emplace_back("gpus");
  return columns;
}

/// `model = 'tiny' and gpus = 4`: a row's values of these columns.
std::string condition_of(const std::vector<std::string>& columns, const std::vector<Value>& row) {
  std::string text;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto* integer = std::get_if<std::int64_t>(&row[i]);
    const auto* word = std::get_if<std::string>(&row[i]);
    text += fmt::format("{}{} = {}", i == 0 ? "" : " and ", columns[i],
        integer != nullptr ? fmt::to_string(*integer) : literal(word != nullptr ? *word : ""));
  }
  return text;
}

/// Trials with the same values of some columns.
struct Combination {
  std::vector<Value> values{};
  std::int64_t completed = 0;
  std::int64_t trials = 0;
};

/// The one with the most measurements first.
std::vector<Combination> combinations_of(
    const Shapes& shapes, const std::vector<std::string>& columns) {
  std::map<std::vector<Value>, Combination> found;
  for (const auto& row : shapes.rows) {
    std::vector<Value> values;
    values.reserve(columns.size());
    for (const auto& column : columns)
      values.push_back(row[Shapes::place_of(column)]);
    auto& one = found.try_emplace(values, Combination{values}).first->second;
    one.completed += Shapes::completed(row);
    one.trials += Shapes::trials(row);
  }
  std::vector<Combination> all;
  all.reserve(found.size());
  for (auto& [values, one] : found)
    all.push_back(std::move(one));
  std::stable_sort(all.begin(), all.end(), [](const Combination& a, const Combination& b) {
    return std::pair(a.completed, a.trials) > std::pair(b.completed, b.trials);
  });
  return all;
}

/// "2 models and 3 GPU counts"
std::string mixture_text(
    const std::vector<std::string>& columns, const std::vector<Combination>& combinations) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::set<Value> values;
    for (const auto& one : combinations)
      values.insert(one.values[i]);
    const auto* noun = columns[i] == "gpus" ? "GPU count"
        : columns[i] == "seq_len"           ? "sequence length"
                                            : "model";
    if (values.size() > 1) parts.push_back(counted(static_cast<std::int64_t>(values.size()), noun));
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

}  // namespace

std::string world_column(const Shapes& shapes) {
  const auto nodes = Shapes::place_of("nodes");
  const auto gpus = Shapes::place_of("gpus");
  std::map<std::int64_t, std::set<std::int64_t>> sizes;
  for (const auto& row : shapes.rows)
    sizes[std::get<std::int64_t>(row[nodes])].insert(std::get<std::int64_t>(row[gpus]));
  const bool by_gpus = std::any_of(sizes.begin(), sizes.end(),
      [](const auto& one) { return one.first == 0 || one.second.size() > 1; });
  return by_gpus ? "gpus" : "nodes";
}

bool is_mixed(const HeatmapRequest& request, const Shapes& shapes) {
  return combinations_of(shapes, unmixed_columns(request)).size() > 1;
}

std::string keep_unmixed(const HeatmapRequest& request, const Shapes& shapes, Source& source) {
  const auto columns = unmixed_columns(request);
  if (columns.empty()) return {};
  const auto combinations = combinations_of(shapes, columns);
  if (combinations.size() < 2) return {};
  const auto shown = condition_of(columns, combinations[0].values);
  source.where = fmt::format("({}) AND {}", source.where, shown);
  return fmt::format("The trials have {}. Shown: {}. For others add --where \"{}\".",
      mixture_text(columns, combinations), shown, condition_of(columns, combinations[1].values));
}

namespace {

std::string value_literal(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return fmt::to_string(*real);
  const auto* text = std::get_if<std::string>(&value);
  return literal(text == nullptr ? "" : *text);
}

}  // namespace

std::vector<MixedVar> mixed_vars(
    Database& database, const Source& source, const HeatmapRequest& request) {
  std::vector<MixedVar> mixed;
  for (const auto& name : vars_of_cells(database, source)) {
    if (name == request.rows || name == request.columns) continue;
    Statement select(database,
        fmt::format("SELECT count(DISTINCT {0}), min({0}) FROM {1} WHERE {2}", identifier(name),
            source.trial_rows, source.where));
    auto use = select.use(source.chosen.sweeps, source.chosen.trials);
    const auto row = fetch(select, use).rows.front();
    const auto values = std::get<std::int64_t>(row[0]);
    if (values > 1) mixed.push_back({name, values, row[1]});
  }
  return mixed;
}

std::string mixed_vars_text(const std::vector<MixedVar>& mixed) {
  std::string text;
  for (const auto& var : mixed)
    text += fmt::format(
        "{}Cells compare up to {} values of {}, and a cell's layout names the fastest one. For one "
        "value add --where \"{} = {}\".",
        text.empty() ? "" : " ", var.values, var.name, var.name, value_literal(var.one));
  return text;
}

std::string label_expression(const std::vector<MixedVar>& mixed) {
  std::string text = "layout";
  for (const auto& var : mixed)
    text += fmt::format(" || ifnull({} || json_extract(vars, {}), '')",
        literal(fmt::format(" {}=", var.name)), literal(fmt::format("$.\"{}\"", var.name)));
  return text;
}

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
