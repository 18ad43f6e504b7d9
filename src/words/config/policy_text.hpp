// SPDX-License-Identifier: Apache-2.0
// A policy value as a sweep file writes it.
#pragma once

#include <shardsweep/policy.hpp>

#include <string>

namespace shardsweep::config {

[[nodiscard]] std::string policy_text(const PolicyField& field, const Policy& policy);

}  // namespace shardsweep::config
