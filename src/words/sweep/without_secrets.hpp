// SPDX-License-Identifier: Apache-2.0
// A sweep as others may see it.
#pragma once

#include <shardsweep/sweep.hpp>

namespace shardsweep {

/// The same sweep, with the values of variables that may be secrets (text/secrets.hpp) hidden
/// in `env` and in the container's. To be shown, never to be run: the identities of its trials
/// differ.
[[nodiscard]] SweepSpec without_secrets(SweepSpec sweep);

}  // namespace shardsweep
