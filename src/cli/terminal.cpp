// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.hpp"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

/// The variable that decides about characters, as setlocale(3) looks for it.
std::string_view locale_name() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = ::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "C";
}

bool is_utf8_locale() {
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  if (locale != nullptr) {
    const bool utf8 = std::string_view(::nl_langinfo_l(CODESET, locale)) == "UTF-8";
    ::freelocale(locale);
    return utf8;
  }
  // The locale is not installed here; its name still says what the terminal shows.
  const auto name = locale_name();
  return name.find("UTF-8") != std::string_view::npos ||
         name.find("utf8") != std::string_view::npos;
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
  return terminal;
}

Terminal terminal_of(int descriptor) {
  winsize size{};
  const bool sized = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return terminal_from({.is_terminal = ::isatty(descriptor) == 1,
                        .reported_width = sized ? size.ws_col : std::size_t{0},
                        .columns = ::getenv("COLUMNS"),
                        .no_color = ::getenv("NO_COLOR"),
                        .term = ::getenv("TERM"),
                        .utf8 = is_utf8_locale()});
}

}  // namespace shardsweep
