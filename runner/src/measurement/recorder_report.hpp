// SPDX-License-Identifier: Apache-2.0
// After a hang or a death: what the flight recorders of all ranks say together.
#pragma once

#include "measurement/recorder.hpp"

#include <string>
#include <vector>

namespace shardbench {

/// An operation in which ranks wait, and for whom.
struct Wait {
  std::string group;
  std::string operation;
  u64 sequence = 0;
  std::vector<i64> waiting;     // wait for its end
  std::vector<i64> never_came;  // members that have not entered
};

struct RecorderReport {
  std::vector<RecorderFile> ranks;  // recorders by rank; ranks without a file are in `missing`
  std::vector<i64> missing;
  std::vector<Wait> waits;
  std::vector<i64> guilty;  // ranks that the others suffered from; empty when nobody did
  std::string why;          // how the guilty were told
};

RecorderReport read_recorders(const std::string& folder);
/// One JSON object.
std::string recorder_report_json(const RecorderReport& report);

}  // namespace shardbench
