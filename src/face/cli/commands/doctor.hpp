// SPDX-License-Identifier: Apache-2.0
// What `doctor` finds, for a bundle too.
#pragma once

#include "cli/session.hpp"

namespace shardsweep {

/// A row per check: check, status (ok, note, bad), detail. No job is submitted.
[[nodiscard]] Table doctor_table(const Session& session, const SiteSpec& site);

}  // namespace shardsweep
