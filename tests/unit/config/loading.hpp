// SPDX-License-Identifier: Apache-2.0
// What the loader's tests share: presets of the source tree, texts in, and specs without the
// positions in which two equal sweeps differ.
#pragma once

#include <shardsweep/load.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::test {

inline LoadOptions with_presets(std::vector<std::string> set = {}) {
  return {std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps", std::move(set)};
}

inline Result<SweepSpec> load_text(std::string_view text, std::vector<std::string> set = {}) {
  return load_sweep_text(text, "sweep.yaml", with_presets(std::move(set)));
}

/// The fault's words, or "accepted".
inline std::string fault_of(const Result<SweepSpec>& loaded) {
  return loaded ? std::string("accepted") : loaded.error().what;
}

inline SweepSpec without_positions(SweepSpec sweep) {
  sweep.position = {};
  if (sweep.control.layout) sweep.control.layout->position = {};
  for (auto& point : sweep.points)
    point.position = {};
  for (auto& rule : sweep.excludes)
    rule.position = {};
  return sweep;
}

}  // namespace shardsweep::test
