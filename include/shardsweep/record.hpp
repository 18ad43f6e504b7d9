// SPDX-License-Identifier: Apache-2.0
// One JSON line of a runner's output, as far as an agent needs it to watch an attempt.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/result.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace shardsweep {

/// Type of a record. `refusal` comes from a node agent: the result beside it is not a measurement
/// of this layout.
enum class RecordType : std::uint8_t { start, phase, train_step, result, error, refusal, other };

struct Record {
  RecordType type = RecordType::other;
  std::string nonce;            ///< key `run_id` or `nonce`; empty if the line has none
  Timestamp t = 0;              ///< key `t`: microseconds, or seconds with a fraction; 0: not given
  std::string phase;            ///< value of type `phase`: start, rendezvous, init, warmup, train,
                                ///< teardown
  std::int64_t step = 0;        ///< number of a `train_step`
  double step_ms = 0;           ///< duration of a `train_step`; 0: not given
  std::optional<bool> timed{};  ///< flag of a `train_step`; none: not given
  std::string error_class;      ///< key `class` of `error` and `refusal`, a word of
                                ///< runner_exit_table
  std::string message;          ///< key `message` of both
  friend bool operator==(const Record&, const Record&) = default;
};

/// A record that is written for a program that writes none.
struct WrittenRecord {
  std::string type;  ///< type in the runner's contract
  std::map<std::string, std::string> texts{};
  std::map<std::string, double> numbers{};  ///< whole ones are written as such
  friend bool operator==(const WrittenRecord&, const WrittenRecord&) = default;
};
/// One line, without its end.
[[nodiscard]] std::string encode_record(
    const WrittenRecord& record, std::string_view nonce, Timestamp t);

/// Total: anything that is no JSON object with a `type` is a fault that quotes its beginning.
[[nodiscard]] Result<Record> decode_record(std::string_view line);

/// True if the whole lines of `records` hold a result of the attempt with this nonce, and no
/// refusal of it.
[[nodiscard]] bool has_result(std::string_view records, std::string_view nonce);

}  // namespace shardsweep
