// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: the choice of experts, and rows on their way to them and back.
//
// Rows of experts have one place each, so that no two threads add to one value: sums are taken
// in one order, whatever the GPU does at once.
#include "cuda/kernels.hpp"
#include "cuda/vectors.hpp"

namespace shardbench::kernels {
namespace {

/// An expert and its logit. Larger logits come first; of equal ones the first expert.
struct Candidate {
  float logit;
  int expert;

  __device__ bool before(const Candidate& other) const {
    return logit > other.logit || (logit == other.logit && expert < other.expert);
  }
};

/// NaN is in no order, and yet a token needs experts that exist.
__device__ float ordered(float logit) {
  return logit == logit ? logit : -INFINITY;
}

/// First candidate of the warp, in every lane.
__device__ Candidate warp_first(Candidate own) {
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    const Candidate other{shuffle_xor(own.logit, distance), shuffle_xor(own.expert, distance)};
    if (other.before(own)) own = other;
  }
  return own;
}

/// The next expert behind `last` in the order of candidates.
__device__ Candidate next_choice(const Bf16* logits, int experts, const Candidate& last) {
  Candidate best{-INFINITY, experts};
  for (int e = lane_index(); e < experts; e += warp_size) {
    const Candidate candidate{ordered(widen(logits[e])), e};
    if (last.before(candidate) && candidate.before(best)) best = candidate;
  }
  return warp_first(best);
}

struct Routing {
  Bf16* probabilities;
  Bf16* weights;
  std::int32_t* choices;
  bool pinned;
};

/// The parts of the chosen experts; from logits, which bf16 has not rounded once more.
__device__ void weigh(Bf16* weights, const std::int32_t* choices, const Bf16* logits, int chosen) {
  float largest = -INFINITY;
  for (int j = 0; j < chosen; ++j)
    largest = fmaxf(largest, widen(logits[choices[j]]));
  float sum = 0;
  for (int j = 0; j < chosen; ++j)
    sum += expf(widen(logits[choices[j]]) - largest);
  for (int j = lane_index(); j < chosen; j += warp_size)
    weights[j] = narrow(expf(widen(logits[choices[j]]) - largest) / sum);
}

__device__ void softmax(Bf16* row, int experts) {
  float largest = -INFINITY;
  for (int e = lane_index(); e < experts; e += warp_size)
    largest = fmaxf(largest, widen(row[e]));
  largest = warp_max(largest);
  float sum = 0;
  for (int e = lane_index(); e < experts; e += warp_size)
    sum += expf(widen(row[e]) - largest);
  const float inverse = 1.0F / warp_sum(sum);
  for (int e = lane_index(); e < experts; e += warp_size)
    row[e] = narrow(expf(widen(row[e]) - largest) * inverse);
}

/// One warp handles each token. Logits become probabilities in place, after their last use.
__global__ void route_tokens(Routing r, int experts, int chosen) {
  const i64 token = blockIdx.x;
  Bf16* row = r.probabilities + token * experts;
  std::int32_t* choices = r.choices + token * chosen;
  Candidate last{INFINITY, -1};
  for (int j = 0; j < chosen && !r.pinned; ++j) {
    last = next_choice(row, experts, last);
    if (lane_index() == 0) choices[j] = last.expert;
  }
  sync_warp();
  weigh(r.weights + token * chosen, choices, row, chosen);
  sync_warp();
  softmax(row, experts);
}

/// Gradients of a token's logits: through the parts of the chosen ones, and through the softmax
/// over all.
__global__ void route_gradients(RouteGradient g, int experts, int chosen) {
  const i64 token = blockIdx.x;
  const Bf16* weights = g.weights + token * chosen;
  const Bf16* d_weights = g.d_weights + token * chosen;
  const std::int32_t* choices = g.choices + token * chosen;
  const Bf16* probabilities = g.probabilities + token * experts;
  const float* balance = g.balance == nullptr ? nullptr : g.balance + token / g.seq_len * experts;
  float mean = 0;
  for (int j = 0; j < chosen; ++j)
    mean += widen(weights[j]) * widen(d_weights[j]);
  float balance_sum = 0;
  float sum = 0;
  for (int e = lane_index(); balance != nullptr && e < experts; e += warp_size) {
    balance_sum += widen(probabilities[e]) * balance[e];
    sum += widen(probabilities[e]);
  }
  balance_sum = warp_sum(balance_sum);
  sum = warp_sum(sum);
  // Rounded probabilities do not add up to 1, and yet experts in balance have no gradient.
  const float balance_mean = balance == nullptr ? 0.0F : balance_sum / sum;
  for (int e = lane_index(); e < experts; e += warp_size) {
    float gradient =
        balance == nullptr ? 0.0F : widen(probabilities[e]) * (balance[e] - balance_mean);
    for (int j = 0; j < chosen; ++j)
      if (choices[j] == e) gradient += widen(weights[j]) * (widen(d_weights[j]) - mean);
    g.d_logits[token * experts + e] = narrow(gradient);
  }
}

/// All add the same number, so that the order of the sum does not matter.
__global__ void count_kernel(float* counts, const std::int32_t* choices, i64 of_sequence,
    float scale, i64 experts, i64 count) {
  for (i64 i = global_thread(); i < count; i += global_threads())
    atomic_add(counts + i / of_sequence * experts + choices[i], scale);
}

constexpr int dispatch_threads = 256;

/// Block per expert.
__global__ void count_rows(float* counts, const std::int32_t* choices, i64 count, i64 capacity) {
  const int expert = static_cast<int>(blockIdx.x);
  int own = 0;
  for (i64 i = threadIdx.x; i < count && capacity == 0; i += blockDim.x)
    own += choices[i] == expert ? 1 : 0;
  own = block_sum(own);
  if (threadIdx.x == 0)
    counts[expert] = capacity == 0 ? static_cast<float>(own) : static_cast<float>(capacity);
}

/// Sum over the threads before this one.
__device__ int sum_before(int own) {
  SHARDBENCH_SHARED(int, of_threads, dispatch_threads);
  const int thread = static_cast<int>(threadIdx.x);
  of_threads[thread] = own;
  sync_block();
  int before = 0;
  for (int other = 0; other < thread; ++other)
    before += of_threads[other];
  sync_block();
  return before;
}

/// Block per expert. A thread has choices that follow each other, so that rows are in the order
/// of the tokens, whichever thread is first.
__global__ void place_rows(Device::Dispatch d, i64 count, i64 chosen) {
  const int expert = static_cast<int>(blockIdx.x);
  const auto* counts = static_cast<const float*>(d.counts);
  i64 first = 0;
  for (int e = 0; e < expert; ++e)
    first += static_cast<i64>(counts[e]);
  const auto rows = static_cast<i64>(counts[expert]);
  const i64 share = (count + blockDim.x - 1) / blockDim.x;
  const i64 from = threadIdx.x * share;
  const i64 to = from + share < count ? from + share : count;
  int own = 0;
  for (i64 i = from; i < to; ++i)
    own += d.choices[i] == expert ? 1 : 0;
  i64 row = sum_before(own);
  for (i64 i = from; i < to; ++i) {
    if (d.choices[i] != expert) continue;
    const bool dropped = row >= rows;
    d.places[i] = dropped ? -1 : static_cast<std::int32_t>(first + row);
    if (!dropped) d.source[first + row] = static_cast<std::int32_t>(i / chosen);
    ++row;
  }
  // Handle the rest of a capacity, or rows beyond it.
  const int taken = block_sum(own);
  if (threadIdx.x == 0 && d.dropped != nullptr && taken > rows)
    atomic_add(d.dropped, static_cast<double>(taken - rows));
  for (i64 free = taken + static_cast<i64>(threadIdx.x); free < rows; free += blockDim.x)
    d.source[first + free] = -1;
}

/// Block per row.
template <int width>
__global__ void gather_kernel(Bf16* to, const Bf16* from, const std::int32_t* index, i64 values) {
  const std::int32_t row = index[blockIdx.x];
  visit<width>(0, values, worker_of_block(), [&]<int n>(i64 k, Width<n>) {
    store(to + blockIdx.x * values + k, row < 0 ? Floats<n>{} : load<n>(from + row * values + k));
  });
}

/// Block per token.
template <int width>
__global__ void add_placed_kernel(Bf16* y, PlacedRows p) {
  const i64 token = blockIdx.x;
  visit<width>(0, p.width, worker_of_block(), [&]<int n>(i64 k, Width<n>) {
    Floats<n> sum = load<n>(y + token * p.width + k);
    for (i64 i = token * p.chosen; i < (token + 1) * p.chosen; ++i) {
      if (p.places[i] < 0) continue;
      const float weight = p.weights == nullptr ? 1.0F : widen(p.weights[i]);
      const Floats<n> row = load<n>(p.rows + p.places[i] * p.width + k);
      for (int e = 0; e < n; ++e)
        sum.at[e] += weight * row.at[e];
    }
    store(y + token * p.width + k, sum);
  });
}

/// Block per choice of a token.
template <int width>
__global__ void placed_gradients(Bf16* d_rows, Bf16* d_weights, const Bf16* dy, PlacedRows p) {
  const i64 choice = blockIdx.x;
  const std::int32_t place = p.places[choice];
  const float weight = widen(p.weights[choice]);
  const Bf16* gradient = dy + choice / p.chosen * p.width;
  float d_weight = 0;
  visit<width>(0, place < 0 ? 0 : p.width, worker_of_block(), [&]<int n>(i64 k, Width<n>) {
    Floats<n> d = load<n>(gradient + k);
    const Floats<n> row = load<n>(p.rows + place * p.width + k);
    for (int e = 0; e < n; ++e) {
      d_weight += d.at[e] * row.at[e];
      d.at[e] *= weight;
    }
    store(d_rows + place * p.width + k, d);
  });
  d_weight = block_sum(d_weight);
  if (threadIdx.x == 0) d_weights[choice] = narrow(d_weight);
}

/// True if rows of that width, of matrices that start there, are made of whole vectors.
template <typename... T>
bool vector_rows(i64 width, const T*... starts) {
  return width % vector_width<Bf16> == 0 && aligned(starts...);
}

Launch over_rows(const char* name, gpu::Stream stream, i64 rows, i64 width, bool vectors) {
  constexpr int most_threads = 256;
  const i64 items = vectors ? width / vector_width<Bf16> : width;
  return {name, stream, rows, block_threads(items, most_threads)};
}

}  // namespace

