// SPDX-License-Identifier: Apache-2.0
// What the flight recorders of an ended attempt say together. The runner that wrote them reads
// them: a program of ours beside this one.
#pragma once

#include "attempt/hang.hpp"

#include <shardsweep/allocation_files.hpp>

namespace shardsweep::agent {

/// Takes at most half a minute. The copies that were made before the ranks were ended, where
/// there are any; what was read is kept beside them as recorder.json.
[[nodiscard]] Result<RecorderReading> read_recorders(const AttemptPaths& attempt);

}  // namespace shardsweep::agent
