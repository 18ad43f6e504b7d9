// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.hpp"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string_view>

namespace shardsweep {
namespace {

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

Terminal terminal_of(int descriptor) {
  winsize size{};
  const bool sized = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return terminal_from({.is_terminal = ::isatty(descriptor) == 1,
                        .reported_width = sized ? size.ws_col : std::size_t{0},
                        .columns = ::getenv("COLUMNS"),
                        .no_color = ::getenv("NO_COLOR"),
                        .term = ::getenv("TERM"),
                        .colorterm = ::getenv("COLORTERM"),
                        .utf8 = is_utf8_locale()});
}

}  // namespace shardsweep
