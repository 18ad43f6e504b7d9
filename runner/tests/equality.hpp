// SPDX-License-Identifier: Apache-2.0
// Loss and every gradient before the optimizer against one process in fp64, for many layouts;
// weights after three train steps; bytes and memory against the meta device and, for the CPU's
// formats, the formulas.
#pragma once

#include "equality_rank.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace shardbench {

/// Applies one tolerance to all cases.
inline auto always(const Tolerance& tolerance) {
  return [tolerance](const EqualityCase&) { return tolerance; };
}
/// Scales the tolerance from toys of four layers. Each layer rounds its input and output, so
/// gradients of deeper toys are further off.
inline Tolerance rounded_in_layers(Tolerance tolerance, const EqualityCase& c) {
  constexpr double usual_layers = 4;
  tolerance.gradient *= static_cast<double>(c.model.layers) / usual_layers;
  return tolerance;
}

struct EqualitySuite {
  std::function<Tolerance(const EqualityCase&)> tolerance;
  i64 width;  // width of the toy models, see all_cases()
  std::function<std::unique_ptr<Platform>(i64 rank)> open;
  /// The case to train in place of one of all_cases(); nothing: none.
  std::function<std::optional<EqualityCase>(EqualityCase)> adapt = [](EqualityCase c) {
    return std::optional(std::move(c));
  };
  /// Run in fp64 by one process that a case is compared with.
  std::function<EqualityCase(const EqualityCase&)> single = single_of;
};

/// The body of a program: [--full] [--every N] [--only TEXT] [--verbose]. Returns its exit
/// code.
int run_equality(const EqualitySuite& suite, int argc, char** argv);

}  // namespace shardbench
