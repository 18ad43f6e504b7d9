// SPDX-License-Identifier: Apache-2.0
// What a point may be. A point of a sweep is one layout. A row of somebody's table that leaves a
// column out may be one of several, and what is measured says which: so shardsweep-lab judges a
// search by such tables.
#pragma once

#include "search/search_point.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace shardsweep {

/// One layout that a point may be.
struct Alternative {
  Point point;
  RunTraits traits;
};

/// The alternatives of a cell's points, and how likely each is.
class Alternatives {
 public:
  Alternatives() = default;
  Alternatives(const Alternatives&) = delete;
  Alternatives& operator=(const Alternatives&) = delete;
  virtual ~Alternatives() = default;

  /// Layouts that the point may be; at least one.
  [[nodiscard]] virtual std::vector<Alternative> of(const SearchPoint& point) const = 0;
  /// A point of several joins the cell, or has been measured in another one (`elsewhere`).
  /// Returns its number, for the calls below.
  [[nodiscard]] virtual std::size_t add(const SearchPoint& point, bool elsewhere) = 0;
  /// The chances of that point's alternatives, adding up to one.
  [[nodiscard]] virtual std::vector<double> weights(std::size_t number) const = 0;
  /// Weighs the alternatives anew after a run of the point. `likelihoods`: of that run, by
  /// alternative. Returns the posterior weights.
  virtual std::vector<double> learn(std::size_t number, std::vector<double> likelihoods) = 0;
};

/// Maker of a new cell's alternatives; null: each point is one layout.
using MakeAlternatives = std::unique_ptr<Alternatives> (*)();

}  // namespace shardsweep
