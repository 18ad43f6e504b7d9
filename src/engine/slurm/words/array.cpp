// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/array.hpp"

#include "slurm/words/script.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep::slurm {
namespace {

std::optional<std::int64_t> index_in(std::string_view text) {
  const auto index = number_from<std::int64_t>(text);
  return index && *index >= 0 ? index : std::nullopt;
}

/// "4" of "12_4".
std::optional<std::int64_t> index_of_id(std::string_view id) {
  const std::size_t mark = id.find('_');
  return mark == std::string_view::npos ? std::nullopt : index_in(id.substr(mark + 1));
}

/// "3" or "3-5", appended to `indices`; false if it is neither.
bool add_range(std::string_view text, std::vector<std::int64_t>& indices) {
  constexpr std::int64_t longest_array = 100'000;
  const std::size_t dash = text.find('-');
  const auto first = index_in(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : index_in(text.substr(dash + 1));
  if (!first || !last || *last < *first || *last >= longest_array) return false;
  for (std::int64_t index = *first; index <= *last; ++index)
    indices.push_back(index);
  return static_cast<std::int64_t>(indices.size()) <= longest_array;
}

/// Interpreter, options and comments: up to the first line that does something.
std::string_view head_of(std::string_view script) {
  std::size_t end = 0;
  while (end < script.size() && (script[end] == '#' || script[end] == '\n'))
    end = std::min(script.find('\n', end), script.size() - 1) + 1;
  return script.substr(0, end);
}

std::string_view interpreter_of(std::string_view script) {
  if (!script.starts_with("#!")) return "/bin/sh";
  return script.substr(2, script.find('\n') - 2);
}

}  // namespace

std::string element_token(std::string_view array_token, std::int64_t index) {
  return fmt::format("{}.{}", array_token, index);
}

std::optional<ArrayElement> element_in(std::string_view token_or_name) {
  const std::size_t mark = token_or_name.rfind('.');
  if (mark == std::string_view::npos || mark == 0) return std::nullopt;
  const auto index = index_in(token_or_name.substr(mark + 1));
  if (!index) return std::nullopt;
  return ArrayElement{std::string(token_or_name.substr(0, mark)), *index};
}

std::string allocation_name(std::string_view name, std::string_view id) {
  const auto index = index_of_id(id);
  return index ? element_token(name, *index) : std::string(name);
}

std::vector<std::string> element_ids(std::string_view id) {
  const std::size_t open = id.find("_[");
  if (open == std::string_view::npos || !id.ends_with(']')) return {std::string(id)};
  std::string_view list = id.substr(open + 2, id.size() - open - 3);
  list = list.substr(0, list.find('%'));  // how many may run at once
  std::vector<std::int64_t> indices;
  for (;;) {
    const std::size_t comma = list.find(',');
    if (!add_range(list.substr(0, comma), indices)) return {std::string(id)};
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  std::vector<std::string> ids;
  for (const std::int64_t index : indices)
    ids.push_back(fmt::format("{}_{}", id.substr(0, open), index));
  return ids;
}

std::string slurm_name(std::string_view job_name, std::string_view id) {
  const auto element = index_of_id(id) ? element_in(job_name) : std::nullopt;
  return element ? element->array : std::string(job_name);
}

std::string element_pattern(const std::filesystem::path& file, const ArrayElement& of_token) {
  const std::filesystem::path folder = file.parent_path().parent_path();
  return (folder / (of_token.array + ".%a") / file.filename()).string();
}

std::string array_script(std::string_view first, std::span<const ElementScript> elements) {
  std::string text(head_of(first));
  if (!text.empty() && text.back() != '\n') text += '\n';
  text +=
      "# A job array: each element is an allocation of its own.\n"
      "case $SLURM_ARRAY_TASK_ID in\n";
  for (const ElementScript& element : elements) {
    text += fmt::format("{}) exec {} {} ;;\n", element.index, interpreter_of(first),
        shell_quote(element.path.string()));
  }
  text +=
      "esac\n"
      "echo \"no allocation has the index $SLURM_ARRAY_TASK_ID\" >&2\n"
      "exit 1\n";
  return text;
}

}  // namespace shardsweep::slurm
