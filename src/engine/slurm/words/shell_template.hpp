// SPDX-License-Identifier: Apache-2.0
// A strict, line-oriented template for job scripts. No logic: everything is computed before.
//   {{key}}    is replaced; the key must have a value
//   {{?key}}   on a line: the line vanishes where the key has no value (the mark itself
//   vanishes)
//   {{*key}}   on a line: the line is repeated for each element of a list
// An unknown key and a value that no line uses are both errors.
#pragma once

#include <shardsweep/result.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct TemplateValues {
  std::map<std::string, std::string, std::less<>> values;              ///< {{key}}, {{?key}}
  std::map<std::string, std::vector<std::string>, std::less<>> lists;  ///< {{*key}}
  std::vector<std::string>
      optional;  ///< keys that a template may leave unused or ask for in vain
};

/// `name` stands for the template in messages: "lane.sbatch:7: unknown key 'nods'".
[[nodiscard]] Result<std::string> render_template(std::string_view text, std::string_view name,
                                                  const TemplateValues& values);

/// One word for a POSIX shell, whatever bytes it holds.
[[nodiscard]] std::string shell_quote(std::string_view word);
/// The words of a command, each quoted where it has to be.
[[nodiscard]] std::string shell_command(const std::vector<std::string>& argv);

}  // namespace shardsweep
