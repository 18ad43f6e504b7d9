// SPDX-License-Identifier: Apache-2.0
// Port: the text of a bug report, for a daemon that stopped because it contradicted itself and
// for `shardsweep bundle`. It is made to be shown to others: values of secrets are hidden, each
// part is bounded, and control characters are visible.
#pragma once

#include <shardsweep/secrets_file.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct BundlePart {
  std::string title;
  std::string text;  ///< whole lines; of more than `most_part_bytes` the last ones
  /// true: written by others, so text after the name of a secret is left out (text/secrets.hpp)
  bool foreign = true;
};

inline constexpr std::size_t most_part_bytes = std::size_t{128} << 10;

/// "shardsweep 1.0.0, Linux 6.1.0 x86_64"
[[nodiscard]] std::string version_and_system();

/// `head`, then each part below its title. A star takes the place of each byte of `secrets`.
[[nodiscard]] std::string bundle_text(
    std::string_view head, const std::vector<BundlePart>& parts, const Secrets& secrets);

}  // namespace shardsweep
