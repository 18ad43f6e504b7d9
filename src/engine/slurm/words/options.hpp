// SPDX-License-Identifier: Apache-2.0
// Which long options a machine's sbatch has. Its help leaves some out that it takes (--hint,
// --prefer, --network), and plugins add others. So a name that the help lacks is asked for:
// of one that it does not have, sbatch says so before it does anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::slurm {

/// Long options in `sbatch --help`, without their dashes, in its order.
[[nodiscard]] std::vector<std::string> parse_options(std::string_view help);

/// Asks for one that the help lacks. It submits nothing: it prints a version, or an error.
[[nodiscard]] std::vector<std::string> option_question(std::string_view option);
/// True if sbatch answered that question on its stderr with "no such option".
[[nodiscard]] bool lacks_option(std::string_view err);

}  // namespace shardsweep::slurm