void route(gpu::Stream stream, const Device::Route& r, const Device::RouteShape& s) {
  if (s.tokens == 0) return;
  launch(route_tokens, Launch{"route", stream, s.tokens, warp_size},
      Routing{
          static_cast<Bf16*>(r.probabilities), static_cast<Bf16*>(r.weights), r.choices, r.pinned},
      static_cast<int>(s.experts), static_cast<int>(s.chosen));
}

void route_backward(gpu::Stream stream, const RouteGradient& g, const Device::RouteShape& s) {
  if (s.tokens == 0) return;
  launch(route_gradients, Launch{"route_backward", stream, s.tokens, warp_size}, g,
      static_cast<int>(s.experts), static_cast<int>(s.chosen));
}

void count_choices(gpu::Stream stream, float* counts, const std::int32_t* choices, i64 seq_len,
    float scale, const Device::RouteShape& s) {
  constexpr int threads = 256;
  constexpr i64 most_blocks = 1024;
  const i64 count = s.tokens * s.chosen;
  if (count == 0) return;
  gpu::zero(stream, counts, s.tokens / seq_len * s.experts * i64{sizeof(float)});
  launch(count_kernel,
      Launch{"count_choices", stream, std::min(blocks_for(count, threads), most_blocks), threads},
      counts, choices, seq_len * s.chosen, scale, s.experts, count);
}

