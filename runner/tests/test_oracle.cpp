// SPDX-License-Identifier: Apache-2.0
// The single process, on which all other layouts are measured, against the scalar model.
#include "communication/null_communicator.hpp"
#include "device/cpu_device.hpp"
#include "measurement/samples.hpp"
#include "parallel/groups.hpp"
#include "parallel/trainer.hpp"
#include "scalar_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace shardbench;

namespace {

constexpr u64 seed = 11;

struct Single {
  explicit Single(const ModelShape& model_shape, double balance = 0)
      : shape(model_shape),
        layout(two_samples(balance)),
        groups(make_groups(layout, 0, 1,
            [this](const Group& group) {
              return std::make_unique<NullCommunicator>(memory, 0, group);
            })),
        context(context_of(*device, memory, shape, layout, {}, groups)),
        trainer(context, groups, seed) {}

  static Layout two_samples(double balance) {
    Layout l;
    l.moe_aux_loss = balance;
    l.micro_batch = 2;
    return l;
  }

  ModelShape shape;
  Layout layout;
  std::unique_ptr<Device> device = make_cpu_device(Dtype::fp64);
  Memory memory{*device, std::nullopt};
  Groups groups;
  RankContext context;
  Trainer trainer;
};

ScalarWeights whole_tensors(const Single& single, bool gradients) {
  ScalarWeights out;
  const ParameterStore& store = single.trainer.parameters();
  for (std::size_t i = 0; i < store.units().size(); ++i)
    for (const TensorSlot& slot : store.units()[i].slots) {
      const ParameterStore::OwnedPart own = store.owned(i);
      const std::byte* base = gradients ? own.gradients : own.weights;
      std::vector<double>& values = out[slot.region.tensor];
      values.resize(static_cast<std::size_t>(slot.count()));
      single.device->read_gradient(
          values.data(), base + slot.offset * i64{sizeof(double)}, slot.count());
    }
  return out;
}

double scalar_mean_loss(const Single& single, const ScalarWeights& weights, double balance) {
  double sum = 0;
  for (i64 sample = 0; sample < single.layout.micro_batch; ++sample)
    sum += scalar_loss(single.shape, weights,
        make_sample({seed, 0, sample}, single.shape.vocab, single.shape.seq_len), balance);
  return sum / static_cast<double>(single.trainer.global_tokens());
}

/// Slope of the mean loss by the value at this place.
double slope(Single& single, ScalarWeights& weights, double& value) {
  constexpr double h = 1e-5;
  const double original = value;
  value = original + h;
  const double above = scalar_mean_loss(single, weights, single.layout.moe_aux_loss);
  value = original - h;
  const double below = scalar_mean_loss(single, weights, single.layout.moe_aux_loss);
  value = original;
  return (above - below) / (2 * h);
}

/// A few of a tensor's gradients; `values` are its part of `weights`.
void check_slopes(Single& single, ScalarWeights& weights, std::vector<double>& values,
    const std::vector<double>& gradients) {
  constexpr std::size_t probes = 5;
  double largest = 0;
  for (const double g : gradients)
    largest = std::max(largest, std::abs(g));
  for (std::size_t n = 0; n < probes; ++n) {
    const std::size_t at = n * 7919 % std::min<std::size_t>(values.size(), 88);
    const double error = std::abs(gradients[at] - slope(single, weights, values[at]));
    CAPTURE(at);
    CHECK(error < 1e-6 * largest + 1e-10);
  }
}

/// Initial weights are so small that what experts add would be lost in the differences.
void enlarge(const Single& single) {
  const ParameterStore& store = single.trainer.parameters();
  for (std::size_t i = 0; i < store.units().size(); ++i)
    for (const TensorSlot& slot : store.units()[i].slots) {
      auto* values = reinterpret_cast<double*>(store.owned(i).weights) + slot.offset;
      if (!slot.region.ones)
        std::for_each(values, values + slot.count(), [](double& value) { value *= 20; });
    }
}

void check_all_slopes(Single& single) {
  single.trainer.compute_gradients(0);
  const double loss =
      single.trainer.take_loss() / static_cast<double>(single.trainer.global_tokens());
  ScalarWeights weights = whole_tensors(single, false);
  const ScalarWeights gradients = whole_tensors(single, true);
  CHECK(std::abs(loss - scalar_mean_loss(single, weights, 0)) < 1e-12);
  for (auto& each : weights) {
    const auto& tensor = each.first;
    CAPTURE(tensor);
    check_slopes(single, weights, each.second, gradients.at(tensor));
  }
}

void check_by_differences(bool tied) {
  Single single({.layers = 2,
      .hidden = 8,
      .ffn = 6,
      .heads = 4,
      .kv_heads = 2,
      .vocab = 11,
      .seq_len = 70,  // exceeds one block of queries
      .tied = tied});
  check_all_slopes(single);
}

void check_experts_by_differences(i64 shared, double balance) {
  Single single({.layers = 2,
                    .hidden = 8,
                    .ffn = 6,
                    .heads = 4,
                    .kv_heads = 2,
                    .vocab = 11,
                    .seq_len = 12,
                    .experts = 5,
                    .experts_per_token = 2,
                    .expert_ffn = 6,
                    .shared_experts = shared,
                    .dense_layers = shared > 0 ? 1 : 0},
      balance);
  enlarge(single);
  check_all_slopes(single);
}

}  // namespace

TEST_CASE("loss and gradients agree with a scalar model by finite differences") {
  check_by_differences(false);
}

TEST_CASE("so they do where embedding and head are one matrix") {
  check_by_differences(true);
}

TEST_CASE("so they do with a mixture of experts") {
  check_experts_by_differences(0, 0);
  check_experts_by_differences(2, 0);
}

TEST_CASE("so they do with a loss for balance between experts") {
  check_experts_by_differences(0, 0.5);
}
