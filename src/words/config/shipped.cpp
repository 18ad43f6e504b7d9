// SPDX-License-Identifier: Apache-2.0
#include "config/shipped.hpp"

#include "builtin/files.hpp"
#include "yaml/readers.hpp"
#include "yaml/source.hpp"
#include "yaml/yaml_tree.hpp"

#include <fmt/format.h>

#include <set>

namespace shardsweep::config {

namespace fs = std::filesystem;

/// A copy of what is built in, as an installation has it, is no file of the user's own.
Result<ShippedFile> read_shipped(const fs::path& folder, std::string_view root,
                                 const fs::path& path) {
  const auto built_in = builtin::text_of((fs::path(root) / path).string());
  const fs::path own = folder / path;
  std::error_code ignored;
  if (fs::exists(own, ignored)) {
    SHARDSWEEP_ASSIGN(auto text, read_text_file(own, most_yaml_bytes));
    if (text != built_in) return ShippedFile{std::move(text), own};
  }
  if (!built_in) {
    return fault(FaultKind::invalid_input, fmt::format("'{}' is neither built in nor in '{}'",
                                                       path.string(), folder.string()));
  }
  return ShippedFile{std::string(*built_in), {}};
}

std::vector<std::string> shipped_names(const fs::path& folder, std::string_view kind) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder / kind, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".yaml") names.insert(entry->path().stem().string());
  }
  const fs::path inside = kind.empty() ? fs::path("sweeps") : fs::path("sweeps") / kind;
  for (const builtin::File& file : builtin::files()) {
    const fs::path path = file.path;
    if (path.parent_path() == inside && path.extension() == ".yaml")
      names.insert(path.stem().string());
  }
  return {names.begin(), names.end()};
}

}  // namespace shardsweep::config
