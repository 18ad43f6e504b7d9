// SPDX-License-Identifier: Apache-2.0
// The order of requests is that of runner/src/parallel/trainer.cpp and transformer_layer.cpp; a
// test holds the result to the meta device.
#include "predict/activation_replay.hpp"

#include "predict/first_fit.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using Place = FirstFit::Place;

struct LayerPlaces {
  Place residual_in, norm1, qkv, attended, statistics, residual_mid, norm2, gate_up, activated;
};

struct FlightPlaces {
  Place ids, arriving, leaving, stream;
  std::vector<LayerPlaces> layers;
};

struct Drops {
  bool norms_and_product = false;
  bool core = false;
  bool layer = false;
};

class ActivationReplay {
 public:
  explicit ActivationReplay(const ActivationStage& stage)
      : stage_(stage),
        sizes_(stage.sizes),
        drops_{stage.drops_norms_and_product, stage.drops_core, stage.drops_layer},
        flights_(static_cast<std::size_t>(stage.micro_batches)) {}

  [[nodiscard]] std::int64_t extent() {
    const auto count = flights_.size();
    const auto ahead = std::min(count, static_cast<std::size_t>(stage_.ahead));
    for (std::size_t i = 0; i < ahead; ++i) {
      receive(i, stage_.first);
      forward(flights_[i]);
      arena_.give(flights_[i].leaving);
    }
    if (ahead < count) receive(ahead, stage_.first);
    for (std::size_t i = ahead; i < count; ++i)
      one_forward_one_backward(i, i - ahead);
    for (std::size_t i = count - ahead; i < count; ++i) {
      receive(i, stage_.last);
      backward(flights_[i]);
      arena_.give(flights_[i].leaving);
    }
    return arena_.extent();
  }

 private:
  // What was sent is given back after what was asked for meanwhile.
  void one_forward_one_backward(std::size_t front, std::size_t back) {
    forward(flights_[front]);
    receive(back, stage_.last);
    arena_.give(flights_[front].leaving);
    backward(flights_[back]);
    if (front + 1 < flights_.size()) receive(front + 1, stage_.first);
    arena_.give(flights_[back].leaving);
  }

  void receive(std::size_t micro, bool at_the_end) {
    if (!at_the_end) flights_[micro].arriving = arena_.take(sizes_.row);
  }

  void forward(FlightPlaces& flight) {
    Place residual = std::exchange(flight.arriving, {});
    if (stage_.first) {
      flight.ids = arena_.take(sizes_.ids);
      residual = arena_.take(sizes_.row);
    }
    flight.layers.resize(static_cast<std::size_t>(stage_.layers));
    for (LayerPlaces& layer : flight.layers) {
      layer.residual_in = residual;
      residual = layer_forward(layer, drops_);
    }
    if (stage_.last) {
      flight.stream = arena_.take(sizes_.row);
      arena_.give(residual);
    } else {
      flight.leaving = residual;
    }
  }

  void backward(FlightPlaces& flight) {
    Place stream = std::exchange(stage_.last ? flight.stream : flight.arriving, {});
    while (!flight.layers.empty()) {
      layer_backward(flight.layers.back());
      flight.layers.pop_back();
    }
    arena_.give(flight.ids);
    if (stage_.first)
      arena_.give(stream);
    else
      flight.leaving = stream;
  }

  // A sum over tp lies where its parts were, unless these were in the workspace: `dropped` is
  // given back before it then.
  [[nodiscard]] Place sum(std::initializer_list<Place*> dropped) {
    Place place;
    if (!stage_.sums_elsewhere) place = arena_.take(sizes_.row);
    for (Place* each : dropped)
      arena_.give(*each);
    if (stage_.sums_elsewhere) place = arena_.take(sizes_.row);
    return place;
  }

  void attend(LayerPlaces& layer) {
    layer.attended = arena_.take(sizes_.attended);
    layer.statistics = arena_.take(sizes_.statistics);
  }

  [[nodiscard]] Place layer_forward(LayerPlaces& layer, const Drops& drops) {
    layer.norm1 = arena_.take(sizes_.row);
    layer.qkv = arena_.take(sizes_.qkv);
    if (drops.norms_and_product) arena_.give(layer.norm1);
    attend(layer);
    layer.residual_mid = drops.core ? sum({&layer.attended, &layer.statistics}) : sum({});
    if (drops.layer) give_attention(layer);
    layer.norm2 = arena_.take(sizes_.row);
    layer.gate_up = arena_.take(sizes_.gate_up);
    if (drops.norms_and_product) arena_.give(layer.norm2);
    layer.activated = arena_.take(sizes_.gate_up / 2);
    const Place out = drops.norms_and_product ? sum({&layer.activated}) : sum({});
    if (drops.layer) {
      arena_.give(layer.gate_up);
      arena_.give(layer.residual_mid);
    }
    return out;
  }

