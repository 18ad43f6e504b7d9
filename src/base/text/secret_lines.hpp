// SPDX-License-Identifier: Apache-2.0
// Lines that others have written, in which a variable's name says that a secret follows.
#pragma once

#include <string>
#include <string_view>

namespace shardsweep {

/// The line without what follows `NAME=` or `NAME:` if NAME may be the name of a secret
/// (may_be_secret): `export HF_TOKEN=(hidden)`, `"api_key": (hidden)`. All of the rest goes,
/// because a value may have spaces.
[[nodiscard]] std::string without_assigned_secrets(std::string_view line);

}  // namespace shardsweep
