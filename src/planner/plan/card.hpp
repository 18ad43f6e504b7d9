// SPDX-License-Identifier: Apache-2.0
// A suggestion's answer in sentences: what the terminal and the explorer's page say first.
#pragma once

#include "plan/suggest.hpp"

#include <string>
#include <vector>

namespace shardsweep {

/// "8.03 B parameters", and the active ones of a mixture of experts.
[[nodiscard]] std::string parameters_sentence(const ModelSpec& model);

/// Sentence on the request: "llama-3-8b: 8.03 B parameters on 64 GPUs (8 nodes of 8) of h100-8x,
/// …".
[[nodiscard]] std::string asked_sentence(const SuggestRequest& request);

/// "predicted: about 9,676 tokens/s per GPU (47.1 % MFU, ±27 %), 60.4 GiB of 79.6 GiB.";
/// without a peak of the cluster the memory alone.
[[nodiscard]] std::string headline(const SuggestRequest& request, const SuggestedLayout& layout);

/// The fastest measured run of the request's job, whatever its layout; empty: there is none.
[[nodiscard]] std::string fastest_measured(const SuggestRequest& request);

/// Each layout after the first with its speed and memory, and how much slower it is.
[[nodiscard]] std::vector<std::string> runners_up(const Suggestion& suggestion);

/// How far the numbers of a layout can be trusted: what the family's constants were fitted to,
/// by how much the train step and the memory may be off, and the notes of cluster and model.
[[nodiscard]] std::vector<std::string> trust(
    const SuggestRequest& request, const SuggestedLayout& layout);

}  // namespace shardsweep
