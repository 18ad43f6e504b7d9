// SPDX-License-Identifier: Apache-2.0
// At most four blocks live at a time. Equal layers that follow each other take turns in the
// same places from the third one on, and so do micro-batches: an even count is replayed as four
// of them, an odd one as three.
#include "predict/unit_replay.hpp"

#include "predict/first_fit.hpp"

#include <utility>

namespace shardsweep {
namespace {

std::int64_t few(std::int64_t count) {
  return count <= 4 ? count : 4 - count % 2;
}

// runner/src/parallel/parameter_store.cpp: a unit's gradients are whole from open to the end of
// their reduction; two reductions travel at most.
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

// runner/src/parallel/trainer.cpp, forward() and backward(): a unit is gathered while the one
// before it computes. No weights stay whole between two passes, so that one of each is all
// there is.
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
