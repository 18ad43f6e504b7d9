// SPDX-License-Identifier: Apache-2.0
// Port: the expressions of `exclude`, of runner rules and of `--where`: SQL over a row of axes
// (by name), vars, `gpus`, `global_batch`, `repeat` and the model's shape (layers, hidden, ffn,
// heads, kv_heads, vocab). `model` is the model's name, words are text, toggles 0 | 1.
#pragma once

#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>
#include <shardsweep/table.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// The names that an expression knows in every sweep, in the order of columns; vars come
/// besides.
[[nodiscard]] const std::vector<std::string_view>& where_columns();

/// A value of a var as expressions and the database have it: a number if it is what that number
/// prints as, else a text.
[[nodiscard]] Value var_value(const std::string& text);

/// Several compiled expressions, asked together. One expression, nothing else: no statement, no
/// sub-query, no function with an effect.
class PointFilter {
 public:
  virtual ~PointFilter() = default;
  /// Index of the first expression that is true for `point`; -1 if none is.
  [[nodiscard]] virtual int first_match(const Point& point) = 0;
  /// The first evaluation that failed (an integer overflow, say); first_match answered -1
  /// there.
  [[nodiscard]] virtual std::optional<Fault> failure() const { return std::nullopt; }
};

/// Faults name the expression, what is wrong and the names that exist.
[[nodiscard]] Result<std::unique_ptr<PointFilter>> compile_filter(
    const SweepSpec& sweep, const std::vector<std::string>& expressions);

}  // namespace shardsweep
