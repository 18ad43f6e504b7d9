// SPDX-License-Identifier: Apache-2.0
// A sweep's command, folder and environment, moved into the snapshot that was taken of them.
// Pure.
#pragma once

#include <shardsweep/sweep.hpp>

#include <string>
#include <string_view>

namespace shardsweep {

/// `from`, and what is below it, becomes `to`: where it is the text, or an element of a list
/// (`:`, `,`) or the value of an option (`=`).
[[nodiscard]] std::string moved(std::string_view text, std::string_view from,
                                std::string_view to);

/// `tree`: where the sweep's snapshot is. A sweep without one stays as it is.
[[nodiscard]] SweepSpec in_snapshot(SweepSpec sweep, const std::string& tree);

}  // namespace shardsweep
