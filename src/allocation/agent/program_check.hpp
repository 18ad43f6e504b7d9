// SPDX-License-Identifier: Apache-2.0
// Whether an attempt's programs are those that its sweep was submitted with. They are hashed
// before the start, and once more when they have surely been read: one may be replaced between
// the first look and its start, and an interpreter reads its script later still. The node of
// rank 0 writes down what was found, durably, before a result can count.
#pragma once

#include "agent/attempt_here.hpp"

#include <optional>
#include <string>

namespace shardsweep::agent {

class ProgramCheck {
 public:
  explicit ProgramCheck(const AttemptHere& here) : here_(here) {}

  /// Evidence against a start.
  [[nodiscard]] std::optional<Evidence> begin();
  /// `were_read`: the first train step has ended, or all processes have. Looks once.
  [[nodiscard]] std::optional<Evidence> look(bool were_read);

 private:
  [[nodiscard]] std::optional<Evidence> changed();
  void note(const std::string& type);

  const AttemptHere& here_;
  bool knows_ = false;  ///< the programs have been read and looked at
  bool has_changed_ = false;
  std::string records_;  ///< record line on the programs
};

}  // namespace shardsweep::agent
