// SPDX-License-Identifier: Apache-2.0
// The loss that a run must end with, where it is known: the correctness column of a result.
#pragma once

#include "program/options.hpp"

#include <optional>

namespace shardbench {

/// Loss of the last train step of one fp64 process with the same model, seed, batch and steps;
/// known for the named small models with the default seed and seven train steps.
std::optional<double> reference_loss(const Options& options);

}  // namespace shardbench
