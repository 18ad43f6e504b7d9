// SPDX-License-Identifier: Apache-2.0
// Misbehaviour on request, for testing whoever launches and watches this program.
#pragma once

#include "dtype.hpp"

#include <optional>
#include <string>

namespace shardbench {

enum class FaultKind { none, hang, crash, exit0, nan, slow, oom, garbage, fork };

/// kind@phase[:rank]; without a rank, the last one misbehaves.
struct Fault {
  FaultKind kind = FaultKind::none;
  std::string phase;
  i64 rank = -1;

  bool strikes(const char* in_phase, i64 at_rank) const {
    return kind != FaultKind::none && phase == in_phase && rank == at_rank;
  }
};

/// Nothing for text that is no fault; no text is no fault in the other sense.
std::optional<Fault> parse_fault(const std::string& text, i64 world);

/// Sleeps for ever.
[[noreturn]] void hang();
/// Leaves a process behind: forked twice, in a session of its own, asleep for `seconds`.
void leave_orphan(int seconds);

}  // namespace shardbench
