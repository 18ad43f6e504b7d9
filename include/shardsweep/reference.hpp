// SPDX-License-Identifier: Apache-2.0
// Port: what sweep and site files may hold, from the tables that the loader reads by.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct ReferenceTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// Tables of `keys`, `axes`, `units`, `placeholders`, `patterns`, `words`, `site` or `columns`, or
/// of a section or key of the sweep file; none for another word.
[[nodiscard]] std::vector<ReferenceTable> reference_of(std::string_view topic);
[[nodiscard]] std::string reference_markdown(const std::vector<ReferenceTable>& tables);
[[nodiscard]] std::string reference_text(const std::vector<ReferenceTable>& tables);

/// JSON Schema (draft 7) of the sweep file, for editors.
[[nodiscard]] std::string sweep_schema();
/// JSON Schema of a trainer's file.
[[nodiscard]] std::string trainer_schema();

}  // namespace shardsweep
