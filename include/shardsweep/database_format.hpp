// SPDX-License-Identifier: Apache-2.0
// Port: which databases this program reads.
#pragma once

#include <cstdint>

namespace shardsweep {

/// The format of databases that this program writes and reads. It brings older ones to it, and
/// refuses newer ones.
[[nodiscard]] std::int64_t database_format();

}  // namespace shardsweep
