// SPDX-License-Identifier: Apache-2.0
// An attempt's tar file, as it lies on a disk that others write to as well: what it lists lies
// within it.
#include "fuzzing.hpp"
#include "rundir/tar.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardsweep;
  static const fuzzing::MemoryFile file;
  file.fill({reinterpret_cast<const char*>(data), size});
  const auto entries = list_tar(file.path());
  if (!entries) fuzzing::check_fault(entries.error());
  if (entries) {
    for (const TarEntry& entry : *entries) {
      if (entry.offset > size || entry.size > size - entry.offset)
        fuzzing::fail("an entry beyond the end of the file", entry.name);
    }
  }
  std::size_t taken = 0;
  const auto read = read_tar(
      file.path(), [](const std::string&) { return true; },
      [&](const std::string&, std::string&& contents) { taken += contents.size(); });
  if (!read) fuzzing::check_fault(read.error());
  if (taken > size) fuzzing::fail("more was read than there is", std::to_string(taken));
  return 0;
}
