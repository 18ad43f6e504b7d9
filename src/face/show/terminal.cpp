// SPDX-License-Identifier: Apache-2.0
#include "show/terminal.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace shardsweep {
namespace {

constexpr std::size_t usual_width = 80;
constexpr std::size_t least_width = 20;

std::optional<std::size_t> width_in(const char* columns) {
  if (columns == nullptr) return std::nullopt;
  const std::string_view text(columns);
  std::size_t width = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), width);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || width == 0)
    return std::nullopt;
  return std::max(width, least_width);
}

}  // namespace

Terminal terminal_from(const TerminalFacts& facts) {
  Terminal terminal;
  terminal.utf8 = facts.utf8;
  terminal.live = facts.is_terminal;
  terminal.width = width_in(facts.columns);
  if (!terminal.width && facts.is_terminal) {
    terminal.width =
        facts.reported_width == 0 ? usual_width : std::max(facts.reported_width, least_width);
  }
  const bool refused = facts.no_color != nullptr && *facts.no_color != '\0';
  const bool dumb = facts.term != nullptr && std::string_view(facts.term) == "dumb";
  terminal.colour = facts.is_terminal && !refused && !dumb;
  const std::string_view depth = facts.colorterm == nullptr ? "" : facts.colorterm;
  terminal.truecolour = terminal.colour && (depth == "truecolor" || depth == "24bit");
  return terminal;
}

std::size_t text_width(const Terminal& terminal) {
  constexpr std::size_t readable = 100;
  return std::min(terminal.width.value_or(usual_width), readable);
}

}  // namespace shardsweep
