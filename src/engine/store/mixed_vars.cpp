// SPDX-License-Identifier: Apache-2.0
#include "store/mixed_vars.hpp"

#include "store/deadline.hpp"
#include "store/ranking.hpp"

#include <fmt/format.h>

namespace shardsweep::sqlite {
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

}  // namespace shardsweep::sqlite