void dispatch(gpu::Stream stream, const Device::Dispatch& d, const Device::RouteShape& s) {
  const i64 count = s.tokens * s.chosen;
  launch(count_rows, Launch{"count_rows", stream, s.experts, dispatch_threads},
      static_cast<float*>(d.counts), d.choices, count, d.capacity);
  launch(place_rows, Launch{"place_rows", stream, s.experts, dispatch_threads}, d, count, s.chosen);
}

void gather_rows(gpu::Stream stream, const Device::RowGather& g) {
  if (g.rows == 0) return;
  auto* to = static_cast<Bf16*>(g.to);
  const auto* from = static_cast<const Bf16*>(g.from);
  const bool vectors = vector_rows(g.width, to, from);
  launch(vectors ? gather_kernel<8> : gather_kernel<1>,
      over_rows("gather_rows", stream, g.rows, g.width, vectors), to, from, g.index, g.width);
}

void add_placed(gpu::Stream stream, Bf16* y, const PlacedRows& p) {
  if (p.tokens == 0) return;
  const bool vectors = vector_rows(p.width, y, p.rows);
  launch(vectors ? add_placed_kernel<8> : add_placed_kernel<1>,
      over_rows("add_placed", stream, p.tokens, p.width, vectors), y, p);
}

void placed_backward(
    gpu::Stream stream, Bf16* d_rows, Bf16* d_weights, const Bf16* dy, const PlacedRows& p) {
  if (p.tokens == 0) return;
  const bool vectors = vector_rows(p.width, d_rows, dy, p.rows);
  launch(vectors ? placed_gradients<8> : placed_gradients<1>,
      over_rows("placed_backward", stream, p.tokens * p.chosen, p.width, vectors), d_rows,
      d_weights, dy, p);
}

}  // namespace shardbench::kernels
