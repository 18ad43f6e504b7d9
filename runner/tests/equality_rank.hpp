// SPDX-License-Identifier: Apache-2.0
// One rank of one case, held against the reference of a single process.
#pragma once

#include "dropping_communicator.hpp"
#include "equality_cases.hpp"
#include "mesh.hpp"

#include <map>
#include <tuple>
#include <vector>

namespace shardbench {

constexpr double equality_tolerance = 1e-11;
constexpr double weight_tolerance = 1e-9;  // three updates divide by the root of v

struct Reference {
  double loss = 0;
  double gradient_norm = 0;
  std::map<u64, std::vector<double>> gradients;  // by tensor, whole
  std::map<u64, std::vector<double>> weights;    // after three train steps
};

using ReferenceKey = std::tuple<i64, i64, i64>;  // heads, layers, global batch
ReferenceKey key_of(const EqualityCase& c);
Reference compute_reference(const EqualityCase& c);

/// What one rank found out about one case: relative errors.
struct Verdict {
  double loss_error;
  double gradient_error;
  double weight_error;
  double norm_error;
  bool equals_meta;      // memory by class and bytes by group, exactly
  bool equals_formulas;  // likewise
  u64 worst_tensor;
  bool done;

  bool is_equal() const;
};

/// How a run is spoiled on purpose.
struct Omission {
  DropRule drops = {};
  double loss_factor = 1.0;
};

/// Trains three steps; `first_id`: communicator ids from here on are free.
Verdict judge(Mesh& mesh, const EqualityCase& c, u64 first_id, const Reference& reference,
              const Omission& omission = {});
u64 ids_used(const EqualityCase& c);

}  // namespace shardbench
