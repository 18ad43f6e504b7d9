// SPDX-License-Identifier: Apache-2.0
#include "show/trial_columns.hpp"

#include "predict/memory.hpp"
#include "show/column.hpp"

#include <shardsweep/typed_rows.hpp>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace shardsweep {

TrialColumn trial_column(std::string_view name) {
  if (auto fields = field_columns<ReportedTrial>({name}); !fields.empty())
    return std::move(fields.front().value);
  for (std::size_t i = 0; i < axes_of_trials().size(); ++i) {
    if (axes_of_trials()[i]->name == name)
      return [i](const ReportedTrial& trial) {
        return i < trial.axes.size() ? trial.axes[i] : Value();
      };
  }
  return [](const ReportedTrial&) { return Value(); };
}

std::string plain_text(const Value& value) {
  std::string text;
  fill_field(text, value);
  return text;
}

Point point_of(const ReportedTrial& trial) {
  static const auto columns = [] {
    std::vector<std::pair<const AxisInfo*, TrialColumn>> all;
    for (const auto& axis : axes())
      if (axis.kind != AxisKind::model) all.emplace_back(&axis, trial_column(axis.name));
    return all;
  }();
  Point point;
  for (const auto& [of, column] : columns) {
    const AxisInfo& axis = *of;
    const Value value = column(trial);
    const auto* integer = std::get_if<std::int64_t>(&value);
    const auto* text = std::get_if<std::string>(&value);
    const auto word =
        text != nullptr ? std::find(axis.words.begin(), axis.words.end(), *text) : axis.words.end();
    if (word != axis.words.end()) axis.set(point, word - axis.words.begin());
    if (integer != nullptr && axis.kind != AxisKind::word) axis.set(point, *integer);
  }
  return point;
}

ModelSpec model_of(const ReportedTrial& trial) {
  ModelSpec model = trial.shape;
  model.name = trial.model;
  ModelSpec tied = model;
  tied.tied_embeddings = true;
  return parameters(tied) == trial.n_params ? tied : model;
}

std::vector<std::pair<std::string, std::string>> key_values(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(';'), text.size());
    const auto part = text.substr(0, end);
    const auto equals = std::min(part.find('='), part.size());
    if (equals < part.size()) parts.emplace_back(part.substr(0, equals), part.substr(equals + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<std::pair<std::string, double>> key_numbers(std::string_view text) {
  std::vector<std::pair<std::string, double>> parts;
  for (auto& [key, word] : key_values(text)) {
    double number = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
    if (read.ec == std::errc()) parts.emplace_back(std::move(key), number);
  }
  return parts;
}

}  // namespace shardsweep
