// SPDX-License-Identifier: Apache-2.0
// A rank's flight recorder, and what `--read-recorder` prints of all of them.
#include "attempt/hang.hpp"
#include "fuzzing.hpp"
#include "node/recorder_file.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardsweep;
  static const fuzzing::MemoryFile file;
  const std::string bytes(data, data + size);
  file.fill(bytes);
  RecorderFile recorder(file.path());
  (void)recorder.has_moved();
  if (recorder.has_moved()) fuzzing::fail("a file that stands still has moved", "");
  const auto reading = decode_recorder_reading(bytes);
  if (!reading) {
    fuzzing::check_fault(reading.error());
    return 0;
  }
  fuzzing::check_words(
      "a control character in a cause", accusation(*reading, 2, {{0, "n0"}, {1, "n1"}}));
  return 0;
}
