// SPDX-License-Identifier: Apache-2.0
// The embedding, initial weights, and what happens to gradients and weights once per step.
#include "base/counter_random.hpp"
#include "cuda/kernels.hpp"
#include "cuda/vectors.hpp"

namespace shardbench::kernels {
namespace {

/// Block per token.
template <int width>
__global__ void embed_rows(
    Bf16* y, const Bf16* table, const std::int32_t* ids, Device::EmbeddingShape s) {
  const i64 row = ids[blockIdx.x] - s.first;
  const bool own = row >= 0 && row < s.rows;
  const Bf16* from = table + (own ? row : 0) * s.hidden;
  Bf16* to = y + blockIdx.x * s.hidden;
  visit<width>(0, s.hidden, worker_of_block(),
      [&]<int n>(i64 j, Width<n>) { store(to + j, own ? load<n>(from + j) : Floats<n>{}); });
}

/// Block per token. One element at a time, so that a warp adds to adjacent ones.
__global__ void scatter_rows(
    float* d_table, const Bf16* dy, const std::int32_t* ids, Device::EmbeddingShape s) {
  const i64 row = ids[blockIdx.x] - s.first;
  if (row < 0 || row >= s.rows) return;
  float* to = d_table + row * s.hidden;
  read<1, 4>(dy + blockIdx.x * s.hidden, s.hidden, worker_of_block(),
      [&](i64 j, const Floats<1>& value, bool counts) {
        if (counts) atomic_add(to + j, value.at[0]);
      });
}

struct InitialWeight {
  Bf16* weight;
  TensorRegion region;
  u64 key;

  __device__ void operator()(i64 i, Width<1>) const {
    const i64 row = region.first_row + i / region.columns;
    const i64 column = region.first_column + i % region.columns;
    const auto element = static_cast<u64>(row * region.global_columns + column);
    const double value = region.ones ? 1.0 : region.deviation * normal_from(mix(key, element));
    weight[i] = narrow(static_cast<float>(value));
  }
};

/// Vectors are summed in fp32, their sums in fp64.
__global__ void sum_of_squares(double* sum, const float* gradient, i64 count) {
  double squares = 0;
  read<4, 4>(gradient, count, Worker{global_thread(), global_threads()},
      [&]<int n>(i64, const Floats<n>& g, bool counts) {
        float part = 0;
        for (int e = 0; e < n; ++e)
          part += g.at[e] * g.at[e];
        squares += counts ? part : 0.0F;
      });
  squares = block_sum(squares);
  if (threadIdx.x == 0) atomic_add(sum, squares);
}

struct AdamWStep {
  Bf16* weight;
  float* m;
  float* v;
  float* master;
  const float* gradient;
  const double* square_sum;  // square sum of all gradients; null: no gradient is scaled
  float longest;
  float beta1;
  float beta2;
  float rest1;  // 1 − beta1
  float rest2;
  float rate;          // learning rate with m's bias correction
  float v_correction;  // 1 / (1 − beta2^step)
  float epsilon;
  float decay;  // 1 − learning rate · weight decay

  __device__ float scale() const {
    const float norm = square_sum == nullptr ? 0.0F : sqrtf(static_cast<float>(*square_sum));
    return norm > longest ? longest / norm : 1.0F;
  }

  template <int width>
  __device__ void operator()(i64 i, Width<width>) const {
    const float clip = scale();
    const Floats<width> g = load<width>(gradient + i);
    Floats<width> mean = load<width>(m + i);
    Floats<width> square = load<width>(v + i);
    Floats<width> w = load<width>(master + i);
    for (int e = 0; e < width; ++e) {
      const float scaled = g.at[e] * clip;
      mean.at[e] = beta1 * mean.at[e] + rest1 * scaled;
      square.at[e] = beta2 * square.at[e] + rest2 * scaled * scaled;
      w.at[e] =
          w.at[e] * decay - rate * mean.at[e] / (sqrtf(square.at[e] * v_correction) + epsilon);
    }
    store(m + i, mean);
    store(v + i, square);
    store(master + i, w);
    if constexpr (width == 4) {
      store_pair(weight + i, pack_bf16(w.at[0], w.at[1]));
      store_pair(weight + i + 2, pack_bf16(w.at[2], w.at[3]));
    } else {
      store(weight + i, w);
    }
  }
};

struct FirstState {
  float* state;
  const Bf16* weight;
  i64 count;

  __device__ void operator()(i64 i, Width<1>) const {
    state[i] = 0;
    state[count + i] = 0;
    state[2 * count + i] = widen(weight[i]);
  }
};

}  // namespace

void embed(gpu::Stream stream, Bf16* y, const Bf16* table, const std::int32_t* ids,
    const Device::EmbeddingShape& s) {
  if (s.tokens == 0) return;
  const bool vectors = s.hidden % 8 == 0 && aligned(y, table);
  const int threads = block_threads(vectors ? s.hidden / 8 : s.hidden, 256);
  launch(vectors ? embed_rows<8> : embed_rows<1>, Launch{"embed", stream, s.tokens, threads}, y,
      table, ids, s);
}

void embed_backward(gpu::Stream stream, float* d_table, const Bf16* dy, const std::int32_t* ids,
    const Device::EmbeddingShape& s) {
  if (s.tokens == 0) return;
  launch(scatter_rows, Launch{"embed_backward", stream, s.tokens, block_threads(s.hidden, 256)},
      d_table, dy, ids, s);
}

void initialize(gpu::Stream stream, Bf16* weight, const TensorRegion& region, u64 seed) {
  for_each<1>("initialize", stream, region.rows * region.columns, false,
      InitialWeight{weight, region, mix(seed, region.tensor)});
}

void square_sum(gpu::Stream stream, double* sum, const float* gradient, i64 count) {
  constexpr int threads = 256;
  constexpr i64 most_blocks = 1024;  // all add to one number
  if (count == 0) return;
  launch(sum_of_squares,
      Launch{"square_sum", stream, std::min(blocks_for(count, 16 * threads), most_blocks), threads},
      sum, gradient, count);
}

void adamw(gpu::Stream stream, Bf16* weight, float* state, const float* gradient, i64 count,
    const AdamW& a) {
  const auto step = static_cast<double>(a.step);
  const AdamWStep update{.weight = weight,
      .m = state,
      .v = state + count,
      .master = state + 2 * count,
      .gradient = gradient,
      .square_sum = a.square_sum,
      .longest = static_cast<float>(a.longest),
      .beta1 = static_cast<float>(a.beta1),
      .beta2 = static_cast<float>(a.beta2),
      .rest1 = static_cast<float>(1 - a.beta1),
      .rest2 = static_cast<float>(1 - a.beta2),
      .rate = static_cast<float>(a.learning_rate / (1 - std::pow(a.beta1, step))),
      .v_correction = static_cast<float>(1 / (1 - std::pow(a.beta2, step))),
      .epsilon = static_cast<float>(a.epsilon),
      .decay = static_cast<float>(1 - a.learning_rate * a.weight_decay)};
  for_each<4>("adamw", stream, count, count % 4 == 0 && aligned(weight, state, gradient), update);
}

void initialize_optimizer(gpu::Stream stream, float* state, const Bf16* weight, i64 count) {
  for_each<1>("initialize_optimizer", stream, count, false, FirstState{state, weight, count});
}

}  // namespace shardbench::kernels
