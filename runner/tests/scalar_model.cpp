// SPDX-License-Identifier: Apache-2.0
// Llama as in the papers: RMSNorm arXiv 1910.07467, RoPE 2104.09864 in the half-split form,
// grouped queries 2305.13245, SwiGLU 2002.05202.
#include "scalar_model.hpp"

#include <cmath>

namespace shardbench {
namespace {

using Row = std::vector<double>;

// Numbers of tensors: (layer + 1)·16 + kind; both ends have layer −1.
constexpr u64 kind_embedding = 0;
constexpr u64 kind_final_norm = 10;
constexpr u64 kind_head = 11;
constexpr u64 kind_router = 12;
constexpr u64 kind_expert_gate = 13;
u64 of_layer(i64 layer, u64 kind) {
  return static_cast<u64>(layer + 1) * 16 + kind;
}

Row norm(const Row& x, const Row& w) {
  double mean_square = 0;
  for (const double value : x)
    mean_square += value * value / static_cast<double>(x.size());
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = x[i] * w[i] / std::sqrt(mean_square + 1e-5);
  return y;
}

Row times(const Row& matrix, const Row& x) {
  Row y(matrix.size() / x.size(), 0.0);
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j)
      y[i] += matrix[i * x.size() + j] * x[j];
  return y;
}

void rotate(Row& heads, std::size_t head_dim, double position) {
  const std::size_t half = head_dim / 2;
  for (std::size_t start = 0; start < heads.size(); start += head_dim)
    for (std::size_t i = 0; i < half; ++i) {
      const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
      const double angle = position / std::pow(10000.0, exponent);
      const double x = heads[start + i];
      const double y = heads[start + half + i];
      heads[start + i] = x * std::cos(angle) - y * std::sin(angle);
      heads[start + half + i] = y * std::cos(angle) + x * std::sin(angle);
    }
}

/// State of the router after the tokens of one layer so far.
struct RouterState {
  std::vector<double> times_chosen;
  std::vector<double> probability;
};

struct History {
  std::vector<Row> k;
  std::vector<Row> v;
  RouterState routed;
};

/// One query head against everything so far.
void attend_head(
    const double* q, const History& seen, std::size_t kv_start, std::size_t dim, double* out) {
  double sum = 0;
  std::vector<double> weight;
  for (const Row& k : seen.k) {
    double score = 0;
    for (std::size_t i = 0; i < dim; ++i)
      score += q[i] * k[kv_start + i];
    weight.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
    sum += weight.back();
  }
  for (std::size_t j = 0; j < seen.v.size(); ++j)
    for (std::size_t i = 0; i < dim; ++i)
      out[i] += weight[j] / sum * seen.v[j][kv_start + i];
}

Row attend(const ModelShape& shape, const Row& q, const History& seen) {
  const auto dim = static_cast<std::size_t>(shape.head_dim());
  const auto queries_per_kv = static_cast<std::size_t>(shape.heads / shape.kv_heads);
  Row out(q.size(), 0.0);
  for (std::size_t head = 0; head < static_cast<std::size_t>(shape.heads); ++head)
    attend_head(
        q.data() + head * dim, seen, head / queries_per_kv * dim, dim, out.data() + head * dim);
  return out;
}

void add(Row& x, const Row& y) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] += y[i];
}

Row swiglu(const Row& gate_matrix, const Row& up_matrix, const Row& down, const Row& x) {
  Row gate = times(gate_matrix, x);
  const Row up = times(up_matrix, x);
  for (std::size_t i = 0; i < gate.size(); ++i)
    gate[i] *= up[i] / (1.0 + std::exp(-gate[i]));
  return times(down, gate);
}

/// Mixture as in DeepSeekMoE (arXiv 2401.06066). Weights are divided by the sum over the chosen
/// experts, as in Mixtral (2401.04088).
Row mixture(
    const ModelShape& shape, const ScalarWeights& w, i64 index, const Row& x, RouterState& routed) {
  const auto experts = static_cast<std::size_t>(shape.experts);
  Row p = times(w.at(of_layer(index, kind_router)), x);
  double sum = 0;
  for (double& value : p)
    sum += value = std::exp(value);
  routed.times_chosen.resize(experts);
  routed.probability.resize(experts);
  Row chosen(experts, 0.0);
  double of_chosen = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    routed.probability[e] += p[e] / sum;
    i64 better = 0;
    for (const double other : p)
      better += other > p[e] ? 1 : 0;
    if (better >= shape.experts_per_token) continue;
    chosen[e] = p[e];
    of_chosen += p[e];
    routed.times_chosen[e] += 1;
  }
  Row out(x.size(), 0.0);
  for (std::size_t e = 0; e < experts; ++e) {
    const auto weight = [&](u64 kind) -> const Row& {
      return w.at((static_cast<u64>(e) + 1) << 32 | of_layer(index, kind_expert_gate + kind));
    };
    const Row made = swiglu(weight(0), weight(1), weight(2), x);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] += chosen[e] / of_chosen * made[i];
  }
  return out;
}

void layer(const ModelShape& shape, const ScalarWeights& w, i64 index, double position,
    History& seen, Row& x) {
  const auto weight = [&](u64 kind) -> const Row& { return w.at(of_layer(index, kind)); };
  const auto dim = static_cast<std::size_t>(shape.head_dim());
  const Row n1 = norm(x, weight(1));
  Row q = times(weight(2), n1);
  Row k = times(weight(3), n1);
  rotate(q, dim, position);
  rotate(k, dim, position);
  seen.k.push_back(k);
  seen.v.push_back(times(weight(4), n1));
  add(x, times(weight(5), attend(shape, q, seen)));
  const Row n2 = norm(x, weight(6));
  if (shape.dense_width(index) > 0) add(x, swiglu(weight(7), weight(8), weight(9), n2));
  if (shape.has_experts(index)) add(x, mixture(shape, w, index, n2, seen.routed));
}

}  // namespace

double scalar_loss(const ModelShape& shape, const ScalarWeights& weights,
    const std::vector<std::int32_t>& tokens, double balance) {
  const auto hidden = static_cast<std::size_t>(shape.hidden);
  std::vector<History> seen(static_cast<std::size_t>(shape.layers));
  double loss = 0;
  for (std::size_t at = 0; at + 1 < tokens.size(); ++at) {
    const Row& table = weights.at(kind_embedding);
    const auto row = static_cast<std::size_t>(tokens[at]) * hidden;
    Row x;
    for (std::size_t i = 0; i < hidden; ++i)
      x.push_back(table[row + i]);
    for (i64 l = 0; l < shape.layers; ++l)
      layer(shape, weights, l, static_cast<double>(at), seen[static_cast<std::size_t>(l)], x);
    Row logits = times(
        weights.at(shape.tied ? kind_embedding : kind_head), norm(x, weights.at(kind_final_norm)));
    logits.resize(static_cast<std::size_t>(shape.vocab));  // the rest is padding
    double sum = 0;
    for (const double logit : logits)
      sum += std::exp(logit);
    loss += std::log(sum) - logits[static_cast<std::size_t>(tokens[at + 1])];
  }
  // balance · experts · Σ f·P for each token, f the part of the choices, P the mean
  // probability.
  const auto choices =
      static_cast<double>(tokens.size() - 1) * static_cast<double>(shape.experts_per_token);
  for (const History& of_layer : seen)
    for (std::size_t e = 0; e < of_layer.routed.probability.size(); ++e)
      loss += balance * static_cast<double>(shape.experts) * of_layer.routed.times_chosen[e] /
          choices * of_layer.routed.probability[e];
  return loss;
}

}  // namespace shardbench
