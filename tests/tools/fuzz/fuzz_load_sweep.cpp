// SPDX-License-Identifier: Apache-2.0
// Whatever stands in a sweep file: loading it ends, in a fault with words or in a sweep, and
// that sweep written out loads to an equal one. A line `#--set KEY=VALUE` is a flag as well;
// the text is read as CSV too.
#include "yaml/csv.hpp"

#include <shardsweep/command.hpp>
#include <shardsweep/load.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

/// The PATH of this machine is no part of what is fuzzed: no program is on it.
std::filesystem::path shardsweep::find_on_path(const std::string& /*program*/) {
  return {};
}

namespace {

using namespace shardsweep;

[[noreturn]] void fail(const char* what, const std::string& details) {
  std::fprintf(stderr, "%s\n%s\n", what, details.c_str());
  std::abort();
}

std::vector<std::string> flags_of(std::string_view text) {
  constexpr std::string_view mark = "#--set ";
  std::vector<std::string> flags;
  for (auto at = text.find(mark); at != std::string_view::npos && flags.size() < 4;
       at = text.find(mark, at)) {
    at += mark.size();
    flags.emplace_back(text.substr(at, text.find('\n', at) - at));
  }
  return flags;
}

SweepSpec without_positions(SweepSpec sweep) {
  sweep.position = {};
  if (sweep.control.layout) sweep.control.layout->position = {};
  for (auto& point : sweep.points)
    point.position = {};
  for (auto& rule : sweep.excludes)
    rule.position = {};
  // Nothing that is written out has their values.
  for (auto& [name, value] : sweep.secrets)
    value.clear();
  return sweep;
}

void check_message(const Fault& fault) {
  if (fault.kind != FaultKind::invalid_input || fault.what.empty())
    fail("a fault that says nothing", fault.what);
  for (const char c : fault.what) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n')
      fail("a control character in a message", fault.what);
  }
}

void check_written_out(const SweepSpec& sweep, const LoadOptions& presets) {
  const auto text = explain_sweep(sweep);
  const auto again = load_sweep_text(text, "explained.yaml", presets);
  if (!again) fail(again.error().what.c_str(), text);
  if (without_positions(*again) != without_positions(sweep))
    fail("written out, a sweep loads to another one", text);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const LoadOptions presets{std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps", {}};
  const LoadOptions options{presets.presets, flags_of(text)};
  const auto loaded = load_sweep_text(text, "sweep.yaml", options);
  if (loaded) {
    check_written_out(*loaded, presets);
  } else {
    check_message(loaded.error());
  }
  const config::Source csv("points.csv", text);
  (void)config::parse_csv(csv);
  return 0;
}
