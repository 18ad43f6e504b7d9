// SPDX-License-Identifier: Apache-2.0
// The order of work of one pipeline stage, as data: a pure function of (stages, stage,
// micro-batches, kind), run by the trainer and proved free of deadlock by a simulator in the
// tests.
#pragma once

#include "layout.hpp"

#include <vector>

namespace shardbench {

enum class ActionKind { forward, backward, transfer };

/// A transfer starts its messages together and ends when all of them have ended. Numbers are
/// micro-batches; -1: no such message. Forward goes to the next stage, backward to the
/// previous.
struct Action {
  ActionKind kind;
  i64 micro = -1;
  i64 send_forward = -1;
  i64 receive_forward = -1;
  i64 send_backward = -1;
  i64 receive_backward = -1;
};

std::vector<Action> make_schedule(ScheduleKind kind, i64 stages, i64 stage, i64 micro_batches);

/// Micro-batches whose activations the stage holds at most.
i64 most_in_flight(const std::vector<Action>& actions);

}  // namespace shardbench
