// SPDX-License-Identifier: Apache-2.0
// Port: a runner's records, read back. Records are untrusted: their size is bounded, they are
// checked, and records without the attempt's nonce are ignored.
#pragma once

#include <shardsweep/change.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Work of each rank in a result, if the runner tells it: equally long, by rank.
struct OwnWork {
  std::vector<double> busy_ms;       ///< train step without its waits for other ranks
  std::vector<std::int32_t> stages;  ///< pipeline stage: within one all do the same work
};

struct RecordsSummary {
  std::optional<AddMeasurement> result;  ///< attempt and trial are the caller's to fill in
  std::optional<Outcome> error;          ///< outcome of the first error record
  std::string error_message;
  /// Outcome that a node agent's refusal gives the attempt, whatever results there are. None: no
  /// refusal.
  std::optional<Outcome> refusal{};
  std::string refusal_message{};
  std::string runner;  ///< name in its start record; may be empty
  std::string runner_version;
  OwnWork own_work{};
  double busbw_bytes_per_s = 0;  ///< bandwidth in the network probe of a result; 0: none
  std::string environment{};     ///< environment of the first rank, as a JSON object; empty: not
                                 ///< read back
  std::string image_digest{};    ///< digest of its container's image; empty: it had none
  std::string code_hash{};       ///< hash of the user's own programs; empty: not known
  /// True if its programs had to be looked at again after they were read, and were not: there is no
  /// result.
  bool code_unknown = false;
  std::string doubt{};  ///< why the result can't be true, and is marked; empty: no reason
  /// Sentence on a wrong record that should have been the result. Empty: no record looks like one.
  std::string flaw{};
  bool owns_flaw = false;    ///< the flaw is in a result record of this attempt: the runner is done
  std::string unreadable{};  ///< why nothing of it can be read; empty: it was read
};

/// Total: never fails on any text.
[[nodiscard]] RecordsSummary summarise_records(std::string_view text, std::string_view nonce);

}  // namespace shardsweep
