// SPDX-License-Identifier: Apache-2.0
// Lines between daemon, lead and node agents, both ways, and the specs beside them: what was
// read is written as a line that reads as the same.
#include "fuzzing.hpp"

#include <shardsweep/protocol.hpp>

namespace {

using namespace shardsweep;

template <class T>
void check(const Result<T>& read, Result<T> (*decode)(std::string_view)) {
  if (!read) return fuzzing::check_fault(read.error());
  const auto line = encode(*read);
  const auto again = decode(line);
  if (!again) fuzzing::fail(again.error().what.c_str(), line);
  // Free text is cut to a line's length: once cut, it stays as it is.
  if (encode(*again) != line) fuzzing::fail("written again, a line is another one", line);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string line(data, data + size);
  check(decode_to_lead(line), &decode_to_lead);
  check(decode_from_lead(line), &decode_from_lead);
  check(decode_to_node(line), &decode_to_node);
  check(decode_from_node(line), &decode_from_node);
  check(decode_attempt_spec(line), &decode_attempt_spec);
  check(decode_allocation_spec(line), &decode_allocation_spec);
  return 0;
}
