// SPDX-License-Identifier: Apache-2.0
// Vocabulary-parallel cross entropy over bf16 logits, in place: a block for each token. Rows
// may begin anywhere.
#include "cuda/kernels.hpp"
#include "cuda/vectors.hpp"

namespace shardbench::kernels {
namespace {

constexpr float log2_e = 1.4426950408889634F;

__global__ void row_maxima(float* maximum, const Bf16* logits, Device::LossShape s) {
  const Bf16* row = logits + blockIdx.x * s.stride;
  float most = -INFINITY;  // a value that is read twice does not change the maximum
  read<8, 4>(row, s.rows, worker_of_block(), [&]<int n>(i64, const Floats<n>& values, bool) {
    for (int e = 0; e < n; ++e)
      most = fmaxf(most, values.at[e]);
  });
  most = block_max(most);
  if (threadIdx.x == 0) maximum[blockIdx.x] = most;
}

__global__ void row_sums(float* statistics, const Bf16* logits, const float* maximum,
    const std::int32_t* targets, Device::LossShape s) {
  const i64 token = blockIdx.x;
  const Bf16* row = logits + token * s.stride;
  const float most = maximum[token];
  float sum = 0;
  read<8, 4>(row, s.rows, worker_of_block(), [&]<int n>(i64, const Floats<n>& values, bool counts) {
    float part = 0;
    for (int e = 0; e < n; ++e)
      part += fast_exp2((values.at[e] - most) * log2_e);
    sum += counts ? part : 0.0F;
  });
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  const i64 target = targets[token] - s.first;
  statistics[token] = sum;
  statistics[s.tokens + token] = target >= 0 && target < s.rows ? widen(row[target]) - most : 0.0F;
}

/// Maximum and sum in one reading: what was summed up shrinks where the maximum grows.
__global__ void row_statistics(float* maximum, float* statistics, const Bf16* logits,
    const std::int32_t* targets, Device::LossShape s) {
  const i64 token = blockIdx.x;
  const Bf16* row = logits + token * s.stride;
  float most = -INFINITY;
  float sum = 0;
  read<8, 4>(row, s.rows, worker_of_block(), [&]<int n>(i64, const Floats<n>& values, bool counts) {
    if (!counts) return;
    float larger = most;
    for (int e = 0; e < n; ++e)
      larger = fmaxf(larger, values.at[e]);
    if (larger > most) {
      sum *= fast_exp2((most - larger) * log2_e);
      most = larger;
    }
    for (int e = 0; e < n; ++e)
      sum += fast_exp2((values.at[e] - most) * log2_e);
  });
  const float most_of_row = block_max(most);
  // A thread without values has none to shrink.
  const float share = sum > 0.0F ? sum * fast_exp2((most - most_of_row) * log2_e) : sum;
  const float sum_of_row = block_sum(share);
  if (threadIdx.x != 0) return;
  const i64 target = targets[token] - s.first;
  maximum[token] = most_of_row;
  statistics[token] = sum_of_row;
  statistics[s.tokens + token] =
      target >= 0 && target < s.rows ? widen(row[target]) - most_of_row : 0.0F;
}

/// logits = (softmax − [target]) · scale
__global__ void row_gradients(LossGradient g, Device::LossShape s) {
  const i64 token = blockIdx.x;
  Bf16* row = g.logits + token * s.stride;
  const float most = g.maximum[token];
  const float sum = g.statistics[token];
  const float inverse = g.scale / sum;
  const i64 target = g.targets[token] - s.first;
  const i64 first = to_alignment(row, s.rows);
  visit<8>(first, s.rows, worker_of_block(), [&]<int width>(i64 j, Width<width>) {
    Floats<width> values = load<width>(row + j);
    for (int e = 0; e < width; ++e) {
      const float probability = fast_exp2((values.at[e] - most) * log2_e) * inverse;
      values.at[e] = j + e == target ? probability - g.scale : probability;
    }
    store(row + j, values);
  });
  for (i64 j = threadIdx.x; j < s.padding; j += blockDim.x)
    row[s.rows + j] = Bf16{};
  if (threadIdx.x == 0)
    atomic_add(g.loss, static_cast<double>(logf(sum) - g.statistics[s.tokens + token]));
}

Launch over_rows(const char* name, gpu::Stream stream, const Device::LossShape& s) {
  return {name, stream, s.tokens, block_threads(blocks_for(s.rows, 8), 512)};
}

}  // namespace

void loss_max(gpu::Stream stream, float* maximum, const Bf16* logits, const Device::LossShape& s) {
  if (s.tokens == 0) return;
  launch(row_maxima, over_rows("loss_max", stream, s), maximum, logits, s);
}

void loss_sums(gpu::Stream stream, float* statistics, const Bf16* logits, const float* maximum,
    const std::int32_t* targets, const Device::LossShape& s) {
  if (s.tokens == 0) return;
  launch(row_sums, over_rows("loss_sums", stream, s), statistics, logits, maximum, targets, s);
}

void loss_max_and_sums(gpu::Stream stream, float* maximum, float* statistics, const Bf16* logits,
    const std::int32_t* targets, const Device::LossShape& s) {
  if (s.tokens == 0) return;
  launch(row_statistics, over_rows("loss_max_and_sums", stream, s), maximum, statistics, logits,
      targets, s);
}

void loss_backward(gpu::Stream stream, const LossGradient& g, const Device::LossShape& s) {
  if (s.tokens == 0) return;
  launch(row_gradients, over_rows("loss_backward", stream, s), g, s);
}

}  // namespace shardbench::kernels
