// SPDX-License-Identifier: Apache-2.0
// Port: what a runner recorded, read back. Records are data from elsewhere: bounded, checked,
// and only those that carry the attempt's nonce are believed.
#pragma once

#include <shardsweep/world.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct RecordsSummary {
  std::optional<AddMeasurement> result;  ///< attempt and trial are the caller's to fill in
  std::optional<Outcome> error;          ///< of the first error record
  std::string error_message;
  std::string runner_version;
  std::string doubt{};         ///< why the result can't be true; empty: no reason
  std::int64_t malformed = 0;  ///< lines that are no records
  std::int64_t foreign = 0;    ///< records of another nonce
};

/// Total: never fails on any text.
[[nodiscard]] RecordsSummary summarise_records(std::string_view text, std::string_view nonce);

}  // namespace shardsweep
