// SPDX-License-Identifier: Apache-2.0
// Misbehaviour on request, for testing whoever launches and watches this program.
#pragma once

#include "device/dtype.hpp"

#include <optional>
#include <string>

namespace shardbench {

enum class FaultKind { none, hang, stop, crash, exit0, nan, slow, oom, garbage, fork, hold, kill };

/// kind@phase[+step][:rank]; without a rank, the last one misbehaves. `step` counts the train
/// steps of the phase from 0.
struct Fault {
  FaultKind kind = FaultKind::none;
  std::string phase;
  i64 step = 0;
  i64 rank = -1;

  /// A slow rank stays slow and a loss that is none does not recover; everything else happens
  /// once.
  bool strikes(const char* in_phase, i64 in_step, i64 at_rank) const {
    const bool lasts = kind == FaultKind::slow || kind == FaultKind::nan;
    return kind != FaultKind::none && phase == in_phase && rank == at_rank &&
        (lasts ? in_step >= step : in_step == step);
  }
};

/// Parses a fault; empty result: the text is none. An empty text means no fault.
std::optional<Fault> parse_fault(const std::string& text, i64 world);

/// Sleeps for ever.
[[noreturn]] void hang();
/// Stops this process, as SIGSTOP from outside does.
void stop();
/// Leaves a process behind: forked twice, in a session of its own, asleep for `seconds`, with
/// `bytes` of memory that it has written to.
void leave_orphan(int seconds, i64 bytes);

}  // namespace shardbench
