// SPDX-License-Identifier: Apache-2.0
// The explorer: the planner itself, compiled to WebAssembly, in a page of one file, with a form
// to ask it and cards for its answers.
#pragma once

#include <string>
#include <string_view>

namespace shardsweep {

struct ExplorerInput {
  std::string_view glue;     ///< planner.js, emscripten's loader; empty: the page's server answers
  std::string_view wasm_gz;  ///< planner.wasm.gz, as bytes
  /// {"models": {name: …}, "clusters": {name: …}, "learnt": [{…}]}, as explore/question.hpp
  /// reads them.
  std::string_view presets;
};

[[nodiscard]] std::string explorer_page(const ExplorerInput& input);

}  // namespace shardsweep
