// SPDX-License-Identifier: Apache-2.0
#include "trainer/version.hpp"

#include "text/characters.hpp"

#include <algorithm>
#include <charconv>

namespace shardsweep {
namespace {

constexpr std::size_t longest_version = 40;

// Arguments: a module, files that hold its version (from the module's folder, separated by
// colons), the name of its distribution. A source tree comes before what is installed. Without
// any of them the date of the last commit is the version, as 2026.5.19.
constexpr const char* probe_program = R"python(
import importlib.metadata, importlib.util, os, re, subprocess, sys

module, files, distribution = sys.argv[1:4]


def folders():
    try:
        found = importlib.util.find_spec(module) if module else None
    except (ImportError, ValueError):
        found = None
    return list(found.submodule_search_locations or []) if found else [] if module else [os.getcwd()]


def written(folder):
    for name in filter(None, files.split(":")):
        try:
            text = open(os.path.join(folder, name)).read(65536)
        except OSError:
            continue
        parts = [re.search(rf"^{part} *= *(\d+)", text, re.M) for part in ("MAJOR", "MINOR", "PATCH")]
        if all(parts):
            return ".".join(part[1] for part in parts)
        found = re.search(r"""version_* *= *["']([^"']+)""", text) or re.fullmatch(r"\s*(\d\S*)\s*", text)
        if found:
            return found[1]
    return None


def installed():
    try:
        return importlib.metadata.version(distribution) if distribution else None
    except importlib.metadata.PackageNotFoundError:
        return None


def committed(folder):
    command = ["git", "-C", folder, "log", "-1", "--format=%cs"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=5).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    date = re.fullmatch(r"(\d+)-0?(\d+)-0?(\d+)\s*", said)
    return ".".join(date.groups()) if date else None


places = folders()
found = next(filter(None, map(written, places)), None) or installed()
if not found and not files and not distribution:
    found = next(filter(None, map(committed, places)), None)
print("shardsweep-probe:", found or "unknown")
)python";

/// The number at the beginning, and what stands behind the point after it.
std::int64_t take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  const bool more = text.starts_with('.');
  text = more ? text.substr(1) : std::string_view();
  return number;
}

}  // namespace

std::vector<std::string> probe_command(const Trainer& trainer, const std::string& python) {
  const VersionProbe& probe = trainer.probe;
  if (trainer.from.empty()) return {};
  return {python, "-c", probe_program, probe.module, probe.files, probe.distribution};
}

std::optional<std::string> version_in(const Trainer& trainer, std::string_view line) {
  for (const std::string_view mark : {probe_mark, std::string_view(trainer.probe.line)}) {
    if (mark.empty()) continue;
    const auto at = line.find(mark);
    if (at == std::string_view::npos) continue;
    const auto rest = line.substr(at + mark.size());
    const auto end = rest.find_first_of(" \t,;()\r\n");
    std::string version(rest.substr(0, std::min({end, rest.size(), longest_version})));
    if (!version.empty() && is_digit(version.front())) return version;
  }
  return std::nullopt;
}

int compare_version(std::string_view version, std::string_view bound) {
  while (!bound.empty()) {
    const auto asked = take_number(bound);
    const auto has = take_number(version);
    if (has != asked) return has < asked ? -1 : 1;
  }
  return 0;
}

Result<void> check_version(const Trainer& trainer, std::string_view found) {
  if (trainer.from.empty() || compare_version(found, trainer.from) >= 0) return {};
  return fault(FaultKind::rejected,
      "Version {} of {} was found. The reader '{}' knows the log of versions {} to {}. To read it "
      "all the same, write 'unchecked: [version]'.",
      in_quotes(found), trainer.title, trainer.name, trainer.from, trainer.to);
}

bool is_newer_than_tested(const Trainer& trainer, std::string_view found) {
  return !trainer.to.empty() && compare_version(found, trainer.to) > 0;
}

}  // namespace shardsweep
