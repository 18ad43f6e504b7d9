// SPDX-License-Identifier: Apache-2.0
#include "cli/options.hpp"

#include "show/table_view.hpp"

namespace shardsweep {

bool Options::set_form(std::string_view word) {
  constexpr std::array<std::string_view, 4> pictures{"", "svg", "png", "html"};
  const auto found = std::find(pictures.begin() + 1, pictures.end(), word);
  if (found != pictures.end()) {
    picture = static_cast<PictureForm>(found - pictures.begin());
    return true;
  }
  const auto text_form = format_from(word);
  if (text_form) format = *text_form;
  return text_form.has_value();
}

}  // namespace shardsweep
