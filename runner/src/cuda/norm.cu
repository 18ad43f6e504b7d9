// SPDX-License-Identifier: Apache-2.0
// RMSNorm and its gradient: y = x · r · w with r = 1 / sqrt(mean(x²) + epsilon).
#include "cuda/eight_bits.hpp"
#include "cuda/kernels.hpp"
#include "cuda/vectors.hpp"

namespace shardbench::kernels {
namespace {

constexpr float rms_epsilon = 1e-5F;

__device__ float inverse_rms(float square_sum, i64 hidden) {
  return inverse_sqrt(square_sum / static_cast<float>(hidden) + rms_epsilon);
}

/// Block per row. The second reading comes from the L1 cache, which holds all rows at work.
template <int width, typename Left>
__global__ void normalize_rows(Bf16* y, const Bf16* x, const Bf16* w, i64 hidden, Left left) {
  const Bf16* in = x + blockIdx.x * hidden;
  Bf16* out = y + blockIdx.x * hidden;
  float squares = 0;
  read<width, 2>(
      in, hidden, worker_of_block(), [&]<int n>(i64, const Floats<n>& values, bool counts) {
        for (int e = 0; e < n; ++e)
          squares += counts ? values.at[e] * values.at[e] : 0.0F;
      });
  const float scale = inverse_rms(block_sum(squares), hidden);
  visit<width>(0, hidden, worker_of_block(), [&]<int n>(i64 j, Width<n>) {
    Floats<n> values = load<n>(in + j);
    const Floats<n> weight = load<n>(w + j);
    for (int e = 0; e < n; ++e)
      values.at[e] *= scale * weight.at[e];
    store(out + j, values);
    left.take(blockIdx.x * hidden + j, values);
  });
  left.end();
}

/// Normalizes a sum, which is written rounded and read back from the L1 cache.
template <int width, typename Left>
__global__ void normalize_sums(AddedNorm n, i64 hidden, Left left) {
  const i64 start = blockIdx.x * hidden;
  float squares = 0;
  visit<width>(0, hidden, worker_of_block(), [&]<int count>(i64 j, Width<count>) {
    Floats<count> sum = load<count>(n.a + start + j);
    const Floats<count> other = load<count>(n.b + start + j);
    for (int e = 0; e < count; ++e) {
      sum.at[e] = widen(narrow(sum.at[e] + other.at[e]));
      squares += sum.at[e] * sum.at[e];
    }
    store(n.sum + start + j, sum);
  });
  const float scale = inverse_rms(block_sum(squares), hidden);
  visit<width>(0, hidden, worker_of_block(), [&]<int count>(i64 j, Width<count>) {
    Floats<count> values = load<count>(n.sum + start + j);
    const Floats<count> weight = load<count>(n.w + j);
    for (int e = 0; e < count; ++e)
      values.at[e] *= scale * weight.at[e];
    store(n.y + start + j, values);
    left.take(start + j, values);
  });
  left.end();
}

/// Factors that both gradients need of a row: r, and its part of the gradient along x, Σ dy·w·x ·
/// r³ / hidden.
struct RowFactors {
  float scale;
  float along;
};

__device__ RowFactors row_factors(float squares, float projection, i64 hidden) {
  const float scale = inverse_rms(block_sum(squares), hidden);
  const float along = block_sum(projection) * scale * scale * scale / static_cast<float>(hidden);
  return {scale, along};
}

/// Eight values as they lie in memory: half the registers of floats.
struct alignas(16) EightValues {
  Bf16 at[8];
};

__device__ EightValues hold(const Bf16* from) {
  return *reinterpret_cast<const EightValues*>(from);
}

constexpr int gradient_threads = 512;
constexpr i64 gradient_blocks = 512;  // each adds once to every column of dw

/// A block takes every gridDim.x-th row; a thread has the same `vectors` vectors of columns in
/// all of them, and keeps their sums for dw.
template <int vectors>
class ColumnShare {
 public:
  __device__ ColumnShare(const RmsNormGradient& g, i64 hidden) : g_(g), hidden_(hidden) {}

  __device__ void row(i64 index) {
    const i64 start = index * hidden_;
    EightValues x[vectors];
    EightValues dy[vectors];
    EightValues dx[vectors];
    for (int k = 0; k < vectors; ++k) {
      if (!has(k)) continue;
      x[k] = hold(g_.x + start + column(k));
      dy[k] = hold(g_.dy + start + column(k));
      dx[k] = hold(g_.dx + start + column(k));
    }
    const RowFactors factors = sums(x, dy);
    for (int k = 0; k < vectors; ++k) {
      if (!has(k)) continue;
      add_gradients(k, x[k], dy[k], factors, dx[k]);
      *reinterpret_cast<EightValues*>(g_.dx + start + column(k)) = dx[k];
    }
  }

  /// Adds through shared memory, so that neighbouring threads add to neighbouring columns.
  __device__ void finish() {
    auto* turned = dynamic_shared<float>();
    const i64 thread = threadIdx.x;
    const i64 threads = blockDim.x;
    for (int k = 0; k < vectors; ++k) {
      sync_block();
      for (int e = 0; e < 8; ++e)
        turned[thread * 8 + e] = dw_[k].at[e];
      sync_block();
      for (int e = 0; e < 8; ++e) {
        const i64 j = k * threads * 8 + e * threads + thread;
        if (j < hidden_) atomic_add(g_.dw + j, turned[e * threads + thread]);
      }
    }
  }

