// SPDX-License-Identifier: Apache-2.0
// Which programs of the user's own a sweep is submitted with.
#pragma once

#include "cli/session.hpp"

#include <cstdint>

namespace shardsweep {

enum class Taking : std::uint8_t { hash_alone, snapshot };

/// Notes what the sweep's own programs are. Without a snapshot: the hashes of `program` or of
/// the first word of `argv`, where they are paths, and of further words that name a script, a
/// program or a file of settings. Programs of an image are known by its digest. With a
/// snapshot: the hash of their tree, of which a copy is made.
[[nodiscard]] Result<void> note_code(const Session& session, SweepSpec& sweep, Taking taking);

}  // namespace shardsweep
