// SPDX-License-Identifier: Apache-2.0
// The planner as one function of text: a question in JSON (question.hpp), the answer in JSON.
// The page of `explore` holds it compiled to WebAssembly, and the program has it too, so that
// the same question has one answer. What an answer shows as text is written here: a page
// computes no number of its own.
#pragma once

#include <string>
#include <string_view>

namespace shardsweep {

/// {"error": "…"}, or a member for each word of "ask":
///   card        the suggestion: parameters, layouts (fastest first), memory, batch, throughput,
///   rules gpus        least GPUs, and the best layout over numbers of GPUs batch       whether the
///   batch keeps the GPUs busy splits      the best layout of each tp x pp, or why none fits sizes
///   the same of each micro_batch x ZeRO stage why_not     the question's layout: its place, or the
///   rule that it breaks sweep       {"text": a sweep file} of the card's layouts flags {"text":
///   the question's layout in its trainer's words}, or {"why": …} vocabulary  axes, families,
///   dtypes, keys of models, trainers: what controls are made of config      {"model",
///   "parameters", "note"} of a config.json
/// A member whose part of the question is wrong is {"why": a sentence}.
[[nodiscard]] std::string explore(std::string_view question);

}  // namespace shardsweep
