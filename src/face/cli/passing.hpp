// SPDX-License-Identifier: Apache-2.0
// What this shell passes on to ranks, and the file that holds the values.
#pragma once

#include "cli/session.hpp"
#include "fleet/verbs.hpp"

#include <shardsweep/sweep.hpp>

#include <string>
#include <vector>

namespace shardsweep {

/// Takes the values of secrets out of a site.
[[nodiscard]] std::map<std::string, std::string> take_secrets(SiteSpec& site);

/// Warns of what a submission from this shell would be refused for.
void say_missing(const PlannedSweep& planned);

/// Warns of what ranks on this machine do not get.
void say_withheld(const SweepSpec& sweep);

/// A fault that names what this shell lacks.
[[nodiscard]] Result<void> check_passed(const PlannedSweep& planned);

/// The values of a submission go into the sweep's file, those of its site too.
[[nodiscard]] Result<void> keep_secrets(
    const Session& session, const PlannedSweep& planned, const SiteAccess& access);

/// Renews secrets of sweeps that go on. Variables that their files pass on are taken from this
/// shell anew. Secrets that were written into a sweep file stay as they are.
[[nodiscard]] Result<void> renew_secrets(
    const Session& session, Reader& reader, const VerbScope& meant, const Steps& steps);

}  // namespace shardsweep
