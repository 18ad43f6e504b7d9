// SPDX-License-Identifier: Apache-2.0
// The two ways in which attention is computed on a GPU; kernels::attention chooses.
#pragma once

#include "cuda/attention_workspace.hpp"
#include "cuda/kernels.hpp"

#include <cmath>

namespace shardbench::kernels {

constexpr float log2_e = 1.44269504088896340736F;
constexpr float ln_2 = 0.69314718055994530942F;

inline float score_scale(const AttentionShape& s) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim)));
}

/// Keys of this rank are seen causally. Keys of other ranks are all seen, and their results are
/// merged with the earlier ones.
enum class KeysOf { this_rank, other_ranks };

/// Requires head dimensions with has_tiled_attention().
void tiled_attention(
    gpu::Stream stream, Bf16* out, float* lse, const Bf16* qkv, const AttentionShape& shape);
void tiled_attention_backward(
    gpu::Stream stream, const AttentionGradient& g, const AttentionShape& shape);

void tiled_attend_more(
    gpu::Stream stream, const MoreKeys& m, const AttentionShape& shape, const SeenKeys& seen);
void tiled_attend_more_backward(gpu::Stream stream, const MoreKeysGradient& g,
    const AttentionShape& shape, const SeenKeys& seen);

/// Handles any head dimension up to plain_head_dim; slow. Backward needs no workspace.
constexpr i64 plain_head_dim = 256;
void plain_attention(
    gpu::Stream stream, Bf16* out, float* lse, const Bf16* qkv, const AttentionShape& shape);
void plain_attention_backward(
    gpu::Stream stream, const AttentionGradient& g, const AttentionShape& shape);
void plain_attend_more(
    gpu::Stream stream, const MoreKeys& m, const AttentionShape& shape, const SeenKeys& seen);
void plain_attend_more_backward(gpu::Stream stream, const MoreKeysGradient& g,
    const AttentionShape& shape, const SeenKeys& seen);

}  // namespace shardbench::kernels
