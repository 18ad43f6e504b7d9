// SPDX-License-Identifier: Apache-2.0
#include "causes/fragmentation.hpp"

#include "causes/causes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::string_view expandable = "expandable_segments:";
constexpr double in_kib = 1024;
constexpr double in_mib = 1024 * in_kib;
constexpr double in_gib = 1024 * in_mib;

/// Number with its unit, as in "2.00 GiB", behind the words or in front of them.
enum Side : bool { before, behind };
std::optional<double> bytes_in(std::string_view line, std::string_view words, Side side) {
  constexpr std::array<std::pair<std::string_view, double>, 4> units{
      {{" bytes", 1}, {" KiB", in_kib}, {" MiB", in_mib}, {" GiB", in_gib}}};
  const auto at = line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view head = line.substr(0, at);
  line.remove_prefix(side == behind ? at + words.size() : head.rfind(' ', head.rfind(' ') - 1) + 1);
  double number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  const auto* unit = std::find_if(
      units.begin(), units.end(), [line](const auto& one) { return line.starts_with(one.first); });
  return unit == units.end() ? std::nullopt : std::optional(number * unit->second);
}

/// Newer versions say it; older ones say what was reserved and what of it was allocated.
std::optional<double> unused_in(std::string_view line) {
  if (const auto said = bytes_in(line, " is reserved by PyTorch but unallocated", before))
    return said;
  const auto reserved = bytes_in(line, " reserved in total by PyTorch", before);
  const auto allocated = bytes_in(line, " already allocated", before);
  return reserved && allocated ? std::optional(*reserved - *allocated) : std::nullopt;
}

}  // namespace

std::optional<std::string> fragmentation_in(std::string_view line) {
  const auto tried = bytes_in(line, "Tried to allocate ", behind);
  const auto unused = unused_in(line);
  if (!tried || !unused || *tried <= 0 || *unused < *tried) return std::nullopt;
  return fmt::format(
      "PyTorch held {:.2f} GiB that nobody used, in pieces, and {:.2f} GiB were asked for",
      *unused / in_gib, *tried / in_gib);
}

bool other_memory_in(std::string_view line) {
  const auto total = bytes_in(line, "total capacity of ", behind);
  const auto free = bytes_in(line, " is free", before);
  const auto own = bytes_in(line, "this process has ", behind);
  const auto tried = bytes_in(line, "Tried to allocate ", behind);
  if (!total || !free || !own || !tried) return false;
  constexpr double noticed = 0.1;
  const double others = *total - *free - *own;
  return others >= noticed * *total && others > *tried;
}

std::string with_expandable_segments(std::string_view value) {
  std::string merged;
  while (!value.empty()) {
    const std::string_view part = take_until(',', value);
    if (part.empty() || part.starts_with(expandable)) continue;
    merged += fmt::format("{},", part);
  }
  return fmt::format("{}{}True", merged, expandable);
}

}  // namespace shardsweep
