// SPDX-License-Identifier: Apache-2.0
// The order of requests is that of runner/src/parallel/trainer.cpp and transformer_layer.cpp; a
// test holds the result to the meta device.
#include "predict/arena_replay.hpp"

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
  // Free a sent block only after the blocks that were allocated meanwhile.
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
  const auto flags = (stage.first ? 1 : 0) + (stage.last ? 2 : 0) + (stage.sums_elsewhere ? 4 : 0) +
      (stage.drops_norms_and_product ? 8 : 0) + (stage.drops_core ? 16 : 0) +
      (stage.drops_layer ? 32 : 0);
  for (const auto part : {sizes.row, sizes.qkv, sizes.attended, sizes.statistics, sizes.gate_up,
           sizes.ids, stage.layers, stage.micro_batches, stage.ahead, std::int64_t{flags}})
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15U;
  return static_cast<std::size_t>(hash >> 32U) % slots;
}

}  // namespace

std::int64_t activation_extent(const ActivationStage& stage) {
  struct CachedExtent {
    ActivationStage stage;
    std::int64_t extent = -1;
  };
  thread_local std::array<CachedExtent, 1024> known;
  CachedExtent& entry = known[slot_of(stage, known.size())];
  if (entry.extent < 0 || !(entry.stage == stage)) entry = {stage, extent_of(stage)};
  return entry.extent;
}

namespace {

// Shortens a count: at most four blocks live at a time. Equal layers that follow each other take
// turns in the same places from the third one on, and so do micro-batches: an even count is
// replayed as four of them, an odd one as three.
std::int64_t few(std::int64_t count) {
  return count <= 4 ? count : 4 - count % 2;
}

// runner/src/parallel/parameter_store.cpp: a unit's gradients are unsharded from open to the
// end of their reduction; at most two reductions are in flight.
class Gradients {
 public:
  explicit Gradients(bool overlap) : overlap_(overlap) {}

  [[nodiscard]] FirstFit::Place open(std::int64_t bytes) {
    keep_in_flight(1);
    return arena_.take(bytes);
  }

  void close(FirstFit::Place unit) {
    keep_in_flight(1);
    (older_.to > 0 ? newer_ : older_) = unit;
    if (!overlap_) keep_in_flight(0);
  }

  void unit(std::int64_t bytes) { close(open(bytes)); }

  [[nodiscard]] std::int64_t extent() const { return arena_.extent(); }

 private:
  void keep_in_flight(int most) {
    if (newer_.to > 0 || most == 0) {
      arena_.give(older_);
      older_ = std::exchange(newer_, {});
      if (most == 0) arena_.give(older_);
    }
  }

  FirstFit arena_;
  FirstFit::Place older_;
  FirstFit::Place newer_;
  bool overlap_;
};

// runner/src/parallel/trainer.cpp, head(): both units are open at once.
void head(Gradients& gradients, const WholeUnits& units) {
  if (units.norm == 0) return;
  if (!units.tied) {
    gradients.unit(units.norm);
    return;
  }
  const auto table = gradients.open(units.table > 0 ? units.table : units.embedding);
  const auto norm = gradients.open(units.norm);
  gradients.close(table);
  gradients.close(norm);
}

void backward(Gradients& gradients, const WholeUnits& units) {
  for (std::int64_t layer = few(units.layers); layer > 0; --layer)
    gradients.unit(units.layer);
  if (units.embedding > 0) gradients.unit(units.embedding);
}

}  // namespace

std::int64_t whole_gradients(const WholeUnits& units, const MicroBatches& micro) {
  Gradients gradients(micro.overlap);
  const auto count = few(micro.count);
  if (micro.heads_first)
    for (std::int64_t i = 0; i < count; ++i)
      head(gradients, units);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!micro.heads_first) head(gradients, units);
    backward(gradients, units);
  }
  return gradients.extent();
}

// Passes run as in forward() and backward() of runner/src/parallel/trainer.cpp: a unit is gathered
// while the one before it computes. No weights stay whole between two passes, so one pass forward
// and one backward show the peak.
std::int64_t whole_weights(const WholeUnits& units) {
  FirstFit arena;
  const auto layers = few(units.layers);
  const bool shared = units.tied && units.norm > 0 && units.table == 0;
  FirstFit::Place now;
  FirstFit::Place next;
  FirstFit::Place table;
  if (units.embedding > 0) {
    now = arena.take(units.embedding);
    next = arena.take(units.layer);
    arena.give(now);
    now = std::exchange(next, {});
  } else {
    now = arena.take(units.layer);
  }
  for (std::int64_t layer = 1; layer <= layers; ++layer) {
    const auto after = layer < layers ? units.layer : units.norm;
    if (after > 0) next = arena.take(after);
    if (layer == layers && units.norm > 0 && units.tied)
      table = arena.take(shared ? units.embedding : units.table);
    arena.give(now);
    now = std::exchange(next, {});
  }
  arena.give(now);
  arena.give(table);
  now = arena.take(units.layer);
  for (std::int64_t layer = 1; layer <= layers; ++layer) {
    if (layer < layers) next = arena.take(units.layer);
    arena.give(now);
    now = std::exchange(next, {});
  }
  return arena.extent();
}

}  // namespace shardsweep
