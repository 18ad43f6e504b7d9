// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/folder_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace shardsweep {

namespace fs = std::filesystem;

Result<std::vector<std::string>> names_in_folder(
    const fs::path& folder, std::size_t most, const std::function<bool(const std::string&)>& keep) {
  std::vector<std::string> names;
  std::error_code why;
  // A range-for would throw if reading fails half-way, as the iterator's ++ does.
  for (fs::directory_iterator entry(folder, why), end; !why && entry != end; entry.increment(why)) {
    auto name = entry->path().filename().string();
    if (!keep(name)) continue;
    if (names.size() == most)
      return fault(FaultKind::invalid_input, "{}: more than {} files", folder.string(), most);
    names.push_back(std::move(name));
  }
  if (why && why != std::errc::no_such_file_or_directory)
    return fault(FaultKind::unavailable, "{}: {}", folder.string(), why.message());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace shardsweep
