// SPDX-License-Identifier: Apache-2.0
// The operations of `Device` as work for a GPU: bf16 values, fp32 statistics, gradients and
// optimizer state, all arithmetic in fp32. Shapes and meanings are those of device.hpp.
//
// Pointers are device memory, aligned to 16 bytes. Each function gives work to `stream` and
// returns. Kernels are written in kernel_language.hpp, so that the host can run them too.
#pragma once

#include "cuda/gpu.hpp"
#include "device/bf16.hpp"
#include "device/device.hpp"

namespace shardbench::kernels {

void add(gpu::Stream stream, Bf16* y, const Bf16* a, const Bf16* b, i64 count);
void accumulate(gpu::Stream stream, float* y, const float* x, i64 count);

/// Columns of what is quantized are multiples of 8; rows, too, if they change places.
void raise_amax(gpu::Stream stream, float* amax, const Bf16* values, i64 count);
void quantize(gpu::Stream stream, const Device::Quantization& q);
void transpose_8_bits(gpu::Stream stream, void* to, const void* from, i64 rows, i64 columns);
void keep_amax(gpu::Stream stream, const Device::AmaxHistory& history);

// Kernels that make values also leave them in 8 bits, or their magnitude, if given `left`.

struct Norm {
  Bf16* y;
  const Bf16* x;
  const Bf16* w;
};
void rms_norm(gpu::Stream stream, const Norm& n, i64 tokens, i64 hidden,
    const Device::Quantization* left = nullptr);
struct AddedNorm {
  Bf16* sum;
  Bf16* y;
  const Bf16* a;
  const Bf16* b;
  const Bf16* w;
};
void add_rms_norm(gpu::Stream stream, const AddedNorm& n, i64 tokens, i64 hidden,
    const Device::Quantization* left = nullptr);
struct RmsNormGradient {
  Bf16* dx;   // added to
  float* dw;  // added to
  const Bf16* x;
  const Bf16* w;
  const Bf16* dy;
};
void rms_norm_backward(gpu::Stream stream, const RmsNormGradient& g, i64 tokens, i64 hidden);

/// Floats of a table of cosines, then sines, of all positions and planes.
constexpr i64 rope_table_floats(const AttentionShape& s) {
  return 2 * s.seq_len * (s.head_dim / 2);
}
/// Positions that a table needs for tokens that stand there.
constexpr i64 positions_within(const AttentionShape& s, const Positions& at) {
  const i64 first = at.first + s.seq_len / 2;
  const i64 second = at.second + s.seq_len - s.seq_len / 2;
  return first > second ? first : second;
}
void make_rope_table(gpu::Stream stream, float* table, const AttentionShape& shape);
/// The table has all positions at which the tokens stand.
void rope(gpu::Stream stream, Bf16* qkv, const float* table, const AttentionShape& shape,
    const Positions& positions, Rotation rotation);

/// Bytes that attention and its backward need beside their operands.
i64 attention_workspace_bytes(const AttentionShape& shape);
void attention(gpu::Stream stream, Bf16* out, float* lse, const Bf16* qkv, void* workspace,
    const AttentionShape& shape);
struct AttentionGradient {
  Bf16* dqkv;
  const Bf16* dout;
  const Bf16* qkv;
  const Bf16* out;
  const float* lse;
  void* workspace;
};
void attention_backward(
    gpu::Stream stream, const AttentionGradient& g, const AttentionShape& shape);

/// Arguments of Device::attend_more; for heads of up to 256 values.
struct MoreKeys {
  Bf16* out;
  float* lse;
  const Bf16* qkv;
  const Bf16* keys;
};
void attend_more(
    gpu::Stream stream, const MoreKeys& m, const AttentionShape& shape, const SeenKeys& seen);
/// The workspace is that of attention's backward.
struct MoreKeysGradient {
  Bf16* dqkv;
  Bf16* dkeys;
  const Bf16* dout;
  const Bf16* qkv;
  const Bf16* keys;
  const Bf16* out;
  const float* lse;
  void* workspace;
};
void attend_more_backward(gpu::Stream stream, const MoreKeysGradient& m,
    const AttentionShape& shape, const SeenKeys& seen);

void copy_columns(gpu::Stream stream, const Device::Columns& columns);
void add_columns(gpu::Stream stream, const Device::Columns& columns);

void route(gpu::Stream stream, const Device::Route& r, const Device::RouteShape& shape);
struct RouteGradient {
  Bf16* d_logits;
  const Bf16* d_weights;
  const Bf16* probabilities;
  const Bf16* weights;
  const std::int32_t* choices;
  const float* balance;
  i64 seq_len;
};
void route_backward(gpu::Stream stream, const RouteGradient& g, const Device::RouteShape& shape);
void count_choices(gpu::Stream stream, float* counts, const std::int32_t* choices, i64 seq_len,
    float scale, const Device::RouteShape& shape);
/// `d.counts` are floats.
void dispatch(gpu::Stream stream, const Device::Dispatch& d, const Device::RouteShape& shape);
void gather_rows(gpu::Stream stream, const Device::RowGather& g);
/// Arguments as Device::RowPlacement.
struct PlacedRows {
  const Bf16* rows;
  const std::int32_t* places;
  const Bf16* weights;
  i64 tokens;
  i64 chosen;
  i64 row_count;
  i64 width;
};
void add_placed(gpu::Stream stream, Bf16* y, const PlacedRows& placed);
void placed_backward(
    gpu::Stream stream, Bf16* d_rows, Bf16* d_weights, const Bf16* dy, const PlacedRows& placed);

void swiglu(gpu::Stream stream, Bf16* y, const Bf16* gate_up, i64 tokens, i64 ffn,
    const Device::Quantization* left = nullptr);
/// Leaves `gate_up` unchanged if `left` has a limit.
void swiglu_backward(gpu::Stream stream, Bf16* gate_up, const Bf16* dy, i64 tokens, i64 ffn,
    const Device::Quantization* left = nullptr);
/// Leaves the gradient in 8 bits alone: q.values are the gates and up values.
void swiglu_backward_to_8_bits(gpu::Stream stream, const Bf16* dy, const Device::Quantization& q);

void embed(gpu::Stream stream, Bf16* y, const Bf16* table, const std::int32_t* ids,
    const Device::EmbeddingShape& shape);
void embed_backward(gpu::Stream stream, float* d_table, const Bf16* dy, const std::int32_t* ids,
    const Device::EmbeddingShape& shape);

void loss_max(
    gpu::Stream stream, float* maximum, const Bf16* logits, const Device::LossShape& shape);
void loss_sums(gpu::Stream stream, float* statistics, const Bf16* logits, const float* maximum,
    const std::int32_t* targets, const Device::LossShape& shape);
void loss_max_and_sums(gpu::Stream stream, float* maximum, float* statistics, const Bf16* logits,
    const std::int32_t* targets, const Device::LossShape& shape);
struct LossGradient {
  Bf16* logits;
  const float* maximum;
  const float* statistics;
  const std::int32_t* targets;
  float scale;
  double* loss;  // added to: the sum of the token losses, unscaled
};
void loss_backward(gpu::Stream stream, const LossGradient& g, const Device::LossShape& shape);

void initialize(gpu::Stream stream, Bf16* weight, const TensorRegion& region, u64 seed);
/// Adds Σ g² to *sum.
void square_sum(gpu::Stream stream, double* sum, const float* gradient, i64 count);
/// state: m, v and the master weights, `count` floats each.
void adamw(gpu::Stream stream, Bf16* weight, float* state, const float* gradient, i64 count,
    const AdamW& settings);
void initialize_optimizer(gpu::Stream stream, float* state, const Bf16* weight, i64 count);

}  // namespace shardbench::kernels
