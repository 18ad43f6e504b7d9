// SPDX-License-Identifier: Apache-2.0
// The result record of an attempt that its node agent has cut short.
#include "agent/running_attempt.hpp"

#include <shardsweep/fail_point.hpp>

namespace shardsweep::agent {

/// Now that nobody else writes there. A runner that was through before our signal has written
/// its own.
void RunningAttempt::write_cut_result() {
  if (measured_) return;
  fail_point("node.result");
  auto written = LineWriter::open(paths_.records()).and_then([&](LineWriter writer) {
    return writer.append(cut_.result_line(), true);
  });
  fail_point("node.result_written");
  measured_ = cut_short_ = written.has_value();
  if (!written)
    evidence_.push_back({clock_.now(), Outcome::lost, written.error().what, SaidBy::agent});
}

}  // namespace shardsweep::agent
