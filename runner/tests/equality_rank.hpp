// SPDX-License-Identifier: Apache-2.0
// One rank of one case, held against the reference of a single process.
#pragma once

#include "communication/mesh.hpp"
#include "device/platform.hpp"
#include "dropping_communicator.hpp"
#include "equality_cases.hpp"
#include "schedules/schedule.hpp"

#include <functional>
#include <map>
#include <tuple>
#include <vector>

namespace shardbench {

/// Allowed difference between a run in its own arithmetic and the reference.
struct Tolerance {
  double loss;  // the gradient's norm likewise
  double gradient;
  double weight;  // weights after three updates, which divide by the root of v
};
constexpr Tolerance fp64_tolerance{1e-11, 1e-11, 1e-9};

struct Reference {
  double loss = 0;
  double last_loss = 0;  // loss of the third train step
  double gradient_norm = 0;
  std::map<u64, std::vector<double>> gradients;  // gradients by tensor, whole
  std::map<u64, std::vector<double>> weights;    // weights after three train steps
};

/// Run of one process that a case is compared with: in fp64 the global batch at once.
EqualityCase single_of(const EqualityCase& c);
/// heads, values of a head, width of the SwiGLU, layers, tokens of a sequence, micro-batch,
/// their number, tied, scaling; experts
using ExpertKey = std::tuple<i64, i64, i64, i64, i64, MoeRouting, double, double>;
using ReferenceKey = std::tuple<i64, i64, i64, i64, i64, i64, i64, bool, Scaling, ExpertKey>;
ReferenceKey key_of(const EqualityCase& single);
/// Computes the reference by one process in fp64 on the CPU.
Reference compute_reference(const EqualityCase& single);

/// Relative errors of one case, found by one rank.
struct Verdict {
  double loss_error;  // the larger of the first and the third train step's
  double gradient_error;
  double weight_error;
  double norm_error;
  bool equals_meta;      // memory by class and bytes by group, exactly, if counts are known
  bool equals_formulas;  // memory and bytes as the formulas say, exactly, if counts are known
  u64 worst_tensor;
  bool done;

  bool is_equal(const Tolerance& tolerance) const;
};

/// How a run is spoiled on purpose.
struct Omission {
  DropRule drops = {};
  double loss_factor = 1.0;
  /// Each rank has the tokens of the next one of its cp group.
  bool misplaces = false;
  /// The schedule that is run in place of the layout's.
  std::function<std::vector<Action>(std::vector<Action>)> follows = {};
};

/// Trains three steps; `first_id`: communicator ids from here on are free.
Verdict judge(Platform& platform, Mesh& mesh, const EqualityCase& c, u64 first_id,
    const Reference& reference, const Omission& omission = {});
/// Distance of two layouts with the same ranks: the largest relative one of a loss or of a
/// gradient's norm in three train steps.
double distance_of(
    Platform& platform, Mesh& mesh, const EqualityCase& a, const EqualityCase& b, u64 first_id);
/// The CPU in fp64.
std::unique_ptr<Platform> fp64_platform();
u64 ids_used(const EqualityCase& c);

}  // namespace shardbench
