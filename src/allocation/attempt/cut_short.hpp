// SPDX-License-Identifier: Apache-2.0
// An attempt that is hopeless against the fastest trial of its cell ends early. For runners
// that know no --give-up-above the node agent of rank 0 decides, from the records of the train
// steps. shardbench decides by the same rule (runner/src/measurement/run_records.cpp).
#pragma once

#include <shardsweep/protocol.hpp>
#include <shardsweep/record.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardsweep {

/// True if timed train steps are slower than their noise explains. There have to be two at least.
/// The fastest is above the bound even if it were as much faster as the median is slower.
[[nodiscard]] bool is_hopeless(std::span<const double> step_ms, double above_ms);

/// Judges steps of the warm-up that take 10 s or more each: hopeless if they exceed twice the
/// bound. What a first step costs once is little beside that, and so is a hiccup.
[[nodiscard]] bool is_hopeless_warming_up(std::span<const double> step_ms, double above_ms);

/// The node that found an attempt hopeless.
enum class CutBy : std::uint8_t { this_node, another };

/// Watches the train steps of one attempt.
class CutShort {
 public:
  explicit CutShort(const AttemptSpec& spec);
  /// A record of rank 0. True if the attempt is to end now.
  [[nodiscard]] bool see(const Record& record);
  /// The result that the runner has no time to write, of the timed steps so far, or of
  /// those that warmed up if there are none: a JSON line.
  [[nodiscard]] std::string result_line() const;

 private:
  std::string nonce_;
  std::int32_t world_;
  double above_ms_;
  std::int32_t warmup_;
  std::int64_t tokens_per_step_;
  std::int64_t seen_ = 0;        // train steps
  bool warm_ = false;            // the last step was timed
  std::vector<double> step_ms_;  // timed ones, or while it warms up all
};

}  // namespace shardsweep
