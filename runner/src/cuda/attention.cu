// SPDX-License-Identifier: Apache-2.0
// Attention, by tensor-core kernels where there are some for the head dimension.
#include "base/error.hpp"
#include "cuda/attention_kernels.hpp"

#include <limits>

namespace shardbench::kernels {
namespace {

void check_shape(const AttentionShape& s) {
  check(s.head_dim <= plain_head_dim, "attention has heads of at most 256 dimensions");
  check(s.heads % s.kv_heads == 0, "heads of attention share keys in equal groups");
  // The kernels count in 32 bits within a sequence, and grids have 65535 rows.
  check(s.seq_len <= std::numeric_limits<std::int32_t>::max() / 2, "a sequence of attention");
  check(s.batch < 65536 && s.heads < 65536, "sequences and heads of attention fit a grid");
}

}  // namespace

i64 attention_workspace_bytes(const AttentionShape& shape) {
  return gpu_attention_workspace_bytes(shape);
}

void attention(gpu::Stream stream, Bf16* out, float* lse, const Bf16* qkv, void* /*workspace*/,
    const AttentionShape& shape) {
  check_shape(shape);
  if (has_tiled_attention(shape.head_dim))
    tiled_attention(stream, out, lse, qkv, shape);
  else
    plain_attention(stream, out, lse, qkv, shape);
}

void attention_backward(
    gpu::Stream stream, const AttentionGradient& g, const AttentionShape& shape) {
  check_shape(shape);
  if (has_tiled_attention(shape.head_dim))
    tiled_attention_backward(stream, g, shape);
  else
    plain_attention_backward(stream, g, shape);
}

void attend_more(
    gpu::Stream stream, const MoreKeys& m, const AttentionShape& shape, const SeenKeys& seen) {
  check_shape(shape);
  if (shape.batch == 0 || seen.queries == 0 || seen.keys == 0) return;
  if (has_tiled_attention(shape.head_dim))
    tiled_attend_more(stream, m, shape, seen);
  else
    plain_attend_more(stream, m, shape, seen);
}

void attend_more_backward(gpu::Stream stream, const MoreKeysGradient& g,
    const AttentionShape& shape, const SeenKeys& seen) {
  check_shape(shape);
  if (shape.batch == 0 || seen.queries == 0 || seen.keys == 0) return;
  if (has_tiled_attention(shape.head_dim))
    tiled_attend_more_backward(stream, g, shape, seen);
  else
    plain_attend_more_backward(stream, g, shape, seen);
}

}  // namespace shardbench::kernels
