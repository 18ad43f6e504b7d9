// SPDX-License-Identifier: Apache-2.0
// Slurm's notation for several nodes, written out. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// "n[1-3,07]-ib,login" as n1-ib, n2-ib, n3-ib, n07-ib, login, in this order. Empty if Slurm
/// names no node ("(null)", "None assigned"), or where the text is no such list.
[[nodiscard]] std::vector<std::string> nodes_in(std::string_view slurm_list);

/// The node of a list that has one; empty: none or several, or what is no host's name, since a log
/// may put anything in its place.
[[nodiscard]] std::string only_node_in(std::string_view slurm_list);

}  // namespace shardsweep
