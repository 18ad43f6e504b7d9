// SPDX-License-Identifier: Apache-2.0
// Trials of a report by the names of their columns: a page, its script and a pivot choose columns
// by name. Whoever wants a certain one takes the field of ReportedTrial.
#pragma once

#include <shardsweep/point.hpp>
#include <shardsweep/report_facts.hpp>
#include <shardsweep/table.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

using TrialColumn = std::function<Value(const ReportedTrial&)>;
/// A field or an axis; of any other name NULL.
[[nodiscard]] TrialColumn trial_column(std::string_view name);

/// A value as text; NULL is empty.
[[nodiscard]] std::string plain_text(const Value& value);

/// The trial's point. Its model is number 0, and its vars are unset.
[[nodiscard]] Point point_of(const ReportedTrial& trial);

/// The trial's model, by the numbers of its shape. Whether its embeddings are one follows from the
/// number of parameters.
[[nodiscard]] ModelSpec model_of(const ReportedTrial& trial);

/// The parts of `key=value;key=value`.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> key_values(std::string_view text);
/// The parts whose value is a number.
[[nodiscard]] std::vector<std::pair<std::string, double>> key_numbers(std::string_view text);

}  // namespace shardsweep
