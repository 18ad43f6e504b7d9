// SPDX-License-Identifier: Apache-2.0
#include "slurm/words/options.hpp"

#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep::slurm {
namespace {

bool is_part_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

/// "-A, --account=name   charge job …", "-B  --extra-node-info=S", "    --bb=<spec>": the name.
/// Lines that go on with a description begin with a word; one may begin with an option that it
/// explains ("--mem >= --mem-per-cpu"), which is an option as well.
std::string_view option_of(std::string_view line) {
  line = trimmed(line);
  if (line.size() > 2 && line[0] == '-' && line[1] != '-')
    line = trimmed(line.substr(line[2] == ',' ? 3 : 2));
  if (!line.starts_with("--")) return {};
  line.remove_prefix(2);
  const auto* end = std::find_if_not(line.begin(), line.end(), is_part_of_name);
  return line.substr(0, static_cast<std::size_t>(end - line.begin()));
}

}  // namespace

std::vector<std::string> parse_options(std::string_view help) {
  std::vector<std::string> names;
  for (const std::string_view line : split(help, '\n')) {
    const std::string_view name = option_of(line);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> option_question(std::string_view option) {
  return {"sbatch", fmt::format("--{}=1", option), "--version"};
}

bool lacks_option(std::string_view err) {
  // Messages of getopt_long(3) in glibc and musl.
  return err.find("unrecognized option") != std::string_view::npos ||
      err.find("' is ambiguous") != std::string_view::npos;
}

}  // namespace shardsweep::slurm