  void layer_backward(LayerPlaces& layer) {
    if (drops_.layer) {
      Place out = layer_forward(layer, {});
      arena_.give(out);
    }
    if (gone(layer.activated)) layer.activated = arena_.take(sizes_.gate_up / 2);
    arena_.give(layer.activated);
    if (gone(layer.norm2)) layer.norm2 = arena_.take(sizes_.row);
    arena_.give(layer.norm2);
    arena_.give(layer.gate_up);
    arena_.give(layer.residual_mid);
    if (gone(layer.attended)) attend(layer);
    give_attention(layer);
    if (gone(layer.norm1)) layer.norm1 = arena_.take(sizes_.row);
    arena_.give(layer.norm1);
    arena_.give(layer.residual_in);
  }

  void give_attention(LayerPlaces& layer) {
    arena_.give(layer.qkv);
    arena_.give(layer.attended);
    arena_.give(layer.statistics);
  }

  static bool gone(const Place& place) { return place.to == 0; }

  const ActivationStage& stage_;
  const ActivationSizes& sizes_;
  Drops drops_;
  FirstFit arena_;
  std::vector<FlightPlaces> flights_;
};

std::int64_t kept_by_layer(const ActivationStage& stage) {
  const auto& sizes = stage.sizes;
  if (stage.drops_layer) return sizes.row;
  auto kept = 2 * sizes.row + sizes.qkv + sizes.gate_up;
  if (!stage.drops_norms_and_product) kept += 2 * sizes.row + sizes.gate_up / 2;
  if (!stage.drops_core) kept += sizes.attended + sizes.statistics;
  return kept;
}

// Many layers and micro-batches leave no other gaps than some do: the rest is what they keep.
std::int64_t extent_of(ActivationStage stage) {
  constexpr std::int64_t most_layers = 160;
  constexpr std::int64_t most_ahead = 512;  // layers of all micro-batches
  std::int64_t rest = 0;
  const bool all_ahead = stage.ahead >= stage.micro_batches;
  auto& micro = stage.micro_batches;
  const auto fewer_layers = std::min(stage.layers, most_layers);
  const auto alive = all_ahead ? micro : std::min(micro, stage.ahead + 1);
  rest += alive * (stage.layers - fewer_layers) * kept_by_layer(stage);
  stage.layers = fewer_layers;
  if (all_ahead) {
    const auto fewer = std::min(micro, std::max<std::int64_t>(3, most_ahead / stage.layers));
    auto each = stage.layers * kept_by_layer(stage);
    if (stage.first) each += stage.sizes.ids;
    if (stage.last) each += stage.sizes.row;
    rest += (micro - fewer) * each;
    micro = fewer;
  }
  return rest + ActivationReplay(stage).extent();
}

std::size_t slot_of(const ActivationStage& stage, std::size_t slots) {
  std::uint64_t hash = 0;
  const auto& sizes = stage.sizes;
  const auto flags = (stage.first ? 1 : 0) + (stage.last ? 2 : 0) +
                     (stage.sums_elsewhere ? 4 : 0) + (stage.drops_norms_and_product ? 8 : 0) +
                     (stage.drops_core ? 16 : 0) + (stage.drops_layer ? 32 : 0);
  for (const auto part :
       {sizes.row, sizes.qkv, sizes.attended, sizes.statistics, sizes.gate_up, sizes.ids,
        stage.layers, stage.micro_batches, stage.ahead, std::int64_t{flags}})
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15U;
  return static_cast<std::size_t>(hash >> 32U) % slots;
}

}  // namespace

std::int64_t activation_extent(const ActivationStage& stage) {
  struct Known {
    ActivationStage stage;
    std::int64_t extent = -1;
  };
  thread_local std::array<Known, 1024> known;
  Known& entry = known[slot_of(stage, known.size())];
  if (entry.extent < 0 || !(entry.stage == stage)) entry = {stage, extent_of(stage)};
  return entry.extent;
}

}  // namespace shardsweep
