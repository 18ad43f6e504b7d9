// SPDX-License-Identifier: Apache-2.0
#include "show/styled_text.hpp"

#include "show/cell_text.hpp"
#include "text/characters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace shardsweep {
namespace {

constexpr std::array<std::string_view, 6> codes{
    "", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31m"};
constexpr std::string_view reset = "\x1b[0m";

std::string_view ellipsis(bool utf8) {
  return utf8 ? "\u2026" : "...";
}

/// The beginning of printable text, as much of it as fits into `width` columns.
std::string_view first_columns(std::string_view text, std::size_t width) {
  const auto continues = [&](std::size_t at) {
    return at < text.size() && is_continuation(text[at]);
  };
  std::size_t used = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = at + 1;
    while (continues(end))
      ++end;
    used += width_of(text.substr(at, end - at));
    if (used > width) break;
    at = end;
  }
  return text.substr(0, at);
}

}  // namespace

Style style_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::completed:
      return Style::good;
    case Outcome::oom:
      return Style::notice;
    case Outcome::skipped:
    case Outcome::rejected:
    case Outcome::cancelled:
      return Style::faint;
    case Outcome::hung:
    case Outcome::timeout:
    case Outcome::node_failure:
    case Outcome::comm_error:
    case Outcome::preempted:
    case Outcome::crashed:
    case Outcome::reaped:
    case Outcome::lost:
      break;
  }
  return Style::bad;
}

std::size_t width_of(const StyledLine& line) {
  std::size_t width = 0;
  for (const Span& span : line)
    width += width_of(printable(span.text));
  return width;
}

std::string cut_to(std::string_view text, std::size_t width, bool utf8) {
  const StyledLine line = cut_to(StyledLine{{std::string(text)}}, width, utf8);
  std::string cut;
  for (const Span& span : line)
    cut += span.text;
  return cut;
}

StyledLine cut_to(StyledLine line, std::size_t width, bool utf8) {
  for (Span& span : line)
    span.text = printable(span.text);
  if (width_of(line) <= width) return line;
  const std::string_view mark = ellipsis(utf8).substr(0, utf8 ? std::string_view::npos : width);
  std::size_t room = width - std::min(width, width_of(mark));
  StyledLine kept;
  for (const Span& span : line) {
    const std::string_view part = first_columns(span.text, room);
    kept.push_back({std::string(part), span.style});
    room -= width_of(part);
    if (part.size() < span.text.size()) break;
  }
  kept.back().text += mark;
  return kept;
}

std::vector<StyledLine> folded_list(
    const std::vector<Span>& parts, std::size_t width, std::size_t indent) {
  const std::string blanks(indent, ' ');
  std::vector<StyledLine> lines;
  std::size_t used = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const std::size_t own = width_of(printable(parts[i].text)) + (last ? 0 : 1);
    if (lines.empty() || used + 1 + own > width) {
      lines.push_back({{blanks}});
      used = indent;
    } else {
      lines.back().push_back({" "});
      used += 1;
    }
    lines.back().push_back(parts[i]);
    if (!last) lines.back().push_back({","});
    used += own;
  }
  return lines;
}

std::string painted(const StyledLine& line, bool colour) {
  std::string text;
  for (const Span& span : line) {
    const std::string_view code = codes[static_cast<std::size_t>(span.style)];
    const bool paint = colour && !code.empty() && !span.text.empty();
    if (paint) text += code;
    text += printable(span.text);
    if (paint) text += reset;
  }
  return text;
}

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
