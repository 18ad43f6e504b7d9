// SPDX-License-Identifier: Apache-2.0
// A runner's answer to `--capabilities`: its name, its version and the layouts that it runs.
// The planner calls other points infeasible, with that reason.
#pragma once

#include <shardsweep/point.hpp>
#include <shardsweep/result.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Name and version of a runner; measurements are compared within them alone.
struct RunnerName {
  std::string name;
  std::string version;
};

struct RunnerRule {
  std::string constraint;  ///< "runner:…"
  std::string when;        ///< expression that is true if the runner refuses
  std::string why;
};

struct Capabilities {
  std::string runner;
  std::string version;
  std::vector<std::string> dtypes;
  std::map<std::string, std::optional<std::int64_t>, std::less<>>
      max;  ///< limits by axis; none: unlimited
  std::map<std::string, std::vector<std::string>, std::less<>> allowed;  ///< allowed words by axis
  std::vector<RunnerRule> rules;
  bool gives_up = false;  ///< takes --give-up-above
};

/// Reads the JSON object that the runner prints.
[[nodiscard]] Result<Capabilities> parse_capabilities(std::string_view json);

}  // namespace shardsweep
