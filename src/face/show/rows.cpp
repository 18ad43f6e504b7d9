// SPDX-License-Identifier: Apache-2.0
#include "show/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace shardsweep {

Rows::Rows(const Table& table) : table_(table) {
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    places_.emplace(table.columns[i], i);
}

const Value& Rows::value(std::size_t row, std::string_view column) const {
  static const Value none;
  const auto place = places_.find(column);
  return place == places_.end() ? none : table_.rows[row][place->second];
}

std::string Rows::text(std::size_t row, std::string_view column) const {
  const auto& found = value(row, column);
  if (const auto* text = std::get_if<std::string>(&found)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&found)) return fmt::to_string(*integer);
  if (const auto* real = std::get_if<double>(&found)) return fmt::to_string(*real);
  return {};
}

std::optional<double> Rows::number(std::size_t row, std::string_view column) const {
  const auto& found = value(row, column);
  if (const auto* real = std::get_if<double>(&found)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&found)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::int64_t Rows::integer(std::size_t row, std::string_view column) const {
  const auto* integer = std::get_if<std::int64_t>(&value(row, column));
  return integer == nullptr ? 0 : *integer;
}

std::vector<std::pair<std::string, double>> Rows::numbers(
    std::size_t row, std::string_view column) const {
  std::vector<std::pair<std::string, double>> parts;
  for (auto& [key, word] : key_values(text(row, column))) {
    double number = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
    if (read.ec == std::errc()) parts.emplace_back(std::move(key), number);
  }
  return parts;
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

}  // namespace shardsweep
