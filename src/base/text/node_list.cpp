// SPDX-License-Identifier: Apache-2.0
#include "text/node_list.hpp"

#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace shardsweep {
namespace {

// Slurm's own limit is 65,533 nodes.
constexpr std::size_t most_nodes = std::size_t{1} << 16;
using Names = std::vector<std::string>;

/// "7", "1-4", "08-11": the numbers as they stand in names. False if it is no range.
bool add_range(std::string_view range, Names& numbers) {
  const std::string_view low = range.substr(0, range.find('-'));
  const std::string_view high = low.size() == range.size() ? low : range.substr(low.size() + 1);
  const auto first = number_from<std::uint32_t>(low);
  const auto last = number_from<std::uint32_t>(high);
  if (!first || !last || *last < *first || *last - *first >= most_nodes) return false;
  for (std::uint32_t number = *first; number <= *last; ++number)
    numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  return numbers.size() <= most_nodes;
}

/// "1-3,07", what stands between brackets. Empty if it is no such thing.
Names numbers_of(std::string_view inside) {
  Names numbers;
  while (true) {
    const std::size_t comma = std::min(inside.find(','), inside.size());
    if (!add_range(inside.substr(0, comma), numbers)) return {};
    if (comma == inside.size()) return numbers;
    inside.remove_prefix(comma + 1);
  }
}

/// Each name with each of the endings. Empty if there would be too many.
Names joined(const Names& names, const Names& endings) {
  if (endings.empty() || names.size() > most_nodes / endings.size()) return {};
  Names all;
  for (const std::string& name : names) {
    for (const std::string& ending : endings)
      all.push_back(name + ending);
  }
  return all;
}

/// One item of a list: "login", "n[1-2]-ib", "r[0-1]n[0-3]". Empty if it is no such thing.
Names names_of(std::string_view item) {
  Names names{""};
  while (!item.empty() && !names.empty()) {
    const std::size_t open = std::min(item.find('['), item.size());
    if (open > 0) {
      names = joined(names, {std::string(item.substr(0, open))});
      item.remove_prefix(open);
      continue;
    }
    const std::size_t close = item.find(']');
    if (close == std::string_view::npos) return {};
    names = joined(names, numbers_of(item.substr(1, close - 1)));
    item.remove_prefix(close + 1);
  }
  return names;
}

/// End of the first item of the list: commas within brackets do not count.
std::size_t end_of_item(std::string_view list) {
  bool inside = false;
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at] == '[') inside = true;
    if (list[at] == ']') inside = false;
    if (list[at] == ',' && !inside) return at;
  }
  return list.size();
}

}  // namespace

std::vector<std::string> nodes_in(std::string_view slurm_list) {
  Names nodes;
  const bool is_sentence = slurm_list.find_first_of(" ()\t\n") != std::string_view::npos;
  if (slurm_list.empty() || is_sentence) return nodes;
  while (true) {
    const std::size_t end = end_of_item(slurm_list);
    const Names names = names_of(slurm_list.substr(0, end));
    const bool fits = end > 0 && !names.empty() && nodes.size() + names.size() <= most_nodes;
    if (!fits) return {};
    nodes.insert(nodes.end(), names.begin(), names.end());
    if (end == slurm_list.size()) return nodes;
    slurm_list.remove_prefix(end + 1);
  }
}

std::string only_node_in(std::string_view slurm_list) {
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  const Names nodes = nodes_in(slurm_list);
  const bool is_one = nodes.size() == 1 && nodes[0].find_first_not_of(letters) == std::string::npos;
  return is_one ? nodes[0] : "";
}

}  // namespace shardsweep
