// SPDX-License-Identifier: Apache-2.0
#include "show/log_text.hpp"

#include "show/cell_text.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::size_t longest_line = 65536;  // a longer one is shown in pieces

}  // namespace

std::string LogText::shown(std::string_view line) const {
  if (!visible_) return prefix_ + std::string(line) + '\n';
  std::string text = prefix_;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t tab = std::min(line.find('\t', at), line.size());
    text += printable(line.substr(at, tab - at));
    if (tab < line.size()) text += '\t';
    at = tab + 1;
  }
  return text + '\n';
}

std::string LogText::take(std::string_view bytes) {
  if (prefix_.empty() && !visible_) return std::string(bytes);
  std::string text;
  const char* ends = visible_ ? "\r\n" : "\n";
  while (!bytes.empty()) {
    // The second half of "\r\n" ends nothing more.
    const bool half = std::exchange(returned_, false) && bytes.front() == '\n';
    if (half) {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of(ends);
    held_ += bytes.substr(0, end);
    const bool whole = end != std::string_view::npos;
    if (whole || held_.size() >= longest_line) {
      text += shown(held_);
      held_.clear();
    }
    if (!whole) break;
    returned_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
  }
  return text;
}

std::string LogText::rest() {
  if (held_.empty()) return "";
  std::string text = shown(held_);
  held_.clear();
  return text;
}

}  // namespace shardsweep
