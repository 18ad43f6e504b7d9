// SPDX-License-Identifier: Apache-2.0
// Values as YAML that the readers read back to the same value.
#pragma once

#include <string>
#include <string_view>

namespace shardsweep::config {

/// One scalar: as it is where YAML reads it as itself, in double quotes otherwise.
[[nodiscard]] std::string yaml_text(std::string_view text);

}  // namespace shardsweep::config
