// SPDX-License-Identifier: Apache-2.0
#include "text/characters.hpp"
#include "text/secrets.hpp"

#include <shardsweep/bundle.hpp>

#include <fmt/format.h>

#include <sys/utsname.h>

#include <algorithm>

namespace shardsweep {
namespace {

constexpr std::size_t longest_bundle_line = 2000;

/// Keeps the last lines of a text that is too long.
std::string_view last_lines(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  text.remove_prefix(text.size() - most);
  return text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
}

/// Each line of a value too: a log may have been cut within the value.
Secrets with_lines(const Secrets& secrets) {
  Secrets all = secrets;
  for (const auto& [name, value] : secrets) {
    for (std::size_t at = 0; at < value.size();) {
      const std::size_t end = std::min(value.find('\n', at), value.size());
      all.emplace(fmt::format("{}.{}", name, at), value.substr(at, end - at));
      at = end + 1;
    }
  }
  return all;
}

void add_part(std::string& bundle, const BundlePart& part, const Secrets& secrets) {
  // Mask first: half a secret could not be found after the cut.
  const std::string clean = masked(part.text, secrets);
  std::string_view text = last_lines(clean, most_part_bytes);
  bundle += fmt::format("\n{}:\n", part.title);
  if (text.size() < clean.size())
    bundle += fmt::format("[{} bytes before this are left out]\n", clean.size() - text.size());
  while (!text.empty()) {
    const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size()));
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string shown = part.foreign ? without_assigned_secrets(line) : std::string(line);
    bundle.append(indent, ' ') += one_line(shown, longest_bundle_line) + "\n";
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
}

}  // namespace

std::string version_and_system() {
  struct utsname system {};
  (void)::uname(&system);
  return fmt::format("shardsweep {}, {} {} {}", SHARDSWEEP_VERSION, system.sysname, system.release,
      system.machine);
}

std::string bundle_text(
    std::string_view head, const std::vector<BundlePart>& parts, const Secrets& secrets) {
  const Secrets all = with_lines(secrets);
  std::string bundle = masked(std::string(head), all);
  for (const BundlePart& part : parts)
    add_part(bundle, part, all);
  return bundle;
}

}  // namespace shardsweep
