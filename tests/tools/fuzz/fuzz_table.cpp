// SPDX-License-Identifier: Apache-2.0
// Tables that others have measured, in each format: read, or refused with file and line.
#include "fuzzing.hpp"

#include <shardsweep/recorded.hpp>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardsweep;
  static const fuzzing::MemoryFile file;
  const auto [number, text] = fuzzing::chosen(data, size, 2);
  file.fill(text);
  const RecordedOptions options{
      .format = number == 0 ? RecordedFormat::csv : RecordedFormat::nanotron,
      .presets = std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps",
      .gpus_per_node = 8};
  const auto sweep = read_recorded(file.path(), options);
  if (!sweep) {
    fuzzing::check_fault(sweep.error());
    return 0;
  }
  for (const RecordedRun& run : sweep->runs) {
    if (run.point.model < 0 || sweep->models.size() <= static_cast<std::size_t>(run.point.model))
      fuzzing::fail("a run of no model", std::string(text));
  }
  if (label_names(*sweep).size() != sweep->labels.size())
    fuzzing::fail("a label without a name", std::string(text));
  return 0;
}
