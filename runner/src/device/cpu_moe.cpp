// SPDX-License-Identifier: Apache-2.0
// Routing and the rows of a mixture of experts on the CPU.
#include "device/cpu_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

namespace shardbench {
namespace {

template <typename T>
void softmax(T* row, i64 count) {
  const T largest = *std::max_element(row, row + count);
  T sum = 0;
  for (i64 e = 0; e < count; ++e)
    sum += row[e] = std::exp(row[e] - largest);
  for (i64 e = 0; e < count; ++e)
    row[e] /= sum;
}

/// The largest first; of equal ones the first expert's.
template <typename T>
void choose(std::int32_t* choices, i64 chosen, const T* row, i64 experts) {
  for (i64 j = 0; j < chosen; ++j) {
    i64 best = -1;
    for (i64 e = 0; e < experts; ++e) {
      const bool taken =
          std::find(choices, choices + j, static_cast<std::int32_t>(e)) != choices + j;
      if (!taken && (best < 0 || row[e] > row[best])) best = e;
    }
    choices[j] = static_cast<std::int32_t>(best);
  }
}

/// Adds the gradient through the softmax over all experts.
template <typename T>
void add_balance(T* d_logits, const T* probabilities, const T* balance, i64 experts) {
  const T sum = std::accumulate(probabilities, probabilities + experts, T{0});
  const T mean = std::inner_product(probabilities, probabilities + experts, balance, T{0}) / sum;
  for (i64 e = 0; e < experts; ++e)
    d_logits[e] += probabilities[e] * (balance[e] - mean);
}

}  // namespace

template <typename T>
void CpuDevice<T>::route(const Route& r, const RouteShape& s) {
  for (i64 t = 0; t < s.tokens; ++t) {
    T* row = static_cast<T*>(r.probabilities) + t * s.experts;
    T* weights = static_cast<T*>(r.weights) + t * s.chosen;
    std::int32_t* choices = r.choices + t * s.chosen;
    softmax(row, s.experts);
    if (!r.pinned) choose(choices, s.chosen, row, s.experts);
    T sum = 0;
    for (i64 j = 0; j < s.chosen; ++j)
      sum += row[choices[j]];
    for (i64 j = 0; j < s.chosen; ++j)
      weights[j] = row[choices[j]] / sum;
  }
}

/// A chosen one's weight is the softmax over the chosen ones' logits.
template <typename T>
void CpuDevice<T>::route_backward(const RouteGradient& g, const RouteShape& s) {
  for (i64 t = 0; t < s.tokens; ++t) {
    T* d_logits = static_cast<T*>(g.d_logits) + t * s.experts;
    const T* weights = static_cast<const T*>(g.weights) + t * s.chosen;
    const T* d_weights = static_cast<const T*>(g.d_weights) + t * s.chosen;
    std::fill_n(d_logits, s.experts, T{0});
    T mean = 0;
    for (i64 j = 0; j < s.chosen; ++j)
      mean += weights[j] * d_weights[j];
    for (i64 j = 0; j < s.chosen; ++j)
      d_logits[g.choices[t * s.chosen + j]] = weights[j] * (d_weights[j] - mean);
    if (g.balance != nullptr)
      add_balance(d_logits, static_cast<const T*>(g.probabilities) + t * s.experts,
          static_cast<const T*>(g.balance) + t / g.seq_len * s.experts, s.experts);
  }
}

template <typename T>
void CpuDevice<T>::count_choices(
    void* counts, const std::int32_t* choices, i64 seq_len, double scale, const RouteShape& s) {
  T* out = static_cast<T*>(counts);
  std::fill_n(out, s.tokens / seq_len * s.experts, T{0});
  for (i64 i = 0; i < s.tokens * s.chosen; ++i)
    out[i / s.chosen / seq_len * s.experts + choices[i]] += static_cast<T>(scale);
}

template <typename T>
void CpuDevice<T>::dispatch(const Dispatch& d, const RouteShape& s) {
  const i64 choices = s.tokens * s.chosen;
  std::vector<i64> rows(static_cast<std::size_t>(s.experts), d.capacity);
  for (i64 i = 0; i < choices && d.capacity == 0; ++i)
    ++rows[static_cast<std::size_t>(d.choices[i])];
  std::transform(rows.begin(), rows.end(), static_cast<T*>(d.counts),
      [](i64 count) { return static_cast<T>(count); });
  if (d.capacity > 0) dropped_.dispatched += static_cast<double>(choices);
  std::vector<i64> end(rows.size());
  std::partial_sum(rows.begin(), rows.end(), end.begin());
  std::fill_n(d.source, end.back(), -1);
  std::vector<i64> next(rows.size());
  std::transform(end.begin(), end.end(), rows.begin(), next.begin(), std::minus<>());
  for (i64 i = 0; i < choices; ++i) {
    const auto expert = static_cast<std::size_t>(d.choices[i]);
    const bool dropped = next[expert] == end[expert];
    if (dropped) ++dropped_.choices;
    d.places[i] = dropped ? -1 : static_cast<std::int32_t>(next[expert]);
    if (!dropped) d.source[next[expert]++] = static_cast<std::int32_t>(i / s.chosen);
  }
}

template <typename T>
void CpuDevice<T>::gather_rows(const RowGather& g) {
  for (i64 i = 0; i < g.rows; ++i) {
    T* row = static_cast<T*>(g.to) + i * g.width;
    if (g.index[i] < 0)
      std::fill_n(row, g.width, T{0});
    else
      std::copy_n(static_cast<const T*>(g.from) + g.index[i] * g.width, g.width, row);
  }
}

template <typename T>
void CpuDevice<T>::add_placed(void* y, const RowPlacement& p) {
  for (i64 i = 0; i < p.tokens * p.chosen; ++i) {
    if (p.places[i] < 0) continue;
    const T weight = p.weights == nullptr ? T{1} : static_cast<const T*>(p.weights)[i];
    const T* row = static_cast<const T*>(p.rows) + p.places[i] * p.width;
    T* sum = static_cast<T*>(y) + i / p.chosen * p.width;
    for (i64 k = 0; k < p.width; ++k)
      sum[k] += weight * row[k];
  }
}

template <typename T>
void CpuDevice<T>::placed_backward(
    void* d_rows, void* d_weights, const void* dy, const RowPlacement& p) {
  for (i64 i = 0; i < p.tokens * p.chosen; ++i) {
    T& d_weight = static_cast<T*>(d_weights)[i];
    d_weight = 0;
    if (p.places[i] < 0) continue;
    const T weight = static_cast<const T*>(p.weights)[i];
    const T* gradient = static_cast<const T*>(dy) + i / p.chosen * p.width;
    const T* row = static_cast<const T*>(p.rows) + p.places[i] * p.width;
    T* d_row = static_cast<T*>(d_rows) + p.places[i] * p.width;
    for (i64 k = 0; k < p.width; ++k) {
      d_weight += gradient[k] * row[k];
      d_row[k] = weight * gradient[k];
    }
  }
}

#define SHARDBENCH_INSTANTIATE(T)                                                      \
  template void CpuDevice<T>::route(const Route&, const RouteShape&);                  \
  template void CpuDevice<T>::route_backward(const RouteGradient&, const RouteShape&); \
  template void CpuDevice<T>::count_choices(                                           \
      void*, const std::int32_t*, i64, double, const RouteShape&);                     \
  template void CpuDevice<T>::dispatch(const Dispatch&, const RouteShape&);            \
  template void CpuDevice<T>::gather_rows(const RowGather&);                           \
  template void CpuDevice<T>::add_placed(void*, const RowPlacement&);                  \
  template void CpuDevice<T>::placed_backward(void*, void*, const void*, const RowPlacement&);
SHARDBENCH_INSTANTIATE(float)
SHARDBENCH_INSTANTIATE(double)
#undef SHARDBENCH_INSTANTIATE

}  // namespace shardbench
