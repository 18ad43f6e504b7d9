// SPDX-License-Identifier: Apache-2.0
// What ranks have printed, as `logs` shows it, piece by piece and within bounded memory.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace shardsweep {

class LogText {
 public:
  /// `prefix` stands before each line. `visible`: for a terminal; control characters but tabs
  /// are shown as \xNN, and a carriage return ends a line. Without both, bytes stay as they
  /// are.
  LogText(std::string prefix, bool visible) : prefix_(std::move(prefix)), visible_(visible) {}

  /// Whole lines that can be printed now.
  [[nodiscard]] std::string take(std::string_view bytes);
  /// A last line without an end.
  [[nodiscard]] std::string rest();

 private:
  [[nodiscard]] std::string shown(std::string_view line) const;

  std::string prefix_;
  bool visible_;
  std::string held_;       ///< the beginning of a line
  bool returned_ = false;  ///< the last byte was a carriage return, which has ended a line
};

}  // namespace shardsweep