 private:
  __device__ i64 column(int k) const { return (k * i64{blockDim.x} + threadIdx.x) * 8; }
  __device__ bool has(int k) const { return column(k) < hidden_; }

  __device__ RowFactors sums(const EightValues* x, const EightValues* dy) const {
    float squares = 0;
    float projection = 0;
    for (int k = 0; k < vectors; ++k) {
      if (!has(k)) continue;
      const Floats<8> w = load<8>(g_.w + column(k));
      for (int e = 0; e < 8; ++e) {
        const float value = widen(x[k].at[e]);
        squares += value * value;
        projection += widen(dy[k].at[e]) * w.at[e] * value;
      }
    }
    return row_factors(squares, projection, hidden_);
  }

  __device__ void add_gradients(
      int k, const EightValues& x, const EightValues& dy, RowFactors factors, EightValues& dx) {
    const Floats<8> w = load<8>(g_.w + column(k));
    for (int e = 0; e < 8; ++e) {
      const float value = widen(x.at[e]);
      const float d = widen(dy.at[e]) * factors.scale;
      dw_[k].at[e] += d * value;
      dx.at[e] = narrow(widen(dx.at[e]) + d * w.at[e] - value * factors.along);
    }
  }

  RmsNormGradient g_;
  i64 hidden_;
  Floats<8> dw_[vectors] = {};
};

template <int vectors>
__global__ void __launch_bounds__(gradient_threads)
    gradients_by_vectors(RmsNormGradient g, i64 tokens, i64 hidden) {
  ColumnShare<vectors> share(g, hidden);
  for (i64 row = blockIdx.x; row < tokens; row += gridDim.x)
    share.row(row);
  share.finish();
}

/// Handles every shape, slowly.
__global__ void gradients_by_elements(RmsNormGradient g, i64 hidden) {
  const i64 start = blockIdx.x * hidden;
  float squares = 0;
  float projection = 0;
  for (i64 j = threadIdx.x; j < hidden; j += blockDim.x) {
    const float x = widen(g.x[start + j]);
    squares += x * x;
    projection += widen(g.dy[start + j]) * widen(g.w[j]) * x;
  }
  const RowFactors factors = row_factors(squares, projection, hidden);
  for (i64 j = threadIdx.x; j < hidden; j += blockDim.x) {
    const float x = widen(g.x[start + j]);
    const float d = widen(g.dy[start + j]) * factors.scale;
    atomic_add(g.dw + j, d * x);
    Bf16* dx = g.dx + start + j;
    *dx = narrow(widen(*dx) + d * widen(g.w[j]) - x * factors.along);
  }
}

template <int vectors>
void launch_by_vectors(gpu::Stream stream, const RmsNormGradient& g, i64 tokens, i64 hidden) {
  const int threads = block_threads(blocks_for(hidden, 8 * vectors), gradient_threads);
  launch(gradients_by_vectors<vectors>,
      Launch{"rms_norm_backward", stream, std::min(tokens, gradient_blocks), threads,
          threads * 8 * i64{sizeof(float)}},
      g, tokens, hidden);
}

/// Two vectors for each thread: enough loads under way, and few partial sums.
Launch over_rows(const char* name, gpu::Stream stream, i64 tokens, i64 hidden, bool vectors) {
  return {name, stream, tokens, block_threads(blocks_for(hidden, vectors ? 16 : 2), 1024)};
}

}  // namespace

void rms_norm(
    gpu::Stream stream, const Norm& n, i64 tokens, i64 hidden, const Device::Quantization* left) {
  const bool vectors = hidden % 8 == 0 && aligned(n.y, n.x, n.w);
  const auto run = [&](auto leaves) {
    using Left = decltype(leaves);
    launch(vectors ? normalize_rows<8, Left> : normalize_rows<1, Left>,
        over_rows("rms_norm", stream, tokens, hidden, vectors), n.y, n.x, n.w, hidden, leaves);
  };
  if (tokens == 0) return;
  if (left == nullptr)
    run(LeavesNothing{});
  else
    run(Leaves8Bits(*left));
}

void add_rms_norm(gpu::Stream stream, const AddedNorm& n, i64 tokens, i64 hidden,
    const Device::Quantization* left) {
  const bool vectors = hidden % 8 == 0 && aligned(n.sum, n.y, n.a, n.b, n.w);
  const auto run = [&](auto leaves) {
    using Left = decltype(leaves);
    launch(vectors ? normalize_sums<8, Left> : normalize_sums<1, Left>,
        over_rows("add_rms_norm", stream, tokens, hidden, vectors), n, hidden, leaves);
  };
  if (tokens == 0) return;
  if (left == nullptr)
    run(LeavesNothing{});
  else
    run(Leaves8Bits(*left));
}

void rms_norm_backward(gpu::Stream stream, const RmsNormGradient& g, i64 tokens, i64 hidden) {
  if (tokens == 0) return;
  const bool vectors = hidden % 8 == 0 && aligned(g.x, g.w, g.dy, g.dx);
  // Two vectors per thread as long as there are threads: four do not all fit into registers.
  if (vectors && hidden <= 8 * 2 * gradient_threads)
    launch_by_vectors<2>(stream, g, tokens, hidden);
  else if (vectors && hidden <= 8 * 4 * gradient_threads)
    launch_by_vectors<4>(stream, g, tokens, hidden);
  else
    launch(gradients_by_elements,
        Launch{"rms_norm_backward", stream, tokens, block_threads(hidden, 1024)}, g, hidden);
}

}  // namespace shardbench::kernels
