// SPDX-License-Identifier: Apache-2.0
#include "builtin/files.hpp"

#include <algorithm>

namespace shardsweep::builtin {

std::optional<std::string_view> text_of(std::string_view path) {
  const auto all = files();
  const auto found =
      std::find_if(all.begin(), all.end(), [path](const File& file) { return file.path == path; });
  if (found == all.end()) return std::nullopt;
  return found->text;
}

}  // namespace shardsweep::builtin
