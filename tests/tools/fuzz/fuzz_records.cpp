// SPDX-License-Identifier: Apache-2.0
// Whatever a runner writes: its records and its --capabilities are read to the end, and what is
// said about them can be shown. The records' run_id is "n".
#include "fuzzing.hpp"

#include <shardsweep/capabilities.hpp>
#include <shardsweep/record.hpp>
#include <shardsweep/records.hpp>

#include <cmath>

namespace {

using namespace shardsweep;

void read_lines(std::string_view text) {
  (void)has_result(text, "n");
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    if (const auto record = decode_record(line); !record) fuzzing::check_fault(record.error());
    text.remove_prefix(line.size() == text.size() ? text.size() : line.size() + 1);
  }
}

void read_all(std::string_view text) {
  const auto summary = summarise_records(text, "n");
  fuzzing::check_words("a control character in a flaw", summary.flaw);
  fuzzing::check_words("a control character in a doubt", summary.doubt);
  if (!summary.result) return;
  for (const auto& [name, value] : summary.result->metrics) {
    if (!std::isfinite(value)) fuzzing::fail("a metric that is no number", name);
  }
  if (!summary.result->metrics.contains("tokens_per_s_per_gpu"))
    fuzzing::fail("a result without the metric that ranks", std::string(text));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  read_lines(text);
  read_all(text);
  if (const auto read = parse_capabilities(text); !read) fuzzing::check_fault(read.error());
  return 0;
}
